//! Submission and listing of jobs.

use tonic::{Code, Status};
use tonic_types::StatusExt;
use traind_proto::v1::{self, CreateJobRequest, JobState};

use crate::support::host::{Host, PATIENCE};
use crate::support::runner::{COMPLETES, STOPS_WHEN_ASKED};

fn reason(status: &Status) -> String {
    let details = status.get_error_details();
    details.error_info().map(|info| info.reason.clone()).unwrap_or_default()
}

fn fields(status: &Status) -> Vec<String> {
    let details = status.get_error_details();
    let violations = details.bad_request().map(|request| request.field_violations.clone());
    violations.into_iter().flatten().map(|violation| violation.field).collect()
}

/// Submits a good job file with one text replaced, and expects a refusal.
async fn check(host: &Host, good: &str, bad: &str, expect: (Code, &str, &[&str])) {
    let mut request = host.request("first", 1);
    assert!(request.job_file.contains(good), "{good}");
    request.job_file = request.job_file.replace(good, bad);
    let status = host.create(request).await.expect_err(bad);
    assert_eq!((status.code(), reason(&status).as_str()), (expect.0, expect.1), "{status:?}");
    assert_eq!(fields(&status), expect.2, "{bad}: {status:?}");
}

fn invalid(fields: &'static [&str]) -> (Code, &'static str, &'static [&'static str]) {
    (Code::InvalidArgument, "JOB_FILE_INVALID", fields)
}

#[tokio::test]
async fn invalid_job_files_are_refused_by_field_and_the_next_one_is_accepted() {
    let host = Host::started(2, COMPLETES).await;
    check(&host, "name: first", "nam: first", invalid(&["name", "nam"])).await;
    check(&host, "cores: 1", "cores: -1", invalid(&["resources.cores"])).await;
    check(&host, "cores: 1", "cores: many", invalid(&["resources.cores"])).await;
    check(&host, "train.csv", "absent.csv", invalid(&["data.train"])).await;
    check(&host, "train.csv", "'*.parquet'", invalid(&["data.train"])).await;
    check(&host, "./model", "./absent", invalid(&["model.name_or_path"])).await;
    check(&host, "out/first", "train.csv", invalid(&["output_dir"])).await;
    check(&host, "name: first", "{", invalid(&[""])).await;
    let exceeded = (Code::InvalidArgument, "CORES_EXCEEDED", &["resources.cores"][..]);
    check(&host, "cores: 1", "cores: 3", exceeded).await;
    let unavailable = (Code::FailedPrecondition, "PLATFORM_UNAVAILABLE", &[][..]);
    check(&host, "cores: 1", "cores: 1, platform: cuda", unavailable).await;
    check(&host, "cores: 1", "cores: 1, hosts: 2", invalid(&["resources.hosts"])).await;
    check(&host, "cores: 1", "cores: 1, engine: kubernetes", invalid(&["kubernetes.image"])).await;
    assert_eq!(host.submit("fine", 1).await.name, "fine");
}

/// Opening a pipe blocks until somebody writes to it.
#[tokio::test]
async fn pipes_in_place_of_files_are_refused() {
    let host = Host::started(1, COMPLETES).await;
    let pipe = |path: &str| {
        let made = std::process::Command::new("mkfifo").arg(host.path(path)).status();
        assert!(made.unwrap().success());
    };
    std::fs::create_dir(host.path("set")).unwrap();
    std::fs::write(host.path("set/state.json"), "{}").unwrap();
    for path in ["pipe.csv", "set/data-00000.arrow"] {
        pipe(path);
    }
    for data in ["pipe.csv", "'pip*.csv'", "set"] {
        check(&host, "train.csv", data, invalid(&["data.train"])).await;
    }
    std::fs::create_dir_all(host.path("run/checkpoint-3")).unwrap();
    pipe("run/checkpoint-3/manifest.json");
    let resumed = "train: {resume_from_checkpoint: run}\nname: first";
    check(&host, "name: first", resumed, invalid(&["train.resume_from_checkpoint"])).await;
    for file in ["pipe.csv", "/dev/zero"] {
        let template = format!("data: {{chat_template: {file}, train");
        check(&host, "data: {train", &template, invalid(&["data.chat_template"])).await;
        let notify =
            format!("notify: {{webhooks: ['http://a/'], secret_file: {file}}}\nname: first");
        check(&host, "name: first", &notify, invalid(&["notify.secret_file"])).await;
    }
    std::fs::create_dir(host.path("model/1_Pooling")).unwrap();
    for file in ["model/1_Pooling/config.json", "model/tokenizer.json"] {
        pipe(file);
        check(&host, "name: first", "name: second", invalid(&["model.name_or_path"])).await;
        std::fs::remove_file(host.path(file)).unwrap();
    }
}

/// The daemon reads notes in the folders of users: pipes would block its threads, and devices end its memory.
#[tokio::test]
async fn notes_that_are_no_files_are_neither_waited_for_nor_read() {
    let host = Host::started(1, COMPLETES).await;
    for (number, note) in (0..).zip(["lock", "record.json"]) {
        for (kind, device) in [("zero", "/dev/zero"), ("pipe", "pipe")] {
            let name = format!("{kind}-{number}");
            let notes = host.path(&format!("out/{name}/.traind"));
            std::fs::create_dir_all(&notes).unwrap();
            let pipe = notes.join("pipe");
            assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
            std::os::unix::fs::symlink(device, notes.join(note)).unwrap();
            let answered =
                tokio::time::timeout(PATIENCE, host.create(host.request(&name, 1))).await;
            match (note, answered.expect("it waits for a pipe")) {
                // A lock that cannot be read is the runner's to refuse.
                ("lock", answer) => drop(answer.unwrap()),
                (_, answer) => assert_eq!(fields(&answer.unwrap_err()), ["output_dir"]),
            }
        }
    }
}

#[tokio::test]
async fn numbers_that_no_run_could_count_are_refused() {
    let host = Host::started(1, COMPLETES).await;
    let endless = "train: {num_train_epochs: 1e308}\nname: first";
    check(&host, "name: first", endless, invalid(&["train.num_train_epochs"])).await;
}

#[tokio::test]
async fn the_error_of_a_missing_plugin_has_instructions() {
    let host = Host::started(1, COMPLETES).await;
    std::fs::remove_dir_all(host.path("cache/plugins")).unwrap();
    let status = host.create(host.request("first", 1)).await.unwrap_err();
    assert_eq!(
        (status.code(), reason(&status).as_str()),
        (Code::FailedPrecondition, "PLUGIN_NOT_FOUND")
    );
    assert!(status.message().contains("traind plugins install cpu"), "{status:?}");
}

#[tokio::test]
async fn a_repeated_request_creates_no_second_job() {
    let mut host = Host::started(1, COMPLETES).await;
    let request = CreateJobRequest { request_id: "r-1".into(), ..host.request("first", 1) };
    let first = host.create(request.clone()).await.unwrap();
    host.until_state(&first.id, JobState::Completed).await;
    // After a crash, and without its files.
    host.kill_daemon();
    host.start().await;
    std::fs::remove_file(host.path("train.csv")).unwrap();
    assert_eq!(host.create(request.clone()).await.unwrap().id, first.id);

    let other = CreateJobRequest { request_id: "r-1".into(), ..host.request("other", 1) };
    let status = host.create(other).await.unwrap_err();
    assert_eq!(
        (status.code(), reason(&status).as_str()),
        (Code::AlreadyExists, "REQUEST_ID_REUSED")
    );
}

#[tokio::test]
async fn two_live_jobs_never_write_one_folder() {
    let host = Host::started(1, STOPS_WHEN_ASKED).await;
    let first = host.submit("first", 1).await;
    let status = host.create(host.request("first", 1)).await.unwrap_err();
    let expect = (Code::FailedPrecondition, "OUTPUT_DIR_IN_USE");
    assert_eq!((status.code(), reason(&status).as_str()), expect);
    assert!(status.message().contains(&first.id), "{status:?}");
    host.cancel(&first.id).await.unwrap();
    host.until_state(&first.id, JobState::Cancelled).await;
    host.submit("first", 1).await;
}

#[tokio::test]
async fn overrides_replace_values_of_the_job_file() {
    let host = Host::started(2, COMPLETES).await;
    let mut request = host.request("first", 1);
    request.overrides.insert("resources.cores".into(), "2".into());
    assert_eq!(host.create(request.clone()).await.unwrap().core_count, 2);
    request.overrides.insert("resources.cores".into(), "none".into());
    let status = host.create(request).await.unwrap_err();
    assert_eq!(fields(&status), ["resources.cores"]);
}

#[tokio::test]
async fn pages_contain_every_job_once_and_filter_by_state() {
    let host = Host::started(1, STOPS_WHEN_ASKED).await;
    let mut ids = Vec::new();
    for index in 0..7 {
        ids.push(host.submit(&format!("job-{index}"), 1).await.id);
    }
    host.cancel(&ids[3]).await.unwrap();
    ids.reverse();

    let mut jobs = host.jobs().await;
    let mut request = v1::ListJobsRequest { page_size: 3, ..Default::default() };
    let mut listed = Vec::new();
    let mut pages = Vec::new();
    loop {
        let page = jobs.list_jobs(request.clone()).await.unwrap().into_inner();
        pages.push(page.jobs.len());
        listed.extend(page.jobs.into_iter().map(|job| job.id));
        if page.next_page_token.is_empty() {
            break;
        }
        request.page_token = page.next_page_token;
    }
    assert_eq!((listed, pages), (ids.clone(), vec![3, 3, 1]));

    let states = vec![JobState::Cancelled.into()];
    let request = v1::ListJobsRequest { states, ..Default::default() };
    let page = jobs.list_jobs(request).await.unwrap().into_inner();
    assert_eq!(page.jobs.iter().map(|job| job.id.clone()).collect::<Vec<_>>(), [ids[3].clone()]);

    let bad_token = v1::ListJobsRequest { page_token: "x".into(), ..Default::default() };
    let status = jobs.list_jobs(bad_token).await.unwrap_err();
    assert_eq!(reason(&status), "PAGE_TOKEN_INVALID");
    let bad_size = v1::ListJobsRequest { page_size: 1001, ..Default::default() };
    assert_eq!(fields(&jobs.list_jobs(bad_size).await.unwrap_err()), ["page_size"]);
}

#[tokio::test]
async fn a_job_is_found_by_id_prefix_and_name() {
    let host = Host::started(1, STOPS_WHEN_ASKED).await;
    let old = host.submit("same", 1).await;
    host.cancel(&old.id).await.unwrap();
    host.until_state(&old.id, JobState::Cancelled).await;
    let new = host.submit("same", 1).await;
    assert_eq!(host.get("same").await.id, new.id);
    assert_eq!(host.get(&old.id[..9]).await.id, old.id);
    let request = v1::GetJobRequest { job_id: "no-such-job".into() };
    let status = host.jobs().await.get_job(request).await.unwrap_err();
    assert_eq!((status.code(), reason(&status).as_str()), (Code::NotFound, "JOB_NOT_FOUND"));
}

#[tokio::test]
async fn concurrent_repeats_of_a_request_create_one_job_with_one_record() {
    let host = Host::started(1, STOPS_WHEN_ASKED).await;
    let request = CreateJobRequest { request_id: "once".into(), ..host.request("first", 1) };
    let jobs = host.jobs().await;
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..16 {
        let (mut jobs, request) = (jobs.clone(), request.clone());
        calls.spawn(async move { jobs.create_job(request).await.unwrap().into_inner().id });
    }
    let mut ids = calls.join_all().await;
    ids.dedup();
    assert_eq!(ids.len(), 1);
    let record = std::fs::read(host.records(&ids[0]).join("job.json")).unwrap();
    let record: serde_json::Value = serde_json::from_slice(&record).unwrap();
    assert_eq!(record["id"], ids[0]);
}

#[tokio::test]
async fn more_cores_than_a_user_may_hold_are_refused_at_once() {
    let host = Host::started_with(4, COMPLETES, &["--cores-per-user", "2"]).await;
    let exceeded = (Code::InvalidArgument, "CORES_EXCEEDED", &["resources.cores"][..]);
    check(&host, "cores: 1", "cores: 3", exceeded).await;
    assert_eq!(host.submit("fine", 2).await.name, "fine");
}
