//! The pages, each with what it takes for granted.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use traind_job_file::JobFile;
use traind_proto::v1::JobState;
use traind_tests::{Host, JOB_FILE, Runners, data};

use super::{Skipped, Walk};
use crate::hosts::is_skipped;

const BUILT: &str = "the test has the programs";
const NETWORK: &str = "downloads";
const DAEMON: &str = "the test has a daemon of its own";
const SCREEN: &str = "is a screen, which needs a terminal";
const ROOT: &str = "needs root, or changes the machine";
const RELEASE: &str =
    "needs the files of a release; scripts/lib/packages/verify_packages checks them";

#[tokio::test(flavor = "multi_thread")]
async fn the_first_job_is_trained_as_its_page_says() {
    const SKIPPED: Skipped = &[
        ("cargo build", BUILT),
        ("export PATH", BUILT),
        ("traind plugins install", NETWORK),
        ("traind serve", DAEMON),
        ("traind top", SCREEN),
    ];
    let mut walk = Walk::new(Host::started(2).await, "docs/first-job.md", SKIPPED);
    walk.write_model("minilm", "bert-sequence-classification");
    walk.write("data/reviews.csv", data::csv(&data::rows(1, 60, 6)));
    for command in walk.commands() {
        let output = walk.run(&command);
        if command.ends_with("--watch") {
            let ending = format!("job {} completed\n", output.stdout.trim());
            assert!(output.stderr.contains(&ending), "{output:?}");
        }
    }
    let job_file = walk.read("job.yaml");
    assert!(walk.blocks("yaml").any(|block| block == job_file), "{job_file}");

    walk.start_endless("endless").await;
    walk.placeholders = vec![
        ("cancel 1", "cancel endless".to_owned()),
        (" 1", " sequence-classification".to_owned()),
    ];
    for command in walk.table_commands() {
        walk.run(&command);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_are_converted_as_their_page_says() {
    let walk = Walk::new(Host::prepared(1), "docs/moving.md", &[]);
    walk.write(
        "hyperparameters.json",
        r#"{"model_name": "org/name", "task": "masked-lm", "epochs": 2}"#,
    );
    walk.write(
        "train.sh",
        "python run_mlm.py --model_name_or_path org/name --train_file a.txt --do_train",
    );
    walk.write(
        "axolotl.yaml",
        "base_model: org/name\ndatasets:\n  - {path: a.jsonl, type: completion}\nmicro_batch_size: 2\n",
    );
    walk.write("training_args.json", r#"{"learning_rate": 0.001, "num_train_epochs": 2}"#);
    let commands = walk.commands();
    assert!(commands.len() >= 5, "{commands:?}");
    for command in commands {
        walk.run(&command);
        let job_file = walk.read("job.yaml");
        if let Err(violations) = JobFile::parse(&job_file, Path::new("/")) {
            panic!("{command}: {violations:?}\n{job_file}");
        }
        // The page's commands are alternatives, and none replaces a file.
        std::fs::remove_file(walk.folder().join("job.yaml")).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn texts_are_generated_as_their_page_says() {
    let walk = Walk::new(Host::started(1).await, "docs/models.md", &[]);
    walk.write_model("out/summaries", "t5-seq2seq-lm");
    walk.write_model("llama", "llama-causal-lm");
    let config = walk.read("llama/config.json");
    let positions = "\"max_position_embeddings\": 16";
    assert!(config.contains(positions), "{config}");
    walk.write("llama/config.json", config.replace(positions, "\"max_position_embeddings\": 64"));
    let model = walk.folder().join("llama").display().to_string();
    let settings = [
        ("model.task", "causal-lm"),
        ("model.name_or_path", model.as_str()),
        ("data.label_map", "null"),
        ("data.block_size", "8"),
        ("train.max_steps", "500"),
        ("train.logging_steps", "100"),
        ("train.learning_rate", "1e-4"),
    ];
    walk.complete("poems", &settings).await;
    let commands = walk.commands();
    assert_eq!(commands.len(), 3, "{commands:?}");
    for command in commands {
        walk.run(&command);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_is_operated_as_its_page_says() {
    const SKIPPED: Skipped = &[
        ("dpkg", ROOT),
        ("apt-get", ROOT),
        ("sudo", ROOT),
        ("systemctl", ROOT),
        ("traind plugins install", NETWORK),
        ("traind serve", DAEMON),
        ("TRAIND_TOKEN_FILE", "needs another host with certificates"),
        ("minisign", RELEASE),
        ("ssh-keygen", RELEASE),
    ];
    let mut walk = Walk::new(Host::started(1).await, "docs/operating.md", SKIPPED);
    let settings =
        [("train.max_steps", "2002"), ("train.save_steps", "2000"), ("train.logging_steps", "500")];
    walk.complete("tweets", &settings).await;
    // The daemon's folder, where it is without an option.
    fs::create_dir_all(walk.folder().join(".local/state")).unwrap();
    symlink(walk.host.path("state"), walk.folder().join(".local/state/traind")).unwrap();
    for command in walk.commands() {
        let stops = command.starts_with("traind doctor") && !command.contains("--platform");
        if stops {
            walk.host.kill_daemon();
        }
        let shown = walk.run(&command).stdout;
        if stops {
            walk.host.start().await;
        }
        if command == "traind token ls" {
            assert_eq!(shown.lines().count(), 3, "{shown}");
            let id = shown.lines().nth(1).and_then(|line| line.split_whitespace().next()).unwrap();
            walk.placeholders.push(("nsvrc4d8h9", id.to_owned()));
        }
        if command.starts_with("traind token revoke") {
            let left = walk.run("traind token ls").stdout;
            assert_eq!(left.lines().count(), 2, "{left}");
        }
        if command.starts_with("traind fork") {
            let fork = walk.host.watch(shown.trim()).await;
            assert_eq!(fork.job.name, "tweets-fork");
            assert_eq!(fork.job.state(), JobState::Completed, "{:?}", fork.job);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_is_looked_into_as_its_page_says() {
    let walk = Walk::new(Host::started(1).await, "docs/troubleshooting.md", &[]);
    let job = walk.fail("hot", ("train.learning_rate", "1e30")).await;
    assert_eq!(job.failure.unwrap().reason, "LOSS_NOT_FINITE");
    let commands = walk.commands();
    assert_eq!(commands.len(), 3, "{commands:?}");
    for command in commands {
        let shown = walk.run(&command).stdout;
        assert!(shown.contains("LOSS_NOT_FINITE"), "{command}\n{shown}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn meshes_are_compared_as_their_page_says() {
    const SKIPPED: Skipped = &[("scripts/bench/plans", "takes minutes")];
    let walk = Walk::new(Host::started(1).await, "docs/parallelism.md", SKIPPED);
    walk.write_inputs();
    walk.write("job.yaml", JOB_FILE);
    let commands = walk.commands();
    assert!(!commands.is_empty());
    for command in commands {
        walk.run(&command);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_without_a_daemon_is_followed_as_its_page_says() {
    const SKIPPED: Skipped = &[
        ("traind doctor", "needs a cluster"),
        ("srun", "needs Slurm, which scripts/soak/slurm has"),
        ("TRAIND_HOST_RANK", "needs four hosts; hosts/mod.rs starts runners in this way"),
    ];
    if is_skipped() {
        return;
    }
    let mut walk = Walk::new(Host::started(4).await, "docs/hosts.md", SKIPPED);
    walk.write_inputs();
    let job_file = JOB_FILE
        .replace("name: tiny", "name: bert-wide")
        .replace("cores: 1", "hosts: 4\n  cores: 1")
        .replace("output_dir: out", "output_dir: out/bert-wide");
    walk.write("job.yaml", job_file);
    let library = Runners::mpi_library().unwrap();
    let mpirun = library.with_file_name("../bin/mpirun");
    let mpirun = format!("TRAIND_PLUGIN_MPI={} {} ", library.display(), mpirun.display());
    walk.placeholders = vec![("mpirun ", mpirun)];
    let commands = walk.commands();
    assert_eq!(commands.len(), 3, "{commands:?}");
    for command in commands {
        let shown = walk.run(&command).stdout;
        if command.starts_with("traind adopt") {
            let job = walk.host.watch(shown.trim()).await.job;
            assert_eq!((job.name.as_str(), job.state()), ("bert-wide", JobState::Completed));
        }
        if command.ends_with("--host 3") {
            assert!(!shown.is_empty());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_hosts_are_planned_as_their_page_says() {
    const SKIPPED: Skipped = &[("cargo test", "is one of the tests")];
    let walk = Walk::new(Host::started(1).await, "docs/scaling.md", SKIPPED);
    walk.write_inputs();
    walk.write("job.yaml", JOB_FILE);
    let commands = walk.commands();
    assert_eq!(commands.len(), 1, "{commands:?}");
    let shown = walk.run(&commands[0]).stdout;
    assert!(shown.contains("512"), "{shown}");
}

/// The tables of commands name a job `ID` or `JOB`, which becomes `1`, as other placeholders do.
#[tokio::test(flavor = "multi_thread")]
async fn the_commands_of_the_readme_work() {
    const SKIPPED: Skipped = &[
        ("traind demo", NETWORK),
        ("traind plugins install", NETWORK),
        ("traind serve", DAEMON),
        ("traind top", SCREEN),
        ("traind adopt", "needs a run without a daemon; docs/hosts.md has it"),
        ("traind doctor", "needs a cluster, or a daemon that is stopped; docs/operating.md has it"),
        ("traind web", "needs --web-address; clients/web_page.rs has it"),
        ("traind token revoke", "needs an id; docs/operating.md has it"),
        ("traind token create", "needs a user; docs/operating.md has it"),
        ("traind convert", "needs settings; docs/moving.md has them"),
        ("traind embed", "needs a model of embeddings; docs/embeddings.md has it"),
        ("traind mine", "needs a model of embeddings; training/embeddings/mining.rs has it"),
        ("traind backup", "needs the daemon's folder; docs/operating.md has it"),
        ("traind restore", "needs a backup; docs/operating.md has it"),
    ];
    let mut walk = Walk::new(Host::started(4).await, "README.md", SKIPPED);
    walk.write_inputs();
    walk.write_model("t5", "t5-seq2seq-lm");
    walk.write("JOB.yaml", JOB_FILE);
    let generative = walk.folder().join("t5").display().to_string();
    let settings = [
        ("model.task", "seq2seq-lm"),
        ("model.name_or_path", generative.as_str()),
        ("data.label_map", "null"),
        ("data.source", "text"),
        ("data.target", "label"),
        ("data.validation", "null"),
        ("train.save_steps", "1"),
        ("train.max_steps", "2"),
    ];
    walk.complete("done", &settings).await;
    walk.start_endless("endless").await;
    walk.placeholders = vec![
        ("init 1 1", "init model train.csv".to_owned()),
        ("generate 1 1", "generate t5 the".to_owned()),
        ("--job 1 1", "--job done the".to_owned()),
        ("profile 1 --steps 1", "profile endless --steps=2".to_owned()),
        ("cancel 1", "cancel endless".to_owned()),
        ("--at 1", "--at 2".to_owned()),
        ("1 --step 1 ", "done --step 1".to_owned()),
        (" 1 ", " done ".to_owned()),
    ];
    for command in walk.table_commands() {
        walk.run(&format!("{command} "));
    }
}
