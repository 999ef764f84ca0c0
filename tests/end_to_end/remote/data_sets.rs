//! Data sets by hub id: the files of a split as `load_dataset` finds them.

use std::fs;
use std::path::Path;

use traind_proto::reasons;
use traind_tests::hub::{DATA_SET, Hub, MODEL};
use traind_tests::{Draft, Host, data, model};

use super::{environment, losses, message};

/// Writes the rows of drafts as a data set: two files to train on and one to validate on, a folder in
/// another language, and files that are not data.
fn write_data_set(folder: &Path) {
    let rows = data::rows(1, 60, 6);
    let write = |name: &str, content: Vec<u8>| {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    };
    write("data/train-00000-of-00002.parquet", data::parquet(&rows[..30]));
    write("data/train-00001-of-00002.parquet", data::parquet(&rows[30..]));
    write("data/validation-00000-of-00001.parquet", data::parquet(&data::rows(2, 53, 6)));
    write("more/train.csv", data::csv(&rows).into_bytes());
    write("loader.py", b"raise SystemExit".to_vec());
}

fn on_hub(host: &Host, name: &str) -> Draft {
    Draft::new(host, name).set("data.train", DATA_SET).set("data.validation", DATA_SET)
}

#[tokio::test]
async fn a_data_set_of_the_hub_gives_the_same_losses_as_its_files() {
    let folder = tempfile::tempdir().unwrap();
    let (tiny, set) = (folder.path().join("model"), folder.path().join("set"));
    model::write(&tiny);
    write_data_set(&set);
    let hub = Hub::with_data_set(&tiny, &set);
    let host = Host::started_with_environment(1, environment(&hub, None)).await;
    let of_files = host.complete(&Draft::new(&host, "files")).await;
    hub.server().cut(1);
    let of_hub = host.complete(&on_hub(&host, "hub").set("model.name_or_path", MODEL)).await;
    assert_eq!(losses(&of_hub), losses(&of_files));
    let (train, validation) = (of_hub.data()[0], of_hub.data()[1]);
    assert_eq!((train.files, train.rows, validation.rows), (2, 60, 53));
    let samples = host.cli(&host.path("hub"), &["samples", &of_hub.job.id, "--step", "1"]);
    let name = "hf://datasets/org/rows/data/train-0000";
    assert!(samples.stdout.contains(name), "{samples:?}");
    let requests = hub.server().requests();
    assert!(
        requests.iter().all(|it| !it.path.ends_with(".py") && !it.path.ends_with("more/train.csv"))
    );

    // It is where `huggingface_hub` looks for it, and is not fetched again.
    let links = host.path("cache/hub/datasets--org--rows/snapshots");
    let link = fs::read_dir(links).unwrap().next().unwrap().unwrap().path();
    let file = link.join("data/train-00000-of-00002.parquet");
    assert!(fs::read_link(&file).unwrap().starts_with("../../../blobs"));
    assert_eq!(
        fs::read(file).unwrap(),
        fs::read(set.join("data/train-00000-of-00002.parquet")).unwrap()
    );
    let fetched = hub.server().count("GET", ".parquet");
    host.complete(&on_hub(&host, "again")).await;
    assert_eq!(hub.server().count("GET", ".parquet"), fetched);

    // A configuration is a folder. Single files may be named, also of a revision.
    let more = on_hub(&host, "more").set("data.dataset_config_name", "more");
    let more = host.complete(&more.set("data.validation", "validation.parquet")).await;
    assert_eq!((more.data()[0].files, losses(&more)), (1, losses(&of_files)));
    let named = on_hub(&host, "named").set("data.train", "hf://datasets/org/rows@main/more/*.csv");
    assert_eq!(losses(&host.complete(&named).await), losses(&of_files));
}

#[tokio::test]
async fn unreadable_data_sets_are_named_in_the_error() {
    let folder = tempfile::tempdir().unwrap();
    let (tiny, set) = (folder.path().join("model"), folder.path().join("set"));
    model::write(&tiny);
    write_data_set(&set);
    let card = "---\nconfigs:\n- config_name: en\n  data_files:\n  - {split: train, path: data/train-*}\n\
        - config_name: de\n  data_files: nowhere.csv\n---\n";
    fs::write(set.join("README.md"), card).unwrap();
    let hub = Hub::with_data_set(&tiny, &set);
    let host = Host::started_with_environment(1, environment(&hub, None)).await;
    let check = async |draft: Draft, reason: &str, field: &str, words: &str| {
        let history = host.run(&draft).await;
        let failure = history.finished().failure.clone().unwrap();
        assert_eq!((failure.reason.as_str(), failure.field()), (reason, field), "{failure:?}");
        assert_eq!(message(&history), words);
    };
    let of = |name: &str, key: &str, value: &str| {
        Draft::new(&host, name).set("data.train", DATA_SET).set(key, value)
    };
    let which = "data set org/rows: it has several configurations; data.dataset_config_name is one of en, de";
    check(of("which", "train.seed", "1"), reasons::JOB_FILE_INVALID, "data.train", which).await;
    let french = "data set org/rows: it has no configuration fr; it has en, de";
    let draft = of("french", "data.dataset_config_name", "fr");
    check(draft, reasons::JOB_FILE_INVALID, "data.train", french).await;
    let split = "data set org/rows: it has no split validation; it has train";
    let draft = of("split", "data.dataset_config_name", "en").set("data.validation", DATA_SET);
    check(draft, reasons::FILE_NOT_FOUND, "data.validation", split).await;
    let nowhere = "data set org/rows: it has no file nowhere.csv";
    let draft = of("nowhere", "data.dataset_config_name", "de");
    check(draft, reasons::FILE_NOT_FOUND, "data.train", nowhere).await;
    let unknown = of("unknown", "data.train", "org/none");
    let history = host.run(&unknown).await;
    assert!(
        message(&history).starts_with("data set org/none: the hub has no repository of that name")
    );
    // A name with a file extension is a file.
    let refused = host.create(&of("file", "data.train", "data/train.csv")).await.unwrap_err();
    assert!(format!("{refused:?}").contains("there is no file"), "{refused:?}");
}
