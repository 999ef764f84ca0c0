//! Pipelines whose stages are on different hosts: they train and evaluate as those of one host do.

use std::fs;

use traind_tests::{Draft, Host, Runners, UNOPTIMIZED, until};

use crate::hosts::{assert_close, bits, is_skipped, series, weights};
use crate::training::pairs_draft;

/// The steps of a run, and those after which it saves.
const STEPS: u64 = 8;
const SAVE_STEPS: u64 = 3;
/// The cores of most jobs, on all of their hosts.
const CORES: usize = 4;

/// A language model whose head, in the last stage, has the embeddings of the first one.
const TIED: Job = Job {
    cores: CORES,
    task: "causal-lm",
    fixture: "gpt2-causal-lm",
    model: "{n_layer: 4, n_head: 4, resid_pdrop: 0.1, embd_pdrop: 0.1, attn_pdrop: 0.1}",
    data: "{train: train.csv, validation: validation.parquet, text: text, block_size: 16}",
    train: "{max_grad_norm: 0.5, adam_epsilon: 1.0e-3",
};
const CLASSIFIER: Job = Job {
    cores: CORES,
    task: "sequence-classification",
    fixture: "bert-sequence-classification",
    model: "{num_hidden_layers: 4, num_attention_heads: 4, hidden_dropout_prob: 0.1}",
    data: "{train: train.csv, validation: validation.parquet, test: validation.parquet, \
           label_map: [animal, fruit, tool]}",
    train: "{fp16: true, do_predict: true, adam_epsilon: 1.0e-3",
};

/// A language model like [`TIED`] with matrices that are large enough to be sharded, those of the tied embeddings among
/// them.
const SHARDED: Job = Job {
    cores: 8,
    model: "{n_layer: 4, n_head: 4, n_inner: 2050, vocab_size: 1030, resid_pdrop: 0.1}",
    ..TIED
};

struct Job {
    /// The cores on all hosts.
    cores: usize,
    task: &'static str,
    fixture: &'static str,
    model: &'static str,
    data: &'static str,
    /// The section `train` without its end.
    train: &'static str,
}

impl Job {
    fn draft(&self, host: &Host, name: &str) -> Draft {
        Draft::new(host, name).of_task(self.task, self.fixture, self.data)
    }

    /// The job file for a number of hosts that have as many cores in all.
    fn file(&self, draft: &Draft, hosts: usize, [parallel, train]: [&str; 2]) -> String {
        let Job { task, model, data, train: usual, .. } = self;
        let name = draft.folder().file_name().unwrap().to_str().unwrap();
        let cores = self.cores / hosts;
        format!(
            "name: {name}
model: {{name_or_path: ./model, task: {task}, from_config: true, config_overrides: {model}}}
data: {data}
train: {usual}, per_device_train_batch_size: 4, learning_rate: 5.0e-3, weight_decay: 0.01,
  max_steps: {STEPS}, logging_steps: 1, save_steps: {SAVE_STEPS}, eval_strategy: steps, eval_steps: 4, {train}}}
resources: {{platform: cpu, hosts: {hosts}, cores: {cores}}}
parallel: {{{parallel}}}
output_dir: out
"
        )
    }

    async fn trained(&self, host: &Host, name: &str, hosts: usize, settings: [&str; 2]) -> Run {
        let draft = self.draft(host, name);
        let file = self.file(&draft, hosts, settings);
        let mut runners = Runners::start(host, &draft, &file, hosts);
        runners.completed().await;
        Run::of(draft)
    }
}

/// The results of a run.
struct Run {
    draft: Draft,
    losses: Vec<f64>,
    /// The gradients' norms as they are written: without a value where `fp16` skips a step.
    grad_norms: Vec<String>,
    eval_losses: Vec<f64>,
    weights: Vec<f32>,
}

impl Run {
    fn of(draft: Draft) -> Run {
        Run {
            losses: series(&draft, "loss"),
            grad_norms: grad_norms(&draft),
            eval_losses: series(&draft, "eval_loss"),
            weights: weights(&draft),
            draft,
        }
    }

    /// Programs that add the same numbers in the same order.
    fn assert_same_bits(&self, expected: &Run) {
        assert_eq!(expected.losses.len() as u64, STEPS);
        assert_eq!(expected.eval_losses.len() as u64, STEPS / 4);
        assert_eq!(self.losses, expected.losses);
        assert_eq!(self.grad_norms, expected.grad_norms);
        assert_eq!(self.eval_losses, expected.eval_losses);
        assert_eq!(bits(&self.weights), bits(&expected.weights));
    }

    fn assert_equal(&self, expected: &Run) {
        assert_close("loss", &self.losses, &expected.losses, 1e-5);
        assert_close("eval_loss", &self.eval_losses, &expected.eval_losses, 1e-5);
        self.assert_weights_equal(expected);
    }

    fn assert_weights_equal(&self, expected: &Run) {
        let [found, expected] = [self, expected]
            .map(|run| run.weights.iter().map(|it| f64::from(*it)).collect::<Vec<_>>());
        assert_close("weights", &found, &expected, 1e-5);
    }
}

fn grad_norms(draft: &Draft) -> Vec<String> {
    let state = draft.output("out").trainer_state();
    let entries = state.history("grad_norm").into_iter();
    entries.map(|entry| entry["grad_norm"].to_string()).collect()
}

/// A setting by which a run continues a checkpoint of another one.
fn resuming(run: &Draft, step: u64) -> String {
    format!("resume_from_checkpoint: {}", run.path(&format!("out/checkpoint-{step}")).display())
}

#[tokio::test]
async fn two_stages_on_two_hosts_equal_those_of_one_and_resume_when_one_dies() {
    if is_skipped() {
        return;
    }
    let host = Host::prepared(CORES as u32);
    // Two parts of the model on each stage, and two cores of each stage with other rows.
    let stages = "pipeline: 2, pipeline_interleave: 2, microbatches: 4, placement: PDT";
    let one = TIED.trained(&host, "one", 1, [stages, ""]).await;
    let two = TIED.trained(&host, "two", 2, [stages, ""]).await;
    two.assert_same_bits(&one);

    let killed = TIED.draft(&host, "killed");
    let gate = host.gate("killed", SAVE_STEPS + 2);
    let file = TIED.file(&killed, 2, [stages, ""]);
    let mut runners = Runners::start(&host, &killed, &file, 2);
    let manifest = killed.path("out/checkpoint-3/manifest.json");
    until("both wait at the gate", || gate.is_reached() && manifest.exists()).await;
    runners.kill(1);
    let statuses = runners.ended().await;
    assert_eq!(statuses[0].code(), Some(1), "{}", runners.logs());
    let failure = runners.finished(0).failure.unwrap();
    assert_eq!(failure.host.as_deref(), Some("node1"), "{failure:?}");
    assert!(failure.reason == "HOST_LOST" && failure.transient, "{failure:?}");
    gate.open();

    let mut runners = Runners::start(&host, &killed, &file, 2);
    runners.completed().await;
    assert!(runners.logs().contains("resumed after step 3"), "{}", runners.logs());
    assert_eq!(bits(&weights(&killed)), bits(&two.weights));
    // One host continues what two have saved, and two what one has.
    for (name, hosts, from) in [("fewer", 1, &two), ("more", 2, &one)] {
        let resumed = resuming(&from.draft, 6);
        let run = TIED.trained(&host, name, hosts, [stages, &resumed]).await;
        assert_eq!(bits(&run.weights), bits(&two.weights), "{name}");
    }
}

#[tokio::test]
async fn two_stages_on_each_of_two_hosts_equal_four_of_one() {
    if is_skipped() {
        return;
    }
    let host = Host::prepared(CORES as u32);
    let one = CLASSIFIER.trained(&host, "one", 1, ["pipeline: 4", ""]).await;
    let two = CLASSIFIER.trained(&host, "two", 2, ["pipeline: 4", ""]).await;
    two.assert_same_bits(&one);
    let predictions =
        [&one, &two].map(|run| fs::read(run.draft.path("out/predictions.parquet")).unwrap());
    assert_eq!(predictions[0], predictions[1]);
}

/// Gradients are added over the hosts with the same stage, and weights averaged for evaluations return to the stage
/// that borrows them.
#[tokio::test]
async fn two_stages_on_four_hosts_add_the_gradients_of_two_hosts_each() {
    if is_skipped() {
        return;
    }
    let host = Host::prepared(CORES as u32);
    let averaged = "optim: schedule_free_adamw, lr_scheduler_type: constant";
    let one = TIED.trained(&host, "one", 1, ["pipeline: 2", averaged]).await;
    for placement in ["cluster", "PDT"] {
        let parallel = format!("pipeline: 2, placement: {placement}");
        let four = TIED.trained(&host, placement, 4, [&parallel, averaged]).await;
        four.assert_equal(&one);
    }
}

/// Hosts of GPUs, for which the plugin of CPUs stands in: their programs do not call MPI, which carries what stages
/// exchange. A host without MPI's library says so before the first step.
#[tokio::test]
async fn stages_of_other_platforms_exchange_their_values_by_mpi() {
    if is_skipped() {
        return;
    }
    let host = Host::prepared(CORES as u32);
    let stages = "pipeline: 2, pipeline_interleave: 2, microbatches: 4, placement: PDT";
    let one = TIED.trained(&host, "one", 1, [stages, ""]).await;
    let start = |draft: &Draft, mpi: Option<&str>| {
        let file = TIED.file(draft, 2, [stages, ""]).replace("platform: cpu", "platform: cuda");
        Runners::start_with(&host, draft, &file, 2, |_, command| {
            let (name, flags) = UNOPTIMIZED;
            let devices = format!("{flags} --xla_force_host_platform_device_count={}", CORES / 2);
            command.env("TRAIND_PLUGIN_CUDA", host.plugin()).env(name, devices);
            command.envs(mpi.map(|library| ("TRAIND_PLUGIN_MPI", library)));
            true
        })
    };
    let draft = TIED.draft(&host, "two");
    start(&draft, None).completed().await;
    Run::of(draft).assert_same_bits(&one);

    let draft = TIED.draft(&host, "without");
    let mut runners = start(&draft, Some("/absent/libmpi_abi.so.1"));
    let statuses = runners.ended().await;
    assert!(statuses.iter().all(|status| status.code() == Some(1)), "{}", runners.logs());
    let failure = runners.finished(0).failure.unwrap();
    for part in ["/absent/libmpi_abi.so.1", "traind plugins install mpi"] {
        assert!(failure.message.contains(part), "{failure:?}");
    }
}

/// Hosts exchange shards in every pass. Each of them has two stages of two cores, whose programs its client runs one at
/// a time, or four of them have one stage each.
#[tokio::test]
async fn stages_of_several_hosts_share_their_parameters_and_resume_on_any_number() {
    if is_skipped() {
        return;
    }
    let host = Host::prepared(SHARDED.cores as u32);
    let stages = |fsdp: &str, placement: &str| {
        format!(
            "pipeline: 2, pipeline_interleave: 2, microbatches: 4, fsdp: {fsdp}, placement: {placement}"
        )
    };
    let full = stages("full_shard", "cluster");
    let one = SHARDED.trained(&host, "one", 1, [&full, ""]).await;
    let two = SHARDED.trained(&host, "two", 2, [&full, ""]).await;
    two.assert_equal(&one);
    for (name, hosts, fsdp, placement) in [
        ("gradients", 2, "shard_grad_op", "cluster"),
        ("optimizer", 2, "shard_optimizer", "cluster"),
        ("four", 4, "full_shard", "PDT"),
    ] {
        let parallel = stages(fsdp, placement);
        SHARDED.trained(&host, name, hosts, [&parallel, ""]).await.assert_equal(&one);
    }
    for (name, hosts, from) in [("again", 2, &two), ("fewer", 1, &two), ("more", 2, &one)] {
        let resumed = resuming(&from.draft, 6);
        let run = SHARDED.trained(&host, name, hosts, [&full, &resumed]).await;
        match name {
            "again" => assert_eq!(bits(&run.weights), bits(&two.weights)),
            _ => run.assert_weights_equal(&one),
        }
    }
}

/// The last stage has the metrics of pairs, which the host of the first one logs.
#[tokio::test]
async fn pairs_in_stages_on_two_hosts_equal_those_of_one() {
    if is_skipped() {
        return;
    }
    let host = Host::prepared(CORES as u32);
    let trained = async |name: &str, hosts: usize| {
        let (draft, cores) = (pairs_draft(&host, name), CORES / hosts);
        let file = format!(
            "name: {name}
model: {{name_or_path: ./model, task: dpo}}
data: {{train: train.jsonl, validation: validation.jsonl, max_length: 48}}
train: {{per_device_train_batch_size: 2, learning_rate: 1.0e-2, max_steps: 4, logging_steps: 1,
  eval_strategy: steps, eval_steps: 4}}
resources: {{platform: cpu, hosts: {hosts}, cores: {cores}}}
parallel: {{pipeline: 2, microbatches: 2, placement: PDT}}
output_dir: out
"
        );
        Runners::start(&host, &draft, &file, hosts).completed().await;
        draft
    };
    let (one, two) = (trained("one", 1).await, trained("two", 2).await);
    for (name, count) in [("loss", 4), ("rewards/margins", 4), ("eval_rewards/margins", 1)] {
        let expected = series(&one, name);
        assert_eq!(expected.len(), count, "{name}");
        assert_eq!(series(&two, name), expected, "{name}");
    }
    assert_eq!(bits(&weights(&two)), bits(&weights(&one)));
}
