//! Sick cores: they get no jobs until an admin returns them.
//!
//! A core is fenced when its device counts new hardware errors that no program can cause, or when it answers wrong to a
//! program whose result is known. A failure of a job fences nothing, since it may be the job's own fault. The job on a
//! core that is fenced saves a checkpoint and continues elsewhere: each run of the scheduler makes it, also the first
//! one after a restart.
//!
//! The daemon does not see the devices of hosts of a cluster, and cannot test them. Such a host is fenced as a whole
//! once two witnesses reported that a device of it failed; see `jobs::store::host_fences`. Jobs that run on it continue
//! elsewhere too: the cluster gets their next attempts without it.

pub(super) mod health;
pub(super) mod idle_cores;
pub(super) mod known_answers;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::daemon::Daemon;
use super::error::Error;
use crate::clock;
use crate::jobs::store::{Fence, HostFence, Store, StoreError};
use known_answers::CoreTests;

/// The cores that get no jobs.
#[derive(Debug, Default)]
pub(crate) struct Fences {
    /// Tests of cores that may be sick.
    pub(super) tests: CoreTests,
    by_core: Mutex<BTreeMap<u32, Fence>>,
}

impl Fences {
    /// Reads the fences that an earlier daemon has stored.
    pub(super) fn open(store: &Store) -> Result<Fences, StoreError> {
        let by_core = store.fences()?.into_iter().map(|fence| (fence.core, fence)).collect();
        Ok(Fences { by_core: Mutex::new(by_core), tests: CoreTests::default() })
    }

    /// The fenced cores.
    pub(super) fn cores(&self) -> BTreeSet<u32> {
        self.by_core().keys().copied().collect()
    }

    /// The fence of a core.
    pub(crate) fn of(&self, core: u32) -> Option<Fence> {
        self.by_core().get(&core).cloned()
    }

    fn by_core(&self) -> MutexGuard<'_, BTreeMap<u32, Fence>> {
        self.by_core.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Daemon {
    /// Fences a core. The next run of the scheduler has its job continue elsewhere.
    pub(super) async fn fence(&self, core: u32, reason: &str) -> Result<(), StoreError> {
        let fence = Fence { core, since: clock::now(), reason: reason.to_owned() };
        tracing::warn!(core, reason, "fence a core");
        // Also if it cannot be stored.
        self.fences.by_core().entry(core).or_insert_with(|| fence.clone());
        let stored = self.store.run(move |store| store.fence(&fence)).await;
        self.wake.notify_one();
        stored
    }

    /// Preempts the jobs on fenced cores and hosts, those that are preempted already included. Returns these cores.
    pub(super) async fn evict_from_fences(&self) -> Result<BTreeSet<u32>, StoreError> {
        let (cores, hosts) = (self.fences.cores(), self.fenced_hosts().await?);
        if cores.is_empty() && hosts.is_empty() {
            return Ok(cores);
        }
        for job in self.store.run(Store::unfinished).await? {
            let reason =
                match job.is_elsewhere() {
                    _ if !job.state.is_active() => None,
                    false => job.cores.iter().find_map(|core| self.fences.of(*core)).map(
                        |Fence { core, reason, .. }| format!("core {core} is fenced: {reason}"),
                    ),
                    true => hosts.iter().find(|fence| fence.is_around(&job)).map(
                        |HostFence { host, reason, .. }| format!("host {host} is fenced: {reason}"),
                    ),
                };
            if let Some(reason) = reason {
                self.preempt(&job.id, &reason);
            }
        }
        Ok(cores)
    }

    /// The fenced hosts of clusters.
    pub(crate) async fn fenced_hosts(&self) -> Result<Vec<HostFence>, StoreError> {
        self.store.run(Store::host_fences).await
    }

    /// Removes the fences of cores and of hosts of clusters. Refuses those that have none.
    pub(crate) async fn return_cores(&self, cores: &[u32], hosts: &[String]) -> Result<(), Error> {
        let invalid = |field, description: String| Error::Request { field, description };
        if cores.is_empty() && hosts.is_empty() {
            return Err(invalid("cores", "name at least one core or host".to_owned()));
        }
        let all = &self.settings.host.cores;
        match cores.iter().find(|core| self.fences.of(**core).is_none()) {
            Some(core) if all.contains(core) => {
                return Err(invalid("cores", format!("core {core} is not fenced")));
            }
            Some(core) => {
                let cores = all.len();
                return Err(invalid(
                    "cores",
                    format!("this host has no core {core}; it has {cores}"),
                ));
            }
            None => {}
        }
        let fenced = self.fenced_hosts().await?;
        if let Some(host) = hosts.iter().find(|host| fenced.iter().all(|it| it.host != **host)) {
            return Err(invalid("hosts", format!("the host {host:?} is not fenced")));
        }
        let hosts = hosts.to_vec();
        let returned = move |store: &Store| hosts.iter().try_for_each(|it| store.return_host(it));
        self.store.run(returned).await?;
        for core in cores.iter().copied() {
            self.store.run(move |store| store.return_core(core)).await?;
            self.fences.by_core().remove(&core);
        }
        self.wake.notify_one();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fences_survive_a_restart_and_keep_their_first_reason() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("traind.db");
        let store = Store::open(&path).unwrap();
        let fence = |reason: &str| Fence { core: 3, since: 7, reason: reason.to_owned() };
        store.fence(&fence("first")).unwrap();
        store.fence(&fence("second")).unwrap();
        drop(store);
        let store = Store::open(&path).unwrap();
        let fences = Fences::open(&store).unwrap();
        assert_eq!(fences.of(3), Some(fence("first")));
        assert_eq!(fences.cores(), BTreeSet::from([3]));
        store.return_core(3).unwrap();
        assert!(Fences::open(&store).unwrap().cores().is_empty());
    }
}
