//! Models larger than `max_shard_size` are saved in several files and read back.

use std::fs;
use std::path::Path;

use traind_tests::{Draft, Host};

/// The names and contents of the weight files in a folder.
fn weights(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
    let named = entries.map(|entry| (entry.file_name().into_string().unwrap(), entry.path()));
    let is_weights = |name: &str| name.starts_with("model") && name.ends_with(".safetensors");
    let mut files: Vec<_> = named
        .filter(|(name, _)| is_weights(name))
        .map(|(name, path)| (name, fs::read(path).unwrap()))
        .collect();
    files.sort();
    files
}

#[tokio::test]
async fn a_model_in_several_files_is_trained_saved_and_resumed() {
    let host = Host::started(1).await;
    let draft = Draft::new(&host, "job")
        .set("model.max_shard_size", "10KB")
        .set("train.max_steps", 4)
        .set("train.save_steps", 2);
    let expect = host.complete(&draft).await.job.metrics;
    let saved = weights(&draft.path("out"));
    let names: Vec<&str> = saved.iter().map(|(name, _)| name.as_str()).collect();
    let shards = [1, 2, 3].map(|number| format!("model-{number:05}-of-00003.safetensors"));
    assert_eq!(names, shards);

    let resumed = draft
        .clone()
        .set("train.resume_from_checkpoint", "out/checkpoint-2")
        .set("output_dir", "resumed");
    host.complete(&resumed).await;
    assert!(weights(&resumed.path("resumed")) == saved, "resumed from several files");

    let given = draft
        .set("model.name_or_path", "./out")
        .set("train.do_train", false)
        .set("output_dir", "given");
    let found = host.complete(&given).await.job.metrics;
    assert_eq!(found["eval_loss"], expect["eval_loss"], "read from several files");
}
