//! Trainings of `docs/coming-from.md` on the smallest models and few rows. The page's three ways give the same job, as
//! `coming_from.rs` compares, so one of them is run.

use traind_tests::bucket::Bucket;
use traind_tests::{Draft, Host, data, model};

use super::Walk;
use crate::tasks::rows;

const CLUSTER: &str = "  hosts: 2\n  engine: slurm\n";

/// The page's job file of a name as a job of this host, with a small model.
fn draft(walk: &Walk, name: &str, fixture: &str) -> Draft {
    let first = format!("name: {name}\n");
    let written = walk.blocks("yaml").find(|block| block.starts_with(&first)).unwrap();
    let draft = Draft::of_job_file(&walk.host, name, written);
    model::write_fixture(&draft.path("model"), fixture);
    draft
        .set("model.name_or_path", "./model")
        .set("resources.platform", "cpu")
        .set("train.max_steps", 2)
        .set("output_dir", "out")
}

/// Questions, with the rows and the window that a small model has room for.
fn squad(walk: &Walk) -> Draft {
    draft(walk, "squad", "bert-question-answering")
        .edit(CLUSTER, "")
        .write("train.json", rows::squad(1, 20, false))
        .write("validation.json", rows::squad(2, 9, false))
        .set("data.train", "train.json")
        .set("data.validation", "validation.json")
        .set("data.max_length", 10)
        .set("data.doc_stride", 2)
        .set("resources.cores", 2)
}

/// Pairs of texts, through a model of a layer for each of the four stages.
fn mnli(walk: &Walk) -> Draft {
    let pairs = |seed, count| {
        let rows = data::rows(seed, count, 3);
        let lines = rows.iter().map(|(text, label)| format!("{text},{text},{label}\n"));
        format!("premise,hypothesis,label\n{}", lines.collect::<String>())
    };
    draft(walk, "mnli", "roberta-sequence-classification")
        .edit("  dataset_config_name: mnli\n", "")
        .write("train.csv", pairs(1, 20))
        .write("validation.csv", pairs(2, 9))
        .write("test.csv", pairs(3, 5))
        .set("data.train", "train.csv")
        .set("data.validation", "validation.csv")
        .set("data.test", "test.csv")
        .set("data.max_length", 10)
        .set("model.from_config", true)
        .set("model.config_overrides", "{num_hidden_layers: 4, type_vocab_size: 2}")
        .set("resources.cores", 4)
}

/// Checkpoints in a bucket.
fn spot(walk: &Walk) -> Draft {
    draft(walk, "using-spot", "distilbert-sequence-classification")
        .edit("s3://bucket/", "s3://data/")
        .edit("/*.arrow", "/rows.parquet")
        .set("model.num_labels", 3)
        .set("train.save_steps", 1)
}

/// Layers that are divided among two cores and in two stages, with activations that are recomputed and offloaded.
fn gpt2(walk: &Walk) -> Draft {
    draft(walk, "gpt2", "gpt2-causal-lm")
        .edit(CLUSTER, "")
        .write("text.txt", "cat dog\n".repeat(40))
        .set("data.train", "text.txt")
        .set("data.block_size", 8)
        .set("parallel.tensor", 2)
        .set("resources.cores", 4)
}

#[tokio::test(flavor = "multi_thread")]
async fn trainings_of_articles_run_on_small_models() {
    let reviews = |seed, count| data::parquet(&data::rows(seed, count, 6));
    let bucket = Bucket::start(&[
        ("train/rows.parquet", reviews(1, 40)),
        ("test/rows.parquet", reviews(2, 9)),
    ]);
    let host = Host::started_with_environment(8, bucket.environment()).await;
    let walk = Walk::new(host, super::coming_from::PAGE, &[]);
    for (draft, metric) in [
        (squad(&walk), "eval_f1"),
        (mnli(&walk), "eval_accuracy"),
        (spot(&walk), "eval_loss"),
        (gpt2(&walk), "train_loss"),
    ] {
        let history = walk.host.complete(&draft).await;
        let finished = history.finished();
        assert_eq!(finished.steps, 2, "{}", history.job.name);
        assert!(
            finished.metrics.get(metric).is_some_and(|value| value.is_finite()),
            "{finished:?}"
        );
    }
    assert_eq!(bucket.checkpoints("using-spot/checkpoints"), [1, 2]);
}
