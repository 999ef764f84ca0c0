//! What becomes of jobs between their placement and their runner.

use std::sync::Arc;

use super::*;
use crate::settings::Settings;
use crate::store::NewJob;

/// A daemon with a job that has its cores.
fn placed(folder: &tempfile::TempDir) -> (Arc<Daemon>, Job) {
    let settings = Settings { state_dir: folder.path().to_owned(), ..Settings::example() };
    let daemon = Daemon::open(settings).unwrap();
    let new = NewJob { id: "a".into(), platform: "cpu".into(), ..NewJob::default() };
    daemon.store.create(&new).unwrap();
    let job = daemon.store.place("a", &[0]).unwrap();
    (daemon, job)
}

async fn launched(daemon: Arc<Daemon>, job: Job) -> JobState {
    attend(daemon.clone(), job, Begin::Launch, Wishes::default()).await;
    daemon.store.get("a").unwrap().state
}

#[tokio::test]
async fn a_job_cancelled_before_anybody_could_tell_its_runner_gets_none() {
    let folder = tempfile::tempdir().unwrap();
    let (daemon, job) = placed(&folder);
    daemon.store.cancel("a", "cancelled by ann").unwrap();
    assert_eq!(launched(daemon, job).await, JobState::Cancelled);
}

#[tokio::test]
async fn a_job_placed_while_the_daemon_began_to_drain_waits_for_the_next_one() {
    let folder = tempfile::tempdir().unwrap();
    let (daemon, job) = placed(&folder);
    daemon.draining.cancel();
    assert_eq!(launched(daemon, job).await, JobState::Pending);
}
