//! Every task, from rows to output folder.

mod image_classification;
mod language_models;
pub(crate) mod predictions;
mod question_answering;
pub(crate) mod rows;
mod seq2seq_lm;
mod sequence_classification;
mod squad_scores;
mod token_classification;

use std::collections::BTreeMap;

use serde_json::Value;
use traind_tests::{Draft, Host, Output};

/// A job that trains a small GPT-2.
pub(crate) fn causal_draft(host: &Host, name: &str) -> Draft {
    language_models::causal().draft(host, name)
}

/// A job that trains a small ViT on folders of images.
pub(crate) fn image_draft(host: &Host, name: &str) -> Draft {
    image_classification::draft(host, name)
}

type Metrics = BTreeMap<String, f64>;

/// A task's section `data`, fixture and files, from which a draft is made.
pub(crate) struct TaskJob {
    pub(crate) task: &'static str,
    fixture: &'static str,
    data: &'static str,
    pub(crate) files: Vec<(&'static str, String)>,
}

impl TaskJob {
    pub(crate) fn draft(&self, host: &Host, name: &str) -> Draft {
        let draft = Draft::new(host, name).of_task(self.task, self.fixture, self.data);
        self.files.iter().fold(draft, |draft, (name, content)| draft.write(name, content))
    }
}

/// Trains to the end. The last losses must be below `share` of the first ones.
async fn train(host: &Host, draft: &Draft, share: f64) -> (Metrics, Output) {
    let history = host.complete(draft).await;
    let output = draft.output("out");
    let losses = output.trainer_state().series("loss");
    let few = losses.len().min(4);
    let mean = |losses: &[f64]| losses.iter().sum::<f64>() / losses.len() as f64;
    let (first, last) = (mean(&losses[..few]), mean(&losses[losses.len() - few..]));
    assert!(last < share * first, "{first} to {last}: {losses:?}");
    (history.job.metrics.into_iter().collect(), output)
}

/// The architecture that transformers' Auto classes read.
fn architecture(output: &Output) -> String {
    let Value::String(name) = &output.json("config.json")["architectures"][0] else {
        panic!("config.json names no architecture")
    };
    name.clone()
}

fn assert_pipeline_tag(output: &Output, tag: &str) {
    let card = output.text("README.md");
    assert!(card.contains(&format!("pipeline_tag: {tag}\n")), "{card}");
}

/// A job of every task except sequence classification.
pub(crate) fn other_jobs() -> [TaskJob; 5] {
    [
        token_classification::job(),
        question_answering::job(),
        language_models::masked(),
        language_models::causal(),
        seq2seq_lm::job(),
    ]
}

/// Metrics depend on neither cores nor batches; losses, as the Trainer's, on the rows that share a
/// global batch.
#[tokio::test]
async fn metrics_of_all_tasks_are_independent_of_cores_and_batches() {
    let host = Host::started(2).await;
    for job in other_jobs() {
        let expect = evaluate(&host, &job, 1, 8).await;
        let same_batches = evaluate(&host, &job, 2, 4).await;
        assert_equal(job.task, &same_batches, &expect);
        let without_losses = |mut metrics: Metrics| {
            metrics.retain(|name, _| !["eval_loss", "eval_perplexity"].contains(&name.as_str()));
            metrics
        };
        let others = evaluate(&host, &job, 2, 5).await;
        assert_equal(job.task, &without_losses(others), &without_losses(expect));
    }
}

fn assert_equal(task: &str, found: &Metrics, expect: &Metrics) {
    assert_eq!(found.keys().collect::<Vec<_>>(), expect.keys().collect::<Vec<_>>());
    for (name, expect) in expect {
        let found = found[name];
        assert!((found - expect).abs() <= 1e-5 * expect.abs(), "{task}, {name}: {found}, {expect}");
    }
}

/// The metrics of the unchanged model with the labels of the training data: a learning rate of 0 trains nothing.
async fn evaluate(host: &Host, job: &TaskJob, cores: u32, rows: u32) -> Metrics {
    let draft = job
        .draft(host, &format!("{}-{cores}-{rows}", job.task))
        // Few lengths, as each is compiled.
        .set("data.pad_to_multiple_of", 8)
        .set("resources.cores", cores)
        .set("train.per_device_eval_batch_size", rows)
        .set("train.learning_rate", 0.0)
        .set("train.max_steps", 1);
    let metrics = host.complete(&draft).await.job.metrics.into_iter();
    let timed = |name: &str| name.ends_with("runtime") || name.ends_with("per_second");
    metrics.filter(|(name, _)| name.starts_with("eval_") && !timed(name)).collect()
}
