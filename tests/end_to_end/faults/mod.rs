//! Disks that fail between a job's submission and its end: at each call of the daemon, the launcher
//! and the runner that changes a file. What was acknowledged is there afterwards and ends, with words
//! that tell why, and no file is torn. `scripts/soak/faults` goes through all calls; here are some.

mod full;
mod injector;
mod read_only;
mod whole;

use std::time::{Duration, Instant};

use tonic::Code;
use traind_proto::v1::{CreateJobRequest, GetJobRequest, Job, JobState};
use traind_tests::{Draft, Host, PATIENCE, Story};

use injector::{Error, Injector};

/// How long a disk fails at least before it is well again.
const ILL: Duration = Duration::from_millis(300);
const LOOK: Duration = Duration::from_millis(20);
/// What the system and SQLite call these errors.
const WORDS: [&str; 7] = [
    "Input/output error",
    "No space left on device",
    "Read-only file system",
    "disk I/O error",
    "database or disk is full",
    "readonly database",
    "was full, read-only or failing",
];

/// Calls that fail.
#[derive(Clone, Copy, Debug)]
struct Fault {
    error: Error,
    first: i64,
    /// The first alone; otherwise all that follow, until the disk is well again.
    alone: bool,
}

#[tokio::test]
async fn a_failing_disk_of_the_daemon_loses_no_job_and_tears_no_file() {
    // The disk is well again soon, so that no job fails of it: each is started when it can be.
    assert_eq!(enumerate(&["traind"]).await, 0);
}

#[tokio::test]
async fn a_failing_disk_of_the_runner_loses_no_job_and_tears_no_file() {
    enumerate(&["traind-runner"]).await;
}

/// Plays one job for each fault. Returns how many failed, with words.
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
    for (number, (error, alone)) in (0..tried).flat_map(|number| kinds.map(|kind| (number, kind))) {
        let first = 1 + number * calls / tried;
        let fault = Fault { error, first, alone };
        let name = format!("{error:?}-{first}").to_lowercase();
        let seen = play(&mut host, &injector, &name, fault).await;
        let Some(call) = &seen.call else { continue };
        met += 1;
        refused += usize::from(seen.refused);
        failed += usize::from(seen.story.job.state() == JobState::Failed);
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

/// What became of a job and its files.
struct Seen {
    /// The call that failed first.
    call: Option<String>,
    refused: bool,
    /// The job was acknowledged, and a repetition made another one.
    lost: bool,
    /// How the job stood with the daemon whose disk had failed.
    before: Option<Job>,
    story: Story,
    torn: Vec<String>,
}

async fn play(host: &mut Host, injector: &Injector, name: &str, fault: Fault) -> Seen {
    let draft = draft(host, name);
    let request = CreateJobRequest { request_id: name.to_owned(), ..(*draft).clone() };
    let last = if fault.alone { fault.first } else { i64::MAX - 1 };
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
    let story = host.watch(&again.id).await;
    let mut torn = whole::torn(&host.path("state"));
    torn.extend(whole::torn(draft.folder()));
    let lost = acknowledged.is_some_and(|id| id != again.id);
    Seen { call, refused: answer.is_err(), lost, before, story, torn }
}

/// A small job that saves twice.
fn draft(host: &Host, name: &str) -> Draft {
    let draft = Draft::new(host, name).edit("  validation: validation.parquet\n", "");
    draft.set("train.max_steps", 4).set("train.save_steps", 2).set("train.save_total_limit", 1)
}

/// Waits until the job has ended; a disk does not stay ill for ever.
async fn until_end(host: &Host, injector: &Injector, id: &str, fault: Fault) -> Job {
    let mut ill = None;
    // Looks and not seconds: a machine may stand still for minutes.
    for _ in 0..PATIENCE.as_millis() / LOOK.as_millis() {
        let request = GetJobRequest { job_id: id.to_owned() };
        match host.jobs().await.get_job(request).await {
            Ok(job) if job.get_ref().end_time.is_some() => return job.into_inner(),
            Ok(_) => {}
            Err(status) => assert_eq!(status.code(), Code::Internal, "{status:?}"),
        }
        if injector.failed().is_some() && ill.get_or_insert_with(Instant::now).elapsed() > ILL {
            injector.disarm();
        }
        tokio::time::sleep(LOOK).await;
    }
    panic!("{fault:?}: the job does not end\n{}", host.log());
}

impl Seen {
    fn problems(&self) -> Vec<String> {
        let job = &self.story.job;
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
            (JobState::Failed, Some(told)) if WORDS.iter().any(|words| told.contains(words)) => {}
            (state, told) => problems.push(format!("the job is {state:?}: {told:?}")),
        }
        problems
    }
}
