//! `traind submit --dry-run`: shows what a cluster would get, without a daemon.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, bail};
use traind_job_file::{JobFile, RunSpec};

use super::exit::Exit;
use super::job_file::parsed;
use super::serve::runner_beside_this_program;
use crate::host::plugins;
use crate::jobs::cluster::{Cluster, Submission};
use crate::jobs::run_dir::RunDir;
use crate::jobs::supervisor::environment::cluster_environment;
use crate::paths;

/// Stands for the id that the daemon would assign.
const ID: &str = "job-id";

/// Prints the submission of a job file.
pub(super) fn run(
    job_file: &str,
    overrides: &BTreeMap<String, String>,
    base_dir: &Path,
) -> anyhow::Result<Exit> {
    let job = parsed(job_file, overrides, base_dir)?;
    let Some(cluster) = Cluster::of(job.resources.engine) else {
        bail!(
            "the daemon itself runs the job (`resources.engine: local`); `traind plan` shows what it takes"
        );
    };
    let state_dir = paths::state_dir().context("no state folder: HOME is not set")?;
    let (spec, run_dir) = (spec(job)?, RunDir::new(&state_dir, ID));
    let submission = Submission {
        spec: &spec,
        runner: &runner_beside_this_program()?,
        run_dir: run_dir.path(),
        log: run_dir.runner_log(),
        environment: cluster_environment(std::env::vars_os(), &spec),
        account: None,
        avoided: &[],
    };
    print!("{}", cluster.preview(&submission));
    Ok(Exit::Done)
}

fn spec(job: JobFile) -> anyhow::Result<RunSpec> {
    let cache_dir = paths::cache_dir().context("no cache folder: HOME is not set")?;
    let plugin = plugins::plugin(job.resources.platform.as_str())?.find(&cache_dir);
    Ok(RunSpec {
        job_id: ID.to_owned(),
        attempt: 1,
        cores: (0..job.resources.cores).collect(),
        plugin: plugin.unwrap_or_default(),
        job,
        cache_dir,
        cache_bytes_max: None,
        device_kind: String::new(),
    })
}
