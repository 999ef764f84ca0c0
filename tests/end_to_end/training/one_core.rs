//! Runs on several cores compared with the run of one core.

use traind_tests::model::Weights;
use traind_tests::{Draft, Host};

pub(super) const STEPS: usize = 6;
/// The biases of keys as families call them.
const KEY_BIASES: [&str; 3] = ["key.bias", "c_attn.bias", "k_lin.bias"];

/// A task, the fixture of its model, its data, and settings of a model with four heads, dropout and
/// matrices that are large enough to be sharded on two cores each.
pub(super) struct Job {
    pub task: &'static str,
    pub fixture: &'static str,
    pub data: &'static str,
    pub model: &'static str,
}

pub(super) const CLASSIFICATION: Job = Job {
    task: "sequence-classification",
    fixture: "bert-sequence-classification",
    data: "{train: train.csv, validation: validation.parquet, label_map: [animal, fruit, tool]}",
    model: "{num_attention_heads: 4, intermediate_size: 2048, hidden_dropout_prob: 0.1, \
            attention_probs_dropout_prob: 0.1}",
};
pub(super) const LANGUAGE_MODEL: Job = Job {
    task: "causal-lm",
    fixture: "gpt2-causal-lm",
    data: "{train: train.csv, validation: validation.parquet, text: text, block_size: 16}",
    model: "{n_head: 4, n_inner: 2048, resid_pdrop: 0.1, embd_pdrop: 0.1, attn_pdrop: 0.1}",
};

impl Job {
    /// `data` cores that each see `rows` rows of a batch, times `tensor` cores that share layers.
    pub(super) fn draft(
        &self,
        host: &Host,
        name: &str,
        data: u32,
        tensor: u32,
        rows: u32,
    ) -> Draft {
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
pub(super) struct Results {
    pub losses: Vec<f64>,
    grad_norms: Vec<f64>,
    pub eval_loss: f64,
    weights: Weights,
}

pub(super) async fn results(host: &Host, draft: &Draft) -> Results {
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

pub(super) fn assert_close(name: &str, found: &[f64], expect: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expect.len(), "{name}");
    for (step, (found, expect)) in found.iter().zip(expect).enumerate() {
        let difference = (found - expect).abs() / expect.abs();
        assert!(difference <= tolerance, "{name} of step {}: {found} for {expect}", step + 1);
    }
}

impl Results {
    pub(super) fn assert_same_bits(&self, expect: &Results, name: &str) {
        assert_eq!(self.losses, expect.losses, "{name}");
        assert_eq!(self.grad_norms, expect.grad_norms, "{name}");
        assert_eq!(self.eval_loss, expect.eval_loss, "{name}");
        for tensor in expect.weights.names() {
            let (found, expect) = (self.weights.values(&tensor), expect.weights.values(&tensor));
            assert_eq!(found, expect, "{name}: {tensor}");
        }
    }

    pub(super) fn assert_equal(&self, expect: &Results, name: &str) {
        assert_close(&format!("{name}: loss"), &self.losses, &expect.losses, 1e-5);
        assert_close(&format!("{name}: grad_norm"), &self.grad_norms, &expect.grad_norms, 1e-4);
        assert_close(&format!("{name}: eval_loss"), &[self.eval_loss], &[expect.eval_loss], 1e-5);
        assert_eq!(self.weights.names(), expect.weights.names(), "{name}");
        let names = self.weights.names().into_iter();
        // The gradient of a key's bias is rounding noise, of which Adam makes full steps.
        let is_noise = |name: &str| KEY_BIASES.iter().any(|bias| name.contains(bias));
        for tensor in names.filter(|it| !is_noise(it)) {
            let (found, expect) = (self.weights.values(&tensor), expect.weights.values(&tensor));
            assert_eq!(found.len(), expect.len(), "{name}: {tensor}");
            let norm = |squares: Vec<f32>| squares.iter().map(|it| it * it).sum::<f32>().sqrt();
            let difference = norm(found.iter().zip(&expect).map(|(a, b)| a - b).collect());
            assert!(difference <= 1e-3 * norm(expect), "{name}: {tensor} is off by {difference}");
        }
    }
}
