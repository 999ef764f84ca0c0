//! The mesh that a job's cores form: the one source of how many data shards and stages there are.

use traind_job_file::JobFile;
use traind_xla::mesh::{Axis, HostGrid, Mesh, Placement};

use crate::error::RunResult;

/// The mesh of the job's first host.
pub(crate) fn mesh(job: &JobFile) -> RunResult<Mesh> {
    mesh_of_host(job, 0)
}

/// The mesh of a host of the job.
pub(crate) fn mesh_of_host(job: &JobFile, host: usize) -> RunResult<Mesh> {
    let placement: Placement = job.parallel.placement.as_str().parse()?;
    let sizes = [job.host_data_parallel_size(), job.parallel.tensor, job.host_pipeline_size()];
    let [data, tensor, pipeline] = sizes.map(|size| size as usize);
    let mesh = Mesh::new(data, tensor, pipeline, placement)?;
    Ok(mesh.on_grid(grid(job, placement), host)?)
}

/// The hosts along each axis, in the order of the placement.
fn grid(job: &JobFile, placement: Placement) -> HostGrid {
    let slower = placement.order().into_iter().find(|axis| *axis != Axis::Tensor);
    HostGrid {
        data: job.data_hosts() as usize,
        pipeline: job.pipeline_hosts() as usize,
        pipeline_is_slower: slower == Some(Axis::Pipeline),
    }
}
