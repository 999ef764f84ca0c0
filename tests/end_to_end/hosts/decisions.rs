//! Decisions that the hosts of a job could make differently: skipped updates, early stopping and the best model.

use std::fs;

use traind_proto::v1::Outcome;
use traind_proto::v1::event::Kind;
use traind_tests::model::Weights;
use traind_tests::{Draft, Host, Runners};

use super::shards::sharded;
use super::{STEPS, assert_close, is_skipped, job_file, series, weights};

/// The steps between evaluations, each with a checkpoint.
const EVAL_STEPS: usize = 2;
/// Evaluations without an improvement after which training stops.
const PATIENCE: usize = 2;

/// A job that compares evaluations by their duration, which each host would measure differently.
fn timed(draft: &Draft, hosts: usize) -> String {
    let best = format!(
        "eval_steps: {EVAL_STEPS}\n  metric_for_best_model: runtime\n  greater_is_better: false\n  \
         load_best_model_at_end: true\n  early_stopping_patience: {PATIENCE}"
    );
    job_file(draft, hosts)
        .replace("save_steps: 5", &format!("save_steps: {EVAL_STEPS}"))
        .replace("eval_steps: 6", &best)
}

/// The number of evaluations until early stopping applies, and the index of the best one.
fn stop_and_best(seconds: &[f64]) -> (usize, usize) {
    let mut best = 0;
    for index in 1..seconds.len() {
        if seconds[index] < seconds[best] {
            best = index;
        } else if index - best >= PATIENCE {
            return (index + 1, best);
        }
    }
    (seconds.len(), best)
}

fn logs(runners: &Runners, rank: usize, line: &str) -> bool {
    let is_line = |kind| matches!(kind, Kind::Log(log) if log.message == line);
    runners.events(rank).into_iter().any(is_line)
}

#[tokio::test]
async fn all_hosts_stop_early_and_load_the_best_model_by_the_metrics_of_the_first() {
    if is_skipped() {
        return;
    }
    let host = Host::prepared(4);
    let draft = Draft::new(&host, "timed");
    let mut runners = Runners::start(&host, &draft, &timed(&draft, 2), 2);
    runners.completed().await;
    let [first, second] = [0, 1].map(|rank| runners.finished(rank));
    assert_eq!([first.outcome(), second.outcome()], [Outcome::Completed; 2]);
    assert_eq!(first.steps, second.steps);

    let evaluations = first.steps as usize / EVAL_STEPS;
    let seconds = series(&draft, "eval_runtime");
    let (stop, best) = stop_and_best(&seconds[..evaluations]);
    assert_eq!(stop, evaluations, "{seconds:?}");
    assert!(best + PATIENCE < stop || first.steps == STEPS, "{seconds:?}");
    let line = format!("loaded the best model, which is that of step {}", (best + 1) * EVAL_STEPS);
    let is_loaded = best + 1 < stop;
    for rank in 0..2 {
        assert_eq!(logs(&runners, rank, &line), is_loaded, "host {rank}: {seconds:?}");
    }
    // Each host evaluates its own rows with what it has loaded.
    assert_eq!(first.metrics["eval_loss"], series(&draft, "eval_loss")[best]);
}

/// Step, loss scale and skipped steps of each change of the scale.
fn scales(runners: &Runners, rank: usize) -> Vec<(u64, f64, u64)> {
    let scaled = runners.events(rank).into_iter().filter_map(|kind| match kind {
        Kind::LossScaled(scaled) => Some((scaled.step, scaled.scale, scaled.skipped_steps)),
        _ => None,
    });
    scaled.collect()
}

/// The position of the token of unknown words in the vocabulary.
const UNKNOWN: usize = 1;

/// The folder of a model whose matrices are large enough to be sharded, in which an unknown word has no finite state.
async fn wide_model(host: &Host) -> Draft {
    let draft = Draft::new(host, "wide");
    let job = sharded(&draft, 1, "{}").replace(&format!("max_steps: {STEPS}"), "max_steps: 1");
    Runners::start(host, &draft, &job, 1).completed().await;
    let mut weights = Weights::read(draft.path("out/model.safetensors"));
    weights.fill_row("bert.embeddings.word_embeddings.weight", UNKNOWN, 1e38);
    weights.write();
    draft
}

#[tokio::test]
async fn all_hosts_skip_the_update_in_which_one_has_gradients_that_are_not_finite() {
    if is_skipped() {
        return;
    }
    let host = Host::prepared(4);
    let wide = wide_model(&host).await;
    let train = async |name: &str, hosts: usize, fsdp: &str| {
        let draft = Draft::new(&host, name);
        // One row, which one core of one host reads.
        let rows = fs::read_to_string(draft.path("train.csv")).unwrap();
        let draft = draft.write("train.csv", format!("{rows}\"unheard\",tool\n"));
        let model = format!("name_or_path: {}", wide.path("out").display());
        let job = job_file(&draft, hosts)
            .replace("name_or_path: ./model", &model)
            .replace("weight_decay: 0.01", "weight_decay: 0.01\n  fp16: true");
        let job = format!("{job}\nparallel: {{fsdp: {fsdp}}}\n");
        let mut runners = Runners::start(&host, &draft, &job, hosts);
        runners.completed().await;
        (draft, runners)
    };
    let (one, runners) = train("one", 1, "no").await;
    let skipped = scales(&runners, 0);
    assert!(!skipped.is_empty() && skipped.len() < 3, "{skipped:?}");
    for fsdp in ["no", "full_shard"] {
        let (two, runners) = train(fsdp, 2, fsdp).await;
        for rank in 0..2 {
            assert_eq!(scales(&runners, rank), skipped, "{fsdp}: host {rank}");
        }
        let [found, expected] =
            [&two, &one].map(|draft| weights(draft).into_iter().map(f64::from).collect::<Vec<_>>());
        // Sums in another order round other weights to float16.
        assert_close(fsdp, &found, &expected, 1e-3);
    }
}
