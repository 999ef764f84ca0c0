//! Stalled servers: a waiting job can be cancelled at once, resumes its download later, and does not
//! wait forever.

use std::time::Instant;

use traind_proto::reasons;
use traind_proto::v1::{JobState, Outcome, Phase};
use traind_tests::bucket::Bucket;
use traind_tests::hub::{Hub, MODEL};
use traind_tests::{Draft, Host, POLL, data, model, timeout, until};

use super::{environment, losses, message};

/// A running host with variables of its environment.
async fn host(environment: Vec<(&'static str, String)>) -> Host {
    let mut host = Host::prepared(1);
    let named = environment.into_iter().map(|(name, value)| (name.to_owned(), value));
    host.set_environment(named.collect());
    host.start().await;
    host
}

async fn until_fetching(host: &Host) {
    let start = Instant::now();
    loop {
        let cores = host.cores().await;
        let usage = cores[0].usage.as_ref();
        if usage.is_some_and(|usage| usage.phase() == Phase::Fetch) {
            return;
        }
        assert!(start.elapsed() < timeout(), "{cores:?}");
        tokio::time::sleep(POLL).await;
    }
}

/// Cancels a job that is fetching.
async fn cancel(host: &Host, draft: &Draft) {
    let job = host.create(draft).await.unwrap();
    until_fetching(host).await;
    host.cancel(&job.id).await;
    let history = host.watch(&job.id).await;
    assert_eq!(history.job.state(), JobState::Cancelled, "{:?}", history.job);
    assert_eq!(history.finished().outcome(), Outcome::Cancelled);
}

#[tokio::test]
async fn a_download_from_the_hub_is_cancelled_at_once_and_resumed_later() {
    let folder = tempfile::tempdir().unwrap();
    model::write(folder.path());
    let hub = Hub::start(folder.path(), None);
    let host = host(environment(&hub, None)).await;
    let on_hub = |name: &str| Draft::new(&host, name).set("model.name_or_path", MODEL);
    hub.server().stall(true);
    cancel(&host, &on_hub("cancelled")).await;
    hub.server().stall(false);
    let history = host.complete(&on_hub("again")).await;
    assert_eq!(losses(&history), losses(&host.complete(&Draft::new(&host, "folder")).await));
    let requests = hub.server().requests();
    let downloads: Vec<_> = requests.iter().filter(|it| it.path.starts_with("/lfs/")).collect();
    assert!(!downloads[0].headers.contains_key("range"), "{downloads:?}");
    assert_eq!(downloads.len(), 2, "{downloads:?}");
    let size = folder.path().join("model.safetensors").metadata().unwrap().len();
    assert_eq!(downloads[1].headers["range"], format!("bytes={}-", size / 2));
}

#[tokio::test]
async fn a_download_from_a_bucket_is_cancelled_at_once() {
    let rows = data::csv(&data::rows(1, 60, 6)).into_bytes();
    let bucket = Bucket::start(&[("train.csv", rows)]);
    let host = host(bucket.environment()).await;
    let on_bucket = |name: &str| Draft::new(&host, name).set("data.train", "s3://data/train.csv");
    bucket.server().stall(true);
    let job = host.create(&on_bucket("cancelled")).await.unwrap();
    until("the object is requested", || bucket.server().count("GET", "train.csv") > 0).await;
    host.cancel(&job.id).await;
    let history = host.watch(&job.id).await;
    assert_eq!(history.finished().outcome(), Outcome::Cancelled, "{:?}", history.job);
    bucket.server().stall(false);
    let history = host.complete(&on_bucket("again")).await;
    let fetched: Vec<&str> = history.fetched().iter().map(|it| it.name.as_str()).collect();
    assert_eq!(fetched, ["s3://data/train.csv"]);
}

#[tokio::test]
async fn a_download_without_progress_fails_the_job() {
    let folder = tempfile::tempdir().unwrap();
    model::write(folder.path());
    let hub = Hub::start(folder.path(), None);
    let mut known = environment(&hub, None);
    known.push(("HF_HUB_DOWNLOAD_TIMEOUT", "1".to_owned()));
    let host = Host::started_with_environment(1, known).await;
    hub.server().stall(true);
    let history = host.run(&Draft::new(&host, "job").set("model.name_or_path", MODEL)).await;
    hub.server().stall(false);
    let failure = history.finished().failure.clone().unwrap();
    assert_eq!(failure.reason, reasons::FILE_UNREADABLE);
    let message = message(&history);
    assert!(
        message.starts_with(
            "model org/tiny: the hub cannot be reached: the download of model.safetensors"
        ),
        "{message}"
    );
}
