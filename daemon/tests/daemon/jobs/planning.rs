//! Admission by memory and disk space. The planner is a script here; the runner tests its own
//! computations.

use std::fs;
use std::time::Duration;

use serde_json::{Value, json};
use tonic::Code;
use tonic_types::StatusExt;
use traind_proto::v1::ListJobsRequest;

use crate::support::host::{Host, until};
use crate::support::runner::{COMPLETES, install_planner};

pub(crate) fn plan() -> Value {
    json!({
        "model_type": "bert", "parameters": 1_000_000, "rows": 8, "positions": 128,
        "weights_bytes": 4_000_000, "gradients_bytes": 4_000_000, "optimizer_bytes": 8_000_000,
        "activations_bytes": 50_000_000, "bytes_per_core": 66_000_000,
        "checkpoint_bytes": 12_000_000, "output_bytes": 4_000_000, "disk_bytes": 4_000_000,
    })
}

async fn host_with(plan: &Value) -> Host {
    host_whose_planner_answers(&json!({"plan": plan})).await
}

async fn host_whose_planner_answers(answer: &Value) -> Host {
    let host = Host::started(2, COMPLETES).await;
    fs::write(host.path("plan.json"), answer.to_string()).unwrap();
    fs::write(host.path("job.yaml"), host.request("planned", 1).job_file).unwrap();
    host
}

async fn check_refused(plan: &Value, reason: &str, field: &str, words: &[&str]) {
    let host = host_with(plan).await;
    let refused = host.create(host.request("planned", 1)).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
    let details = refused.get_error_details();
    assert_eq!(details.error_info().unwrap().reason, reason);
    assert_eq!(details.bad_request().unwrap().field_violations[0].field, field);
    for word in words {
        assert!(refused.message().contains(word), "{} lacks {word}", refused.message());
    }
    let output = host.cli(&["plan", "job.yaml"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains(words[0]), "{output:?}");
    assert_eq!(fs::read_dir(host.path("state/jobs")).map_or(0, Iterator::count), 0);
}

#[tokio::test]
async fn a_job_that_does_not_fit_is_refused_with_a_change_that_fits() {
    let mut plan = plan();
    let change = json!({"field": "train.per_device_train_batch_size", "value": "4"});
    plan["misfit"] = json!({"changes": [change]});
    let words = ["it fits with train.per_device_train_batch_size: 4", "62.9 MiB", "activations"];
    let field = "train.per_device_train_batch_size";
    check_refused(&plan, "MEMORY_EXCEEDED", field, &words).await;
}

#[tokio::test]
async fn a_job_that_one_change_does_not_fit_is_refused_with_a_mesh() {
    let mut plan = plan();
    let change = |field: &str, value: &str| json!({"field": field, "value": value});
    let mesh = [change("parallel.pipeline", "2"), change("train.gradient_checkpointing", "true")];
    plan["misfit"] = json!({"changes": mesh});
    let words = ["it fits with parallel.pipeline: 2, train.gradient_checkpointing: true"];
    check_refused(&plan, "MEMORY_EXCEEDED", "parallel.pipeline", &words).await;
    plan["misfit"] = json!({"changes": []});
    let refused = host_with(&plan).await;
    let refused = refused.create(refused.request("planned", 1)).await.unwrap_err();
    assert!(refused.message().contains("no change and no mesh of its cores"), "{refused}");
}

#[tokio::test]
async fn a_key_that_the_model_rules_out_is_an_error_at_submission() {
    let violation = json!({"field": "parallel.tensor", "description": "3 does not divide 4 heads"});
    let host = host_whose_planner_answers(&json!({"violations": [violation]})).await;
    let refused = host.create(host.request("planned", 1)).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
    let details = refused.get_error_details();
    let [violation] = &details.bad_request().unwrap().field_violations[..] else {
        panic!("{details:?}");
    };
    assert_eq!(violation.field, "parallel.tensor");
    assert_eq!(violation.description, "3 does not divide 4 heads");
}

/// A model of a million layers exhausts the planner's memory, and would exhaust the runner's.
#[tokio::test]
async fn a_job_whose_planner_dies_is_refused() {
    let host = host_with(&plan()).await;
    install_planner(&host.path(""), "echo 'memory allocation failed' >&2; kill -ABRT $$");
    let refused = host.create(host.request("planned", 1)).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
    assert_eq!(refused.get_error_details().error_info().unwrap().reason, "PLAN_FAILED");
    assert!(refused.message().contains("died (signal 6): memory allocation failed"), "{refused}");
    // A panic, as by an overflow, is no consent either.
    install_planner(&host.path(""), "echo 'attempt to multiply with overflow' >&2; exit 101");
    let refused = host.create(host.request("panics", 1)).await.unwrap_err();
    assert!(refused.message().contains("failed: attempt to multiply with overflow"), "{refused}");
}

#[tokio::test]
async fn a_disk_that_is_too_small_is_an_error_at_submission() {
    let mut plan = plan();
    plan["disk_bytes"] = json!(u64::MAX / 2);
    check_refused(&plan, "DISK_EXCEEDED", "output_dir", &["output_dir would need", "free"]).await;
}

#[tokio::test]
async fn a_plan_is_printed_with_warnings_that_the_job_has_too() {
    let mut plan = plan();
    let warning = json!({"code": "NCC_EVRF061", "message": "an all-reduce of i32"});
    plan["warnings"] = json!([warning]);
    let host = host_with(&plan).await;
    let output = host.cli(&["plan", "job.yaml"]);
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("bert, 1000000 parameters") && text.contains("62.9 MiB of"), "{text}");
    assert_eq!(text.matches("an all-reduce of i32").count(), 1, "{text}");
    let output = host.cli(&["plan", "job.yaml", "--output=json"]);
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["warnings"], json!([warning]));
    let listed = String::from_utf8(host.cli(&["ls"]).stdout).unwrap();
    assert!(!listed.contains("planned"), "{listed}");
    let job = host.create(host.request("planned", 1)).await.unwrap();
    let found: Vec<_> = job.warnings.iter().map(|it| (&*it.code, &*it.message)).collect();
    assert_eq!(found, [("NCC_EVRF061", "an all-reduce of i32")]);
}

#[tokio::test]
async fn a_failing_planner_does_not_block_submission() {
    let host = host_with(&json!("no plan")).await;
    let output = host.cli(&["plan", "job.yaml"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("plan the job"), "{output:?}");
    host.submit("planned", 1).await;
}

/// A plan of a search that found one mesh.
pub(crate) fn plan_with_mesh() -> Value {
    let mut plan = plan();
    plan["meshes"] = json!([mesh()]);
    plan
}

fn mesh() -> Value {
    json!({
        "data": 4, "tensor": 2, "pipeline": 2, "pipeline_interleave": 2, "microbatches": 8,
        "sequence_parallel": true, "fsdp": "full_shard",
        "gradient_checkpointing": false, "per_device_train_batch_size": 8,
        "gradient_accumulation_steps": 1, "weights_bytes": 1, "gradients_bytes": 2,
        "optimizer_bytes": 3, "activations_bytes": 4, "bytes_per_core": 10, "compiled": true, "fits": true,
        "data_axis_bytes": 5, "tensor_axis_bytes": 6, "pipeline_axis_bytes": 7, "compute_seconds": 0.5,
        "communication_seconds": 0.25, "idle_seconds": 0.25, "step_seconds": 1.0, "rows_per_second": 32.0,
        "hours": 0.0, "price": 0.0,
    })
}

/// The machines of a search need not be those of the host.
#[tokio::test]
async fn meshes_are_compared_for_machines_that_are_not_here() {
    let host = host_with(&plan_with_mesh()).await;
    let elsewhere = ["plan", "job.yaml", "--auto", "--platform=cuda", "--hosts=2", "--cores=4"];
    let output = host.cli(&elsewhere);
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.contains("8 x 1, 8 parts, interleave 2, full_shard, positions")
            && text.contains("1.000s"),
        "{text}"
    );
    assert!(text.contains("data 4, tensor 2, pipeline 2"), "{text}");
    // Without --auto, the planner is asked for the job's own mesh on these machines.
    let is_own = r#"case "$request" in *'"own_mesh":true'*) ;; *) exit 1 ;; esac"#;
    install_planner(&host.path(""), is_own);
    let own = host.cli(&["plan", "job.yaml", "--platform=cuda", "--hosts=2", "--cores=4"]);
    assert!(own.status.success(), "{own:?}");
}

/// Sixty callers who left at once had sixty planners, each with all processors and gigabytes.
#[tokio::test]
async fn planners_count_for_their_user_when_the_caller_leaves() {
    /// Calls of one user that are handled at a time.
    const CALLS: usize = 4;
    let host = Host::started(1, COMPLETES).await;
    fs::create_dir(host.path("planners")).unwrap();
    // A planner can write nothing into files.
    install_planner(&host.path(""), "mkdir \"$frames/../planners/$$\"; sleep 60");
    let planners = || fs::read_dir(host.path("planners")).unwrap().count();
    for number in 1..=CALLS {
        let mut call = Box::pin(host.create(host.request(&format!("leaves-{number}"), 1)));
        tokio::select! {
            answer = &mut call => panic!("{answer:?}"),
            () = until("the planner starts", || planners() == number) => {}
        }
    }
    let next = host.create(host.request("next", 1));
    assert!(tokio::time::timeout(Duration::from_secs(2), next).await.is_err());
    assert_eq!(planners(), CALLS, "the others have not ended");
    // Quick calls do not wait.
    host.jobs().await.list_jobs(ListJobsRequest::default()).await.unwrap();
}
