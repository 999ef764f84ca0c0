//! The mesh that a job's cores form: the one source of how many data shards there are.

use traind_job_file::{CorePlacement, JobFile};
use traind_xla::mesh::{Mesh, Placement};

use crate::error::RunResult;

pub(crate) fn mesh(job: &JobFile) -> RunResult<Mesh> {
    let parallel = &job.parallel;
    let placement = match parallel.placement {
        CorePlacement::Cluster => Placement::Cluster,
        CorePlacement::Spread => Placement::Spread,
    };
    let [data, tensor, pipeline] =
        [job.data_parallel_size(), parallel.tensor, parallel.pipeline].map(|size| size as usize);
    Ok(Mesh::new(data, tensor, pipeline, placement)?)
}
