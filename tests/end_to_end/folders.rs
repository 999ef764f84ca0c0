//! Output folders with files of others: nothing is lost that traind did not write for the same output.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use tonic::Status;
use tonic_types::StatusExt;
use traind_proto::reasons;
use traind_proto::v1::JobState;
use traind_tests::{Draft, Host};

/// The files at the top of a folder and in its checkpoints with their contents, without traind's notes.
fn contents(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let (path, name) = {
            let entry = entry.unwrap();
            (entry.path(), entry.file_name().into_string().unwrap())
        };
        if path.is_file() {
            found.insert(name, fs::read(path).unwrap());
        } else if name.starts_with("checkpoint-") {
            let inside = contents(&path).into_iter();
            found.extend(inside.map(|(file, content)| (format!("{name}/{file}"), content)));
        }
    }
    found
}

/// The field and the description of the only violation.
fn violation(refused: &Status) -> (String, String) {
    let details = refused.get_error_details();
    let violations = &details.bad_request().unwrap().field_violations;
    let [violation] = &violations[..] else { panic!("{violations:?}") };
    (violation.field.clone(), violation.description.clone())
}

/// Saves every 2 of 4 steps.
fn short(host: &Host, name: &str) -> Draft {
    Draft::new(host, name).set("train.max_steps", 4).set("train.save_steps", 2)
}

async fn refused(host: &Host, draft: &Draft, says: &str) {
    let (_, description) = violation(&host.create(draft).await.unwrap_err());
    assert!(description.contains(says), "{description}");
}

#[tokio::test]
async fn adapters_join_their_base_model_which_no_job_replaces() {
    let host = Host::started(1).await;
    let draft = Draft::new(&host, "job")
        .write("model/README.md", "about the base")
        .write("model/notes.txt", "mine")
        .set("train.max_steps", 2)
        .set("train.save_strategy", "no");
    let model = draft.path("model");
    let before = contents(&model);
    symlink("model", draft.path("link")).unwrap();

    for spelled in ["model", "missing/../model", "link/"] {
        let full = draft.clone().set("output_dir", spelled).set("train.overwrite_output_dir", true);
        let (field, description) = violation(&host.create(&full).await.unwrap_err());
        assert_eq!(field, "output_dir");
        assert!(description.contains("which the job reads as model.name_or_path"), "{description}");
    }
    let lora = draft.clone().set("peft.method", "lora").set("output_dir", "link");
    let history = host.complete(&lora).await;
    assert!(history.log_messages().iter().any(|line| line.contains("README.md stays as it is")));
    let after = contents(&model);
    for (name, content) in &before {
        assert!(after.get(name) == Some(content), "{name} has changed");
    }
    for name in ["adapter_config.json", "adapter_model.safetensors", "trainer_state.json"] {
        assert!(after.contains_key(name), "{name} is missing");
    }
    // The adapters are not in the way of another job that trains the same base.
    host.complete(&draft.clone().set("output_dir", "full")).await;
    refused(&host, &lora, "has adapter_config.json, adapter_model.safetensors").await;
    let again = host.complete(&lora.set("train.overwrite_output_dir", true)).await;
    again.assert_complete();
    assert!(contents(&model)["model.safetensors"] == before["model.safetensors"]);
}

#[tokio::test]
async fn the_output_of_an_earlier_job_is_replaced_on_request_alone() {
    let host = Host::started(1).await;
    let draft = short(&host, "job");
    let first = host.complete(&draft).await.job;
    let out = draft.path("out");
    fs::write(out.join("notes.txt"), "mine").unwrap();
    fs::write(out.join("checkpoint-2/notes.txt"), "mine").unwrap();
    fs::create_dir(out.join("checkpoint-9")).unwrap();
    fs::write(out.join("checkpoint-9/optimizer.pt"), "the Trainer's").unwrap();
    let before = contents(&out);

    let next = draft.clone().set("train.save_total_limit", 1).set("train.save_steps", 3);
    refused(&host, &next, "has checkpoint-2, checkpoint-4, checkpoint-9").await;
    let elsewhere = next.clone().set("checkpoint_dir", "kept");
    refused(&host, &elsewhere, "train.overwrite_output_dir: true").await;
    assert!(contents(&out) == before);

    let history = host.complete(&next.clone().set("train.overwrite_output_dir", true)).await;
    assert_ne!(history.job.id, first.id);
    let after = contents(&out);
    let checkpoints: Vec<&str> =
        after.keys().filter_map(|name| Some(name.split_once('/')?.0)).collect();
    let mut kept = checkpoints.clone();
    kept.dedup();
    assert_eq!(kept, ["checkpoint-2.before", "checkpoint-4", "checkpoint-9"]);
    assert_eq!(after["checkpoint-2.before/notes.txt"], b"mine");
    assert_eq!(after["checkpoint-9/optimizer.pt"], b"the Trainer's");
    assert_eq!(after["notes.txt"], b"mine");

    // The run is continued where it is, and rotates its own checkpoints alone.
    let longer = next.set("train.max_steps", 9).set("train.resume_from_checkpoint", "auto");
    let continued = host.complete(&longer).await;
    assert_eq!(continued.resumed()[0].step, 4);
    assert_eq!(continued.warnings("CHECKPOINT_SET_ASIDE").len(), 1);
    let after = contents(&out);
    assert_eq!(after["checkpoint-9.before/optimizer.pt"], b"the Trainer's");
    assert!(after.contains_key("checkpoint-9/manifest.json"));
    assert!(!after.contains_key("checkpoint-4/manifest.json"));
}

#[tokio::test]
async fn one_job_at_a_time_writes_a_folder_whatever_the_daemon_and_the_spelling() {
    let (one, other) = (Host::started(1).await, Host::started(1).await);
    let draft = short(&one, "job");
    let out = draft.path("out");
    fs::create_dir(&out).unwrap();
    symlink(&out, draft.path("link")).unwrap();
    // Its daemon accepts it while the folder is free, and its core is not.
    let blocker = Draft::new(&other, "blocker").endless();
    let blocked = other.gate("blocker", 1);
    let blocker = other.create(&blocker).await.unwrap();
    other.until_at(&blocker.id, &blocked).await;
    let late = short(&one, "late");
    let waiting = short(&other, "waiting").set("output_dir", late.path("x/../out").display());
    let waiting = other.create(&waiting).await.unwrap();

    let gate = one.gate("job", 1);
    let running = one.create(&draft).await.unwrap();
    one.until_at(&running.id, &gate).await;
    for spelled in ["link", "x/../out", "link/../out/."] {
        let same = draft.clone().set("output_dir", "elsewhere").set("checkpoint_dir", spelled);
        let said = one.create(&same).await.unwrap_err();
        assert!(said.message().contains("in use by job"), "{said:?}");
        let apart = Draft::new(&other, &format!("of-{}", spelled.len()))
            .set("output_dir", draft.path(spelled).display());
        refused(&other, &apart, &format!("is in use by job {} (job) on", running.id)).await;
    }
    gate.open();
    one.watch(&running.id).await.assert_complete();

    let first = one.complete(&late).await.job;
    let before = contents(&late.path("out"));
    blocked.open();
    other.cancel(&blocker.id).await;
    let second = other.watch(&waiting.id).await.job;
    let failure = second.failure.unwrap();
    assert_eq!(failure.reason, reasons::OUTPUT_DIR_OCCUPIED, "{failure:?}");
    assert!(failure.message.contains(&format!("of job {}", first.id)), "{failure:?}");
    let after = contents(&late.path("out"));
    assert!(after == before, "the model of the other daemon's job has changed");
}

#[tokio::test]
async fn a_fork_that_waits_keeps_its_checkpoint() {
    let host = Host::started(1).await;
    let draft = Draft::new(&host, "parent")
        .set("train.max_steps", 8)
        .set("train.save_steps", 2)
        .set("train.save_total_limit", 1);
    let gate = host.gate("parent", 3);
    let parent = host.create(&draft).await.unwrap();
    host.until_at(&parent.id, &gate).await;
    host.until(&parent.id, |_| draft.path("out/checkpoint-2/manifest.json").exists()).await;
    let forked = host.cli(draft.folder(), &["fork", "parent"]);
    assert_eq!(forked.code, Some(0), "{forked:?}");
    let dropped = host.cli(draft.folder(), &["fork", "parent", "--set", "name=dropped"]);
    host.cancel(dropped.stdout.trim()).await;
    gate.open();
    let fork = host.watch(forked.stdout.trim()).await;
    assert_eq!(fork.job.state(), JobState::Completed, "{:?}", fork.finished());
    assert_eq!(fork.resumed()[0].step, 2);
    assert!(draft.path("out/checkpoint-2").exists() && !draft.path("out/checkpoint-4").exists());
    let holds = draft.path("out/.traind/holds");
    host.until(&parent.id, |_| fs::read_dir(&holds).unwrap().next().is_none()).await;
}
