//! Data by `s3://` URLs: interrupted downloads resume, and each error is one clear sentence.

use traind_proto::reasons;
use traind_tests::bucket::{Bucket, DENIED, SECRET_KEY};
use traind_tests::{Draft, History, Host, data};

fn objects() -> Vec<(&'static str, Vec<u8>)> {
    let rows = data::rows(1, 60, 6);
    let denied: &'static str = Box::leak(format!("{DENIED}train.csv").into_boxed_str());
    vec![
        ("train/part-2.csv", data::csv(&rows[30..]).into_bytes()),
        ("train/part-1.csv", data::csv(&rows[..30]).into_bytes()),
        ("train/notes.txt", b"not data".to_vec()),
        ("validation.parquet", data::parquet(&data::rows(2, 53, 6))),
        ("bad.csv", b"text,label\ncat,animal\ncat,animal,more\n".to_vec()),
        (denied, b"text,label\n".to_vec()),
    ]
}

fn draft(host: &Host, name: &str) -> Draft {
    Draft::new(host, name)
        .set("data.train", "s3://data/train/*.csv")
        .set("data.validation", "s3://data/validation.parquet")
}

fn failure(history: &History) -> (String, String) {
    let failure = history.finished().failure.clone().unwrap_or_default();
    (failure.reason, failure.message)
}

#[tokio::test]
async fn a_bucket_gives_the_same_losses_as_files() {
    let bucket = Bucket::start(&objects());
    let host = Host::started_with_environment(1, bucket.environment()).await;
    let on_files = host.complete(&Draft::new(&host, "files")).await;
    bucket.server().cut(3);
    let on_bucket = host.complete(&draft(&host, "bucket")).await;
    let losses =
        |history: &History| history.steps().iter().map(|step| step.loss).collect::<Vec<_>>();
    assert_eq!(losses(&on_bucket), losses(&on_files));
    assert_eq!(on_bucket.data()[0].files, 2);
    let output = host.cli(&host.path("bucket"), &["samples", &on_bucket.job.id, "--step", "1"]);
    assert!(output.stdout.contains("s3://data/train/part-1.csv"), "{output:?}");

    // The same objects are not fetched again.
    let fetched = bucket.server().count("GET", ".csv");
    let again = host.complete(&draft(&host, "again")).await;
    assert_eq!(losses(&again), losses(&on_files));
    assert_eq!(bucket.server().count("GET", ".csv"), fetched);

    // The credentials appear nowhere.
    let text = format!("{:?}{:?}", on_bucket.events, on_bucket.job);
    assert!(!text.contains(SECRET_KEY));
    assert!(!host.runner_log(&on_bucket.job.id).contains(SECRET_KEY));
}

#[tokio::test]
async fn unreadable_objects_are_explained_in_one_sentence() {
    let bucket = Bucket::start(&objects());
    let host = Host::started_with_environment(1, bucket.environment()).await;
    for (name, url, reason, expect) in [
        ("bucket", "s3://other/a.csv", reasons::FILE_NOT_FOUND, "there is no such bucket"),
        ("key", "s3://data/a.csv", reasons::FILE_NOT_FOUND, "the bucket has no such object"),
        ("glob", "s3://data/train/*.json", reasons::FILE_NOT_FOUND, "no file matches"),
        (
            "denied",
            "s3://data/private/train.csv",
            reasons::FILE_UNREADABLE,
            "access denied; the credentials in use may not read it",
        ),
        ("no-key", "s3://data", reasons::FILE_UNREADABLE, "expected s3://BUCKET/KEY"),
    ] {
        let history = host.run(&draft(&host, name).set("data.train", url)).await;
        assert_eq!(failure(&history), (reason.to_owned(), format!("{url}: {expect}")), "{name}");
    }
    let bad = host.run(&draft(&host, "bad").set("data.train", "s3://data/bad.csv")).await;
    let expect = "s3://data/bad.csv, row 1 (line 3): 3 fields where the rows before have 2";
    assert_eq!(failure(&bad), (reasons::DATA_ROW_INVALID.to_owned(), expect.to_owned()));
}

#[tokio::test]
async fn folders_and_urls_are_allowed_by_separate_options() {
    let bucket = Bucket::start(&objects());
    let mut host = Host::started_with_environment(1, bucket.environment()).await;
    host.kill_daemon();
    let root = host.path("").display().to_string();
    host.add_options(&["--allow-root", &root, "--allow-url", "s3://data/train"]);
    host.start().await;
    let allowed = draft(&host, "allowed").set("data.validation", "validation.parquet");
    // The shared cache of programs is outside the allowed folders, so that the job fails later.
    let history = host.run(&allowed).await;
    assert_eq!(history.data()[0].rows, 60, "{:?}", history.job);
    let refused = host.create(&draft(&host, "refused")).await.unwrap_err();
    let details = format!("{refused:?}");
    assert!(
        refused.message().contains("s3://data/validation.parquet")
            || details.contains("s3://data/validation.parquet"),
        "{details}"
    );
}
