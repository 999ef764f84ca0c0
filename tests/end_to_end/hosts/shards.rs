//! Jobs whose hosts each hold a part of the state, and save it together.

use std::fs;
use std::path::Path;

use traind_tests::{Draft, Host, Runners, until};

use super::{STEPS, assert_close, bits, is_skipped, job_file, series, weights};

/// The job of the other tests with matrices that are large enough to be sharded, and settings of `parallel`.
pub(super) fn sharded(draft: &Draft, hosts: usize, parallel: &str) -> String {
    let large = "{intermediate_size: 2050, hidden_dropout_prob: 0.1}\n  from_config: true";
    let job = job_file(draft, hosts).replace("{hidden_dropout_prob: 0.1}", large);
    format!("{job}\nparallel: {parallel}\n")
}

fn start(host: &Host, draft: &Draft, hosts: usize, fsdp: &str) -> Runners {
    let job = sharded(draft, hosts, &format!("{{fsdp: {fsdp}}}"));
    Runners::start(host, draft, &job, hosts)
}

/// Starts the runners of the sharded job from a checkpoint.
fn resume(host: &Host, draft: &Draft, hosts: usize, from: &Path) -> Runners {
    let from = format!("\ntrain:\n  resume_from_checkpoint: {}\n", from.display());
    let job = sharded(draft, hosts, "{fsdp: full_shard}").replacen("\ntrain:\n", &from, 1);
    Runners::start(host, draft, &job, hosts)
}

/// The names of the files of a checkpoint that match.
fn files(checkpoint: &Path, part: &str) -> Vec<String> {
    let entries = fs::read_dir(checkpoint).unwrap().map(|entry| entry.unwrap().file_name());
    let names = entries.map(|name| name.into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| name.contains(part)).collect();
    names.sort();
    names
}

fn assert_equal(found: &Draft, expected: &Draft) {
    for (key, tolerance) in [("grad_norm", 1e-5), ("eval_loss", 1e-6)] {
        let name = format!("{key} of {}", found.folder().display());
        assert_close(&name, &series(found, key), &series(expected, key), tolerance);
    }
    assert_losses(found, expected, STEPS as usize);
    let [found, expected] = [found, expected]
        .map(|draft| weights(draft).into_iter().map(f64::from).collect::<Vec<_>>());
    assert_close("weights", &found, &expected, 1e-5);
}

/// Compares the losses of the last `steps` steps.
#[track_caller]
fn assert_losses(found: &Draft, expected: &Draft, steps: usize) {
    let losses = [found, expected].map(|draft| series(draft, "loss"));
    let [found, expected] = losses.each_ref().map(|losses| &losses[losses.len() - steps..]);
    // Hosts add gradients in another order: their norms differ by up to 2e-6, and the losses after an update by half.
    assert_close("loss", found, expected, 2e-6);
}

const PARTS: [&str; 2] =
    ["optimizer-host-00000-of-00002.safetensors", "optimizer-host-00001-of-00002.safetensors"];

#[tokio::test]
async fn shards_over_hosts_equal_one_host_and_resume_on_any_number() {
    if is_skipped() {
        return;
    }
    let host = Host::prepared(4);
    let one = Draft::new(&host, "one");
    start(&host, &one, 1, "full_shard").completed().await;
    let two = Draft::new(&host, "two");
    let mut runners = start(&host, &two, 2, "full_shard");
    runners.completed().await;
    assert_equal(&two, &one);
    let left = files(&two.path("out"), ".partial");
    assert!(left.is_empty(), "{left:?}");

    // The checkpoint is a whole model, and the optimizer's state in the parts of both.
    let checkpoint = two.path("out/checkpoint-5");
    assert_eq!(files(&checkpoint, "optimizer"), PARTS);
    assert_eq!(files(&checkpoint, "model"), ["model.safetensors"]);
    assert!(files(&checkpoint, "parameters").is_empty());
    let whole = one.path("out/checkpoint-5");
    assert_eq!(files(&whole, "optimizer"), ["optimizer.safetensors"]);
    let later = (STEPS - 5) as usize;
    for (name, hosts, from) in [("fewer", 1, &checkpoint), ("more", 2, &whole)] {
        let draft = Draft::new(&host, name);
        let mut runners = resume(&host, &draft, hosts, from);
        runners.completed().await;
        assert!(runners.logs().contains("resumed after step 5"), "{}", runners.logs());
        assert_losses(&draft, &one, later);
    }

    // A checkpoint without the parts of all hosts is none.
    fs::remove_file(checkpoint.join(PARTS[1])).unwrap();
    let torn = Draft::new(&host, "torn");
    let mut runners = resume(&host, &torn, 1, &checkpoint);
    runners.ended().await;
    let failure = runners.finished(0).failure.unwrap();
    assert_eq!(failure.reason, "CHECKPOINT_CORRUPT", "{failure:?}");
    assert!(failure.message.contains(PARTS[1]), "{failure:?}");
}

#[tokio::test]
async fn a_host_that_dies_costs_shards_no_bit() {
    if is_skipped() {
        return;
    }
    let host = Host::prepared(4);
    let two = Draft::new(&host, "two");
    start(&host, &two, 2, "full_shard").completed().await;
    let killed = Draft::new(&host, "killed");
    let gate = host.gate("killed", 8);
    let mut runners = start(&host, &killed, 2, "full_shard");
    until("both wait at the gate", || {
        gate.is_reached() && killed.path("out/checkpoint-5/manifest.json").exists()
    })
    .await;
    runners.kill(1);
    runners.ended().await;
    gate.open();
    let mut runners = start(&host, &killed, 2, "full_shard");
    runners.completed().await;
    assert!(runners.logs().contains("resumed after step 5"), "{}", runners.logs());
    assert_eq!(bits(&weights(&killed)), bits(&weights(&two)));
}

#[tokio::test]
async fn every_sharding_over_hosts_equals_one_host() {
    if is_skipped() {
        return;
    }
    let host = Host::prepared(4);
    let one = Draft::new(&host, "one");
    start(&host, &one, 1, "no").completed().await;
    for fsdp in ["shard_optimizer", "shard_grad_op", "hybrid_shard", "hybrid_shard_zero2"] {
        let two = Draft::new(&host, fsdp);
        start(&host, &two, 2, fsdp).completed().await;
        assert_equal(&two, &one);
        // The first host saves all that each host holds.
        let is_whole = fsdp.starts_with("hybrid");
        let parts = files(&two.path("out/checkpoint-5"), "optimizer");
        assert_eq!(parts.len(), if is_whole { 1 } else { 2 }, "{fsdp}: {parts:?}");
    }
}
