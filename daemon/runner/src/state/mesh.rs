//! The mesh that a job's cores form: the one source of how many data shards there are.

use traind_job_file::JobFile;
use traind_xla::mesh::Mesh;

use crate::error::RunResult;

pub(crate) fn mesh(job: &JobFile) -> RunResult<Mesh> {
    let parallel = &job.parallel;
    let placement = parallel.placement.as_str().parse()?;
    let [data, tensor, pipeline] =
        [job.data_parallel_size(), parallel.tensor, parallel.pipeline].map(|size| size as usize);
    Ok(Mesh::new(data, tensor, pipeline, placement)?)
}
