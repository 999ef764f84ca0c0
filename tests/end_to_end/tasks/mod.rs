//! Every task, from its rows to its output folder.

mod language_models;
mod predictions;
mod question_answering;
mod rows;
mod sequence_classification;
mod squad_scores;
mod token_classification;

use std::collections::BTreeMap;

use serde_json::Value;
use traind_tests::{Draft, Host, Output};

type Metrics = BTreeMap<String, f64>;

/// What comes between the options of a task and a job that can be run.
pub(crate) struct TaskJob {
    pub(crate) task: &'static str,
    fixture: &'static str,
    data: &'static str,
    files: Vec<(&'static str, String)>,
}

impl TaskJob {
    pub(crate) fn draft(&self, host: &Host, name: &str) -> Draft {
        let draft = Draft::new(host, name).of_task(self.task, self.fixture, self.data);
        self.files.iter().fold(draft, |draft, (name, content)| draft.write(name, content))
    }
}

/// Trains to the end; the losses must have gone down to `share` of what they were.
async fn train(host: &Host, draft: &Draft, share: f64) -> (Metrics, Output) {
    let story = host.complete(draft).await;
    let output = draft.output("out");
    let losses = output.trainer_state().series("loss");
    let few = losses.len().min(4);
    let mean = |losses: &[f64]| losses.iter().sum::<f64>() / losses.len() as f64;
    let (first, last) = (mean(&losses[..few]), mean(&losses[losses.len() - few..]));
    assert!(last < share * first, "{first} to {last}: {losses:?}");
    (story.job.metrics.into_iter().collect(), output)
}

/// The class that transformers' Auto classes look for.
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

/// A job of every task but sequence classification.
pub(crate) fn other_jobs() -> [TaskJob; 4] {
    [
        token_classification::job(),
        question_answering::job(),
        language_models::masked(),
        language_models::causal(),
    ]
}

/// How many cores evaluate changes no metric of any task; nor does the size of batches, except the
/// loss of spans, which transformers takes over all positions that a batch is padded to.
#[tokio::test]
async fn metrics_of_all_tasks_do_not_depend_on_cores() {
    let host = Host::started(2).await;
    for job in other_jobs() {
        let expect = evaluate(&host, &job, 1, 8).await;
        let rows = if job.task == "question-answering" { 4 } else { 5 };
        let found = evaluate(&host, &job, 2, rows).await;
        assert_eq!(found.keys().collect::<Vec<_>>(), expect.keys().collect::<Vec<_>>());
        for (name, expect) in &expect {
            let (found, task) = (found[name], job.task);
            assert!(
                (found - expect).abs() <= 1e-5 * expect.abs(),
                "{task}, {name}: {found}, {expect}"
            );
        }
    }
}

/// The metrics of the model as it is given: a rate of 0 trains nothing.
async fn evaluate(host: &Host, job: &TaskJob, cores: u32, rows: u32) -> Metrics {
    let draft = job
        .draft(host, &format!("{}-{cores}", job.task))
        .set("resources.cores", cores)
        .set("train.per_device_eval_batch_size", rows)
        .set("train.learning_rate", 0.0)
        .set("train.max_steps", 1);
    let metrics = host.complete(&draft).await.job.metrics.into_iter();
    let timed = |name: &str| name.ends_with("runtime") || name.ends_with("per_second");
    metrics.filter(|(name, _)| name.starts_with("eval_") && !timed(name)).collect()
}
