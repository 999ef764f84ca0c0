//! Layers that cores share compute what one core computes, and checkpoints fit any number of cores.

use traind_tests::model::Weights;
use traind_tests::{Draft, Host};

const STEPS: usize = 6;

/// A task, the fixture of its model, its data, and settings of a model with four heads, dropout and
/// matrices that are large enough to be sharded on two cores each.
struct Job {
    task: &'static str,
    fixture: &'static str,
    data: &'static str,
    model: &'static str,
}

const CLASSIFICATION: Job = Job {
    task: "sequence-classification",
    fixture: "bert-sequence-classification",
    data: "{train: train.csv, validation: validation.parquet, label_map: [animal, fruit, tool]}",
    model: "{num_attention_heads: 4, intermediate_size: 2048, hidden_dropout_prob: 0.1, \
            attention_probs_dropout_prob: 0.1}",
};
const LANGUAGE_MODEL: Job = Job {
    task: "causal-lm",
    fixture: "gpt2-causal-lm",
    data: "{train: train.csv, validation: validation.parquet, text: text, block_size: 16}",
    model: "{n_head: 4, n_inner: 2048, resid_pdrop: 0.1, embd_pdrop: 0.1, attn_pdrop: 0.1}",
};

impl Job {
    /// `data` cores that each see `rows` rows of a batch, times `tensor` cores that share layers.
    fn draft(&self, host: &Host, name: &str, data: u32, tensor: u32, rows: u32) -> Draft {
        Draft::new(host, &format!("{}-{name}", self.task))
            .of_task(self.task, self.fixture, self.data)
            .set("model.from_config", true)
            .set("model.config_overrides", self.model)
            .set("train.max_steps", STEPS)
            .set("train.save_steps", 2)
            .set("train.per_device_train_batch_size", rows)
            .set("train.weight_decay", 0.01)
            .set("train.max_grad_norm", 0.5)
            // Adam turns a gradient that is rounding noise, as a key's bias has, into a full step, and
            // later steps amplify it. A larger epsilon keeps such steps small.
            .set("train.adam_epsilon", 1e-4)
            .set("resources.cores", data * tensor)
            .set("parallel.tensor", tensor)
    }
}

/// The results of a run.
struct Results {
    losses: Vec<f64>,
    grad_norms: Vec<f64>,
    eval_loss: f64,
    weights: Weights,
}

async fn results(host: &Host, draft: &Draft) -> Results {
    let metrics = host.complete(draft).await.job.metrics;
    let output = draft.output("out");
    let state = output.trainer_state();
    Results {
        losses: state.series("loss"),
        grad_norms: state.series("grad_norm"),
        eval_loss: metrics["eval_loss"],
        weights: Weights::read(draft.path("out/model.safetensors")),
    }
}

fn assert_close(name: &str, found: &[f64], expect: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expect.len(), "{name}");
    for (step, (found, expect)) in found.iter().zip(expect).enumerate() {
        let difference = (found - expect).abs() / expect.abs();
        assert!(difference <= tolerance, "{name} of step {}: {found} for {expect}", step + 1);
    }
}

impl Results {
    fn assert_equal(&self, expect: &Results, name: &str) {
        assert_close(&format!("{name}: loss"), &self.losses, &expect.losses, 1e-5);
        assert_close(&format!("{name}: grad_norm"), &self.grad_norms, &expect.grad_norms, 1e-4);
        assert_close(&format!("{name}: eval_loss"), &[self.eval_loss], &[expect.eval_loss], 1e-5);
        assert_eq!(self.weights.names(), expect.weights.names(), "{name}");
        let names = self.weights.names().into_iter();
        // The gradient of a key's bias is rounding noise, of which Adam makes full steps.
        for tensor in names.filter(|it| !it.contains("key.bias") && !it.contains("c_attn.bias")) {
            let (found, expect) = (self.weights.values(&tensor), expect.weights.values(&tensor));
            assert_eq!(found.len(), expect.len(), "{name}: {tensor}");
            let norm = |squares: Vec<f32>| squares.iter().map(|it| it * it).sum::<f32>().sqrt();
            let difference = norm(found.iter().zip(&expect).map(|(a, b)| a - b).collect());
            assert!(difference <= 1e-3 * norm(expect), "{name}: {tensor} is off by {difference}");
        }
    }
}

async fn check(job: Job) {
    let host = Host::started(4).await;
    let expect = results(&host, &job.draft(&host, "one", 1, 1, 8)).await;
    assert_eq!(expect.losses.len(), STEPS);
    let two = job.draft(&host, "t2", 1, 2, 8);
    results(&host, &two).await.assert_equal(&expect, "T2");
    // Each goes on from a checkpoint of the one before.
    let four = job
        .draft(&host, "d2-t2", 2, 2, 2)
        .set("train.gradient_accumulation_steps", 2)
        .set("parallel.shard_optimizer_state", true)
        .set("train.resume_from_checkpoint", two.path("out/checkpoint-2").display());
    results(&host, &four).await.assert_equal(&expect, "D2 T2");
    let heads = job
        .draft(&host, "t4", 1, 4, 8)
        .set("train.gradient_checkpointing", true)
        .set("train.resume_from_checkpoint", four.path("out/checkpoint-4").display());
    results(&host, &heads).await.assert_equal(&expect, "T4");
    let one = job
        .draft(&host, "one-again", 1, 1, 8)
        .set("train.resume_from_checkpoint", four.path("out/checkpoint-4").display());
    results(&host, &one).await.assert_equal(&expect, "one core after D2 T2");
}

#[tokio::test]
async fn a_classifier_whose_layers_are_divided_trains_as_on_one_core() {
    check(CLASSIFICATION).await;
}

#[tokio::test]
async fn a_language_model_whose_vocabulary_is_divided_trains_as_on_one_core() {
    check(LANGUAGE_MODEL).await;
}

/// Why a job failed.
async fn failure(host: &Host, draft: &Draft) -> String {
    let failure = host.run(draft).await.job.failure.unwrap();
    assert_eq!(failure.field.as_deref(), Some("parallel.tensor"), "{failure:?}");
    failure.message
}

#[tokio::test]
async fn cores_that_cannot_share_a_model_are_refused_with_what_can() {
    let host = Host::started(3).await;
    let heads = failure(&host, &CLASSIFICATION.draft(&host, "heads", 1, 3, 8)).await;
    let expect = "parallel.tensor is 3, which does not divide the 4 attention heads of \
                  bert.encoder.layer.0.attention.self.query.weight; the nearest that divides all is 2";
    assert!(heads.contains(expect), "{heads}");
    let optimizer = CLASSIFICATION.draft(&host, "optim", 1, 2, 8).set("train.optim", "adafactor");
    let optimizer = failure(&host, &optimizer).await;
    assert!(optimizer.contains("train.optim: adafactor reads whole parameters"), "{optimizer}");
}
