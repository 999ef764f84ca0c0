//! A full cache evicts entries that no job uses.

use std::fs;

use traind_proto::v1::Event;
use traind_proto::v1::event::Kind;
use traind_tests::bucket::Bucket;
use traind_tests::{Draft, Host, data};

fn entries(host: &Host, folder: &str) -> Vec<String> {
    let listed =
        fs::read_dir(host.path(&format!("cache/{folder}"))).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        listed.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.retain(|name| !name.starts_with('.'));
    names.sort();
    names
}

#[tokio::test]
async fn compiled_programs_are_evicted() {
    let mut host = Host::cold(1);
    host.add_options(&["--cache-limit", "0"]);
    host.start().await;
    let history = host.complete(&Draft::new(&host, "job").set("train.max_steps", 1)).await;
    let compiled = |event: &Event| matches!(event.kind, Some(Kind::Compiled(_)));
    assert!(history.events.iter().any(compiled), "{history:?}");
    assert_eq!(entries(&host, "executables"), [""; 0]);
}

#[tokio::test]
async fn a_full_cache_evicts_unused_entries_only() {
    let object = |seed| data::csv(&data::rows(seed, 60, 6)).into_bytes();
    let bucket = Bucket::start(&[("a.csv", object(1)), ("b.csv", object(5))]);
    let mut host = Host::prepared(2);
    host.add_options(&["--cache-limit", "0"]);
    host.set_environment(
        bucket.environment().into_iter().map(|(name, value)| (name.into(), value)).collect(),
    );
    host.start().await;
    let on = |name: &str, object: &str| {
        Draft::new(&host, name).set("data.train", format!("s3://data/{object}.csv"))
    };
    let gate = host.gate("running", 1);
    let running = host.create(&on("running", "a").endless()).await.unwrap();
    host.until_at(&running.id, &gate).await;
    let used = [entries(&host, "objects"), entries(&host, "tokens")];
    assert_eq!([used[0].len(), used[1].len()], [1, 2], "{used:?}");

    // Another job's entries are added, and evicted by the job after it, or by the first one if its last program is
    // ready later.
    let gate = host.gate("other", 1);
    let other = host.create(&on("other", "b")).await.unwrap();
    host.until_at(&other.id, &gate).await;
    let both = [entries(&host, "objects"), entries(&host, "tokens")];
    assert_eq!([both[0].len(), both[1].len()], [2, 3], "{both:?}");
    gate.open();
    host.watch(&other.id).await;
    let third = host.complete(&on("third", "a")).await;
    assert_eq!([entries(&host, "objects"), entries(&host, "tokens")], used);
    assert!(third.data()[0].cache_hit, "it found what the running job uses");
    host.cancel(&running.id).await;
    host.watch(&running.id).await;

    // No job uses it now.
    host.complete(&on("last", "b")).await;
    let left = entries(&host, "objects");
    assert!(left.len() == 1 && left != used[0], "{left:?}");
}
