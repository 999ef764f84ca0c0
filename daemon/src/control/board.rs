//! The current state of every core. Readings are shared, so that runners are queried at most a
//! few times a second however many clients watch.

use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};

use tokio::sync::Mutex;
use tokio::task::JoinSet;
use traind_proto::v1;

use super::error::Error;
use super::fences::Fences;
use crate::clock;
use crate::jobs::run_dir::RunDir;
use crate::jobs::store::{Job, Store};
use crate::jobs::supervisor::runner_status;
use crate::settings::Settings;

/// How long a reading is reused.
const MAX_AGE: Duration = Duration::from_millis(90);

/// The latest reading of all cores.
#[derive(Default)]
pub(crate) struct Board {
    latest: Mutex<Option<(Instant, Vec<v1::Core>)>>,
}

impl Board {
    /// Returns all cores of the host, by index.
    pub(crate) async fn read(
        &self,
        settings: &Settings,
        store: &Store,
        fences: &Fences,
    ) -> Result<Vec<v1::Core>, Error> {
        let mut latest = self.latest.lock().await;
        let fresh = latest.as_ref().filter(|(read, _)| read.elapsed() < MAX_AGE);
        let mut cores = match fresh.map(|(_, cores)| cores.clone()) {
            Some(cores) => cores,
            None => {
                let cores = read(settings, store).await?;
                *latest = Some((Instant::now(), cores.clone()));
                cores
            }
        };
        let tested = fences.tests.cores();
        // Not part of the reading: who returns a core sees that at once.
        for core in cores.iter_mut().filter(|core| core.host.is_empty()) {
            core.fence = fences.of(core.core).map(|fence| v1::Fence {
                since: Some(clock::timestamp(fence.since)),
                reason: fence.reason,
            });
            core.test = fences.tests.of(core.core);
            core.being_tested = tested.contains(&core.core);
        }
        Ok(cores)
    }
}

async fn read(settings: &Settings, store: &Store) -> Result<Vec<v1::Core>, Error> {
    let jobs = store.run(Store::active).await?;
    let usage = usage_of(&settings.state_dir, &jobs).await;
    let host = settings.host.clone();
    let (polled, state_dir, all) = (host.clone(), settings.state_dir.clone(), jobs.clone());
    // Reads files and calls drivers, which may block.
    let read = move || (polled.device_statistics(), cores_elsewhere(&state_dir, &all));
    let read = tokio::task::spawn_blocking(read).await;
    let (mut statistics, elsewhere) = read.unwrap_or_default();
    let cores = host.cores.iter().map(|core| {
        let holder = jobs.iter().find(|job| job.cores.contains(core));
        v1::Core {
            core: *core,
            platform: host.platform.clone(),
            device: host.device(*core).to_owned(),
            job_id: holder.map(|job| job.id.clone()).unwrap_or_default(),
            job_name: holder.map(|job| job.name.clone()).unwrap_or_default(),
            usage: usage.get(core).copied(),
            figures: statistics.remove(core),
            host_core: host.host_core(*core),
            ..v1::Core::default()
        }
    });
    Ok(cores.chain(elsewhere).collect())
}

/// The cores of other hosts that jobs in clusters hold, as their first hosts report them.
fn cores_elsewhere(state_dir: &Path, jobs: &[Job]) -> Vec<v1::Core> {
    let jobs = jobs.iter().filter(|job| job.is_elsewhere());
    let statuses = jobs.filter_map(|job| {
        let status = RunDir::new(state_dir, &job.id).status()?;
        Some(status.hosts.into_iter().flat_map(move |host| cores_of(job, host)))
    });
    statuses.flatten().collect()
}

fn cores_of(job: &Job, status: v1::HostStatus) -> impl Iterator<Item = v1::Core> {
    let v1::HostStatus { host, cores, usage, .. } = status;
    cores.into_iter().enumerate().map(move |(place, core)| v1::Core {
        core,
        platform: job.platform.clone(),
        job_id: job.id.clone(),
        job_name: job.name.clone(),
        usage: usage.get(place).copied(),
        host: host.clone(),
        ..v1::Core::default()
    })
}

/// Queries all runners at once. Returns usage by core.
async fn usage_of(state_dir: &Path, jobs: &[Job]) -> HashMap<u32, v1::CoreUsage> {
    let mut queries = JoinSet::new();
    for job in jobs.iter().filter(|job| !job.is_elsewhere()) {
        let socket = RunDir::new(state_dir, &job.id).socket();
        queries.spawn(runner_status(socket, None));
    }
    let mut usage = HashMap::new();
    while let Some(answer) = queries.join_next().await {
        // Cores of a runner that does not answer are shown without usage.
        if let Ok(Some(status)) = answer {
            usage.extend(status.cores.into_iter().map(|core| (core.core, core)));
        }
    }
    usage
}
