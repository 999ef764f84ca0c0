//! `traind profile`.

use serde_json::Value;
use tonic::Code;
use traind_proto::v1::profile_piece::Piece;
use traind_proto::v1::{Profile, ProfileJobRequest};
use traind_tests::{Draft, Host};

const CORES: u64 = 2;

#[tokio::test(flavor = "multi_thread")]
async fn the_next_steps_of_a_job_are_recorded() {
    let host = Host::started(2).await;
    let draft =
        Draft::new(&host, "profiled").set("resources.cores", CORES).set("train.max_steps", 6);
    let gate = host.gate("profiled", 3);
    let job = host.create(&draft).await.unwrap();
    host.until_at(&job.id, &gate).await;
    let mut jobs = host.jobs().await;
    let request = ProfileJobRequest { job_id: "profiled".to_owned(), steps: 2 };
    let mut pieces = jobs.profile_job(request.clone()).await.unwrap().into_inner();
    let refused = jobs.profile_job(request).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert!(refused.message().contains("another profile"), "{refused}");
    let output = host.cli(draft.folder(), &["profile", "profiled", "-o", "nowhere/a.json"]);
    assert!(output.stderr.contains("its folder does not exist"), "{output:?}");
    gate.open();

    let Some(Piece::Profile(profile)) = pieces.message().await.unwrap().unwrap().piece else {
        panic!("the first piece is no profile");
    };
    let mut trace = Vec::new();
    while let Some(piece) = pieces.message().await.unwrap() {
        let Some(Piece::Trace(part)) = piece.piece else { panic!("two profiles") };
        trace.extend(part);
    }
    check_profile(&profile);
    check_trace(&serde_json::from_slice(&trace).unwrap(), &profile);

    host.watch(&job.id).await;
    let output = host.cli(draft.folder(), &["profile", "profiled"]);
    assert_ne!(output.code, Some(0));
    assert!(output.stderr.contains("it is completed, not running"), "{}", output.stderr);
}

fn check_profile(profile: &Profile) {
    assert_eq!((profile.first_step, profile.steps, &profile.cores[..]), (4, 2, &[0, 1][..]));
    let phases: f64 = profile.phases.iter().map(|phase| phase.seconds).sum();
    assert!((phases - profile.seconds).abs() < 1e-6, "{profile:?}");
    assert!(profile.phases.iter().any(|phase| phase.name == "execute"), "{profile:?}");
    assert!(profile.program_seconds > 0.0, "{profile:?}");
    assert!(profile.program_seconds <= CORES as f64 * profile.seconds, "{profile:?}");
    if cfg!(target_arch = "x86_64") {
        check_parts(profile);
    }
}

/// Kernels have the times of the programs, but for what is between two of them.
fn check_parts(profile: &Profile) {
    assert!(profile.kernel_seconds > 0.0, "{profile:?}");
    assert!(profile.kernel_seconds <= profile.program_seconds, "{profile:?}");
    for parts in [&profile.layers, &profile.operations] {
        let sum: f64 = parts.iter().map(|part| part.seconds).sum();
        assert!((0.9..=1.0 + 1e-6).contains(&(sum / profile.program_seconds)), "{profile:?}");
        assert!(parts.is_sorted_by(|one, other| one.seconds >= other.seconds), "{parts:?}");
    }
    for name in ["layer0", "layer1"] {
        let layer = profile.layers.iter().find(|layer| layer.name == name);
        let layer = layer.unwrap_or_else(|| panic!("no {name}: {:?}", profile.layers));
        // Each of two layers runs on two cores in two steps, forwards and backwards.
        assert!(layer.calls >= 8 && layer.calls.is_multiple_of(4), "{layer:?}");
        assert!(layer.bytes > 0.0, "{layer:?}");
    }
    let backward = profile.operations.iter().any(|it| it.name.contains(" backward "));
    assert!(backward, "{:?}", profile.operations);
    assert!(profile.core_flops > 0.0 && profile.core_bytes_per_second > 0.0, "{profile:?}");
}

fn check_trace(trace: &Value, profile: &Profile) {
    let events = trace["traceEvents"].as_array().unwrap();
    let named = |kind: &str| -> Vec<&str> {
        let named = events.iter().filter(|event| event["name"] == kind);
        named.map(|event| event["args"]["name"].as_str().unwrap()).collect()
    };
    assert_eq!(named("process_name"), ["host", "core 0", "core 1"]);
    for track in ["steps", "training loop", "loader", "programs"] {
        assert!(named("thread_name").contains(&track), "no {track}: {trace}");
    }
    for step in ["step 4", "step 5"] {
        assert!(events.iter().any(|event| event["name"] == step), "no {step}");
    }
    let duration = |event: &Value| event["dur"].as_f64().unwrap() / 1e6;
    let is_program = |event: &&Value| event["name"].as_str().unwrap().starts_with("train_step-");
    let programs: Vec<f64> = events.iter().filter(is_program).map(duration).collect();
    assert_eq!(programs.len(), 4, "two steps on two cores");
    assert!((programs.iter().sum::<f64>() - profile.program_seconds).abs() < 1e-5, "{programs:?}");
    let ends = events.iter().filter(|event| event["ph"] == "X");
    let ends = ends.map(|event| event["ts"].as_f64().unwrap() / 1e6 + duration(event));
    let last = ends.fold(0.0, f64::max);
    assert!(last <= profile.seconds + 1e-4, "{last} after {profile:?}");
}
