//! The tests of idle cores that nobody asked for. They end as soon as a job could start without them, and are made
//! again later; those of suspect cores, for which jobs wait, do not.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::control::daemon::Daemon;
use crate::control::error::Error;

/// The longest pause between two looks for idle cores. A core is idle if two looks find it so.
const LOOK: Duration = Duration::from_secs(10);
/// The pause before a suspect core, whose job has not quite ended, is looked at again.
const SUSPECT_LOOK: Duration = Duration::from_millis(200);

/// Tests cores that have been idle for a while, each once in `every`, and suspect ones as soon as they are idle, until
/// the daemon closes.
pub(in crate::control) async fn run(daemon: Arc<Daemon>, every: Duration) {
    let tests = &daemon.fences.tests;
    let mut idle_before = BTreeSet::new();
    let mut pause = every.min(LOOK);
    loop {
        tokio::select! {
            () = daemon.closing.cancelled() => return,
            () = daemon.draining.cancelled() => return,
            () = tests.suspects.changed() => {}
            () = tokio::time::sleep(pause) => {}
        }
        let idle = match daemon.idle_cores().await {
            Ok(idle) => idle,
            Err(error) => {
                tracing::warn!(%error, "look for idle cores");
                continue;
            }
        };
        let suspects = tests.suspects.cores();
        pause = if suspects.is_empty() { every.min(LOOK) } else { SUSPECT_LOOK };
        let suspects: Vec<u32> = suspects.into_iter().filter(|core| idle.contains(core)).collect();
        if !suspects.is_empty() {
            test(&daemon, &suspects, std::future::pending()).await;
            continue;
        }
        let is_due =
            |core: &&u32| tests.is_due(**core, every) && daemon.fences.of(**core).is_none();
        let due: Vec<u32> = idle.intersection(&idle_before).filter(is_due).copied().collect();
        if !due.is_empty() {
            let makes_way = async {
                tokio::select! {
                    () = tests.wanted.notified() => {}
                    () = daemon.draining.cancelled() => {}
                }
            };
            test(&daemon, &due, makes_way).await;
        }
        idle_before = idle;
    }
}

/// Tests cores to the end, until `interrupted`, or until the daemon closes.
async fn test(daemon: &Arc<Daemon>, cores: &[u32], interrupted: impl Future<Output = ()>) {
    tokio::select! {
        tested = test_all(daemon, cores) => if let Err(error) = tested {
            tracing::error!(%error, "keep the results of a test of cores");
        },
        () = interrupted => {}
        () = daemon.closing.cancelled() => {}
    }
}

async fn test_all(daemon: &Arc<Daemon>, cores: &[u32]) -> Result<(), Error> {
    // Refused where a job or an admin's test has got one of the cores meanwhile.
    let Ok(claimed) = daemon.claim_for_test(cores).await else { return Ok(()) };
    for group in claimed.groups() {
        claimed.test(&group).await?;
    }
    Ok(())
}
