//! Failing disks: system calls of the daemon, the launcher and the runner that change a file fail
//! between a job's submission and its end. No acknowledged job may be lost, every failure must name
//! the disk, and no file may be torn. `scripts/soak/faults` tries all calls; these tests try some.

mod full;
mod injector;
mod read_only;
mod whole;

use std::time::{Duration, Instant};

use tonic::Code;
use traind_proto::v1::{CreateJobRequest, GetJobRequest, Job, JobState};
use traind_tests::{Draft, History, Host, timeout};

use injector::{Error, Injector};

/// The shortest time for which a disk fails.
const FAILING: Duration = Duration::from_millis(300);
const POLL: Duration = Duration::from_millis(20);
/// Messages of the system and of SQLite for these errors.
const MESSAGES: [&str; 7] = [
    "Input/output error",
    "No space left on device",
    "Read-only file system",
    "disk I/O error",
    "database or disk is full",
    "readonly database",
    "was full, read-only or failing",
];

/// The calls that fail.
#[derive(Clone, Copy, Debug)]
struct Fault {
    error: Error,
    first: i64,
    /// Whether only the first fails, and not all that follow until the disk is repaired.
    once: bool,
}

#[tokio::test]
async fn a_failing_disk_of_the_daemon_loses_no_job_and_tears_no_file() {
    // The disk recovers soon, so that every job is started eventually and none fails.
    assert_eq!(enumerate(&["traind"]).await, 0);
}

#[tokio::test]
async fn a_failing_disk_of_the_runner_loses_no_job_and_tears_no_file() {
    enumerate(&["traind-runner"]).await;
}

/// Runs a job for each fault. Returns the number of jobs that failed.
async fn enumerate(programs: &[&str]) -> usize {
    let mut host = Host::prepared(1);
    let injector = Injector::new(&host.path(""));
    host.set_environment(injector.environment(&host.path(""), programs));
    host.start().await;
    injector.arm(i64::MAX, i64::MAX, Error::Io);
    host.complete(&draft(&host, "undisturbed")).await;
    let calls = injector.calls();
    assert!(calls > 20, "{calls} calls of {programs:?}");

    let kinds = [(Error::Io, true), (Error::NoSpace, false), (Error::ReadOnly, false)];
    let tried: i64 = std::env::var("TRAIND_SOAK_FAULTS").map_or(2, |text| text.parse().unwrap());
    let tried = tried.min(calls);
    let (mut problems, mut met, mut refused, mut failed) = (Vec::new(), 0, 0, 0);
    for (number, (error, once)) in (0..tried).flat_map(|number| kinds.map(|kind| (number, kind))) {
        let first = 1 + number * calls / tried;
        let fault = Fault { error, first, once };
        let name = format!("{error:?}-{first}").to_lowercase();
        let seen = play(&mut host, &injector, &name, fault).await;
        let Some(call) = &seen.call else { continue };
        met += 1;
        refused += usize::from(seen.refused);
        failed += usize::from(seen.history.job.state() == JobState::Failed);
        problems.extend(seen.problems().into_iter().map(|it| format!("{fault:?}, {call}: {it}")));
    }
    println!(
        "{programs:?}: {calls} calls; {met} faults met: {refused} submissions refused, {failed} jobs failed, \
         {} problems",
        problems.len()
    );
    assert_eq!(problems, [""; 0]);
    failed
}

/// The observed effects of a fault.
struct Seen {
    /// The first call that failed.
    call: Option<String>,
    refused: bool,
    /// Whether the job was acknowledged and repeating its request made another one.
    lost: bool,
    /// The job's last state in the daemon whose disk failed.
    before: Option<Job>,
    history: History,
    torn: Vec<String>,
}

async fn play(host: &mut Host, injector: &Injector, name: &str, fault: Fault) -> Seen {
    let draft = draft(host, name);
    let request = CreateJobRequest { request_id: name.to_owned(), ..(*draft).clone() };
    let last = if fault.once { fault.first } else { i64::MAX - 1 };
    injector.arm(fault.first, last, fault.error);
    let answer = host.create(&request).await;
    let acknowledged = answer.as_ref().ok().map(|job| job.id.clone());
    let before = match &acknowledged {
        Some(id) => Some(until_end(host, injector, id, fault).await),
        None => None,
    };
    let call = injector.failed();
    injector.disarm();
    host.kill_daemon();
    host.start().await;
    let again = host.create(&request).await.unwrap();
    let history = host.watch(&again.id).await;
    let mut torn = whole::torn(&host.path("state"));
    torn.extend(whole::torn(draft.folder()));
    let lost = acknowledged.is_some_and(|id| id != again.id);
    Seen { call, refused: answer.is_err(), lost, before, history, torn }
}

/// A short job that saves twice.
fn draft(host: &Host, name: &str) -> Draft {
    let draft = Draft::new(host, name).edit("  validation: validation.parquet\n", "");
    draft.set("train.max_steps", 4).set("train.save_steps", 2).set("train.save_total_limit", 1)
}

/// Waits until the job has ended, and repairs the disk after a while.
async fn until_end(host: &Host, injector: &Injector, id: &str, fault: Fault) -> Job {
    let mut failing_since = None;
    // Counts polls instead of seconds, because a machine may be suspended for minutes.
    for _ in 0..timeout().as_millis() / POLL.as_millis() {
        let request = GetJobRequest { job_id: id.to_owned() };
        match host.jobs().await.get_job(request).await {
            Ok(job) if job.get_ref().end_time.is_some() => return job.into_inner(),
            Ok(_) => {}
            Err(status) => assert_eq!(status.code(), Code::Internal, "{status:?}"),
        }
        if injector.failed().is_some()
            && failing_since.get_or_insert_with(Instant::now).elapsed() > FAILING
        {
            injector.disarm();
        }
        tokio::time::sleep(POLL).await;
    }
    panic!("{fault:?}: the job does not end\n{}", host.log());
}

impl Seen {
    fn problems(&self) -> Vec<String> {
        let job = &self.history.job;
        let mut problems = self.torn.clone();
        if self.lost {
            problems.push("the acknowledged job is lost".to_owned());
        }
        if let Some(before) = &self.before
            && before != job
        {
            problems.push(format!("the job was {before:?}, and is {job:?}"));
        }
        let failure = job.failure.as_ref().map(|failure| failure.message.clone());
        match (job.state(), failure) {
            (JobState::Completed, None) => {}
            (JobState::Failed, Some(message))
                if MESSAGES.iter().any(|part| message.contains(part)) => {}
            (state, failure) => problems.push(format!("the job is {state:?}: {failure:?}")),
        }
        problems
    }
}
