//! Whether this host, or its cluster, can ever run a job.

use std::path::Path;

use traind_job_file::{JobFile, Platform};

use crate::control::error::{Error, FieldViolation};
use crate::host::{Host, neuron_counts_of_clusters, plugins};
use crate::jobs::cluster::{Cluster, ClusterError};
use crate::settings::Settings;

/// Refuses a job that this host, or its cluster, could never run.
pub(crate) fn check_machine(job: &JobFile, settings: &Settings) -> Result<(), Error> {
    check_hosts(job)?;
    if let Some(cluster) = Cluster::of(job.resources.engine) {
        let unavailable = |error: ClusterError| Error::Engine {
            engine: job.resources.engine,
            reason: error.to_string(),
        };
        cluster.check().map_err(unavailable)?;
        check_cluster_count(job)?;
        return check_plugin(job, &settings.cache_dir);
    }
    check_host(job, &settings.host)?;
    check_plugin(job, &settings.cache_dir)?;
    check_count(job.resources.cores, settings)
}

/// Refuses several hosts with an engine that starts runners on its own host alone.
fn check_hosts(job: &JobFile) -> Result<(), Error> {
    let hosts = job.resources.hosts;
    if hosts == 1 || Cluster::of(job.resources.engine).is_some() {
        return Ok(());
    }
    let description = format!(
        "is {hosts}, and `resources.engine: local` runs a job on the daemon's host alone; set the \
         engine to slurm or kubernetes, or start traind-runner on each host yourself"
    );
    let field = "resources.hosts".to_owned();
    Err(Error::JobFile { violations: vec![FieldViolation { field, description }] })
}

fn check_host(job: &JobFile, host: &Host) -> Result<(), Error> {
    let platform = job.resources.platform.to_string();
    if platform != host.platform {
        return Err(Error::Platform { offered: host.platform.clone(), platform });
    }
    let (wanted, available) = (job.resources.cores, host.core_count());
    if wanted > available {
        return Err(Error::Cores { platform, available, wanted });
    }
    Ok(())
}

fn check_plugin(job: &JobFile, cache_dir: &Path) -> Result<(), Error> {
    let platform = job.resources.platform.to_string();
    let plugin = plugins::plugin(&platform);
    match plugin.map(|plugin| (plugin.find(cache_dir), plugin)) {
        Ok((Some(_), _)) => Ok(()),
        Ok((None, plugin)) => Err(Error::Plugin { platform, instructions: plugin.instructions() }),
        Err(error) => Err(Error::Plugin { platform, instructions: error.to_string() }),
    }
}

/// Refuses a number of cores of each host that no NeuronCores have collectives for.
fn check_cluster_count(job: &JobFile) -> Result<(), Error> {
    let (wanted, counts) = (job.resources.cores, neuron_counts_of_clusters());
    if job.resources.platform != Platform::Neuron || counts.contains(&wanted) {
        return Ok(());
    }
    let counts = counts.iter().map(ToString::to_string).collect();
    Err(Error::CoreCount { device: "NeuronCores".to_owned(), counts, wanted })
}

/// Refuses a number of cores that no job can ever get.
fn check_count(wanted: u32, settings: &Settings) -> Result<(), Error> {
    let host = &settings.host;
    if let Some(limit) = settings.cores_per_user.filter(|limit| wanted > *limit) {
        return Err(Error::CoresOfUser { limit, wanted });
    }
    match host.core_counts() {
        Some(counts) if !counts.contains(&wanted) => {
            let counts = counts.iter().map(ToString::to_string).collect();
            Err(Error::CoreCount { device: host.device(0).to_owned(), counts, wanted })
        }
        _ => Ok(()),
    }
}
