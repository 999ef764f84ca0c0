//! Jobs that run as their submitters, with only their permissions. Skipped unless the tests run as
//! root.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{Gid, Uid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use serde_json::json;
use tonic::{Code, Status};
use tonic_types::StatusExt;
use traind_proto::v1::jobs_client::JobsClient;
use traind_proto::v1::{self, CreateJobRequest, Job, JobState};

use crate::security::network::{ACCESS, Networked, own_admin_too, own_user_too};
use crate::services::web::Browser;
use crate::support::host::{Cgroups, Host, try_connect, until, until_file};
use crate::support::runner;

/// A user id without an account. Its group exists on every system.
const ANN: u32 = 4242;
const BOB: u32 = 4343;
const USERS: u32 = 100;

/// Writes its credentials to files, then waits for `go`.
const WRITES_CREDENTIALS: &str = "
trap 'say cancelled; exit 3' TERM INT
grep -E '^(Uid|Gid|Groups|CapEff|NoNewPrivs):' /proc/self/status > status
echo \"$HOME $TMPDIR\" > home; ulimit -d > limits
say started
until [ -e go ]; do sleep 0.02; done
say completed";

fn may_switch() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        eprintln!("skipped: this test requires root");
    }
    root
}

/// A host that other users can access, whose daemon runs as root.
async fn host_with(script: &str, options: &[&str]) -> Host {
    let mut host = Host::new(2, script);
    open_to_others(&host);
    host.options = vec!["--socket-group=users".to_owned()];
    host.options.extend(options.iter().map(|option| (*option).to_owned()));
    host.start().await;
    host
}

/// Lets all users enter the host's folder and write to its output folder.
fn open_to_others(host: &Host) {
    fs::create_dir(host.path("out")).unwrap();
    for (path, mode) in [("", 0o711), ("out", 0o1777)] {
        fs::set_permissions(host.path(path), Permissions::from_mode(mode)).unwrap();
    }
}

/// Makes a call as another user of this host.
fn call_as<T, F>(
    host: &Host,
    uid: u32,
    call: impl FnOnce(JobsClient<tonic::transport::Channel>) -> F + Send,
) -> T
where
    T: Send,
    F: Future<Output = T>,
{
    let socket = host.socket();
    let connect_and_call = || {
        let (gid, uid) = (Gid::from_raw(USERS), Uid::from_raw(uid));
        set_thread_groups(&[]).unwrap();
        set_thread_res_gid(gid, gid, gid).unwrap();
        set_thread_res_uid(uid, uid, uid).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async { call(JobsClient::new(try_connect(socket).await.unwrap())).await })
    };
    std::thread::scope(|scope| scope.spawn(connect_and_call).join().unwrap())
}

fn create_as(host: &Host, uid: u32, request: CreateJobRequest) -> Result<Job, Status> {
    let create = |mut jobs: JobsClient<_>| async move { jobs.create_job(request).await };
    call_as(host, uid, create).map(tonic::Response::into_inner)
}

fn words(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap();
    text.split_whitespace().map(str::to_owned).collect()
}

/// Ann's credentials as `/proc/self/status` has them.
const ANNS_CREDENTIALS: &str = "Uid: 4242 4242 4242 4242 Gid: 100 100 100 100 Groups: 100 \
                                CapEff: 0000000000000000 NoNewPrivs: 1";

async fn check_is_anns(host: &Host, id: &str) {
    let run_dir = host.run_dir(id);
    assert_eq!(words(&run_dir.join("status")).join(" "), ANNS_CREDENTIALS);
    for name in ["status", "events.log", "runner.log", "tmp"] {
        assert_eq!(fs::metadata(run_dir.join(name)).unwrap().uid(), ANN, "{name}");
    }
    assert_eq!(
        words(&run_dir.join("home")),
        ["/".into(), run_dir.join("tmp").display().to_string()]
    );
    assert_eq!(fs::metadata(&run_dir).unwrap().mode() & 0o777, 0o700);
}

#[tokio::test]
async fn a_runner_has_its_submitters_account_and_the_daemon_can_limit_find_and_kill_it() {
    if !may_switch() {
        return;
    }
    let mut host = host_with(WRITES_CREDENTIALS, &["--memory-per-job=2"]).await;
    let job = create_as(&host, ANN, host.request("anns", 1)).unwrap();
    assert_eq!(job.owner, "4242");
    host.until_state(&job.id, JobState::Running).await;
    check_is_anns(&host, &job.id).await;
    assert_eq!(words(&host.run_dir(&job.id).join("limits")), ["2097152"]);

    let before = runner::pids(&host.run_dir(&job.id));
    host.kill_daemon();
    host.start().await;
    assert_eq!(runner::pids(&host.run_dir(&job.id)), before, "found again");
    let cancel = v1::CancelJobRequest { job_id: job.id.clone() };
    let refused = call_as(&host, BOB, |mut jobs: JobsClient<_>| {
        let cancel = cancel.clone();
        async move { jobs.cancel_job(cancel).await }
    });
    assert_eq!(refused.unwrap_err().code(), Code::NotFound, "another user's job");
    call_as(&host, ANN, |mut jobs: JobsClient<_>| async move { jobs.cancel_job(cancel).await })
        .unwrap();
    host.until_state(&job.id, JobState::Cancelled).await;
    assert!(runner::pids(&host.run_dir(&job.id)).is_empty());
}

/// A host whose daemon runs as Bob, with only the capabilities for switching users.
fn unprivileged_host(script: &str) -> Host {
    let mut host = Host::new(1, script);
    open_to_others(&host);
    for folder in ["", "cache"] {
        chown(host.path(folder), Some(BOB), Some(USERS)).unwrap();
    }
    host.options = ["--run-as=submitter", "--socket-group=users"].map(str::to_owned).into();
    host
}

/// The command that starts it, in the control group `group`, if any.
fn serve_unprivileged(host: &Host, group: Option<&Path>) -> Command {
    const NEEDED: &str = "+setuid,+setgid,+chown,+dac_override,+kill";
    let enter = group.map(|group| format!("echo 0 > '{}/cgroup.procs' && ", group.display()));
    let serve = host.serve();
    let mut unprivileged = Command::new("sh");
    unprivileged.args(["-c", &format!("{}exec setpriv \"$@\"", enter.unwrap_or_default()), "sh"]);
    unprivileged.args([format!("--reuid={BOB}"), format!("--regid={USERS}")]);
    unprivileged.arg("--clear-groups").arg(format!("--bounding-set=-all,{NEEDED}"));
    unprivileged.args([format!("--inh-caps=-all,{NEEDED}"), format!("--ambient-caps={NEEDED}")]);
    unprivileged.arg(serve.get_program()).args(serve.get_args());
    unprivileged.envs(serve.get_envs().filter_map(|(name, value)| Some((name, value?))));
    unprivileged.current_dir(host.path("")).stdin(Stdio::null()).stdout(Stdio::null());
    unprivileged
}

#[tokio::test]
async fn switching_needs_only_a_few_capabilities_which_runners_do_not_get() {
    if !may_switch() {
        return;
    }
    let mut host = unprivileged_host(WRITES_CREDENTIALS);
    host.start_with(serve_unprivileged(&host, None)).await;
    let job = create_as(&host, ANN, host.request("anns", 1)).unwrap();
    host.until_state(&job.id, JobState::Running).await;
    check_is_anns(&host, &job.id).await;
    let cancel = v1::CancelJobRequest { job_id: job.id.clone() };
    call_as(&host, ANN, |mut jobs: JobsClient<_>| async move { jobs.cancel_job(cancel).await })
        .unwrap();
    host.until_state(&job.id, JobState::Cancelled).await;
}

/// Whether a process runs and is not a zombie.
fn runs(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

#[tokio::test]
async fn a_delegated_control_group_contains_hidden_processes() {
    if !may_switch() {
        return;
    }
    let Some(delegated) = Cgroups::make() else {
        return eprintln!("skipped: cannot create control groups on this machine");
    };
    // Like systemd: the folder and the files that move processes belong to the daemon.
    for name in ["", "cgroup.procs", "cgroup.subtree_control"] {
        chown(delegated.path().join(name), Some(BOB), Some(USERS)).unwrap();
    }
    // In its own session, without a parent and without the mark in its environment.
    let hides = "(env -i setsid sh -c 'echo $$ > child; exec sleep 1000' &)
        until [ -s child ]; do sleep 0.02; done";
    let mut host = unprivileged_host(&format!("{hides}\n{WRITES_CREDENTIALS}"));
    host.start_with(serve_unprivileged(&host, Some(delegated.path()))).await;
    let job = create_as(&host, ANN, host.request("anns", 1)).unwrap();
    host.until_state(&job.id, JobState::Running).await;
    check_is_anns(&host, &job.id).await;

    let child = words(&host.run_dir(&job.id).join("child")).remove(0);
    let group = delegated.path().join(format!("traind-{}", job.id));
    for pid in [child.clone(), runner::pids(&host.run_dir(&job.id))[0].to_string()] {
        let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
        assert!(groups.contains(&format!("/traind-{}\n", job.id)), "{groups}");
    }
    let owner = fs::metadata(group.join("cgroup.procs")).unwrap().uid();
    assert_eq!(owner, BOB, "the job's user cannot leave the group");
    let cancel = v1::CancelJobRequest { job_id: job.id.clone() };
    call_as(&host, ANN, |mut jobs: JobsClient<_>| async move { jobs.cancel_job(cancel).await })
        .unwrap();
    host.until_state(&job.id, JobState::Cancelled).await;
    // A killed process may take a while to exit.
    until("the hidden process exits", || !runs(&child)).await;
    until("the group is removed", || !group.exists()).await;
}

#[tokio::test]
async fn a_submitters_runner_is_confined() {
    if !may_switch() {
        return;
    }
    let outside = tempfile::tempdir().unwrap();
    fs::set_permissions(outside.path(), Permissions::from_mode(0o755)).unwrap();
    let secret = outside.path().join("open-to-all");
    fs::write(&secret, "hidden").unwrap();
    let script = format!("cat {} > seen 2>&1; {WRITES_CREDENTIALS}", secret.display());
    let mut host = Host::new(1, &script);
    open_to_others(&host);
    let roots = ["train.csv", "model", "frames", "out"];
    host.options = vec!["--socket-group=users".to_owned()];
    host.options.extend(roots.map(|path| format!("--allow-root={}", host.path(path).display())));
    host.options.retain(|option| !option.ends_with("train.csv"));
    fs::create_dir(host.path("out/data")).unwrap();
    fs::rename(host.path("train.csv"), host.path("out/data/train.csv")).unwrap();
    host.start().await;
    let mut request = host.request("fenced", 1);
    request.job_file = request.job_file.replace("train.csv", "out/data/train.csv");
    let job = create_as(&host, ANN, request).unwrap();
    host.until_state(&job.id, JobState::Running).await;
    check_is_anns(&host, &job.id).await;
    let seen = fs::read_to_string(host.run_dir(&job.id).join("seen")).unwrap();
    assert!(seen.contains("Permission denied") && !seen.contains("hidden"), "{seen}");
}

/// A host on which a job of root takes all cores, and Ann's job waits for them and is prepared by a script.
async fn preparing_host(environment: &[(&str, &str)]) -> (Host, [Job; 2]) {
    const WRITES: &str = "
        grep -E '^(Uid|Gid|Groups|CapEff|NoNewPrivs):' /proc/self/status > \"$run_dir/status\"
        env > \"$run_dir/environment\"
        { cat roots-only > /dev/null; } 2> /dev/null && echo read >> \"$run_dir/escaped\"
        { echo x > cache/new; } 2> /dev/null && echo written >> \"$run_dir/escaped\"
        echo x > cache/users/4242/new";
    let mut host = Host::new(2, runner::STOPS_WHEN_ASKED);
    open_to_others(&host);
    runner::install_preparation(&host.path(""), WRITES);
    fs::write(host.path("roots-only"), "hidden").unwrap();
    fs::set_permissions(host.path("roots-only"), Permissions::from_mode(0o600)).unwrap();
    host.options = vec!["--socket-group=users".to_owned()];
    host.environment =
        environment.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
    host.start().await;
    let first = host.submit("roots", 2).await;
    host.until_state(&first.id, JobState::Running).await;
    let mut request = host.request("anns", 2);
    request.job_file.push_str("train: {report_to: mlflow}\n");
    let anns = create_as(&host, ANN, request).unwrap();
    // Created, waiting, prepared.
    host.until(&anns.id, |job| job.last_sequence == 3).await;
    (host, [first, anns])
}

#[tokio::test]
async fn a_preparation_has_its_submitters_account_and_caches_and_no_secrets() {
    if !may_switch() {
        return;
    }
    let server = ("MLFLOW_TRACKING_URI", "http://127.0.0.1:9");
    let secrets = [("HF_TOKEN", "hidden"), ("MLFLOW_TRACKING_TOKEN", "hidden")];
    let (host, jobs) = preparing_host(&[&[server], &secrets[..]].concat()).await;
    for job in &jobs {
        host.cancel(&job.id).await.unwrap();
    }
    let run_dir = host.run_dir(&jobs[1].id);
    assert_eq!(words(&run_dir.join("status")).join(" "), ANNS_CREDENTIALS);
    let environment = fs::read_to_string(run_dir.join("environment")).unwrap();
    // The job has a server, and its run gets the token.
    assert!(environment.contains("MLFLOW_TRACKING_URI="), "{environment}");
    assert!(environment.contains("TMPDIR=") && !environment.contains("hidden"), "{environment}");
    assert_eq!(fs::read_to_string(run_dir.join("escaped")).unwrap_or_default(), "");
    assert_eq!(fs::metadata(host.path("cache/users/4242/new")).unwrap().uid(), ANN);
}

#[tokio::test]
async fn files_that_a_user_may_not_read_are_named_in_the_error() {
    if !may_switch() {
        return;
    }
    let host = host_with(runner::COMPLETES, &[]).await;
    fs::set_permissions(host.path("train.csv"), Permissions::from_mode(0o600)).unwrap();
    fs::set_permissions(host.path("out"), Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(host.path("model"), Permissions::from_mode(0o700)).unwrap();
    let refused = create_as(&host, ANN, host.request("nosy", 1)).unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    let details = refused.get_error_details();
    let violations = &details.bad_request().unwrap().field_violations;
    let said: Vec<(&str, &str)> =
        violations.iter().map(|v| (v.field.as_str(), v.description.as_str())).collect();
    let path = |name: &str| host.path(name).display().to_string();
    let expect = [
        (
            "model.name_or_path",
            format!("the job's user 4242 may not read the folder {}", path("model")),
        ),
        ("data.train", format!("the job's user 4242 may not read {}", path("train.csv"))),
        ("output_dir", format!("the job's user 4242 may not write to {}", path("out"))),
    ];
    assert_eq!(said, expect.each_ref().map(|(field, text)| (*field, text.as_str())));
    assert_eq!(host.submit("roots", 1).await.name, "roots", "root may read them");
}

#[tokio::test]
async fn a_user_cannot_read_files_through_the_daemon() {
    if !may_switch() {
        return;
    }
    // The first attempt replaces its log by a link, which the daemon must not follow.
    let script = "
        for path in ../../traind.db ../../daemon.lock ../../records ../$(cat ~/bobs 2> /dev/null)x; do
          cat \"$path\" > /dev/null 2>&1 && echo \"$path\" >> escaped
        done
        ls .. > listed 2> /dev/null
        rm -f runner.log; ln -s \"$(dirname \"$0\")/secret\" runner.log
        say started; exit 7";
    let host = host_with(script, &["--restart-delay=0"]).await;
    fs::write(host.path("secret"), "hidden\n").unwrap();
    fs::set_permissions(host.path("secret"), Permissions::from_mode(0o600)).unwrap();
    let mut request = host.request("sly", 1);
    request.job_file = request.job_file.replace("{cores: 1}", "{cores: 1, max_restarts: 1}");
    let job = create_as(&host, ANN, request).unwrap();
    let job = host.until(&job.id, |job| job.end_time.is_some()).await;
    assert_eq!(job.state(), JobState::Failed);
    assert!(!format!("{job:?}").contains("hidden"), "{job:?}");
    assert_eq!(fs::read_to_string(host.path("secret")).unwrap(), "hidden\n");
    let escaped = fs::read_to_string(host.run_dir(&job.id).join("escaped"));
    assert_eq!(escaped.unwrap_or_default(), "");
    assert_eq!(fs::read_to_string(host.run_dir(&job.id).join("listed")).unwrap(), "");
}

#[tokio::test]
async fn a_log_that_is_a_link_ends_the_job() {
    if !may_switch() {
        return;
    }
    // Replaced before the daemon opens the log, which would otherwise stay open.
    let script = "cp \"$frames/started\" e; ln -s e events.log; sleep 60";
    let host = host_with(script, &[]).await;
    let job = create_as(&host, ANN, host.request("linked", 1)).unwrap();
    let failure = host.until_state(&job.id, JobState::Failed).await.failure.unwrap();
    assert_eq!(failure.reason, "EVENT_LOG_CORRUPT");
}

#[tokio::test]
async fn a_planner_reads_with_the_submitters_permissions() {
    if !may_switch() {
        return;
    }
    let host = host_with(runner::COMPLETES, &[]).await;
    let plan = "#!/bin/sh\nid -u >&2; exit 1\n";
    fs::write(host.path("runner"), plan).unwrap();
    let request = host.request("planned", 1);
    let request = v1::PlanJobRequest {
        job_file: request.job_file,
        base_dir: request.base_dir,
        ..Default::default()
    };
    let ask = |uid| {
        let request = request.clone();
        let plan = |mut jobs: JobsClient<_>| async move { jobs.plan_job(request).await };
        call_as(&host, uid, plan).unwrap_err().message().to_owned()
    };
    assert_eq!(ask(ANN), "plan the job: 4242");
    assert_eq!(ask(BOB), "plan the job: 4343", "not from memory either");
}

#[tokio::test]
async fn run_as_daemon_runs_all_jobs_as_the_daemon() {
    if !may_switch() {
        return;
    }
    let host = host_with(WRITES_CREDENTIALS, &["--run-as=daemon"]).await;
    let job = create_as(&host, ANN, host.request("roots", 1)).unwrap();
    let status = host.run_dir(&job.id).join("limits");
    until_file(&status).await;
    assert_eq!(words(&host.run_dir(&job.id).join("status"))[1], "0");
}

#[tokio::test]
async fn callers_from_the_network_have_the_accounts_of_the_access_file() {
    if !may_switch() {
        return;
    }
    let access = own_user_too(ACCESS) + "accounts: {sue: nobody}\n";
    let network = Networked::prepared(WRITES_CREDENTIALS, &access, &["--tokens"]).await;
    let host = &network.host;
    open_to_others(host);
    fs::write(host.path("job.yaml"), host.request("sues", 1).job_file).unwrap();
    let token = [("TRAIND_TOKEN", network.new_token(&["sue"]))];
    let (done, said) = network.remote(&["submit", "job.yaml"], &token);
    assert!(done, "{said}");
    let job = host.get("sues").await;
    until_file(&host.run_dir(&job.id).join("limits")).await;
    let nobody = words(&host.run_dir(&job.id).join("status"))[1].parse::<u32>().unwrap();
    assert_eq!(nobody, fs::metadata(host.run_dir(&job.id)).unwrap().uid());
    assert_ne!(nobody, 0);
    let other = Host::new(1, WRITES_CREDENTIALS);
    fs::write(other.path("wrong.yaml"), "accounts: {sue: no-such-user}\n").unwrap();
    let mut command = other.serve();
    command.arg("--access").arg(other.path("wrong.yaml"));
    assert_eq!(command.status().unwrap().code(), Some(1));
    assert!(other.log().contains("this host has no user no-such-user"), "{}", other.log());
}

/// A daemon that switches users would run such a job as itself, and let it read every user's files.
#[tokio::test]
async fn callers_from_the_network_without_an_account_look_but_start_nothing() {
    if !may_switch() {
        return;
    }
    let access = own_admin_too(ACCESS) + "accounts: {vic: nobody}\n";
    let options = ["--tokens", "--web-address=127.0.0.1:0"];
    let network = Networked::prepared(WRITES_CREDENTIALS, &access, &options).await;
    let host = &network.host;
    assert!(host.log().contains("without an account cannot submit jobs"), "{}", host.log());
    fs::write(host.path("job.yaml"), host.request("sues", 1).job_file).unwrap();
    for user in ["sue", "ann"] {
        let token = [("TRAIND_TOKEN", network.new_token(&[user]))];
        for command in [&["submit", "job.yaml"][..], &["plan", "job.yaml"]] {
            let (done, said) = network.remote(command, &token);
            assert!(!done && said.contains(&format!("jobs of {user}")), "{said}");
            assert!(said.contains("`accounts`"), "{said}");
        }
        let (done, said) = network.remote(&["ls"], &token);
        assert!(done, "{said}");
        // Neither by the web page, whose sessions have no account either.
        let (done, login) = network.remote(&["web"], &token);
        assert!(done, "{login}");
        // Behind it is a remark about the address.
        let login = login.lines().find(|line| line.contains("/#/login/")).unwrap();
        let browser = Browser::with_address(host, login).await;
        assert_eq!(browser.get("/api/overview").await.status, 200);
        let form = json!({"job_file": host.request("sues", 1).job_file, "base_dir": host.path("")});
        let answer = browser.post("/api/plan", &form).await;
        assert_eq!(answer.status, 403, "{}", answer.body);
        assert!(answer.body.contains("`accounts`"), "{}", answer.body);
    }
}
