//! Embedded texts beside sentence-transformers': `scripts/fixtures/embeddings.py` writes the rows, and the losses and
//! vectors of its trainer.

mod guide;
mod mining;
mod rerankers;
mod sets;

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tonic_types::StatusExt;
use traind_proto::v1::event::Kind;
use traind_tests::model::{self, Weights};
use traind_tests::{Draft, Host};

use super::sft::{fixture, lines, repository, set_all};

/// Relative to the value and 1: at the first step, whose weights are the same, and later.
const LIMIT_FIRST: f64 = 1e-5;
const LIMIT: f64 = 1e-3;
/// The same job, computed otherwise.
const LIMIT_SAME: f64 = 1e-6;

/// The job of one of the fixture's runs.
fn draft(host: &Host, name: &str, run: &str, fixture: &Value) -> Draft {
    let job_file = format!(
        "name: {name}\nmodel: {{name_or_path: ./model, task: embedding}}\n\
         data: {{train: train.jsonl}}\noutput_dir: out\n"
    );
    let draft = Draft::of_job_file(host, name, &job_file);
    write_model(&draft.path("model"), fixture);
    let run = &fixture["runs"][run];
    let mut draft = draft.write("train.jsonl", lines(run["rows"].as_array().unwrap()));
    if run["embedding"]["loss"] == "gist" {
        draft = draft.set("data.texts", "[anchor, positive, negative]");
    }
    let draft = set_all(draft, "train", &fixture["train"]);
    let draft = set_all(draft, "embedding", &run["embedding"]);
    draft
        .set("train.train_sampling_strategy", "sequential")
        .set("train.logging_steps", 1)
        .set("train.save_strategy", "no")
}

/// Writes the model that the fixture's runs begin with.
fn write_model(folder: &Path, fixture: &Value) {
    write_embedder(folder, "bert-sequence-classification", fixture);
}

/// Writes the guide of the fixture's runs.
fn write_guide(folder: &Path, fixture: &Value) {
    write_embedder(folder, "distilbert-masked-lm", fixture);
}

/// The same guide with a tokenizer of letters, of which it reads other numbers.
fn write_guide_of_letters(folder: &Path, fixture: &Value) {
    write_guide(folder, fixture);
    copy_files("embeddings/letters", folder);
    write_length(folder, &fixture["letters_max"]);
}

fn write_embedder(folder: &Path, model: &str, fixture: &Value) {
    model::write_fixture(folder, model);
    copy_files("embeddings/tokenizer", folder);
    write_length(folder, &fixture["max_length"]);
}

fn write_length(folder: &Path, length: &Value) {
    let length = json!({"max_seq_length": length, "do_lower_case": false});
    fs::write(folder.join("sentence_bert_config.json"), length.to_string()).unwrap();
}

/// Puts the layers behind the pooling that the fixture's run `dense` has into a model folder.
fn write_dense(folder: &Path) {
    for name in ["1_Pooling", "2_Dense", "3_Dense"] {
        fs::create_dir(folder.join(name)).unwrap();
        copy_files(&format!("embeddings/dense/{name}"), &folder.join(name));
    }
    let modules = repository().join("daemon/runner/fixtures/embeddings/dense/modules.json");
    fs::copy(modules, folder.join("modules.json")).unwrap();
}

/// Copies the files of a folder of the runner's fixtures.
fn copy_files(fixture: &str, folder: &Path) {
    for file in fs::read_dir(repository().join("daemon/runner/fixtures").join(fixture)).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), folder.join(file.file_name())).unwrap();
    }
}

/// Compares the losses with sentence-transformers'.
fn check_losses(draft: &Draft, fixture: &Value, run: &str) {
    let ours = draft.output("out").trainer_state().series("loss");
    let expect = fixture["runs"][run]["loss"].as_array().unwrap();
    assert_eq!(ours.len(), expect.len());
    for (step, (found, expect)) in ours.iter().zip(expect).enumerate() {
        let expect = expect.as_f64().unwrap();
        let limit = if step == 0 { LIMIT_FIRST } else { LIMIT };
        let difference = (found - expect).abs() / (1.0 + expect.abs());
        assert!(difference <= limit, "{run}, step {step}: {found}, theirs is {expect}");
    }
}

/// On one core, and on two, whose texts are negatives of each other's. The output is a folder that
/// `SentenceTransformer` loads, with the pooler that the model had.
#[tokio::test]
async fn losses_are_those_of_sentence_transformers_on_any_number_of_cores() {
    let fixture = fixture("embeddings/runs.json");
    let host = Host::started(2).await;
    for run in ["ranking", "symmetric", "cosent", "classes", "guided"] {
        let one = draft(&host, &format!("{run}-one"), run, &fixture);
        host.complete(&one).await;
        check_losses(&one, &fixture, run);
        let two = draft(&host, &format!("{run}-two"), run, &fixture)
            .set("train.per_device_train_batch_size", 2)
            .set("resources.cores", 2);
        host.complete(&two).await;
        check_losses(&two, &fixture, run);
    }
    let stages = draft(&host, "stages", "classes", &fixture)
        .set("parallel.pipeline", 2)
        .set("resources.cores", 2);
    host.complete(&stages).await;
    check_losses(&stages, &fixture, "classes");
    let output = host.path("ranking-one/out");
    let read = |name: &str| -> Value {
        serde_json::from_slice(&fs::read(output.join(name)).unwrap()).unwrap()
    };
    let types: Vec<Value> =
        read("modules.json").as_array().unwrap().iter().map(|it| it["path"].clone()).collect();
    assert_eq!(types, ["", "1_Pooling", "2_Normalize"]);
    let pooling = read("1_Pooling/config.json");
    assert_eq!(pooling["pooling_mode_mean_tokens"], true);
    assert_eq!(pooling["word_embedding_dimension"], 16);
    assert_eq!(read("sentence_bert_config.json")["max_seq_length"], 6);
    assert_eq!(read("config.json")["architectures"], json!(["BertModel"]));
    let card = fs::read_to_string(output.join("README.md")).unwrap();
    assert!(card.contains("library_name: sentence-transformers"), "{card}");
    let trained = Weights::read(output.join("model.safetensors"));
    let before = Weights::read(host.path("ranking-one/model/model.safetensors"));
    let (pooler, words) = ("pooler.dense.weight", "embeddings.word_embeddings.weight");
    assert_eq!(trained.values(pooler), before.values(&format!("bert.{pooler}")));
    assert_ne!(trained.values(words), before.values(&format!("bert.{words}")));
}

/// Layers behind the pooling are trained, and stand in files of their own.
#[tokio::test]
async fn dense_layers_are_trained_as_by_sentence_transformers() {
    let fixture = fixture("embeddings/runs.json");
    let host = Host::started(1).await;
    let dense = draft(&host, "dense", "dense", &fixture);
    write_dense(&dense.path("model"));
    host.complete(&dense).await;
    check_losses(&dense, &fixture, "dense");
    let modules = dense.output("out").json("modules.json");
    let paths: Vec<&Value> = modules.as_array().unwrap().iter().map(|it| &it["path"]).collect();
    assert_eq!(paths, ["", "1_Pooling", "2_Dense", "3_Dense", "4_Normalize"]);
    let weights = |folder: &str, name: &str| {
        Weights::read(dense.path(folder).join(name).join("model.safetensors"))
    };
    for (module, name) in
        [("2_Dense", "linear.bias"), ("3_Dense", "linear.weight"), ("3_Dense", "residual.weight")]
    {
        let [before, after] = ["model", "out"].map(|folder| weights(folder, module).values(name));
        assert!(before.len() == after.len() && before != after, "{module}: {name}");
    }
    let tensors = weights("out", "").header;
    assert!(tensors.as_object().unwrap().keys().all(|name| !name.contains("Dense")), "{tensors}");

    // A new layer, and one that is trained on.
    let with_layer = |name: &str| {
        draft(&host, name, "symmetric", &fixture)
            .set("embedding.dense_out_features", 5)
            .set("embedding.dense_activation_function", "identity")
            .set("train.save_strategy", "steps")
            .set("train.save_steps", 2)
    };
    let added = with_layer("added");
    host.complete(&added).await;
    let config = added.output("out").json("2_Dense/config.json");
    assert_eq!((&config["in_features"], &config["out_features"]), (&json!(16), &json!(5)));
    let resumed = with_layer("resumed")
        .set("train.resume_from_checkpoint", added.path("out/checkpoint-2").display());
    host.complete(&resumed).await;
    let read = |draft: &Draft| fs::read(draft.path("out/2_Dense/model.safetensors")).unwrap();
    assert_eq!(read(&resumed), read(&added));
    let again = draft(&host, "again", "dense", &fixture).set("embedding.dense_out_features", 5);
    write_dense(&again.path("model"));
    let error = host.create(&again).await.unwrap_err();
    let violations = error.get_error_details();
    let violations = &violations.bad_request().unwrap().field_violations;
    assert_eq!(violations[0].field, "embedding.dense_out_features", "{violations:?}");
}

/// Batches that pass through the model in parts give the losses and weights of whole ones, also where cores share them,
/// where the last batch of an epoch is not full, and where a step has several batches.
#[tokio::test]
async fn batches_in_parts_train_as_whole_ones() {
    let fixture = fixture("embeddings/runs.json");
    let host = Host::started(2).await;
    let of = |name: &str| {
        let draft = draft(&host, name, "ranking", &fixture);
        draft.set("train.max_steps", 3).set("train.per_device_train_batch_size", 6)
    };
    let whole = of("whole");
    host.complete(&whole).await;
    let parts = of("parts").set("embedding.mini_batch_size", 2);
    host.complete(&parts).await;
    check_same(&whole, &parts, LIMIT_SAME);
    let two = of("two")
        .set("train.per_device_train_batch_size", 3)
        .set("embedding.mini_batch_size", 1)
        .set("resources.cores", 2);
    host.complete(&two).await;
    check_same(&whole, &two, LIMIT_SAME);
    let steps = |name: &str| of(name).set("train.gradient_accumulation_steps", 2);
    let (whole, parts) = (steps("steps-whole"), steps("steps-parts"));
    host.complete(&whole).await;
    let parts = parts.set("embedding.mini_batch_size", 3);
    host.complete(&parts).await;
    check_same(&whole, &parts, LIMIT_SAME);
}

/// Compares losses, which may differ by a share of `1 + loss` behind the first step, and weights.
fn check_same(one: &Draft, other: &Draft, limit: f64) {
    let losses = [one, other].map(|draft| draft.output("out").trainer_state().series("loss"));
    for (step, (one, other)) in losses[0].iter().zip(&losses[1]).enumerate() {
        let limit = if step == 0 { LIMIT_SAME } else { limit };
        assert!((one - other).abs() <= limit * (1.0 + one.abs()), "{losses:?}");
    }
    let weights = [one, other].map(|it| Weights::read(it.path("out/model.safetensors")));
    for name in ["embeddings.word_embeddings.weight", "encoder.layer.1.output.dense.weight"] {
        let [one, other] = weights.each_ref().map(|weights| weights.values(name));
        let differences = one.iter().zip(&other).map(|(one, other)| (one - other).abs());
        let largest = differences.fold(0.0, f32::max);
        assert!(largest <= 1e-5, "{name}: {largest}");
    }
}

/// A trained model embeds files that it has not seen; evaluations have the names of sentence-transformers' evaluators.
#[tokio::test]
async fn a_trained_model_is_evaluated_and_embeds_texts() {
    let fixture = fixture("embeddings/runs.json");
    let host = Host::started(1).await;
    let rows = fixture["runs"]["ranking"]["rows"].as_array().unwrap();
    let train = draft(&host, "train", "ranking", &fixture)
        .write("dev.jsonl", lines(&rows[..6]))
        .set("data.validation", "dev.jsonl")
        .set("train.eval_strategy", "steps")
        .set("train.eval_steps", 2)
        .set("train.save_strategy", "steps")
        .set("train.save_steps", 2)
        .set("train.load_best_model_at_end", true)
        .set("train.metric_for_best_model", "cosine_ndcg@10")
        .set("data.prompts", "{anchor: 'one two '}");
    host.complete(&train).await;
    let state = train.output("out").trainer_state();
    for name in ["eval_cosine_accuracy", "eval_cosine_map@100", "eval_cosine_recall@3", "eval_loss"]
    {
        assert_eq!(state.series(name).len(), 2, "{name}");
    }
    let settings = train.output("out").json("config_sentence_transformers.json");
    assert_eq!(settings["prompts"], json!({"anchor": "one two "}));

    let scored = fixture["runs"]["cosent"]["rows"].as_array().unwrap();
    let job_file = "name: test\nmodel: {name_or_path: ./model, task: embedding}\n\
                    data: {validation: dev.jsonl, test: test.jsonl}\n\
                    train: {do_train: false, do_predict: true}\noutput_dir: out\n";
    let test = Draft::of_job_file(&host, "test", job_file);
    fs::rename(train.path("out"), test.path("model")).unwrap();
    let plain: Vec<Value> = scored
        .iter()
        .map(|row| json!({"anchor": row["anchor"], "positive": row["positive"]}))
        .collect();
    let test = test.write("dev.jsonl", lines(scored)).write("test.jsonl", lines(&plain));
    let history = host.complete(&test).await;
    let evaluated = history.events.iter().find_map(|event| match &event.kind {
        Some(Kind::Evaluated(evaluated)) => Some(evaluated),
        _ => None,
    });
    let metrics = &evaluated.unwrap().metrics;
    for name in ["eval_pearson_cosine", "eval_spearman_cosine"] {
        assert!(metrics[name].abs() <= 1.0, "{metrics:?}");
    }
    assert!(test.output("out").names().contains(&"predictions.parquet".to_owned()));
}

/// Rows that the loss does not take are refused, with the columns that the files have.
#[tokio::test]
async fn rows_that_do_not_fit_the_loss_are_refused() {
    let fixture = fixture("embeddings/runs.json");
    let host = Host::started(1).await;
    let of = |name: &str| draft(&host, name, "symmetric", &fixture);
    let triplet = of("triplet").set("embedding.loss", "triplet");
    let triplet = triplet.set("embedding.directions", "query_to_doc");
    let triplet = triplet.set("embedding.partition_mode", "joint");
    let prompt = of("prompt").set("data.prompts", "{other: 'x'}");
    let matryoshka = of("matryoshka").set("embedding.matryoshka_dims", "[32, 8]");
    for (draft, field, expect) in [
        (
            triplet,
            "data.texts",
            "the rows have 2 columns of texts, and the loss triplet needs 3; name those that it takes, or choose a loss \
             that takes as many: multiple_negatives_ranking, cosent,",
        ),
        (prompt, "data.prompts", "other is not one of these columns"),
        (matryoshka, "embedding.matryoshka_dims", "embeddings have 16 numbers"),
    ] {
        let error = host.create(&draft).await.unwrap_err();
        let violations = error.get_error_details();
        let violations = &violations.bad_request().unwrap().field_violations;
        assert_eq!(violations[0].field, field);
        assert!(violations[0].description.contains(expect), "{violations:?}");
    }
}

/// Scores beside pairs have no effect on the default loss, which a newcomer may not expect.
#[tokio::test]
async fn scores_that_the_loss_does_not_read_are_named() {
    let fixture = fixture("embeddings/runs.json");
    let host = Host::started(1).await;
    let of = |name: &str| draft(&host, name, "cosent", &fixture).set("train.max_steps", 1);
    let ranked = of("ranked").set("embedding.loss", "multiple_negatives_ranking");
    let history = host.complete(&ranked).await;
    let said = history.warnings("LABELS_UNREAD");
    assert!(matches!(&said[..], [it] if it.contains("column \"score\" is not read")), "{said:?}");
    assert!(host.complete(&of("scored")).await.warnings("LABELS_UNREAD").is_empty());
}
