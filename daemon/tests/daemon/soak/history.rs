//! A long history: its folder and the daemon's memory are bounded, and calls cost the same with it. Jobs are copies of
//! one that has run, in the store and in both folders.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use traind_proto::v1::{JobState, ListJobsRequest};

use super::{count, is_long, percentile};
use crate::support::host::{Host, PATIENCE};
use crate::support::runner::COMPLETES;

/// The jobs of the history that a long one is compared with, which fill a page.
const SHORT: usize = 100;
/// Calls of each kind that are measured in the long form, and in the short one.
const CALLS: [usize; 2] = [40, 2];

/// The costs of a daemon with a history.
#[derive(Debug)]
struct Costs {
    start: Duration,
    submission: Duration,
    page: Duration,
    resident_bytes: u64,
}

/// Adds copies of a job to the store and to its folders, until there are `total`.
fn copy_job(host: &Host, id: &str, from: usize, total: usize) {
    let store = rusqlite::Connection::open(host.path("state/traind.db")).unwrap();
    let names = |table: &str, without: &[&str]| {
        let mut statement = store.prepare("SELECT name FROM pragma_table_info(?1)").unwrap();
        let names: Vec<String> =
            statement.query_map([table], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
        names
            .into_iter()
            .filter(|name| !without.contains(&name.as_str()))
            .collect::<Vec<_>>()
            .join(", ")
    };
    let jobs = names("jobs", &["number", "id", "request_id", "output_dir"]);
    let events = names("events", &["job"]);
    let count = format!(
        "WITH RECURSIVE n(i) AS (SELECT {from} UNION ALL SELECT i + 1 FROM n WHERE i + 1 < {total})"
    );
    let sql = format!(
        "BEGIN;
         {count} INSERT INTO jobs (id, output_dir, {jobs})
             SELECT id || '-' || i, output_dir || '-' || i, {jobs} FROM jobs, n WHERE id = '{id}' ORDER BY i;
         INSERT INTO events (job, {events})
             SELECT copy.number, {events} FROM events
             JOIN jobs AS original ON events.job = original.number AND original.id = '{id}'
             JOIN jobs AS copy ON copy.id LIKE '{id}-%'
             WHERE NOT EXISTS (SELECT 1 FROM events AS known WHERE known.job = copy.number);
         COMMIT; PRAGMA wal_checkpoint(TRUNCATE);"
    );
    store.execute_batch(&sql).unwrap();
    for copy in from..total {
        for folder in [host.run_dir(id), host.records(id)] {
            let to = folder.with_file_name(format!("{id}-{copy}"));
            fs::create_dir(&to).unwrap();
            for file in fs::read_dir(&folder).unwrap() {
                let file = file.unwrap().path();
                let name = file.file_name().unwrap();
                if name == "job.json" {
                    // The record names its job.
                    let text = fs::read_to_string(&file).unwrap();
                    fs::write(to.join(name), text.replace(id, &format!("{id}-{copy}"))).unwrap();
                } else if file.is_file() {
                    // Ended jobs write no more. A file has 65,000 names on some disks.
                    let to = to.join(name);
                    fs::hard_link(&file, &to).or_else(|_| fs::copy(&file, &to).map(drop)).unwrap();
                }
            }
        }
    }
}

async fn measured(host: &mut Host, series: &str) -> Costs {
    let since = Instant::now();
    host.start().await;
    let start = since.elapsed();
    let (mut submissions, mut pages) = (Vec::new(), Vec::new());
    let mut jobs = host.jobs().await;
    for call in 0..CALLS[usize::from(!is_long())] {
        let since = Instant::now();
        let job = host.submit(&format!("{series}-{call}"), 1).await;
        submissions.push(since.elapsed());
        host.until_state(&job.id, JobState::Completed).await;
        let since = Instant::now();
        jobs.list_jobs(ListJobsRequest { page_size: 100, ..Default::default() }).await.unwrap();
        pages.push(since.elapsed());
    }
    let resident_bytes = super::crowd::resident_bytes(host.daemon_pid());
    let (submission, page) = (percentile(&mut submissions, 50), percentile(&mut pages, 50));
    Costs { start, submission, page, resident_bytes }
}

/// The sizes of all files below a folder, in whole blocks of 4 KiB as disks have them.
fn folder_bytes(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let sizes = entries.map(|entry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => folder_bytes(&entry.path()),
        _ => entry.metadata().map_or(0, |found| found.len().next_multiple_of(4096)),
    });
    sizes.sum()
}

fn mebibytes(bytes: u64) -> u64 {
    bytes >> 20
}

#[tokio::test]
async fn a_long_history_makes_no_call_slower_and_has_an_end() {
    let total = count("TRAIND_SOAK_HISTORY", 200);
    // A daemon with limits removes the others, which takes longest.
    let kept = count("TRAIND_SOAK_KEPT", SHORT);
    let mut host = Host::started(1, COMPLETES).await;
    let job = host.submit("original", 1).await;
    host.until_state(&job.id, JobState::Completed).await;
    host.kill_daemon();
    copy_job(&host, &job.id, 0, SHORT);
    let short = measured(&mut host, "short").await;
    host.kill_daemon();
    copy_job(&host, &job.id, SHORT, total);
    let long = measured(&mut host, "long").await;
    assert_eq!(host.get(&format!("{}-{}", job.id, total - 1)).await.state(), JobState::Completed);
    host.kill_daemon();
    let grown = folder_bytes(&host.path("state"));
    host.options.push(format!("--keep-jobs={kept}"));
    let since = Instant::now();
    host.start().await;
    let records = host.path("state/records");
    while fs::read_dir(&records).unwrap().count() > kept {
        assert!(since.elapsed() < 10 * PATIENCE, "{}", host.log());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let removed = since.elapsed();
    host.kill_daemon();
    let bounded = folder_bytes(&host.path("state"));
    println!(
        "{total} ended jobs: the daemon starts in {:.2?} and has {} MiB in memory ({:.2?} and {} MiB with {SHORT}); \
         a submission takes {:.1?} ({:.1?}), a page of 100 jobs {:.1?} ({:.1?}); the state folder has {} MiB, and {} MiB \
         with --keep-jobs {kept}, reached in {removed:.1?}",
        long.start,
        mebibytes(long.resident_bytes),
        short.start,
        mebibytes(short.resident_bytes),
        long.submission,
        short.submission,
        long.page,
        short.page,
        mebibytes(grown),
        mebibytes(bounded),
    );
    assert!(bounded < grown, "{bounded} of {grown} bytes");
    if is_long() {
        let slack = Duration::from_millis(5);
        assert!(long.submission <= 2 * short.submission + slack, "{long:?} {short:?}");
        assert!(long.page <= 2 * short.page + slack, "{long:?} {short:?}");
        assert!(long.resident_bytes <= short.resident_bytes + (64 << 20), "{long:?} {short:?}");
        assert!(kept > SHORT || bounded < 64 << 20, "{bounded} bytes");
    }
}
