//! Jobs between their placement and the start of their runner.

use super::*;
use crate::jobs::store::NewJob;

/// A supervisor with a job that has its cores.
fn placed(folder: &tempfile::TempDir) -> (Supervisor, Job) {
    let settings = Settings { state_dir: folder.path().to_owned(), ..Settings::example() };
    let supervisor = Supervisor {
        store: Store::open(&folder.path().join("traind.db")).unwrap(),
        settings: Arc::new(settings),
        suspects: None,
        closing: CancellationToken::new(),
        draining: CancellationToken::new(),
        wake: Arc::default(),
    };
    let new = NewJob { id: "a".into(), platform: "cpu".into(), ..NewJob::default() };
    supervisor.store.create(&new).unwrap();
    let job = supervisor.store.place("a", &[0]).unwrap();
    (supervisor, job)
}

async fn launched(supervisor: Supervisor, job: Job) -> JobState {
    supervisor.clone().attend(job, Begin::Launch, StopRequests::default()).await;
    supervisor.store.get("a").unwrap().state
}

#[tokio::test]
async fn a_job_cancelled_before_its_runner_starts_gets_none() {
    let folder = tempfile::tempdir().unwrap();
    let (supervisor, job) = placed(&folder);
    supervisor.store.cancel("a", "cancelled by ann").unwrap();
    assert_eq!(launched(supervisor, job).await, JobState::Cancelled);
}

#[tokio::test]
async fn a_job_placed_while_the_daemon_began_to_drain_waits_for_the_next_one() {
    let folder = tempfile::tempdir().unwrap();
    let (supervisor, job) = placed(&folder);
    supervisor.draining.cancel();
    assert_eq!(launched(supervisor, job).await, JobState::Pending);
}
