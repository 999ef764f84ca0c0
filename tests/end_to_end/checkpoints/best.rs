//! The best model, early stopping, and the rotation of checkpoints.

use traind_tests::{Draft, Host};

use super::{checkpoint, checkpoints, weights};

/// Evaluates and saves every 4 steps.
fn draft(host: &Host, name: &str) -> Draft {
    Draft::new(host, name)
        .set("train.max_steps", 24)
        .set("train.eval_strategy", "steps")
        .set("train.eval_steps", 4)
        .set("train.save_steps", 4)
}

#[tokio::test]
async fn the_best_checkpoint_is_kept_and_loaded_at_the_end() {
    let host = Host::started(1).await;
    // Lower accuracy counts as better here, so that an early checkpoint is the best.
    let draft = draft(&host, "job")
        .set("train.load_best_model_at_end", true)
        .set("train.metric_for_best_model", "accuracy")
        .set("train.greater_is_better", false)
        .set("train.save_total_limit", 1);
    let history = host.complete(&draft).await;
    let output = draft.output("out");
    let state = output.trainer_state();
    let accuracies = state.series("eval_accuracy");
    let lowest = accuracies.iter().copied().fold(f64::INFINITY, f64::min);
    let best = 4 * (1 + accuracies.iter().position(|value| *value == lowest).unwrap() as u64);
    assert!(best < 24, "{accuracies:?}");
    assert_eq!(state.0["best_metric"], lowest);
    assert_eq!(state.0["best_global_step"], best);
    let folder = checkpoint(&draft, best);
    assert_eq!(state.0["best_model_checkpoint"], folder.display().to_string());
    assert_eq!(checkpoints(&output), [best], "as the Trainer leaves them");
    assert_eq!(weights(output.folder()), weights(&folder));
    assert_eq!(history.job.metrics["eval_accuracy"], lowest);
}

#[tokio::test]
async fn training_stops_early_when_evaluations_do_not_improve() {
    let host = Host::started(1).await;
    // No accuracy exceeds the first one by 1, so that 3 evaluations in a row do not improve.
    let draft = draft(&host, "job")
        .set("train.metric_for_best_model", "eval_accuracy")
        .set("train.early_stopping_patience", 3)
        .set("train.early_stopping_threshold", 1.0);
    let history = host.complete(&draft).await;
    assert_eq!(history.finished().steps, 16);
    let state = draft.output("out").trainer_state();
    let callback = &state.0["stateful_callbacks"]["EarlyStoppingCallback"];
    assert_eq!(callback["attributes"]["early_stopping_patience_counter"], 3);
    assert_eq!(callback["args"]["early_stopping_patience"], 3);
    assert_eq!(checkpoints(&draft.output("out")), [4, 8, 12, 16]);
}

#[tokio::test]
async fn save_strategy_best_saves_only_improved_models() {
    let host = Host::started(1).await;
    let draft = draft(&host, "job")
        .set("train.save_strategy", "best")
        .set("train.metric_for_best_model", "loss");
    host.complete(&draft).await;
    let output = draft.output("out");
    let losses = output.trainer_state().series("eval_loss");
    let mut best = f64::INFINITY;
    let mut expect = Vec::new();
    for (step, loss) in (4..).step_by(4).zip(losses) {
        if loss < best {
            best = loss;
            expect.push(step);
        }
    }
    assert_eq!(checkpoints(&output), expect);
}
