//! Jobs that Slurm places, with a Slurm of shell scripts.

use tonic::Code;
use tonic_types::StatusExt;
use traind_proto::v1::{Event, Job, JobState, ListCoresRequest, event::Kind};

use super::waits;
use crate::support::host::{Host, PATIENCE, until_file};
use crate::support::runner::{COMPLETES, STOPS_WHEN_ASKED, WAITS_FOR_GO};
use crate::support::slurm::Slurm;

async fn started(script: &str) -> (Host, Slurm) {
    let mut host = Host::new(1, script);
    let slurm = Slurm::install(&mut host);
    host.environment.push(("HF_TOKEN".to_owned(), "secret".to_owned()));
    host.start().await;
    (host, slurm)
}

async fn submit(host: &Host) -> Job {
    submit_with(host, "").await
}

async fn submit_with(host: &Host, more: &str) -> Job {
    submit_as(host, "wide", more).await
}

async fn submit_as(host: &Host, name: &str, more: &str) -> Job {
    host.submit_with(name, &format!("cores: 4, hosts: 2, engine: slurm{more}")).await
}

#[tokio::test]
async fn a_job_is_submitted_followed_and_completed_beside_local_ones() {
    let (host, slurm) = started(WAITS_FOR_GO).await;
    let wide = submit(&host).await;
    let running = host.until_state(&wide.id, JobState::Running).await;
    assert_eq!((running.engine.as_str(), running.host_count, running.core_count), ("slurm", 2, 8));
    assert_eq!(running.cores, [0; 0], "it takes no cores of the daemon's host");
    let running = host.until(&wide.id, |job| !job.host_names.is_empty()).await;
    assert_eq!(
        (running.cluster_job.as_str(), running.host_names.as_str()),
        ("Slurm job 7", "n[1-2]")
    );
    let local = host.submit("local", 1).await;
    host.until_state(&local.id, JobState::Running).await;
    for id in [&wide.id, &local.id] {
        std::fs::write(host.run_dir(id).join("go"), "").unwrap();
        host.until_state(id, JobState::Completed).await;
    }
    let arguments = slurm.read("7/arguments");
    for option in ["--nodes=2", "--ntasks-per-node=1", "--cpus-per-task=4", "--signal=TERM@120"] {
        assert!(arguments.lines().any(|line| line == option), "{arguments}");
    }
    let environment = slurm.read("7/environment");
    assert!(environment.contains(&format!("TRAIND_JOB_ID={}", wide.id)), "{environment}");
    assert!(!environment.contains("secret"), "{environment}");
    let shown = host.cli(&["get", &wide.id]);
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(
        shown.contains("8 cpu on 2 hosts (n[1-2])") && shown.contains("Slurm job 7"),
        "{shown}"
    );
}

#[tokio::test]
async fn the_reason_of_waiting_is_slurms_and_a_waiting_job_can_be_cancelled() {
    let (host, slurm) = started(COMPLETES).await;
    slurm.write("hold", "");
    let job = submit(&host).await;
    let reason = "Slurm job 7 waits: its hosts are not free yet";
    let waiting = host.until(&job.id, |job| job.waiting_reason == reason).await;
    assert_eq!(waiting.state(), JobState::Starting);
    host.cancel(&job.id).await.unwrap();
    let events = host.events(&job.id, 1).await;
    assert_eq!(waits(&events), [reason]);
    assert_eq!(host.get(&job.id).await.state(), JobState::Cancelled);
    assert_eq!(slurm.read("7/state").trim(), "CANCELLED");
}

#[tokio::test]
async fn a_job_that_waits_too_long_is_cancelled() {
    let (host, slurm) = started(COMPLETES).await;
    slurm.write("hold", "");
    let job = submit_with(&host, ", max_wait_seconds: 1").await;
    let ended = host.until_state(&job.id, JobState::Cancelled).await;
    assert!(ended.cancel_reason.contains("max_wait_seconds"), "{ended:?}");
}

#[tokio::test]
async fn a_running_job_is_cancelled_by_a_signal_to_its_runners() {
    let (host, slurm) = started(STOPS_WHEN_ASKED).await;
    let job = submit(&host).await;
    host.until(&job.id, |job| job.state() == JobState::Running && !job.host_names.is_empty()).await;
    host.cancel(&job.id).await.unwrap();
    host.until_state(&job.id, JobState::Cancelled).await;
    assert!(slurm.read("cancelled").starts_with("INT 7\n"), "{}", slurm.read("cancelled"));
}

#[tokio::test]
async fn a_job_that_is_removed_from_slurm_is_cancelled() {
    let (host, slurm) = started(STOPS_WHEN_ASKED).await;
    let job = submit(&host).await;
    host.until_state(&job.id, JobState::Running).await;
    slurm.run("scancel", &["7"]);
    let ended = host.until_state(&job.id, JobState::Cancelled).await;
    assert_eq!(ended.cancel_reason, "cancelled in its cluster");
}

#[tokio::test]
async fn a_job_outlives_the_daemon_even_if_its_id_was_not_recorded() {
    let (mut host, slurm) = started(WAITS_FOR_GO).await;
    let job = submit(&host).await;
    host.until_state(&job.id, JobState::Running).await;
    host.kill_daemon();
    let claim = host.records(&job.id).join("runner-1.json");
    until_file(&claim).await;
    std::fs::remove_file(&claim).unwrap();
    host.start().await;
    until_file(&claim).await;
    std::fs::write(host.run_dir(&job.id).join("go"), "").unwrap();
    let ended = host.until_state(&job.id, JobState::Completed).await;
    assert_eq!((ended.attempt, slurm.count()), (1, 1));
}

#[tokio::test]
async fn a_job_is_submitted_when_the_cluster_job_that_it_comes_after_has_completed() {
    let (host, slurm) = started(WAITS_FOR_GO).await;
    let first = submit(&host).await;
    let second = submit_as(&host, "second", ", after: wide").await;
    // One of the daemon's own.
    let third = host.submit_with("third", "cores: 1, after: second").await;
    for (before, after, submitted) in [(&first, &second, 1), (&second, &third, 2)] {
        host.until_state(&before.id, JobState::Running).await;
        let reason = format!("comes after job {}, which has not completed", before.id);
        let waiting = host.until(&after.id, |job| job.waiting_reason == reason).await;
        assert_eq!((waiting.state(), slurm.count()), (JobState::Pending, submitted));
        std::fs::write(host.run_dir(&before.id).join("go"), "").unwrap();
        host.until_state(&before.id, JobState::Completed).await;
    }
    host.until_state(&third.id, JobState::Running).await;
    std::fs::write(host.run_dir(&third.id).join("go"), "").unwrap();
    host.until_state(&third.id, JobState::Completed).await;
    assert_eq!(slurm.count(), 2);
}

#[tokio::test]
async fn a_job_that_comes_after_one_that_slurm_cancels_is_never_submitted() {
    let (host, slurm) = started(STOPS_WHEN_ASKED).await;
    let first = submit(&host).await;
    let second = submit_as(&host, "second", ", after: wide").await;
    host.until_state(&first.id, JobState::Running).await;
    slurm.run("scancel", &["7"]);
    let ended = host.until_state(&second.id, JobState::Cancelled).await;
    let reason = format!("job {}, which must complete first, is cancelled", first.id);
    assert_eq!((ended.cancel_reason, slurm.count()), (reason, 1));
}

#[tokio::test]
async fn a_job_that_slurm_suspends_runs_on_with_a_reason_for_its_pause() {
    let (host, slurm) = started(WAITS_FOR_GO).await;
    let job = submit(&host).await;
    host.until(&job.id, |job| job.state() == JobState::Running && !job.host_names.is_empty()).await;
    slurm.run("change", &["7", "SUSPENDED"]);
    let reason = "Slurm job 7 is suspended; `scontrol resume 7` continues it";
    let paused = host.until(&job.id, |job| job.waiting_reason == reason).await;
    assert_eq!(paused.state(), JobState::Running);
    slurm.run("change", &["7", "RUNNING"]);
    host.until(&job.id, |job| job.waiting_reason.is_empty()).await;
    std::fs::write(host.run_dir(&job.id).join("go"), "").unwrap();
    let ended = host.until_state(&job.id, JobState::Completed).await;
    assert_eq!((ended.attempt, slurm.count()), (1, 1));
    let events = host.events(&job.id, 1).await;
    assert_eq!(waits(&events), [reason]);
}

#[tokio::test]
async fn a_job_that_slurm_requeues_goes_on_with_its_next_run() {
    let (host, slurm) = started(WAITS_FOR_GO).await;
    let job = submit(&host).await;
    host.until(&job.id, |job| job.state() == JobState::Running && !job.host_names.is_empty()).await;
    slurm.run("requeue", &["7"]);
    let again = host.until(&job.id, |job| job.waiting_reason.contains("two minutes")).await;
    assert_eq!(again.state(), JobState::Starting);
    std::fs::write(host.run_dir(&job.id).join("go"), "").unwrap();
    slurm.run("start", &["7"]);
    host.until_state(&job.id, JobState::Completed).await;
    assert_eq!(slurm.count(), 1, "Slurm requeued it, and the daemon submitted nothing");
}

#[tokio::test]
async fn a_refused_job_fails_with_slurms_words_and_a_busy_slurm_is_asked_again() {
    let (host, slurm) = started(COMPLETES).await;
    slurm.write("refuse", "sbatch: error: invalid partition specified: nope\n");
    let job = submit(&host).await;
    let failed = host.until_state(&job.id, JobState::Failed).await.failure.unwrap();
    assert_eq!(failed.reason, "SUBMISSION_REFUSED");
    assert_eq!(failed.message, "sbatch refused: invalid partition specified: nope");
    slurm.write("refuse", "sbatch: error: Unable to contact slurm controller (connect failure)\n");
    let job = submit(&host).await;
    host.until(&job.id, |job| job.waiting_reason.contains("Unable to contact")).await;
    std::fs::remove_file(slurm.file("refuse")).unwrap();
    host.until_state(&job.id, JobState::Completed).await;
}

#[tokio::test]
async fn a_runner_that_dies_fails_with_slurms_account_of_it() {
    let (host, _slurm) = started("say started; echo out of luck; exit 3").await;
    let job = submit(&host).await;
    let failure = host.until_state(&job.id, JobState::Failed).await.failure.unwrap();
    assert_eq!(failure.reason, "RUNNER_DIED");
    assert!(
        failure.message.contains("Slurm job 7 failed on n[1-2]: it exited with code 3"),
        "{failure:?}"
    );
    assert!(failure.message.contains("out of luck"), "{failure:?}");
}

/// Fails on the same host three times.
const FAILS_THREE_TIMES: &str = "
echo >> tries; say started
[ $(wc -l < tries) -le 3 ] || { say completed; exit; }
say device-failed; exit 1";

#[tokio::test]
async fn a_host_that_failed_three_times_is_avoided_and_named() {
    let mut host = Host::new(1, FAILS_THREE_TIMES);
    let slurm = Slurm::install(&mut host);
    host.options = vec!["--restart-delay=0".to_owned()];
    host.start().await;
    let job = submit_with(&host, ", max_restarts: 3").await;
    let ended = host.until_state(&job.id, JobState::Completed).await;
    assert_eq!((ended.restarts, &ended.avoided_hosts[..]), (3, &["n1".to_owned()][..]));
    for (id, excludes) in [(7, false), (8, false), (9, false), (10, true)] {
        let arguments = slurm.read(&format!("{id}/arguments"));
        assert_eq!(arguments.contains("--exclude=n1\n"), excludes, "{id}: {arguments}");
    }
    let events = host.events(&job.id, 1).await;
    let reason = "on other hosts than n1, which failed 3 times";
    assert!(waits(&events).iter().any(|wait| wait.contains(reason)), "{events:?}");
    let shown = host.cli(&["get", &job.id]);
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains("avoids     n1"), "{shown}");
}

/// Fails by a device of the host n1 while the machine has the file `sick`.
const FAILS_WHILE_SICK: &str = "
say started
[ -e \"$frames/../sick\" ] || { say completed; exit; }
say device-failed; exit 1";

#[tokio::test]
async fn a_host_whose_devices_failed_two_jobs_is_fenced_for_all_until_it_is_returned() {
    let (mut host, slurm) = started(FAILS_WHILE_SICK).await;
    std::fs::write(host.path("sick"), "").unwrap();
    for name in ["first", "second"] {
        let job = submit_as(&host, name, "").await;
        host.until_state(&job.id, JobState::Failed).await;
    }
    std::fs::remove_file(host.path("sick")).unwrap();
    // The fence survives the daemon.
    host.kill_daemon();
    host.start().await;
    let listed = host.cores().await.list_cores(ListCoresRequest::default()).await.unwrap();
    let [fenced] = &listed.into_inner().fenced_hosts[..] else { panic!("{}", host.log()) };
    assert_eq!((fenced.engine.as_str(), fenced.host.as_str()), ("slurm", "n1"));
    let fence = fenced.fence.as_ref().unwrap();
    assert!(fence.since.is_some() && fence.reason.contains("uncorrectable error"), "{fence:?}");
    let (_, shown) = host.said(&["cores"]);
    assert!(shown.contains("n1") && shown.contains("uncorrectable error"), "{shown}");
    let elsewhere = submit_as(&host, "elsewhere", "").await;
    host.until_state(&elsewhere.id, JobState::Completed).await;

    let (succeeded, said) = host.said(&["cores", "return", "--host", "n2"]);
    assert!(!succeeded && said.contains("\"n2\" is not fenced"), "{said}");
    let (succeeded, said) = host.said(&["cores", "return", "--host", "n1"]);
    assert!(succeeded, "{said}");
    let anywhere = submit_as(&host, "anywhere", "").await;
    host.until_state(&anywhere.id, JobState::Completed).await;
    for (id, excludes) in [(7, false), (8, false), (9, true), (10, false)] {
        let arguments = slurm.read(&format!("{id}/arguments"));
        assert_eq!(arguments.contains("--exclude=n1\n"), excludes, "{id}: {arguments}");
    }
}

/// Trains until it is stopped, and completes when it is started again; other jobs fail by a device of the host n1 while
/// the machine has the file `sick`.
const STAYS_UNTIL_IT_IS_STOPPED: &str = "
trap 'say cancelled; exit 3' TERM INT
say started
[ ! -e trained ] || { say completed; exit; }
[ ! -e \"$frames/../sick\" ] || { say device-failed; exit 1; }
echo > trained
while :; do sleep 0.02; done";

#[tokio::test]
async fn a_job_on_a_host_that_is_fenced_goes_on_elsewhere_as_soon_as_there_are_hosts() {
    let (host, slurm) = started(STAYS_UNTIL_IT_IS_STOPPED).await;
    let stays = submit_as(&host, "stays", "").await;
    until_file(&host.run_dir(&stays.id).join("trained")).await;
    host.until(&stays.id, |job| !job.host_names.is_empty()).await;
    std::fs::write(host.path("sick"), "").unwrap();
    let first = submit_as(&host, "first", "").await;
    host.until_state(&first.id, JobState::Failed).await;
    slurm.write("hold", "");
    let late = submit_as(&host, "late", "").await;
    host.until(&late.id, |job| job.waiting_reason.contains("waits")).await;
    let second = submit_as(&host, "second", "").await;
    host.until(&second.id, |job| job.waiting_reason.contains("waits")).await;
    // Until an admin adds hosts, there are none but the sick one.
    let none =
        "sbatch: error: Batch job submission failed: Requested node configuration is not available";
    slurm.write("refuse", none);
    std::fs::remove_file(slurm.file("hold")).unwrap();
    slurm.run("start", &["10"]);
    host.until_state(&second.id, JobState::Failed).await;
    let lacks = "Requested node configuration is not available; fenced: n1";
    host.until(&stays.id, |job| job.waiting_reason.contains(lacks)).await;
    std::fs::remove_file(slurm.file("refuse")).unwrap();
    let ended = host.until_state(&stays.id, JobState::Completed).await;
    assert_eq!((ended.attempt > 1, ended.restarts), (true, 0), "{ended:?}");
    let events = host.events(&stays.id, 1).await;
    let is_named = |event: &Event| match &event.kind {
        Some(Kind::StateChanged(changed)) => changed.reason.starts_with("host n1 is fenced: "),
        _ => false,
    };
    assert!(events.iter().any(is_named), "{events:?}");
    assert!(slurm.read("11/arguments").contains("--exclude=n1\n"));
    // A submission from before the fence, which Slurm starts on the host all the same.
    std::fs::remove_file(host.path("sick")).unwrap();
    slurm.run("start", &["9"]);
    let ended = host.until_state(&late.id, JobState::Completed).await;
    assert!(
        ended.attempt > 1 && slurm.read("12/arguments").contains("--exclude=n1\n"),
        "{ended:?}"
    );
}

/// The first host dies, and the other one notices.
const LOSES_ITS_FIRST_HOST: &str = "
say started
[ ! -e hosts ] || { say completed; exit; }
mkdir -p hosts/1; run_dir=hosts/1; say started; say host-lost; exit 1";

#[tokio::test]
async fn the_death_of_the_first_host_is_reported_by_another() {
    let (host, _slurm) = started(LOSES_ITS_FIRST_HOST).await;
    let job = submit(&host).await;
    host.until_state(&job.id, JobState::Completed).await;
    let events = host.events(&job.id, 1).await;
    let lost = "HOST_LOST: host 0 (n2, cores 0 to 3) cannot be reached";
    let is_named = |event: &Event| match &event.kind {
        Some(Kind::StateChanged(changed)) => changed.reason == lost,
        _ => false,
    };
    assert!(events.iter().any(is_named), "{events:?}");
}

/// Two hosts, of which the second one has a log of its own.
const REPORTS_ITS_HOSTS: &str = "
say started
mkdir -p hosts/1; (run_dir=hosts/1; say started; say_steps 1 2)
cp $frames/hosts.status .
until [ -e go ]; do sleep 0.02; done
say completed";

#[tokio::test]
async fn the_cores_and_logs_of_all_hosts_are_shown() {
    let (host, _slurm) = started(REPORTS_ITS_HOSTS).await;
    let job = submit(&host).await;
    let start = std::time::Instant::now();
    let shown = loop {
        let shown = String::from_utf8(host.cli(&["cores"]).stdout).unwrap();
        if shown.contains("n2/cpu:1") {
            break shown;
        }
        assert!(start.elapsed() < PATIENCE, "{shown}");
    };
    for part in ["cpu:0", "n1/cpu:0", "n1/cpu:1", "n2/cpu:0", "compute", "87 %"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let cores = host.cores().await.list_cores(ListCoresRequest::default()).await.unwrap();
    let others = cores.into_inner().cores.into_iter().filter(|core| !core.host.is_empty());
    assert!(others.clone().all(|core| core.job_id == job.id && core.platform == "cpu"));
    assert_eq!(others.count(), 4);
    let log = |number: &str| host.cli(&["logs", &job.id, "--host", number]);
    let text = String::from_utf8(log("1").stdout).unwrap();
    assert!(text.contains("step 2") && !text.contains("completed"), "{text}");
    let refused = String::from_utf8(log("2").stderr).unwrap();
    assert!(refused.contains("the job's hosts are 0 to 1"), "{refused}");
    std::fs::write(host.run_dir(&job.id).join("go"), "").unwrap();
    host.until_state(&job.id, JobState::Completed).await;
    // A job that has ended holds no cores.
    let shown = String::from_utf8(host.cli(&["cores"]).stdout).unwrap();
    assert!(!shown.contains("n1/"), "{shown}");
}

#[tokio::test]
async fn without_sbatch_a_job_is_refused_and_the_doctor_says_what_is_missing() {
    let mut host = Host::new(1, COMPLETES);
    host.environment.push(("PATH".to_owned(), "/nonexistent".to_owned()));
    host.start().await;
    let mut request = host.request("wide", 1);
    request.job_file = request.job_file.replace("cores: 1", "cores: 1, engine: slurm");
    let status = host.create(request).await.unwrap_err();
    let reason = status.get_error_details().error_info().unwrap().reason.clone();
    assert_eq!((status.code(), reason.as_str()), (Code::FailedPrecondition, "ENGINE_UNAVAILABLE"));
    assert!(status.message().contains("sbatch is not on the daemon's PATH"), "{status:?}");
    let doctor = host.traind().args(["doctor", "--engine", "slurm"]).env("PATH", "/none").output();
    let doctor = doctor.unwrap();
    assert_eq!(doctor.status.code(), Some(1));
    let text = String::from_utf8(doctor.stdout).unwrap();
    assert!(text.contains("missing  sbatch: not on the PATH; sbatch submits jobs"), "{text}");
}

#[tokio::test]
async fn the_doctor_asks_slurms_controller() {
    let mut host = Host::new(1, COMPLETES);
    Slurm::install(&mut host);
    let path = &host.environment.iter().find(|(name, _)| name == "PATH").unwrap().1;
    let doctor = host.traind().args(["doctor", "--engine", "slurm"]).env("PATH", path).output();
    let text = String::from_utf8(doctor.unwrap().stdout).unwrap();
    assert!(text.contains("ok       sbatch: "), "{text}");
    assert!(text.contains("ok       controller: Slurmctld(primary) at head is UP"), "{text}");
}
