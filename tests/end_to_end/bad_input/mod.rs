//! Invalid input. Each case yields one clear error that names its cause, and the daemon keeps
//! running.

mod cases;

use tonic::Status;
use tonic_types::StatusExt;
use traind_proto::v1::Failure;
use traind_tests::{Draft, Host};

use cases::{CASES, Case};

/// The fate of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The daemon rejected it at submission.
    Refused,
    /// It was started and failed.
    Failed,
    /// It completed.
    Completed,
}

/// An error as the user sees it.
#[derive(Debug)]
struct Report {
    end: End,
    reason: String,
    /// The message and its fields, one per line.
    text: String,
}

#[tokio::test]
async fn every_bad_input_gives_one_clear_error() {
    let mut host = Host::started(2).await;
    let mut problems = Vec::new();
    for case in CASES {
        let report = submit(&host, case).await;
        problems.extend(complaints(case, &report));
        host.assert_daemon_lives();
        host.install_plugin(); // a case may have replaced it
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert!(host.cores().await.iter().all(|core| core.job_id.is_empty()), "a core is held");
    host.complete(&Draft::new(&host, "good")).await;
}

/// A user who corrects one fault need not submit again to be told of the next.
#[tokio::test]
async fn faults_of_paths_and_those_of_data_are_refused_together() {
    let host = Host::started(2).await;
    let draft = |name: &str| Draft::new(&host, name).set("data.text", "body");
    let missing =
        draft("missing").set("data.validation", "absent.csv").set("output_dir", "train.csv/out");
    let occupied = draft("occupied").set("output_dir", "model");
    let expect = [
        (missing, &["data.validation: ", "output_dir: ", "data.train: "][..]),
        (occupied, &["data.train: ", "output_dir: "]),
    ];
    for (draft, fields) in expect {
        let text = refusal(&host.create(&draft).await.unwrap_err()).text;
        let found: Vec<&str> = text.lines().skip(1).collect();
        assert!(found.iter().zip(fields).all(|(line, field)| line.starts_with(field)), "{text}");
        assert_eq!(found.len(), fields.len(), "{text}");
    }
}

/// Submits the invalid job and waits for its end.
async fn submit(host: &Host, case: &Case) -> Report {
    let draft = (case.spoil)(Draft::new(host, &case.name.replace(' ', "-")));
    let job = match host.create(&draft).await {
        Err(status) => return refusal(&status),
        Ok(job) => job,
    };
    match host.watch(&job.id).await.job.failure {
        None => Report { end: End::Completed, reason: String::new(), text: String::new() },
        Some(failure) => {
            let text = describe(&failure);
            Report { end: End::Failed, reason: failure.reason, text }
        }
    }
}

fn refusal(status: &Status) -> Report {
    let details = status.get_error_details();
    let mut text = status.message().to_owned();
    for violation in details.bad_request().map_or(&[][..], |all| &all.field_violations) {
        text.push_str(&format!("\n{}: {}", violation.field, violation.description));
    }
    let reason = details.error_info().map(|info| info.reason.clone()).unwrap_or_default();
    Report { end: End::Refused, reason, text }
}

fn describe(failure: &Failure) -> String {
    let fields = [
        ("field", failure.field.clone()),
        ("file", failure.file.clone()),
        ("row", failure.row.map(|row| row.to_string())),
        ("tensor", failure.tensor.clone()),
        ("step", failure.step.map(|step| step.to_string())),
    ];
    let mut text = failure.message.clone();
    for (name, value) in fields {
        text.extend(value.map(|value| format!("\n{name}={value}")));
    }
    text
}

/// The differences between a report and the expected one.
fn complaints(case: &Case, report: &Report) -> Vec<String> {
    let mut wrong = Vec::new();
    if report.end != case.end {
        wrong.push(format!("is {:?} and should be {:?}", report.end, case.end));
    }
    if report.reason != case.reason {
        wrong.push(format!("has the reason {} and should have {}", report.reason, case.reason));
    }
    let lacks = case.says.iter().filter(|words| !report.text.contains(**words));
    wrong.extend(lacks.map(|words| format!("does not say {words:?}")));
    // The message and at most one violation: a mistake is reported once.
    if report.end == End::Refused && report.text.lines().count() > 2 {
        wrong.push("reports more than one error".to_owned());
    }
    wrong.into_iter().map(|what| format!("{}: {what}: {}", case.name, report.text)).collect()
}
