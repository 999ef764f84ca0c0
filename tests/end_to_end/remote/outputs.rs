//! Output folders and checkpoints in a bucket.

use std::fs;
use std::path::Path;

use traind_proto::reasons;
use traind_proto::v1::{JobState, SavedKind};
use traind_tests::bucket::{BUCKET, Bucket, DENIED};
use traind_tests::{Draft, Host, until};

const STEPS: u64 = 60;
const SAVE_STEPS: u64 = 11;

fn draft(host: &Host, name: &str) -> Draft {
    Draft::new(host, name)
        .set("train.max_steps", STEPS)
        .set("train.save_steps", SAVE_STEPS)
        .set("train.save_total_limit", 2)
}

/// The job with its output in the bucket.
fn in_bucket(host: &Host, name: &str, folder: &str) -> Draft {
    draft(host, name).set("output_dir", format!("s3://{BUCKET}/{folder}"))
}

/// Whether an object is the same as a file.
fn same(bucket: &Bucket, key: &str, file: &Path) -> bool {
    bucket.object(key).is_some_and(|bytes| bytes == fs::read(file).unwrap())
}

#[tokio::test]
async fn a_bucket_has_the_model_although_each_write_fails_once() {
    // A checkpoint of an earlier run, which is given up.
    let manifest = br#"{"files": [{"name": "model.safetensors", "bytes": 1}]}"#.to_vec();
    let bucket = Bucket::start(&[
        ("runs/one/checkpoint-60/manifest.json", manifest),
        ("runs/one/checkpoint-60/model.safetensors", vec![0]),
    ]);
    bucket.fail_writes(1);
    let host = Host::started_with_environment(1, bucket.environment()).await;
    let on_disk = draft(&host, "disk");
    host.complete(&on_disk).await;
    let job = in_bucket(&host, "bucket", "runs/one/").set("train.overwrite_output_dir", true);
    let history = host.complete(&job).await;
    bucket.assert_never_torn();
    assert_eq!(history.job.output_dir, "s3://data/runs/one");
    assert_eq!(history.finished().output_dir, "s3://data/runs/one");
    for file in on_disk.output("out").names() {
        let path = on_disk.path("out").join(&file);
        let key = format!("runs/one/{file}");
        match file.as_str() {
            "model.safetensors" | "config.json" | "tokenizer.json" => {
                assert!(same(&bucket, &key, &path), "{file}");
            }
            _ => assert!(!bucket.keys(&key).is_empty(), "{file}"),
        }
    }
    let last = history.uploaded().pop().unwrap();
    assert_eq!((last.url.as_str(), last.kind()), ("s3://data/runs/one", SavedKind::Final));
    assert!(history.uploaded().iter().any(|it| it.url == "s3://data/runs/one/checkpoint-55"));
    // The bucket has the checkpoints of `save_total_limit`, and nothing of those that were removed.
    assert_eq!(bucket.checkpoints("runs/one"), [55, 60]);
    let others = bucket.keys("runs/one/checkpoint-");
    assert!(others.iter().all(|key| key.contains("-55/") || key.contains("-60/")), "{others:?}");
    assert_eq!(bucket.keys("runs/one/.traind"), ["runs/one/.traind/record.json"]);
    let state = bucket.object("runs/one/trainer_state.json").unwrap();
    assert!(!String::from_utf8(state).unwrap().contains("/jobs/"), "names the run directory");
    let staged = host.path("state/jobs").join(&history.job.id).join("output");
    assert!(!staged.exists(), "the staged files are removed");
    let get = host.cli(&host.path(""), &["get", &history.job.id]);
    assert!(get.stdout.contains("s3://data/runs/one"), "{get:?}");
}

#[tokio::test]
async fn a_job_continues_on_another_host_from_the_bucket_alone() {
    let bucket = Bucket::start(&[]);
    let mut first = Host::started_with_environment(1, bucket.environment()).await;
    let whole = draft(&first, "whole").set("train.save_total_limit", 9);
    let whole = whole.set("model.config_overrides", "{hidden_dropout_prob: 0.1}");
    first.complete(&whole).await;
    let moved = |host: &Host, name: &str| {
        in_bucket(host, name, "moved")
            .set("train.resume_from_checkpoint", "auto")
            .set("model.config_overrides", "{hidden_dropout_prob: 0.1}")
    };
    let gate = first.gate("lost", 40);
    let job = first.create(&moved(&first, "lost")).await.unwrap();
    first.until_at(&job.id, &gate).await;
    until("two checkpoints are uploaded", || bucket.checkpoints("moved") == [22, 33]).await;
    first.kill_all();
    gate.open();
    // The newest checkpoint is half there.
    bucket.remove("moved/checkpoint-33/manifest.json");
    // The lease of a lost host ends by itself, after a while.
    bucket.remove("moved/.traind/lease");

    let second = Host::started_with_environment(1, bucket.environment()).await;
    let history = second.complete(&moved(&second, "found")).await;
    let [resumed] = history.resumed()[..] else { panic!("{:?}", history.event_names()) };
    assert_eq!(resumed.step, 22);
    bucket.assert_never_torn();
    assert!(same(&bucket, "moved/model.safetensors", &whole.path("out/model.safetensors")));
    let last = "checkpoint-55/optimizer.safetensors";
    assert!(same(&bucket, &format!("moved/{last}"), &whole.path("out").join(last)));

    // A checkpoint of the bucket by its URL, into a folder.
    let by_url = draft(&second, "by-url")
        .set("model.config_overrides", "{hidden_dropout_prob: 0.1}")
        .set("train.resume_from_checkpoint", "s3://data/moved/checkpoint-55");
    let history = second.complete(&by_url).await;
    assert_eq!(history.resumed()[0].step, 55);
    assert!(same(&bucket, "moved/model.safetensors", &by_url.path("out/model.safetensors")));
}

#[tokio::test]
async fn checkpoints_may_be_in_a_bucket_alone() {
    let bucket = Bucket::start(&[]);
    let host = Host::started_with_environment(1, bucket.environment()).await;
    let best = draft(&host, "best")
        .set("checkpoint_dir", "s3://data/checkpoints")
        .set("train.eval_strategy", "steps")
        .set("train.eval_steps", SAVE_STEPS)
        .set("train.load_best_model_at_end", true)
        .set("train.save_total_limit", 1);
    host.complete(&best).await;
    bucket.assert_never_torn();
    assert!(best.path("out/model.safetensors").exists());
    let names = bucket.keys("").into_iter().filter(|key| !key.ends_with("/.traind/record.json"));
    assert!(names.into_iter().all(|key| key.starts_with("checkpoints/checkpoint-")));
    let kept = best.output("out").trainer_state().0["best_model_checkpoint"].clone();
    let left = bucket.checkpoints("checkpoints");
    assert_eq!(left.len(), 1, "{left:?}");
    assert!(kept.as_str().unwrap().ends_with(&format!("/checkpoint-{}", left[0])), "{kept}");
    // A folder of their own.
    let folder = draft(&host, "folder").set("checkpoint_dir", "kept");
    host.complete(&folder).await;
    assert_eq!(folder.output("kept").names(), ["checkpoint-55", "checkpoint-60"]);
    assert!(!folder.output("out").names().iter().any(|name| name.starts_with("checkpoint-")));
}

#[tokio::test]
async fn nothing_of_others_in_a_bucket_is_replaced_or_removed() {
    let base = ["config.json", "model.safetensors", "tokenizer.json"];
    let mut objects: Vec<(String, Vec<u8>)> =
        base.iter().map(|name| (format!("base/{name}"), b"{}".to_vec())).collect();
    let manifest = br#"{"files": []}"#.to_vec();
    objects.push(("used/checkpoint-7/manifest.json".to_owned(), manifest));
    objects.push(("used/notes.txt".to_owned(), b"mine".to_vec()));
    let objects: Vec<(&str, Vec<u8>)> =
        objects.iter().map(|(key, bytes)| (key.as_str(), bytes.clone())).collect();
    let bucket = Bucket::start(&objects);
    let host = Host::started_with_environment(1, bucket.environment()).await;
    for (folder, expect) in [
        ("base", "s3://data/base has config.json, model.safetensors, tokenizer.json, which this"),
        ("used", "s3://data/used has checkpoint-7 of an earlier run; continue from the newest"),
    ] {
        let job = in_bucket(&host, folder, folder);
        let history = host.run(&job).await;
        let failure = history.finished().failure.clone().unwrap();
        assert_eq!(failure.reason, reasons::OUTPUT_DIR_OCCUPIED);
        assert!(failure.message.contains(expect), "{}", failure.message);
        assert_eq!(failure.field.as_deref(), Some("output_dir"));
    }
    assert_eq!(bucket.keys("").len(), objects.len(), "{:?}", bucket.keys(""));
    // A job's own location is not another job's.
    let first = in_bucket(&host, "first", "new");
    host.complete(&first).await;
    let before = bucket.object("new/model.safetensors");
    let history = host.run(&in_bucket(&host, "second", "new")).await;
    let failure = history.finished().failure.clone().unwrap();
    assert!(failure.message.contains("has checkpoint-55, checkpoint-60 of job"), "{failure:?}");
    assert_eq!(bucket.object("new/model.safetensors"), before);
}

#[tokio::test]
async fn a_bucket_that_takes_nothing_is_found_before_the_first_step() {
    let bucket = Bucket::start(&[]);
    let host = Host::started_with_environment(1, bucket.environment()).await;
    for (name, url, expect) in [
        ("none", "s3://other/a", "s3://other/a: there is no such bucket".to_owned()),
        (
            "denied",
            "s3://data/private/a",
            format!(
                "s3://data/{DENIED}a: access denied; the credentials in use may not write to it"
            ),
        ),
    ] {
        let history = host.run(&draft(&host, name).set("output_dir", url)).await;
        let failure = history.finished().failure.clone().unwrap();
        assert_eq!((failure.reason.as_str(), failure.message), (reasons::BUCKET_FAILED, expect));
        assert_eq!(failure.field.as_deref(), Some("output_dir"));
        assert!(history.steps().is_empty() && history.compiled().is_empty());
    }
    let refused = host.create(&draft(&host, "key").set("output_dir", "gs://data/a")).await;
    let details = format!("{:?}", refused.unwrap_err());
    assert!(details.contains("must be a folder or s3://BUCKET/PREFIX"), "{details}");
}

#[tokio::test]
async fn a_bucket_that_is_lost_does_not_stop_training() {
    let bucket = Bucket::start(&[]);
    let host = Host::started_with_environment(1, bucket.environment()).await;
    let lost = in_bucket(&host, "lost", "lost").set("train.save_steps", 20);
    let gate = host.gate("lost", 30);
    let job = host.create(&lost).await.unwrap();
    host.until_at(&job.id, &gate).await;
    until("a checkpoint is uploaded", || bucket.checkpoints("lost") == [20]).await;
    bucket.refuse_writes(true);
    gate.open();
    let history = host.watch(&job.id).await;
    assert_eq!(history.job.state(), JobState::Failed);
    assert_eq!(history.steps().last().unwrap().step, STEPS);
    let failure = history.finished().failure.clone().unwrap();
    assert_eq!(failure.reason, reasons::BUCKET_FAILED);
    assert!(failure.message.contains("access denied"), "{failure:?}");
    bucket.assert_never_torn();
    assert_eq!(bucket.checkpoints("lost"), [20]);
    // What is not uploaded stays.
    let staged = host.path("state/jobs").join(&job.id).join("output");
    assert!(staged.join("checkpoint-60/manifest.json").exists());
}
