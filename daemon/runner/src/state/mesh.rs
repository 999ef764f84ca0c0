//! The mesh that a job's cores form: the one source of how many data shards there are.

use traind_job_file::JobFile;
use traind_xla::mesh::Mesh;

use crate::error::RunResult;

/// The mesh of the job's first host. [`Mesh::on_hosts`] makes that of another.
pub(crate) fn mesh(job: &JobFile) -> RunResult<Mesh> {
    let parallel = &job.parallel;
    let placement = parallel.placement.as_str().parse()?;
    let sizes = [job.host_data_parallel_size(), parallel.tensor, parallel.pipeline];
    let [data, tensor, pipeline] = sizes.map(|size| size as usize);
    let mesh = Mesh::new(data, tensor, pipeline, placement)?;
    Ok(mesh.on_hosts(job.resources.hosts as usize, 0)?)
}
