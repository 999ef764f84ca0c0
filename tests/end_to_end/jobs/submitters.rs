//! A job of another user of the host, with the real runner. Skipped unless the tests run as root.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use traind_proto::v1::{CompileSource, JobState};
use traind_tests::{Draft, Host, JOB_FILE};

use crate::tasks::causal_draft;

/// A user id without an account, and a group that every system has.
const ANN: u32 = 4242;
const USERS: u32 = 100;

/// A host for several users, whose programs and plugin are readable by all of them.
async fn open_host() -> Host {
    let host = Host::started_with(1, &["--socket-group=users", "--run-as=submitter"]).await;
    fs::set_permissions(host.path(""), Permissions::from_mode(0o755)).unwrap();
    let plugin = host.plugin();
    let target = fs::canonicalize(&plugin).unwrap();
    fs::remove_file(&plugin).unwrap();
    // It may be on another file system.
    if fs::hard_link(&target, &plugin).is_err() {
        fs::copy(&target, &plugin).unwrap();
    }
    host
}

fn give(folder: &Path) {
    chown(folder, Some(ANN), Some(USERS)).unwrap();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        match entry.file_type().unwrap().is_dir() {
            true => give(&entry.path()),
            false => chown(entry.path(), Some(ANN), Some(USERS)).unwrap(),
        }
    }
}

fn as_ann(host: &Host, folder: &Path, arguments: &[&str]) -> traind_tests::CommandOutput {
    let mut command: Command = host.traind();
    command.args(arguments).current_dir(folder).uid(ANN).gid(USERS);
    traind_tests::CommandOutput::of(command.output().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_runs_as_its_submitter_who_owns_the_output() {
    if !rustix::process::geteuid().is_root() {
        return eprintln!("skipped: needs root");
    }
    let host = open_host().await;
    let draft = Draft::new(&host, "anns");
    fs::write(draft.path("job.yaml"), JOB_FILE).unwrap();
    give(draft.folder());
    let output = as_ann(&host, draft.folder(), &["submit", "job.yaml", "--watch"]);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    let job = host.get(output.stdout.trim()).await;
    assert_eq!((job.state(), job.owner.as_str()), (JobState::Completed, "4242"));
    for name in ["out", "out/model.safetensors", "out/trainer_state.json"] {
        assert_eq!(fs::metadata(draft.path(name)).unwrap().uid(), ANN, "{name}");
    }
    let executables = host.path("cache/users/4242/executables");
    assert!(
        fs::read_dir(&executables).unwrap().count() > 0,
        "compiled by that user, for that user"
    );
    let samples = as_ann(&host, draft.folder(), &["samples", &job.id, "--step", "1"]);
    assert!(samples.code == Some(0) && samples.stdout.contains("train.csv"), "{samples:?}");

    // The file's owner may change between submission and start.
    let waits =
        ["submit", "job.yaml", "--set=output_dir=out2", "--set=resources.max_run_seconds=60"];
    chown(draft.path("train.csv"), Some(0), Some(0)).unwrap();
    fs::set_permissions(draft.path("train.csv"), Permissions::from_mode(0o600)).unwrap();
    let refused = as_ann(&host, draft.folder(), &waits);
    assert!(refused.stderr.contains("user 4242 may not read"), "{refused:?}");
}

/// The process that generates has the rights of the job's user, and sees the roots, the cache and no more.
#[tokio::test(flavor = "multi_thread")]
async fn texts_are_generated_by_the_submitter_within_the_roots() {
    if !rustix::process::geteuid().is_root() {
        return eprintln!("skipped: needs root");
    }
    let mut host = open_host().await;
    host.kill_daemon();
    let root = host.path("").display().to_string();
    host.add_options(&["--allow-root", &root]);
    host.start().await;
    let draft = causal_draft(&host, "anns");
    let steps = "--set=train.max_steps=2";
    fs::write(draft.path("job.yaml"), &draft.job_file).unwrap();
    give(draft.folder());
    let output = as_ann(&host, draft.folder(), &["submit", "job.yaml", steps, "--watch"]);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    let id = output.stdout.trim();
    let texts = as_ann(&host, draft.folder(), &["generate", "--job", id, "the good film"]);
    assert_eq!(texts.code, Some(0), "{}", texts.stderr);
    let executables = host.path("cache/users/4242/executables");
    let files = fs::read_dir(&executables).unwrap().flatten();
    let owners: Vec<u32> = files.map(|file| file.metadata().unwrap().uid()).collect();
    assert!(owners.len() > 2 && owners.iter().all(|uid| *uid == ANN), "compiled by that user");

    // A model that this user may not read.
    let model = draft.path("out/model.safetensors");
    chown(&model, Some(0), Some(0)).unwrap();
    fs::set_permissions(&model, Permissions::from_mode(0o600)).unwrap();
    let refused = as_ann(&host, draft.folder(), &["generate", "--job", id, "the good film"]);
    assert!(refused.code == Some(1) && refused.stderr.contains("Permission denied"), "{refused:?}");
}

/// A waiting job's process has the rights of the job's user too, and sees the roots and the user's own cache.
#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_job_is_prepared_as_its_submitter_within_the_roots() {
    if !rustix::process::geteuid().is_root() {
        return eprintln!("skipped: needs root");
    }
    let mut host = open_host().await;
    host.kill_daemon();
    // The link to programs that tests share leads out of the sandbox.
    fs::remove_file(host.path("cache/executables")).unwrap();
    let [first, anns] = ["first", "anns"].map(|name| Draft::new(&host, name));
    // A job at a gate writes that it is there.
    let gates = host.path("gates");
    fs::create_dir_all(&gates).unwrap();
    for root in [first.folder(), anns.folder(), &gates] {
        host.add_options(&["--allow-root", root.to_str().unwrap()]);
    }
    host.start().await;
    let gate = host.gate("first", 2);
    let first = host.create(&first.endless()).await.unwrap();
    host.until_at(&first.id, &gate).await;

    fs::write(anns.path("job.yaml"), JOB_FILE).unwrap();
    give(anns.folder());
    let output = as_ann(&host, anns.folder(), &["submit", "job.yaml"]);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    let id = output.stdout.trim().to_owned();
    // Created, waiting, prepared.
    host.until(&id, |job| job.last_sequence >= 3).await;
    for name in ["tokens", "executables"] {
        let files = fs::read_dir(host.path("cache/users/4242").join(name)).unwrap().flatten();
        let owners: Vec<u32> = files.map(|file| file.metadata().unwrap().uid()).collect();
        assert!(!owners.is_empty() && owners.iter().all(|uid| *uid == ANN), "{name}: {owners:?}");
    }

    gate.open();
    host.cancel(&first.id).await;
    let history = host.watch(&id).await;
    assert_eq!(history.job.state(), JobState::Completed, "{}", host.runner_log(&id));
    assert_eq!(history.prepared().len(), 1, "{:?}", history.events);
    let compiled = history.compiled();
    let from_disk = compiled.iter().filter(|it| it.source() == CompileSource::Disk).count();
    assert!(from_disk > 0 && from_disk == compiled.len(), "{compiled:?}");
    assert!(history.data().iter().all(|data| data.cache_hit), "{:?}", history.data());
}
