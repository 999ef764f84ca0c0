//! The lines of events that the Python client has in the same words. `TRAIND_WRITE_DOCS=1 cargo test -p traind lines`
//! writes them anew; without that they are checked, and `proto/python/tests/test_display.py` compares the client's.

use std::path::Path;
use std::{env, fs};

use prost::Message as _;
use prost_types::FileDescriptorSet;
use serde_json::{Value, json};

use super::*;

#[test]
fn lines_are_those_that_the_python_client_is_compared_with() {
    let line = |kind: Kind| {
        let event = Event { kind: Some(kind), ..Event::default() };
        let bytes: String =
            event.encode_to_vec().iter().map(|byte| format!("{byte:02x}")).collect();
        json!([bytes, describe(&event)])
    };
    let lines: Vec<Value> = kinds().into_iter().map(line).collect();
    let text = serde_json::to_string_pretty(&lines).unwrap() + "\n";
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../proto/python/tests/event_lines.json");
    if env::var_os("TRAIND_WRITE_DOCS").is_some() {
        fs::write(&file, &text).unwrap();
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), text, "TRAIND_WRITE_DOCS=1 writes it anew");
}

#[test]
fn each_kind_of_event_has_a_line() {
    let files = FileDescriptorSet::decode(traind_proto::FILE_DESCRIPTOR_SET).unwrap().file;
    let mut messages = files.iter().flat_map(|file| &file.message_type);
    let event = messages.find(|message| message.name() == "Event").unwrap();
    let declared = event.field.iter().filter(|field| field.oneof_index.is_some()).count();
    let mut kinds: Vec<_> = kinds().iter().map(std::mem::discriminant).collect();
    kinds.dedup();
    assert_eq!(kinds.len(), declared);
}

/// Events of each kind one after the other, with what their lines depend on.
fn kinds() -> Vec<Kind> {
    [of_preparation(), of_training(), of_files_and_the_end()].concat()
}

/// Events before the first step.
fn of_preparation() -> Vec<Kind> {
    let classes = |count: u64| {
        (0..count).map(|class| v1::ClassCount { label: format!("c{class}"), rows: class + 1 })
    };
    let data = |rows, classes| v1::DataPrepared {
        split: "train".to_owned(),
        rows,
        tokens: 20,
        classes,
        seconds: 72.5,
        ..v1::DataPrepared::default()
    };
    let cut = v1::DataPrepared {
        lengths: Some(v1::TokenLengths { mean: 6.7, p50: 6, p90: 8, p99: 9, max: 10 }),
        truncated_rows: 1,
        cache_hit: true,
        ..data(78, classes(14).collect())
    };
    vec![
        Kind::StateChanged(v1::StateChanged {
            to: v1::JobState::Cancelled.into(),
            reason: "cancelled by ann".to_owned(),
            ..v1::StateChanged::default()
        }),
        Kind::Waiting(v1::Waiting { reason: "needs 1 core".to_owned() }),
        Kind::Started(v1::Started {
            pid: 12,
            cores: vec![0, 1],
            platform: "cpu".to_owned(),
            ..v1::Started::default()
        }),
        Kind::Warning(v1::Warning { code: "A".to_owned(), message: "odd".to_owned() }),
        Kind::Log(v1::Log { level: v1::LogLevel::Info.into(), message: "fetch it".to_owned() }),
        Kind::DataPrepared(data(1, Vec::new())),
        Kind::DataPrepared(data(3, classes(2).collect())),
        Kind::DataPrepared(cut),
        Kind::ModelLoaded(v1::ModelLoaded {
            model_type: "bert".to_owned(),
            parameters: 64_755,
            initialized: vec!["classifier.weight".to_owned(), "classifier.bias".to_owned()],
            seconds: 0.31,
            ..v1::ModelLoaded::default()
        }),
        Kind::Compiled(v1::Compiled {
            program: "train_step".to_owned(),
            bucket_length: 18,
            batch: 10,
            seconds: 1.2,
            source: v1::CompileSource::Disk.into(),
            ahead: false,
        }),
    ]
}

/// Events of steps, evaluations and checkpoints.
fn of_training() -> Vec<Kind> {
    let step = |learning_rate, loss| v1::Step {
        step: 5,
        max_steps: 28,
        epoch: 0.357,
        loss,
        learning_rate,
        grad_norm: 812.34,
        samples_per_second: 557.94,
        eta_seconds: 3723.0,
        ..v1::Step::default()
    };
    let saved = |kind: v1::SavedKind| v1::Saved {
        kind: kind.into(),
        path: "out/checkpoint-5".to_owned(),
        bytes: 786_432,
        seconds: 0.26,
        stall_seconds: 0.04,
        ..v1::Saved::default()
    };
    let evaluated = v1::Evaluated {
        split: "validation".to_owned(),
        step: 5,
        rows: 1,
        metrics: [("eval_loss".to_owned(), 0.5), ("eval_accuracy".to_owned(), 1.0)].into(),
        seconds: 12.0,
        ..v1::Evaluated::default()
    };
    vec![
        Kind::Step(step(8.571e-4, 1.0946)),
        Kind::Step(step(1.25e-12, f64::NAN)),
        Kind::Evaluated(evaluated),
        Kind::Saved(saved(v1::SavedKind::Checkpoint)),
        Kind::Saved(saved(v1::SavedKind::Final)),
    ]
}

/// Events of the end, of a resumed run and of files.
fn of_files_and_the_end() -> Vec<Kind> {
    let fetched = |bytes| v1::Fetched {
        name: "s3://b/k".to_owned(),
        bytes,
        bytes_total: 3 << 30,
        seconds: 12.0,
    };
    let failure = v1::Failure {
        reason: "OUT_OF_MEMORY".to_owned(),
        message: "no memory".to_owned(),
        ..v1::Failure::default()
    };
    vec![
        Kind::Finished(v1::Finished {
            outcome: v1::Outcome::Completed.into(),
            steps: 1,
            seconds: 1.8,
            ..v1::Finished::default()
        }),
        Kind::Finished(v1::Finished {
            outcome: v1::Outcome::Failed.into(),
            failure: Some(failure),
            steps: 28,
            seconds: 200.0,
            ..v1::Finished::default()
        }),
        Kind::Resumed(v1::Resumed { path: "out/checkpoint-5".to_owned(), step: 5 }),
        Kind::LossScaled(v1::LossScaled { step: 5, scale: 32_768.0, skipped_steps: 2 }),
        Kind::Fetched(fetched(1 << 20)),
        Kind::Fetched(fetched(3 << 30)),
        Kind::Uploaded(v1::Uploaded {
            url: "s3://b/out".to_owned(),
            bytes: 12,
            seconds: 0.5,
            ..v1::Uploaded::default()
        }),
        Kind::Prepared(v1::Prepared { programs: 3, compiled: 2, seconds: 12.0 }),
    ]
}
