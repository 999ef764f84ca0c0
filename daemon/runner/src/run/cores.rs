//! Opens the cores of a job.

use traind_job_file::{Platform, RunSpec};
use traind_pjrt::{Client, Plugin};
use traind_xla::mesh::Mesh;
use traind_xla::runtime::{ExecutableCache, LocalCores};

use crate::error::RunResult;
use crate::hosts::Hosts;
use crate::reporting::Stop;
use crate::session::{client_options, cores_of, give_up_on};

/// Opens the plugin and as many of its devices as the job has cores on this host, which form `mesh`. The GPUs of the
/// hosts with the same stages become one client's, once all of these have called this.
pub(crate) fn open_cores(
    spec: &RunSpec,
    mesh: Mesh,
    hosts: &Hosts,
    stop: &Stop,
) -> RunResult<LocalCores> {
    match spec.job.resources.platform {
        // Its compiler, which may take minutes, is a process of its own.
        Platform::Neuron => give_up_on(&|| stop.reason().is_some(), || open(spec, mesh, hosts)),
        _ => open(spec, mesh, hosts),
    }
}

fn open(spec: &RunSpec, mesh: Mesh, hosts: &Hosts) -> RunResult<LocalCores> {
    let (platform, count) = (spec.job.resources.platform, spec.cores.len());
    let is_one_client = platform == Platform::Cuda && mesh.hosts() > 1;
    let (plugin, options) =
        (Plugin::load(&spec.plugin)?, client_options(&platform.to_string(), count));
    let client = match hosts.store(mesh.pipeline_place())?.filter(|_| is_one_client) {
        None => Client::new(plugin, &options)?,
        Some(store) => {
            let options = options
                .with("node_id", mesh.data_place() as i64)
                .with("num_nodes", mesh.hosts() as i64);
            Client::with_store(plugin, &options, store)?
        }
    };
    let cache = ExecutableCache::open(&spec.cache_dir.join("executables"))?;
    Ok(cores_of(client, count, mesh, Some(&cache))?)
}
