//! Hosts that share no folder: they meet by a key and an address, and their output is in a bucket.

use std::fs;

use traind_tests::bucket::{BUCKET, Bucket};
use traind_tests::{Draft, Host, Runners, TrainerState, until};

use super::{SAVE_STEPS, is_skipped, job_file};

const KEY: &str = "6b1c0e5f7a9d3b2846f0e1d2c3b4a5968778695a4b3c2d1e0f1a2b3c4d5e6f70";

/// Two hosts, each with a cache and a working folder of its own.
struct Hosts {
    hosts: [Host; 2],
    bucket: Bucket,
    coordinator: String,
}

impl Hosts {
    fn new() -> Hosts {
        // Below the ports that the kernel gives, and another one for each process of a test.
        let port = 20_000 + std::process::id() % 10_000;
        let coordinator = format!("127.0.0.1:{port}");
        Hosts { hosts: [0, 1].map(|_| Host::prepared(4)), bucket: Bucket::start(&[]), coordinator }
    }

    /// A job whose inputs have the same paths on both hosts, and whose output is in the bucket. `change` replaces a
    /// text of the job file.
    fn job(&self, name: &str, change: [&str; 2]) -> (Draft, String) {
        let draft = Draft::new(&self.hosts[0], name);
        let at = |name: &str| draft.path(name).display().to_string();
        let job = job_file(&draft, 2)
            .replace("./model", &at("model"))
            .replace("train.csv", &at("train.csv"))
            .replace("validation.parquet", &at("validation.parquet"))
            .replace("output_dir: out", &format!("output_dir: s3://{BUCKET}/{name}"))
            .replace(change[0], change[1]);
        (draft, job)
    }

    fn start(&self, (draft, job): &(Draft, String)) -> Runners {
        let [_, second] = &self.hosts;
        fs::write(second.path("job.yaml"), job).unwrap();
        Runners::start_with(&self.hosts[0], draft, job, 2, |rank, command| {
            command.env("TRAIND_COORDINATOR", &self.coordinator);
            command.env("TRAIND_RENDEZVOUS_KEY", KEY).envs(self.bucket.environment());
            if rank == 1 {
                command.current_dir(second.path(""));
                command.env("TRAIND_CACHE_DIR", second.path("cache"));
            }
            true
        })
    }

    fn object(&self, key: &str) -> Vec<u8> {
        self.bucket.object(key).unwrap_or_else(|| panic!("no {key}"))
    }
}

#[tokio::test]
async fn hosts_without_a_shared_folder_resume_from_the_bucket_when_one_dies() {
    if is_skipped() {
        return;
    }
    let hosts = Hosts::new();
    let whole = hosts.job("whole", ["", ""]);
    hosts.start(&whole).completed().await;

    let killed = hosts.job("killed", ["", ""]);
    let gate = hosts.hosts[0].gate("killed", 8);
    let mut runners = hosts.start(&killed);
    until("a checkpoint is in the bucket", || {
        gate.is_reached() && hosts.bucket.checkpoints("killed") == [SAVE_STEPS]
    })
    .await;
    runners.kill(1);
    runners.ended().await;
    assert!(runners.logs().contains("host 1 (node1"), "{}", runners.logs());
    gate.open();
    let mut runners = hosts.start(&killed);
    runners.completed().await;
    assert!(runners.logs().contains("resumed after step 5"), "{}", runners.logs());
    let model = "model.safetensors";
    assert!(hosts.object(&format!("killed/{model}")) == hosts.object(&format!("whole/{model}")));
    hosts.bucket.assert_never_torn();
}

/// A checkpoint that was not uploaded is on the disk of host 0 alone.
#[tokio::test]
async fn hosts_without_a_shared_folder_skip_a_checkpoint_that_the_bucket_lacks() {
    if is_skipped() {
        return;
    }
    let hosts = Hosts::new();
    let job = hosts.job("job", ["", ""]);
    let gate = hosts.hosts[0].gate("job", 11);
    let mut runners = hosts.start(&job);
    until("both checkpoints are in the bucket", || {
        gate.is_reached() && hosts.bucket.checkpoints("job") == [SAVE_STEPS, 2 * SAVE_STEPS]
    })
    .await;
    runners.kill(1);
    runners.ended().await;
    gate.open();
    hosts.bucket.remove("job/checkpoint-10/manifest.json");
    let mut runners = hosts.start(&job);
    runners.completed().await;
    assert!(runners.logs().contains("resumed after step 5"), "{}", runners.logs());
}

#[tokio::test]
async fn hosts_without_a_shared_folder_load_the_best_model_from_the_bucket() {
    if is_skipped() {
        return;
    }
    let hosts = Hosts::new();
    // The first evaluation has the highest loss.
    let best = "eval_steps: 5\n  load_best_model_at_end: true\n  greater_is_better: true";
    let mut runners = hosts.start(&hosts.job("best", ["eval_steps: 6", best]));
    runners.completed().await;
    let line = "loaded the best model, which is that of step 5";
    assert!(runners.logs().contains(line), "{}", runners.logs());
    // Each host evaluates its own rows with what it has loaded.
    let state =
        serde_json::from_slice(&hosts.object("best/trainer_state.json")).map(TrainerState).unwrap();
    assert_eq!(runners.finished(0).metrics["eval_loss"], state.series("eval_loss")[0]);
}
