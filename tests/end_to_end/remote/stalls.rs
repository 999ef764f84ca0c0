//! Servers that say nothing: a job can be cancelled at once, goes on where it was, and does not
//! wait for ever.

use std::time::{Duration, Instant};

use traind_proto::reasons;
use traind_proto::v1::{JobState, Outcome, Phase};
use traind_tests::bucket::Bucket;
use traind_tests::hub::{Hub, MODEL};
use traind_tests::{Draft, Host, data, model};

use super::{environment, losses, message};

/// Far less than it takes until a runner is killed that does not leave.
const AT_ONCE: Duration = Duration::from_secs(15);

async fn until_fetching(host: &Host) {
    let start = Instant::now();
    loop {
        let cores = host.cores().await;
        let usage = cores[0].usage.as_ref();
        if usage.is_some_and(|usage| usage.phase() == Phase::Fetch) {
            return;
        }
        assert!(start.elapsed() < traind_tests::PATIENCE, "{cores:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Cancels a job that is fetching.
async fn cancel(host: &Host, draft: &Draft) {
    let job = host.create(draft).await.unwrap();
    until_fetching(host).await;
    let start = Instant::now();
    host.cancel(&job.id).await;
    let story = host.watch(&job.id).await;
    assert_eq!(story.job.state(), JobState::Cancelled, "{:?}", story.job);
    // It left by itself, and was not killed.
    assert_eq!(story.finished().outcome(), Outcome::Cancelled);
    assert!(start.elapsed() < AT_ONCE, "it took {:?}", start.elapsed());
}

#[tokio::test]
async fn a_download_of_the_hub_is_cancelled_at_once_and_goes_on_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    model::write(folder.path());
    let hub = Hub::start(folder.path(), None);
    let host = Host::started_knowing(1, environment(&hub, None)).await;
    let on_hub = |name: &str| Draft::new(&host, name).set("model.name_or_path", MODEL);
    hub.server().stall(true);
    cancel(&host, &on_hub("cancelled")).await;
    hub.server().stall(false);
    let story = host.complete(&on_hub("again")).await;
    assert_eq!(losses(&story), losses(&host.complete(&Draft::new(&host, "folder")).await));
    let requests = hub.server().requests();
    let downloads: Vec<_> = requests.iter().filter(|it| it.path.starts_with("/lfs/")).collect();
    assert!(!downloads[0].headers.contains_key("range"), "{downloads:?}");
    assert_eq!(downloads.len(), 2, "{downloads:?}");
    let size = folder.path().join("model.safetensors").metadata().unwrap().len();
    assert_eq!(downloads[1].headers["range"], format!("bytes={}-", size / 2));
}

#[tokio::test]
async fn a_download_of_a_bucket_is_cancelled_at_once() {
    let rows = data::csv(&data::rows(1, 60, 6)).into_bytes();
    let bucket = Bucket::start(&[("train.csv", rows)]);
    let host = Host::started_knowing(1, bucket.environment()).await;
    let on_bucket = |name: &str| Draft::new(&host, name).set("data.train", "s3://data/train.csv");
    bucket.server().stall(true);
    let job = host.create(&on_bucket("cancelled")).await.unwrap();
    let start = Instant::now();
    while bucket.server().count("GET", "train.csv") == 0 {
        assert!(start.elapsed() < traind_tests::PATIENCE);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let start = Instant::now();
    host.cancel(&job.id).await;
    let story = host.watch(&job.id).await;
    assert_eq!(story.finished().outcome(), Outcome::Cancelled, "{:?}", story.job);
    assert!(start.elapsed() < AT_ONCE, "it took {:?}", start.elapsed());
    bucket.server().stall(false);
    let story = host.complete(&on_bucket("again")).await;
    let fetched: Vec<&str> = story.fetched().iter().map(|it| it.name.as_str()).collect();
    assert_eq!(fetched, ["s3://data/train.csv"]);
}

#[tokio::test]
async fn a_download_that_never_goes_on_fails() {
    let folder = tempfile::tempdir().unwrap();
    model::write(folder.path());
    let hub = Hub::start(folder.path(), None);
    let mut known = environment(&hub, None);
    known.push(("HF_HUB_DOWNLOAD_TIMEOUT", "1".to_owned()));
    let host = Host::started_knowing(1, known).await;
    hub.server().stall(true);
    let story = host.run(&Draft::new(&host, "job").set("model.name_or_path", MODEL)).await;
    hub.server().stall(false);
    let failure = story.finished().failure.clone().unwrap();
    assert_eq!(failure.reason, reasons::FILE_UNREADABLE);
    let told = message(&story);
    assert!(
        told.starts_with("model org/tiny: the hub cannot be reached: model.safetensors"),
        "{told}"
    );
}
