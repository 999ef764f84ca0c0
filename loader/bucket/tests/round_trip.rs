//! Files of a bucket, written and read back from the tests' own server.

#![allow(clippy::unwrap_used)] // helpers of tests fail by panicking

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use traind_bucket::{Bucket, Error, Lease, Location, Object, Problem, Taken, Timing, Upload};
use traind_tests::bucket::Bucket as Server;

/// The size of an object, of two parts and a rest.
const BYTES: usize = (16 << 20) + 5;

/// The client reads its settings from the environment, which is that of a process: so each case is a
/// run of this test's program.
fn in_environment(test: &str, server: &Server) {
    let program = std::env::current_exe().unwrap();
    let mut command = Command::new(program);
    command.args([test, "--exact", "--nocapture", "--include-ignored"]);
    let output = command.envs(server.environment()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    // A filter without a test succeeds, too.
    assert!(output.status.success() && said.contains("1 passed"), "{test}: {output:?}");
}

fn open(url: &str) -> Bucket {
    Bucket::open(Location::parse(url).unwrap()).unwrap()
}

fn always() -> bool {
    true
}

fn content() -> Vec<u8> {
    (0..BYTES).map(|index| (index % 251) as u8).collect()
}

#[test]
fn files_are_written_in_parts_and_read_back() {
    let server = Server::start(&[("runs/other/file", vec![1])]);
    server.fail_writes(1);
    in_environment("round_trip", &server);
    assert_eq!(server.object("runs/one/folder/large"), Some(content()));
    assert_eq!(server.keys(""), ["runs/one/folder/large", "runs/other/file"]);
    assert_eq!(server.unfinished_uploads(), 0);
}

#[test]
#[ignore = "is run with the environment of a server"]
fn round_trip() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("large");
    std::fs::write(&path, content()).unwrap();
    let bucket = open("s3://data/runs/one/");
    bucket.check(&always).unwrap();
    for name in ["folder/large", "folder/small"] {
        Upload::new(&path, name).unwrap().send(&bucket, &always).unwrap();
        std::fs::write(&path, b"small").unwrap();
    }
    let object = |name: &str, bytes| Object { name: name.to_owned(), bytes };
    let expect = [object("folder/large", BYTES as u64), object("folder/small", 5)];
    assert_eq!(bucket.list("", &always).unwrap(), expect);
    assert_eq!(bucket.list("folder", &always).unwrap(), expect);
    bucket.download(&expect[0], &path, &always).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), content());
    let short = bucket.download(&object("folder/small", 6), &path, &always).unwrap_err();
    assert!(matches!(*short.problem, Problem::Short { found: 5, expected: 6 }), "{short}");
    bucket.remove("folder/small", &always).unwrap();
    bucket.remove("folder/small", &always).unwrap();
    assert_eq!(bucket.read("folder/small", 5, &always).unwrap(), None);
    assert!(bucket.create("folder/small", b"first".to_vec(), &always).unwrap());
    assert!(!bucket.create("folder/small", b"other".to_vec(), &always).unwrap());
    assert_eq!(bucket.read("folder/small", 5, &always).unwrap().unwrap(), b"first");
    let long = bucket.read("folder/small", 4, &always).unwrap_err().to_string();
    assert!(long.ends_with("cannot read it: it has 5 bytes, more than 4"), "{long}");
    bucket.remove("folder/small", &always).unwrap();
}

#[test]
fn a_hostile_listing_leads_to_no_other_folder_and_no_endless_file() {
    let server = Server::start(&[
        ("runs/one/../../../evil", vec![1]),
        ("good/small", b"more than it listed".to_vec()),
    ]);
    in_environment("hostile_listing", &server);
}

#[test]
#[ignore = "is run with the environment of a server"]
fn hostile_listing() {
    let refused = open("s3://data/runs/one").list("", &always).unwrap_err().to_string();
    assert!(refused.contains("cannot list it") && refused.contains(".."), "{refused}");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("small");
    let listed = Object { name: "small".to_owned(), bytes: 4 };
    let long = open("s3://data/good").download(&listed, &path, &always).unwrap_err();
    assert!(matches!(*long.problem, Problem::Short { expected: 4, .. }), "{long}");
    assert!(std::fs::read(&path).unwrap().len() <= 4);
}

/// Long enough for the machine to pause between two renewals. A lease that is held is known by the first one.
const PATIENCE: Duration = Duration::from_secs(120);
const RENEWAL: Duration = Duration::from_millis(100);

fn lease_within(job: &str, patience: Duration) -> Result<Taken, Error> {
    let is_own = |line: &str| line == job;
    let timing = Timing { renewal: RENEWAL, patience };
    Lease::take(open("s3://data/runs"), "lease", job, is_own, timing, &always)
}

fn lease(job: &str) -> Result<Taken, Error> {
    lease_within(job, PATIENCE)
}

#[test]
fn one_run_at_a_time_holds_a_location() {
    let server = Server::start(&[]);
    in_environment("take_leases", &server);
    assert_eq!(server.keys(""), [""; 0]);
}

#[test]
#[ignore = "is run with the environment of a server"]
fn take_leases() {
    let Ok(Taken::Held(held)) = lease("a") else { panic!() };
    assert!(matches!(lease("b"), Ok(Taken::By(line)) if line == "a"));
    // A later attempt of the same job does not wait for the end of the earlier one's lease.
    let Ok(Taken::Held(again)) = lease("a") else { panic!() };
    drop(again);
    drop(held);
    let Ok(Taken::Held(_held)) = lease("b") else { panic!() };
}

#[test]
fn a_lease_that_nobody_renews_is_free() {
    let server = Server::start(&[("runs/lease", b"lost\n7\n".to_vec())]);
    in_environment("take_over", &server);
    // Whatever else stands there is not renewed either.
    let server = Server::start(&[("runs/lease", vec![0xff; 3])]);
    in_environment("take_over", &server);
}

#[test]
#[ignore = "is run with the environment of a server"]
fn take_over() {
    assert!(matches!(lease_within("a", 3 * RENEWAL), Ok(Taken::Held(_))));
}

#[test]
fn an_upload_continues_with_the_parts_that_it_lacks() {
    let server = Server::start(&[]);
    // The beginning of the upload and one part.
    server.refuse_write_after(2);
    in_environment("break_off_and_continue", &server);
    assert_eq!(server.object("continued/large"), Some(content()));
    let parts = server.server().requests().into_iter().filter_map(|request| {
        request.parameter("uploadId")?;
        request.parameter("partNumber")
    });
    let mut sent = BTreeMap::new();
    parts.for_each(|part| *sent.entry(part).or_insert(0) += 1);
    let mut sent: Vec<i32> = sent.into_values().collect();
    sent.sort_unstable();
    assert_eq!(sent, [1, 1, 2], "only the part that was refused is sent again");
}

#[test]
#[ignore = "is run with the environment of a server"]
fn break_off_and_continue() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("large");
    std::fs::write(&path, content()).unwrap();
    let bucket = open("s3://data/continued");
    let mut upload = Upload::new(&path, "large").unwrap();
    let denied = upload.send(&bucket, &always).unwrap_err();
    assert!(matches!(*denied.problem, Problem::Denied { .. }), "{denied}");
    assert!(bucket.list("", &always).unwrap().is_empty());
    upload.send(&bucket, &always).unwrap();
    upload.abort(&bucket, &always).unwrap();
}

#[test]
fn each_error_is_one_clear_sentence() {
    in_environment("explain", &Server::start(&[]));
}

#[test]
#[ignore = "is run with the environment of a server"]
fn explain() {
    let message = |url: &str| open(url).check(&always).unwrap_err().to_string();
    assert_eq!(message("s3://other/a"), "s3://other/a: there is no such bucket");
    let denied = "access denied; the credentials in use may not write to it";
    assert_eq!(message("s3://data/private/a"), format!("s3://data/private/a: {denied}"));
    let calls = AtomicUsize::new(0);
    let keep = || calls.fetch_add(1, Ordering::Relaxed) > 0;
    let Error { problem, .. } = open("s3://data/a").check(&keep).unwrap_err();
    assert!(matches!(*problem, Problem::Abandoned), "{problem}");
}
