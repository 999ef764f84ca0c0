//! What every core does now, asked of the runners at most a few times a second however
//! many clients look.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use tokio::sync::Mutex;
use tokio::task::JoinSet;
use traind_proto::v1;

use crate::daemon::Daemon;
use crate::error::Error;
use crate::store::{Job, Store};
use crate::supervisor::{RunDir, ask};

/// How old an answer may be.
const FRESH: Duration = Duration::from_millis(90);

/// The latest reading of all cores.
#[derive(Default)]
pub(crate) struct Board {
    latest: Mutex<Option<(Instant, Vec<v1::Core>)>>,
}

impl Board {
    /// All cores of the host, by index.
    pub(crate) async fn read(&self, daemon: &Daemon) -> Result<Vec<v1::Core>, Error> {
        let mut latest = self.latest.lock().await;
        if let Some((read, cores)) = latest.as_ref()
            && read.elapsed() < FRESH
        {
            return Ok(cores.clone());
        }
        let cores = read(daemon).await?;
        *latest = Some((Instant::now(), cores.clone()));
        Ok(cores)
    }
}

async fn read(daemon: &Daemon) -> Result<Vec<v1::Core>, Error> {
    let jobs = daemon.store.run(Store::active).await?;
    let usage = usage_of(daemon, &jobs).await;
    let host = daemon.settings.host.clone();
    let asked = host.clone();
    // Reads files and asks drivers, which may take their time.
    let told = tokio::task::spawn_blocking(move || asked.figures()).await;
    let mut figures = told.unwrap_or_default();
    let cores = host.cores.iter().map(|core| {
        let holder = jobs.iter().find(|job| job.cores.contains(core));
        v1::Core {
            core: *core,
            platform: host.platform.clone(),
            device: host.device(*core).to_owned(),
            job_id: holder.map(|job| job.id.clone()).unwrap_or_default(),
            job_name: holder.map(|job| job.name.clone()).unwrap_or_default(),
            usage: usage.get(core).copied(),
            figures: figures.remove(core),
        }
    });
    Ok(cores.collect())
}

/// By core, from all runners at once.
async fn usage_of(daemon: &Daemon, jobs: &[Job]) -> HashMap<u32, v1::CoreUsage> {
    let mut asked = JoinSet::new();
    for job in jobs {
        let socket = RunDir::new(&daemon.settings.state_dir, &job.id).socket();
        asked.spawn(ask(socket));
    }
    let mut usage = HashMap::new();
    while let Some(answer) = asked.join_next().await {
        // A runner that does not answer has no figures to show.
        if let Ok(Some(status)) = answer {
            usage.extend(status.cores.into_iter().map(|core| (core.core, core)));
        }
    }
    usage
}
