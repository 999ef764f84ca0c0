//! One job, from submission to output folder.

use serde_json::json;
use traind_proto::v1::{JobState, Outcome};
use traind_tests::{
    Draft, History, Host, Output, Scalar, TrainerState, alive, data, model, read_scalars,
};

const STEPS_PER_EPOCH: usize = 8; // 60 rows, 8 a step
const EPOCHS: usize = 10;
const LEARNING_RATE: f64 = 1e-2;
/// `num_parameters(exclude_embeddings=True)` of the model, by transformers.
const PARAMETERS_BUT_EMBEDDINGS: f64 = 4803.0;
const STEPS: usize = STEPS_PER_EPOCH * EPOCHS;

/// The keys that the Trainer's `trainer_state.json` has too.
const TRAINER_STATE_KEYS: [&str; 20] = [
    "best_global_step",
    "best_metric",
    "best_model_checkpoint",
    "epoch",
    "eval_steps",
    "global_step",
    "is_hyper_param_search",
    "is_local_process_zero",
    "is_world_process_zero",
    "log_history",
    "logging_steps",
    "max_steps",
    "num_input_tokens_seen",
    "num_train_epochs",
    "save_steps",
    "stateful_callbacks",
    "total_flos",
    "train_batch_size",
    "trial_name",
    "trial_params",
];

#[tokio::test]
async fn a_job_trains_and_writes_a_model_folder() {
    let host = Host::started(2).await;
    let draft = Draft::new(&host, "main")
        .with_two_shapes()
        .set("resources.cores", 2)
        .set("train.per_device_train_batch_size", 4)
        .set("train.num_train_epochs", EPOCHS)
        .set("train.learning_rate", LEARNING_RATE)
        .set("train.eval_strategy", "epoch");
    let history = host.complete(&draft).await;
    check_events(&history);
    check_job(&history);
    let output = draft.output("out");
    check_output(&draft, &output);
    check_logits(&draft, &output, history.job.metrics["eval_accuracy"]);
    check_trainer_state(&history, &output.trainer_state());
    check_tensorboard(&history, &read_scalars(&output.folder().join("runs")));
    let pid = history.started().pid;
    assert!(!alive(pid), "the runner {pid} is still there");
    assert!(host.cores().await.iter().all(|core| core.job_id.is_empty()));
}

fn check_events(history: &History) {
    history.assert_complete();
    let mut expect = vec![
        "PENDING",
        "STARTING",
        "Started",
        "RUNNING",
        "DataPrepared train",
        "DataPrepared validation",
        "ModelLoaded",
        "Log",
    ];
    expect.extend(["Step", "Evaluated validation"].repeat(EPOCHS));
    expect.extend(["Saved", "Finished", "COMPLETED"]);
    let mut event_names = history.event_names();
    // The order of these two is unspecified.
    event_names[2..4].sort_by_key(|event_name| event_name == "RUNNING");
    let position = |kind: &str| event_names.iter().position(|event_name| event_name == kind);
    assert!(position("Compiled") < position("Step"), "{event_names:?}");
    // Programs are compiled while steps run.
    event_names.retain(|event_name| event_name != "Compiled");
    event_names.dedup();
    assert_eq!(event_names, expect);

    let started = history.started();
    assert_eq!((started.cores.as_slice(), started.platform.as_str()), (&[0, 1][..], "cpu"));
    let rows: Vec<u64> = history.data().iter().map(|data| data.rows).collect();
    assert_eq!(rows, [60, 53]);
    let classes = &history.data()[0].classes;
    assert_eq!(classes.iter().map(|class| class.rows).sum::<u64>(), 60);
    check_compiled(history);
    assert_eq!(history.finished().outcome(), Outcome::Completed);
}

/// Each length of the run has its programs, and the first step waited for no other than its own.
fn check_compiled(history: &History) {
    let compiled = history.compiled();
    assert_eq!((compiled[0].program.as_str(), compiled[0].ahead), ("train_step", true));
    let lengths = |program: &str| {
        let of_program = compiled.iter().filter(|compiled| compiled.program == program);
        let mut lengths: Vec<u32> = of_program.map(|compiled| compiled.bucket_length).collect();
        lengths.sort_unstable();
        lengths
    };
    for program in ["train_step", "eval_step"] {
        let lengths = lengths(program);
        assert!(lengths.len() >= 2 && lengths.is_sorted_by(|a, b| a < b), "{program}: {lengths:?}");
    }
}

fn check_job(history: &History) {
    let job = &history.job;
    assert_eq!(job.state(), JobState::Completed);
    assert_eq!((job.attempt, job.core_count, job.cores.len()), (1, 2, 0));
    assert_eq!(job.progress.as_ref().unwrap().step, STEPS as u64);
    assert_eq!(job.last_sequence, history.events.len() as u64);
    let metrics = &job.metrics;
    assert!(metrics["eval_accuracy"] > 0.8, "{metrics:?}");
    assert!(metrics["train_loss"] > metrics["eval_loss"], "{metrics:?}");
    for name in ["eval_f1_macro", "eval_f1_weighted", "train_samples_per_second"] {
        assert!(metrics[name] > 0.0, "{name} of {metrics:?}");
    }
    for step in history.steps() {
        let rates = [step.samples_per_second, step.tokens_per_second, step.grad_norm];
        assert!(rates.iter().all(|rate| *rate > 0.0 && rate.is_finite()), "{step:?}");
        let time = step.time.as_ref().unwrap();
        assert!(time.dispatch_seconds >= 0.0 && time.input_wait_seconds >= 0.0, "{step:?}");
        assert!((0.0..=1.0).contains(&step.input_wait_share), "{step:?}");
    }
}

fn check_output(draft: &Draft, output: &Output) {
    let expect = [
        "README.md",
        "checkpoint-80",
        "config.json",
        "confusion_matrix.svg",
        "eval_logits.safetensors",
        "loss_curve.svg",
        "model.safetensors",
        "runs",
        "tokenizer.json",
        "tokenizer_config.json",
        "trainer_state.json",
    ];
    assert_eq!(output.names(), expect);
    let config = output.json("config.json");
    assert_eq!(config["architectures"], json!(["BertForSequenceClassification"]));
    assert_eq!(config["id2label"], json!({"0": "animal", "1": "fruit", "2": "tool"}));
    assert_eq!(config["label2id"], json!({"animal": 0, "fruit": 1, "tool": 2}));
    let given = std::fs::read_to_string(draft.path("model/tokenizer.json")).unwrap();
    assert_eq!(output.text("tokenizer.json"), given);
    let card = output.text("README.md");
    assert!(card.starts_with("---\n") && card.contains("pipeline_tag: text-classification"));
    for words in ["# main", "fine-tuned from `model` on 60 rows", "eval_accuracy"] {
        assert!(card.contains(words), "{card}");
    }
    check_weights(draft, output);
}

/// The logits are in the order of the validation rows, so that they yield the same accuracy.
fn check_logits(draft: &Draft, output: &Output, accuracy: f64) {
    let file = model::Weights::read(output.folder().join("eval_logits.safetensors"));
    assert_eq!(file.names(), ["logits"]);
    assert_eq!(file.header["logits"]["shape"], json!([draft.validation.len(), 3]));
    let values = file.values("logits");
    let predicted = values.chunks(3).map(|row| (0..3).max_by(|a, b| row[*a].total_cmp(&row[*b])));
    let rows = draft.validation.iter().zip(predicted);
    let right = rows.filter(|((_, class), best)| data::CLASSES[best.unwrap()] == *class).count();
    assert_eq!(right as f64 / draft.validation.len() as f64, accuracy);
}

/// The output has the tensors of the given model, with the same names and shapes and other values.
fn check_weights(draft: &Draft, output: &Output) {
    let given = model::Weights::read(draft.path("model/model.safetensors"));
    let trained = model::Weights::read(output.folder().join("model.safetensors"));
    assert_eq!(trained.names(), given.names());
    for name in given.names() {
        assert_eq!(trained.header[&name]["shape"], given.header[&name]["shape"], "{name}");
        assert_ne!(trained.values(&name), given.values(&name), "{name} was not trained");
        assert!(trained.values(&name).iter().all(|value| value.is_finite()), "{name}");
    }
}

fn check_trainer_state(history: &History, state: &TrainerState) {
    let keys: Vec<&String> = state.0.as_object().unwrap().keys().collect();
    assert_eq!(keys, TRAINER_STATE_KEYS);
    assert_eq!(state.0["global_step"], json!(STEPS));
    assert_eq!(state.0["max_steps"], json!(STEPS));
    assert_eq!(state.0["epoch"], json!(EPOCHS as f64));
    // It is counted where the job asks for it.
    assert_eq!(state.0["num_input_tokens_seen"], json!(0));
    // The Trainer counts 6 operations per parameter and position, including padding.
    let positions = state.0["total_flos"].as_f64().unwrap() / (6.0 * PARAMETERS_BUT_EMBEDDINGS);
    let tokens = (EPOCHS as u64 * history.data()[0].tokens) as f64;
    assert!(positions.fract() == 0.0 && (tokens..2.0 * tokens).contains(&positions), "{positions}");
    let expect: Vec<f64> = (1..=STEPS).map(|step| step as f64).collect();
    assert_eq!(state.series("step")[..], with_evaluations(&expect)[..]);

    let losses = state.series("loss");
    let reported: Vec<f32> = history.steps().iter().map(|step| step.loss as f32).collect();
    assert_eq!(losses.iter().map(|loss| *loss as f32).collect::<Vec<_>>(), reported);
    let (first, last) = (losses[..4].iter().sum::<f64>(), losses[STEPS - 4..].iter().sum::<f64>());
    assert!(last < first / 2.0, "{losses:?}");
    let rates = state.series("learning_rate");
    let expect = |step: usize| LEARNING_RATE * (STEPS - step) as f64 / STEPS as f64;
    for (step, rate) in rates.iter().enumerate() {
        assert!((rate - expect(step)).abs() < 1e-9, "step {step}: {rate}");
    }
    assert_eq!(state.series("eval_accuracy").len(), EPOCHS);
    assert_eq!(state.history("train_runtime").len(), 1);
}

/// The steps of all entries: one more at the end of each epoch and at the end of training.
fn with_evaluations(steps: &[f64]) -> Vec<f64> {
    let mut all: Vec<f64> = Vec::new();
    for epoch in steps.chunks(STEPS_PER_EPOCH) {
        all.extend(epoch);
        all.extend(epoch.last());
    }
    all.extend(steps.last());
    all
}

fn check_tensorboard(history: &History, scalars: &[Scalar]) {
    let losses: Vec<(i64, f32)> = curve(scalars, "train/loss");
    let expect: Vec<(i64, f32)> =
        history.steps().iter().map(|step| (step.step as i64, step.loss as f32)).collect();
    assert_eq!(losses, expect);
    assert_eq!(curve(scalars, "train/learning_rate").len(), STEPS);
    let accuracies = curve(scalars, "eval/accuracy");
    assert_eq!(accuracies.len(), EPOCHS);
    let last = accuracies.last().unwrap().1;
    assert_eq!(last, history.job.metrics["eval_accuracy"] as f32);
}

fn curve(scalars: &[Scalar], tag: &str) -> Vec<(i64, f32)> {
    let of_tag = scalars.iter().filter(|scalar| scalar.tag == tag);
    of_tag.map(|scalar| (scalar.step, scalar.value)).collect()
}
