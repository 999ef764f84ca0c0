//! Models by hub id: fetched into the Hugging Face cache, pinned to a commit across restarts, and
//! without a trace of the token.

use std::fs;
use std::path::Path;

use traind_proto::reasons;
use traind_proto::v1::JobState;
use traind_tests::hub::{COMMIT, GATED, Hub, MODEL, TOKEN};
use traind_tests::{Draft, Host, JOB_FILE, model};

use super::{environment, losses, message};

fn tiny(folder: &Path) {
    fs::create_dir_all(folder).unwrap();
    model::write(folder);
}

fn on_hub(host: &Host, name: &str) -> Draft {
    Draft::new(host, name).set("model.name_or_path", MODEL)
}

#[tokio::test]
async fn a_model_of_the_hub_gives_the_same_losses_as_its_folder() {
    let folder = tempfile::tempdir().unwrap();
    tiny(folder.path());
    let hub = Hub::start(folder.path(), Some(TOKEN));
    let host = Host::started_with_environment(1, environment(&hub, Some(TOKEN))).await;
    let of_folder = host.complete(&Draft::new(&host, "folder")).await;
    hub.server().cut(2);
    let of_hub = host.complete(&on_hub(&host, "hub")).await;
    assert_eq!(losses(&of_hub), losses(&of_folder));

    // The download resumed where it was cut off, on the redirected host and without the token.
    let requests = hub.server().requests();
    let redirected: Vec<_> = requests.iter().filter(|it| it.path.starts_with("/lfs/")).collect();
    assert_eq!(redirected.len(), 3);
    assert!(redirected[1].headers["range"] != redirected[2].headers["range"]);
    assert!(redirected.iter().all(|it| !it.headers.contains_key("authorization")));
    let text = format!("{:?}{:?}{}", of_hub.events, of_hub.job, host.runner_log(&of_hub.job.id));
    assert!(!text.contains(TOKEN));
    for entry in fs::read_dir(host.path(&format!("state/jobs/{}", of_hub.job.id))).unwrap() {
        let content = fs::read(entry.unwrap().path()).unwrap_or_default();
        assert!(!String::from_utf8_lossy(&content).contains(TOKEN));
    }

    let fetched = of_hub.fetched();
    let weights = fetched.iter().find(|it| it.name == "org/tiny/model.safetensors").unwrap();
    let bytes = fs::metadata(folder.path().join("model.safetensors")).unwrap().len();
    assert_eq!((weights.bytes, weights.bytes_total), (bytes, bytes));
    assert!(fetched.iter().any(|it| it.name == "org/tiny/tokenizer.json"), "{fetched:?}");

    // It is where `huggingface_hub` looks for it.
    let repository = host.path("cache/hub/models--org--tiny");
    assert_eq!(fs::read_to_string(repository.join("refs/main")).unwrap(), COMMIT);
    let weights = repository.join("snapshots").join(COMMIT).join("model.safetensors");
    assert!(fs::read_link(&weights).unwrap().starts_with("../../blobs"));

    // By its commit it is already cached.
    let asked = hub.server().requests().len();
    let of_commit = on_hub(&host, "commit").set("model.revision", COMMIT);
    assert_eq!(losses(&host.complete(&of_commit).await), losses(&of_folder));
    assert_eq!(hub.server().requests().len(), asked);
}

#[tokio::test]
async fn unfetchable_models_are_named_in_the_error() {
    let folder = tempfile::tempdir().unwrap();
    tiny(folder.path());
    let hub = Hub::start(folder.path(), None);
    let host = Host::started_with_environment(1, environment(&hub, None)).await;
    let unknown = host.run(&on_hub(&host, "unknown").set("model.name_or_path", "org/none")).await;
    assert!(
        message(&unknown).starts_with("model org/none: the hub has no repository of that name")
    );
    let finished = unknown.finished().failure.clone().unwrap();
    assert_eq!(finished.reason, reasons::FILE_NOT_FOUND);
    assert_eq!(finished.field.as_deref(), Some("model.name_or_path"));
    let gated = host.run(&on_hub(&host, "gated").set("model.name_or_path", GATED)).await;
    assert!(message(&gated).contains("its owner must grant access"), "{gated:?}");
    let revision = host.run(&on_hub(&host, "revision").set("model.revision", "v9")).await;
    assert_eq!(message(&revision), "model org/tiny: it has no revision \"v9\"");

    let weights = folder.path().join("model.safetensors");
    fs::rename(&weights, folder.path().join("pytorch_model.bin")).unwrap();
    let pickle = host.run(&on_hub(&host, "pickle")).await;
    assert!(message(&pickle).contains("its weights are pickle files only"), "{pickle:?}");
    let fetched = hub.server().requests();
    assert!(fetched.iter().all(|request| !request.path.ends_with(".bin")));
}

#[tokio::test]
async fn offline_mode_uses_only_the_cache() {
    let folder = tempfile::tempdir().unwrap();
    tiny(folder.path());
    let hub = Hub::start(folder.path(), None);
    let mut known = environment(&hub, None);
    known.push(("HF_HUB_OFFLINE", "1".to_owned()));
    known.push(("HF_HUB_CACHE", folder.path().join("cache").display().to_string()));
    let host = Host::started_with_environment(1, known).await;
    let absent = host.run(&on_hub(&host, "absent")).await;
    assert!(message(&absent).contains("and HF_HUB_OFFLINE is set"), "{absent:?}");
    // A folder that is not written as one.
    let folder_by_name = Draft::new(&host, "bare").set("model.name_or_path", "model");
    let bare = host.run(&folder_by_name).await;
    assert_eq!(bare.job.state(), JobState::Completed, "{bare:?}");
    let [warning] = &bare.job.warnings[..] else { panic!("{:?}", bare.job.warnings) };
    assert_eq!(warning.code, "HUB_ID_IS_FOLDER");
    assert!(warning.message.contains("is read as the folder `./model`"), "{warning:?}");
    let repository = folder.path().join("cache/models--org--tiny");
    tiny(&repository.join("snapshots").join(COMMIT));
    fs::create_dir(repository.join("refs")).unwrap();
    fs::write(repository.join("refs/main"), COMMIT).unwrap();
    host.complete(&on_hub(&host, "there")).await;
    assert!(hub.server().requests().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_fetches_only_the_configuration() {
    let folder = tempfile::tempdir().unwrap();
    tiny(folder.path());
    let hub = Hub::start(folder.path(), Some(TOKEN));
    let host = Host::started_with_environment(1, environment(&hub, Some(TOKEN))).await;
    let draft = Draft::new(&host, "planned");
    fs::write(draft.path("job.yaml"), JOB_FILE).unwrap();
    let plan = |model: &str| {
        host.cli(
            draft.folder(),
            &["plan", "job.yaml", &format!("--set=model.name_or_path={model}")],
        )
    };
    let (of_folder, of_hub) = (plan("./model"), plan(MODEL));
    assert_eq!(of_hub.code, Some(0), "{of_hub:?}");
    assert_eq!(of_hub.stdout, of_folder.stdout);
    let paths: Vec<String> = hub.server().requests().into_iter().map(|it| it.path).collect();
    let config = format!("/{MODEL}/resolve/{COMMIT}/config.json");
    assert_eq!(paths, [format!("/api/models/{MODEL}/revision/main"), config]);
    assert!(!host.path("cache/hub").exists(), "nothing is written");

    let unknown = plan("org/none");
    assert_eq!(unknown.code, Some(1));
    assert!(
        unknown.stderr.contains("org/none: the hub has no repository of that name"),
        "{unknown:?}"
    );
    assert_eq!(unknown.stderr.matches("no repository of that name").count(), 1, "{unknown:?}");
    // Submitting does not wait for the hub.
    let asked = hub.server().requests().len();
    let waits = on_hub(&host, "submitted").set("resources.max_wait_seconds", 1000);
    let blocking = host.create(&Draft::new(&host, "first").endless()).await.unwrap();
    host.until_past(&blocking.id, 0).await;
    host.create(&waits).await.unwrap();
    assert_eq!(hub.server().requests().len(), asked);
}
