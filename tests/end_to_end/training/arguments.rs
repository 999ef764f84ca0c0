//! Training arguments, from the job file to their effect on the loss.

use traind_tests::{Draft, Host};

const STEPS: usize = 6;

/// The losses of the first steps with some arguments, on two cores.
async fn losses(host: &Host, name: &str, arguments: &[(&str, &str)]) -> Vec<f64> {
    let mut draft = Draft::new(host, name)
        .set("resources.cores", 2)
        .set("train.per_device_train_batch_size", 4)
        .set("train.max_steps", STEPS);
    for (field, value) in arguments {
        draft = draft.set(field, value);
    }
    host.complete(&draft).await;
    draft.output("out").trainer_state().series("loss")
}

fn largest_difference(found: &[f64], expect: &[f64]) -> f64 {
    assert_eq!((found.len(), expect.len()), (STEPS, STEPS));
    let differences = found.iter().zip(expect).map(|(f, e)| (f - e).abs() / e.abs());
    differences.fold(0.0, f64::max)
}

#[tokio::test]
async fn arguments_without_influence_on_the_result_leave_it_unchanged() {
    let host = Host::started(2).await;
    let plain = losses(&host, "plain", &[]).await;
    let recomputed = [("train.gradient_checkpointing", "true")];
    let recomputed = losses(&host, "recomputed", &recomputed).await;
    // The operations and values are equal; XLA's fusions differ.
    assert!(largest_difference(&recomputed, &plain) <= 1e-6, "{recomputed:?}, {plain:?}");

    let half = losses(&host, "half", &[("train.bf16", "true")]).await;
    let difference = largest_difference(&half, &plain);
    assert!(difference > 0.0 && difference <= 0.02, "bf16: {half:?}, {plain:?}");
}

#[tokio::test]
async fn arguments_with_influence_on_the_result_change_it() {
    let host = Host::started(2).await;
    let plain = losses(&host, "plain", &[]).await;
    let smoothed = losses(&host, "smoothed", &[("train.label_smoothing_factor", "0.1")]).await;
    assert_ne!(smoothed[0], plain[0], "the first loss has the smoothing in it");
    for (name, argument) in [
        ("sgd", ("train.optim", "sgd")),
        ("adafactor", ("train.optim", "adafactor")),
        ("inverse_sqrt", ("train.lr_scheduler_type", "inverse_sqrt")),
    ] {
        let found = losses(&host, name, &[argument, ("train.warmup_steps", "2")]).await;
        assert_eq!(found[0], plain[0], "{name}: nothing was updated before the first loss");
        assert_ne!(found[STEPS - 1], plain[STEPS - 1], "{name} had no effect");
    }
}

#[tokio::test]
async fn what_is_logged_and_evaluated_is_as_the_arguments_say() {
    let host = Host::started(1).await;
    let draft = Draft::new(&host, "quiet")
        .set("train.logging_strategy", "epoch")
        .set("train.logging_first_step", true)
        .set("train.eval_strategy", "epoch")
        .set("train.eval_delay", 2)
        .set("train.eval_on_start", true)
        .set("train.prediction_loss_only", true)
        .set("train.report_to", "none")
        .set("train.torch_compile", true);
    let story = host.complete(&draft).await;
    let steps: Vec<u64> = story.steps().iter().map(|step| step.step).collect();
    assert_eq!(steps, [1, 8, 16]);
    let output = draft.output("out");
    let evaluations = output.trainer_state().series("eval_loss");
    assert_eq!(evaluations.len(), 2, "before the first step and after the second epoch");
    assert!(evaluations[1] < evaluations[0], "{evaluations:?}");
    assert_eq!(output.trainer_state().series("eval_accuracy"), [0.0; 0]);
    assert!(!draft.path("out/runs").exists(), "report_to is none");
    let warnings: Vec<&str> = story.job.warnings.iter().map(|it| it.message.as_str()).collect();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("train.torch_compile: has no effect"), "{warnings:?}");
}

/// Noise on embeddings, rates that follow evaluations, and the count of tokens.
#[tokio::test]
async fn noise_and_a_plateau_on_two_cores_are_those_of_one() {
    let host = Host::started(2).await;
    let mut runs = Vec::new();
    for (cores, rows) in [(1, 8), (2, 4)] {
        let draft = Draft::new(&host, &format!("cores-{cores}"))
            .set("resources.cores", cores)
            .set("train.per_device_train_batch_size", rows)
            .set("train.max_steps", STEPS)
            .set("train.neftune_noise_alpha", 5)
            .set("train.include_num_input_tokens_seen", "all")
            .set("train.eval_strategy", "steps")
            .set("train.eval_steps", 2)
            .set("train.lr_scheduler_type", "reduce_lr_on_plateau")
            .set("train.lr_scheduler_kwargs", "{patience: 0, threshold: 9, threshold_mode: abs}");
        host.complete(&draft).await;
        runs.push(draft.output("out").trainer_state());
    }
    let rate = runs[0].series("learning_rate")[0];
    for state in &runs {
        // No loss is lower by 9, so that each evaluation but the first lowers the rate.
        let factors = state.series("learning_rate").into_iter().map(|found| (rate / found).round());
        assert_eq!(factors.collect::<Vec<_>>(), [1.0, 1.0, 1.0, 1.0, 10.0, 10.0]);
        let tokens = state.series("num_input_tokens_seen");
        assert!(tokens.is_sorted() && tokens[0] > 0.0, "{tokens:?}");
        assert_eq!(state.0["num_input_tokens_seen"], tokens[tokens.len() - 1]);
    }
    assert!(largest_difference(&runs[1].series("loss"), &runs[0].series("loss")) <= 1e-5);
    let plain = losses(&host, "plain", &[]).await;
    assert_ne!(plain[0], runs[0].series("loss")[0], "there is noise");
}
