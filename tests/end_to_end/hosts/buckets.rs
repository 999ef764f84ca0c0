//! Hosts that share no folder: they meet by a key and an address, and their output is in a bucket.

use std::fs;
use std::path::Path;
use std::process::Command;

use traind_proto::reasons;
use traind_tests::bucket::{BUCKET, Bucket};
use traind_tests::{Draft, Host, Runners, TrainerState, until};

use super::shards::sharded;
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
        self.job_of(name, |draft| job_file(draft, 2).replace(change[0], change[1]))
    }

    /// A job with paths and output as those of `job`, from the job file that `write` returns.
    fn job_of(&self, name: &str, write: impl Fn(&Draft) -> String) -> (Draft, String) {
        let draft = Draft::new(&self.hosts[0], name);
        let at = |name: &str| draft.path(name).display().to_string();
        let job = write(&draft)
            .replace("./model", &at("model"))
            .replace("train.csv", &at("train.csv"))
            .replace("validation.parquet", &at("validation.parquet"))
            .replace("output_dir: out", &format!("output_dir: s3://{BUCKET}/{name}"));
        (draft, job)
    }

    fn start(&self, job: &(Draft, String)) -> Runners {
        self.start_with(job, |_, _| {})
    }

    /// Starts the runners of both hosts with commands that `change` changes or replaces.
    fn start_with(
        &self,
        (draft, job): &(Draft, String),
        change: impl Fn(usize, &mut Command),
    ) -> Runners {
        let [_, second] = &self.hosts;
        fs::write(second.path("job.yaml"), job).unwrap();
        Runners::start_with(&self.hosts[0], draft, job, 2, |rank, command| {
            command.env("TRAIND_COORDINATOR", &self.coordinator);
            command.env("TRAIND_RENDEZVOUS_KEY", KEY).envs(self.bucket.environment());
            if rank == 1 {
                command.current_dir(second.path(""));
                command.env("TRAIND_CACHE_DIR", second.path("cache"));
            }
            change(rank, command);
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

/// Replaces a command by one that runs it where `folder` is empty, as on a host that does not share it.
fn hide(command: &mut Command, folder: &Path) {
    let mut hidden = Command::new("unshare");
    hidden.args(["--mount", "sh", "-c", "mount -t tmpfs none \"$0\" && exec \"$@\""]);
    hidden.arg(folder).arg(command.get_program()).args(command.get_args());
    hidden.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    hidden.current_dir(command.get_current_dir().unwrap());
    *command = hidden;
}

fn can_hide() -> bool {
    let status = Command::new("unshare").args(["--mount", "true"]).status();
    let can = status.is_ok_and(|status| status.success());
    if !can {
        eprintln!("skipped: no mount namespaces");
    }
    can
}

/// Each host saves its part, and host 0 makes one model of them.
#[tokio::test]
async fn hosts_that_divide_the_state_need_a_shared_folder_for_checkpoints() {
    if is_skipped() || !can_hide() {
        return;
    }
    let hosts = Hosts::new();
    let run = async |name: &str, more: &str| {
        let job = hosts.job_of(name, |draft| sharded(draft, 2, "{fsdp: full_shard}") + more);
        // Where host 0 would stage checkpoints for the bucket.
        let own = job.0.path(&format!("{name}-run"));
        fs::create_dir(&own).unwrap();
        let mut runners = hosts.start_with(&job, |rank, command| {
            if rank == 1 {
                hide(command, &own);
            }
        });
        runners.ended().await;
        runners
    };
    let runners = run("unshared", "").await;
    let failure = runners.finished(0).failure.unwrap();
    assert_eq!((failure.reason.as_str(), failure.step), (reasons::HOSTS_DIFFER, None));
    for part in [
        "of host 0 cannot be read on host 1",
        "so checkpoint_dir must be a folder that all hosts see",
    ] {
        assert!(failure.message.contains(part), "{failure:?}\n{}", runners.logs());
    }

    let shared = hosts.hosts[0].path("checkpoints");
    let more = format!("checkpoint_dir: {}\n", shared.display());
    let mut runners = run("shared", &more).await;
    runners.completed().await;
    assert!(!hosts.object("shared/model.safetensors").is_empty());
    assert!(shared.join("checkpoint-10/manifest.json").exists());
}
