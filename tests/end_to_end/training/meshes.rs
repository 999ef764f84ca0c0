//! Families without tests of their own train on meshes with several axes as on one core, with dropout.
//! `scripts/compare/meshes` compares every family and task, on more meshes.

use serde_json::json;
use traind_tests::images::png;
use traind_tests::{Draft, Host};

use super::one_core::{Job, results};

/// Name, axes `data`, `tensor` and `pipeline`, and settings.
type Mesh = (&'static str, [u32; 3], &'static [(&'static str, &'static str)]);

const ONE: Mesh = ("one", [1; 3], &[]);
const ALL_AXES: Mesh = (
    "d2-t2-p2",
    [2; 3],
    &[("parallel.sequence_parallel", "true"), ("parallel.shard_optimizer_state", "true")],
);
const SHARDS: Mesh = (
    "fsdp2-t2",
    [2, 2, 1],
    &[("parallel.fsdp", "full_shard"), ("train.gradient_checkpointing", "true")],
);
const STAGES: Mesh = (
    "p2-offloaded",
    [1, 1, 2],
    &[
        ("parallel.offload", "[activations, optimizer]"),
        ("parallel.activation_loading_horizon", "1"),
    ],
);
/// The rows of a step.
const ROWS: u32 = 8;

fn draft(host: &Host, job: &Job, (name, [data, tensor, stages], settings): &Mesh) -> Draft {
    let draft = job
        .draft(host, name, *data, *tensor, ROWS / data)
        .write("train.jsonl", pairs())
        .set("train.save_strategy", "no")
        .set("resources.cores", data * tensor * stages)
        .set("parallel.pipeline", stages);
    let draft = images(draft);
    settings.iter().fold(draft, |draft, (field, value)| draft.set(field, value))
}

/// Rows of a text and its first words, of several lengths.
fn pairs() -> String {
    let row = |row: usize| {
        let words = ["cat", "dog", "apple", "pear", "saw"].iter().cycle().skip(row % 5);
        let source: Vec<&str> = words.take(3 + row % 8).copied().collect();
        json!({"source": source.join(" "), "target": source[..1 + row % 3].join(" ")})
    };
    (0..64).map(|at| row(at).to_string() + "\n").collect()
}

/// Adds images of three colors, which are their classes.
fn images(draft: Draft) -> Draft {
    let colors = [("blue", [10, 20, 190]), ("green", [20, 180, 30]), ("red", [170, 30, 20])];
    let files = colors.iter().flat_map(|color| (0..16).map(move |seed| (color, seed)));
    files.fold(draft, |draft, ((class, color), seed)| {
        std::fs::create_dir_all(draft.path("images").join(class)).unwrap();
        draft.write(&format!("images/{class}/{seed}.png"), png(16, *color, seed))
    })
}

async fn check(job: Job, meshes: &[Mesh]) {
    let host = Host::started(8).await;
    let expect = results(&host, &draft(&host, &job, &ONE)).await;
    for mesh in meshes {
        let found = results(&host, &draft(&host, &job, mesh)).await;
        found.assert_equal(&expect, mesh.0);
    }
}

#[tokio::test]
async fn a_distilbert_on_all_axes_trains_as_on_one_core() {
    let job = Job {
        task: "sequence-classification",
        fixture: "distilbert-sequence-classification",
        data: "{train: train.csv, validation: validation.parquet, label_map: [animal, fruit, tool]}",
        model: "{n_layers: 2, n_heads: 4, hidden_dim: 2048, dropout: 0.1, attention_dropout: 0.1}",
    };
    check(job, &[ALL_AXES]).await;
}

/// It has fewer heads of keys and values than of queries.
#[tokio::test]
async fn a_llama_in_divided_shards_trains_as_on_one_core() {
    let job = Job {
        task: "causal-lm",
        fixture: "llama-causal-lm",
        data: "{train: train.csv, validation: validation.parquet, text: text, block_size: 16}",
        model: "{intermediate_size: 2048, attention_dropout: 0.1}",
    };
    check(job, &[SHARDS, ALL_AXES]).await;
}

/// The states of the encoder pass through the stages of the decoder too.
#[tokio::test]
async fn a_t5_in_stages_trains_as_on_one_core() {
    let job = Job {
        task: "seq2seq-lm",
        fixture: "t5-gated-seq2seq-lm",
        data: "{train: train.jsonl, validation: train.jsonl, max_source_length: 12, max_target_length: 6, \
               pad_to_multiple_of: 6}",
        model: "{num_layers: 2, num_decoder_layers: 2, d_ff: 2048, dropout_rate: 0.1}",
    };
    check(job, &[STAGES]).await;
}

/// All micro-batches pass forward before their texts are compared, also in evaluations.
#[tokio::test]
async fn an_embedding_t5_in_stages_trains_as_on_one_core() {
    let job = Job {
        task: "embedding",
        fixture: "t5-gated-seq2seq-lm",
        data: "{train: train.jsonl, validation: train.jsonl, texts: [source, target], max_length: 12}",
        model: "{num_layers: 2, d_ff: 2048, dropout_rate: 0.1}",
    };
    check(job, &[STAGES]).await;
}

/// Its patches and the token before them are nine positions, which two cores divide.
#[tokio::test]
async fn a_vit_on_all_axes_trains_as_on_one_core() {
    let job = Job {
        task: "image-classification",
        fixture: "vit-image-classification",
        data: "{train: images, validation: images}",
        model: "{num_attention_heads: 4, intermediate_size: 2048, hidden_dropout_prob: 0.1, \
                attention_probs_dropout_prob: 0.1}",
    };
    check(job, &[ALL_AXES]).await;
}
