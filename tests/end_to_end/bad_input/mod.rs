//! Input that is wrong: each gives one clear error that names what is to blame, a failed job
//! where it reached one, and a daemon that answers on.

mod cases;

use tonic::Status;
use tonic_types::StatusExt;
use traind_proto::v1::Failure;
use traind_tests::{Draft, Host};

use cases::{CASES, Case};

/// How far the job came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The daemon took no job.
    Refused,
    /// The job ran and failed.
    Failed,
    /// Nothing was noticed.
    Completed,
}

/// What a user is told.
#[derive(Debug)]
struct Told {
    end: End,
    reason: String,
    /// The message and the fields beside it, one a line.
    text: String,
}

#[tokio::test]
async fn every_bad_input_gives_one_clear_error() {
    let mut host = Host::started(2).await;
    let mut problems = Vec::new();
    for case in CASES {
        let told = tell(&host, case).await;
        problems.extend(complaints(case, &told));
        host.assert_daemon_lives();
        host.install_plugin(); // a case may have spoilt it
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert!(host.cores().await.iter().all(|core| core.job_id.is_empty()), "a core is held");
    host.complete(&Draft::new(&host, "good")).await;
}

/// Submits the spoilt job and waits for its end.
async fn tell(host: &Host, case: &Case) -> Told {
    let draft = (case.spoil)(Draft::new(host, &case.name.replace(' ', "-")));
    let job = match host.create(&draft).await {
        Err(status) => return refusal(&status),
        Ok(job) => job,
    };
    match host.watch(&job.id).await.job.failure {
        None => Told { end: End::Completed, reason: String::new(), text: String::new() },
        Some(failure) => {
            let text = describe(&failure);
            Told { end: End::Failed, reason: failure.reason, text }
        }
    }
}

fn refusal(status: &Status) -> Told {
    let details = status.get_error_details();
    let mut text = status.message().to_owned();
    for violation in details.bad_request().map_or(&[][..], |all| &all.field_violations) {
        text.push_str(&format!("\n{}: {}", violation.field, violation.description));
    }
    let reason = details.error_info().map(|info| info.reason.clone()).unwrap_or_default();
    Told { end: End::Refused, reason, text }
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

/// What is wrong with what the user is told.
fn complaints(case: &Case, told: &Told) -> Vec<String> {
    let mut wrong = Vec::new();
    if told.end != case.end {
        wrong.push(format!("is {:?} and should be {:?}", told.end, case.end));
    }
    if told.reason != case.reason {
        wrong.push(format!("has the reason {} and should have {}", told.reason, case.reason));
    }
    let lacks = case.says.iter().filter(|words| !told.text.contains(**words));
    wrong.extend(lacks.map(|words| format!("does not say {words:?}")));
    // The message, and at most one violation below it: one mistake is told once.
    if told.end == End::Refused && told.text.lines().count() > 2 {
        wrong.push("tells more than one error".to_owned());
    }
    wrong.into_iter().map(|what| format!("{}: {what}: {}", case.name, told.text)).collect()
}
