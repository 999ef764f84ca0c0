//! The store's guarantees, on a real file.

use prost::Message as _;
use traind_proto::v1::event::Kind;
use traind_proto::v1::{
    ClassCount, DataPrepared, Evaluated, Event, Failure, Finished, Started, Step,
};

use super::{NewJob, Parent, Resolved, Restart, Store, StoreError};
use crate::access::account::Account;
use crate::clock::Moment;
use crate::jobs::scheduler::{Reason, Waiting};
use crate::jobs::state::{JobState, Outcome};
use crate::notification::{Receiver, Way};

fn store() -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("traind.db")).unwrap();
    (folder, store)
}

fn new_job(id: &str) -> NewJob {
    NewJob {
        id: id.into(),
        name: "name".into(),
        owner: "ann".into(),
        run_as: Some(Account { uid: 1000, gid: 100 }),
        create_time: 1,
        request_id: String::new(),
        request_digest: vec![1],
        platform: "cpu".into(),
        core_count: 2,
        priority: 3,
        max_run_seconds: Some(60),
        max_wait_seconds: None,
        after: None,
        max_restarts: 1,
        price_per_hour: Some(2.5),
        on_demand_price_per_hour: Some(5.0),
        receivers: Vec::new(),
        output_dir: format!("/out/{id}"),
        job_file: "yaml".into(),
        base_dir: "/".into(),
        engine: String::new(),
        hosts: 0,
        resolved: "{}".into(),
        warnings: Vec::new(),
        parent: Some(Parent { job_id: "other".into(), step: 4 }),
    }
}

fn event(kind: Kind) -> Event {
    Event { sequence: 99, time: None, kind: Some(kind) }
}

fn prepared(split: &str, rows: u64) -> Event {
    event(Kind::DataPrepared(DataPrepared { split: split.into(), rows, ..Default::default() }))
}

fn step(step: u64, loss: f64) -> Event {
    event(Kind::Step(Step { step, loss, ..Default::default() }))
}

/// Another program that writes between the read and the write of a change would make it fail at once, and not
/// wait.
#[test]
fn a_change_holds_the_lock_from_its_beginning() {
    let (folder, store) = store();
    store.create(&new_job("a")).unwrap();
    let other = rusqlite::Connection::open(folder.path().join("traind.db")).unwrap();
    other.busy_timeout(std::time::Duration::ZERO).unwrap();
    let write = || other.execute("UPDATE jobs SET name = 'other'", []);
    let changed = store.edit("a", |draft| {
        let locked = write().unwrap_err().sqlite_error_code();
        assert_eq!(locked, Some(rusqlite::ErrorCode::DatabaseBusy));
        draft.job.name = "own".into();
        Ok(())
    });
    changed.unwrap();
    assert_eq!(write().unwrap(), 1);
}

/// A job of 28 steps that logged every fifth showed "25 of 28" for ever, and one that logged none no step at all.
#[test]
fn a_job_that_ended_shows_its_last_step() {
    let finished = |steps, max_steps, failure| {
        let metrics = [("train_loss".to_owned(), 0.75)].into();
        event(Kind::Finished(Finished {
            steps,
            max_steps,
            epoch: 2.0,
            metrics,
            failure,
            ..Finished::default()
        }))
    };
    let progress = |events| {
        let (_folder, store) = store();
        store.create(&new_job("a")).unwrap();
        store.place("a", &[0]).unwrap();
        let progress = store.record("a", events, 1).unwrap().progress;
        progress.map(|last| (last.step, last.max_steps, last.epoch, last.loss))
    };
    let logged = |step, max_steps| {
        event(Kind::Step(Step { step, max_steps, epoch: 1.5, loss: 0.5, ..Step::default() }))
    };
    assert_eq!(progress(vec![logged(25, 28), finished(28, 28, None)]), Some((28, 28, 2.0, 0.5)));
    assert_eq!(progress(vec![finished(28, 28, None)]), Some((28, 28, 2.0, 0.75)));
    // Stopped early, failed, a run of an earlier version, and one that only evaluates.
    assert_eq!(progress(vec![logged(5, 28), finished(7, 28, None)]), Some((7, 28, 2.0, 0.5)));
    let failure = Some(Failure::default());
    assert_eq!(progress(vec![logged(5, 28), finished(7, 28, failure)]), Some((5, 28, 1.5, 0.5)));
    assert_eq!(progress(vec![logged(25, 28), finished(28, 0, None)]), Some((25, 28, 1.5, 0.5)));
    assert_eq!(progress(vec![finished(0, 0, None)]), None);
}

/// Events of a runner may be forged by its user.
#[test]
fn the_history_metrics_and_splits_of_a_job_are_bounded() {
    let (_folder, store) = store();
    let job = store.create(&new_job("a")).unwrap();
    store.place("a", &[0]).unwrap();
    let evaluated = |names: Vec<String>| {
        let metrics = names.into_iter().map(|name| (name, 0.5)).collect();
        event(Kind::Evaluated(Evaluated { metrics, ..Default::default() }))
    };
    let names = (0..20_000).map(|number| format!("m{number}")).collect();
    let forged = vec![evaluated(names), evaluated(vec!["a".repeat(1 << 20)])];
    assert_eq!(store.record("a", forged, 1).unwrap().metrics.len(), 1000);
    let splits = (0..150).map(|number| prepared(&number.to_string(), 1)).collect();
    store.record("a", splits, 2).unwrap();
    assert_eq!(store.splits(job.number).unwrap().len(), 100);

    let before = store.record("a", vec![step(1, 0.5)], 3).unwrap().last_sequence;
    let full = super::runner_events::HISTORY_BYTES_MAX + 1;
    for more in 0..3 {
        store.record("a", vec![step(2 + more, 0.5); 10], full + more).unwrap();
    }
    let job =
        store.record("a", vec![event(Kind::Finished(Finished::default()))], full + 9).unwrap();
    assert_eq!(job.last_sequence, before + 1, "only the warning");
    assert_eq!(job.progress.unwrap().step, 4, "the job is up to date");
    assert!(job.finished.is_some());
}

/// Sixteen jobs with such events made a page of jobs too large for clients, and a thousand streams of such events took
/// the daemon's memory.
#[test]
fn forged_events_make_neither_jobs_nor_pages_large() {
    let (_folder, store) = store();
    let job = store.create(&new_job("a")).unwrap();
    store.place("a", &[0]).unwrap();
    let metrics = |count: u32| (0..count).map(|number| (format!("{number:0200}"), 0.5)).collect();
    let large = Step { metrics: metrics(5000), ..Default::default() };
    let message = "é".repeat(500_000);
    let failure = Failure { message, file: Some("x".repeat(1 << 20)), ..Default::default() };
    let finished =
        Finished { metrics: metrics(5000), failure: Some(failure), ..Default::default() };
    let class = |number: u32| ClassCount { label: format!("{number:0200}"), rows: 1 };
    let split = |name: u32| DataPrepared {
        split: name.to_string(),
        classes: (0..5000).map(class).collect(),
        ..Default::default()
    };
    let mut forged = vec![event(Kind::Step(large)); 20];
    forged.extend((0..20).map(|number| event(Kind::DataPrepared(split(number)))));
    forged.push(event(Kind::Finished(finished)));
    let known = store.record("a", forged, 1).unwrap();
    assert!(known.metrics.keys().map(String::len).sum::<usize>() <= (64 << 10) + 256);
    assert!(known.progress.unwrap().encoded_len() < 32 << 10);
    let ended = known.finished.unwrap();
    assert!(ended.encoded_len() < 64 << 10 && ended.failure.unwrap().message.len() == 16 << 10);
    assert!((2..10).contains(&store.splits(job.number).unwrap().len()));
    let page = store.events(job.number, 4, 256).unwrap();
    assert!((1..3).contains(&page.len()), "{}", page.len());
    let next = store.events(job.number, page.last().unwrap().sequence + 1, 256).unwrap();
    assert!(!next.is_empty(), "the others follow");
}

/// A lock that ends within the time for it is waited for.
#[test]
fn another_programs_lock_is_waited_for() {
    let (folder, store) = store();
    store.create(&new_job("a")).unwrap();
    let other = rusqlite::Connection::open(folder.path().join("traind.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE; UPDATE jobs SET name = 'other'").unwrap();
    let cancelling = std::thread::spawn({
        let store = store.clone();
        move || store.cancel("a", "by ann")
    });
    other.execute_batch("COMMIT").unwrap();
    assert_eq!(cancelling.join().unwrap().unwrap().state, JobState::Cancelled);
}

#[test]
fn events_get_their_sequence_with_the_offset_in_one_transaction() {
    let (folder, store) = store();
    store.create(&new_job("a")).unwrap();
    store.place("a", &[0, 1]).unwrap();
    let started = event(Kind::Started(Started::default()));
    let job = store.record("a", vec![started, step(1, 0.5), step(2, 0.25)], 300).unwrap();
    assert_eq!((job.state, job.log_offset, job.last_sequence), (JobState::Running, 300, 6));
    drop(store);

    let store = Store::open(&folder.path().join("traind.db")).unwrap();
    let again = store.get("a").unwrap();
    assert_eq!((again.log_offset, again.last_sequence), (300, 6));
    assert_eq!(again.progress.unwrap().loss, 0.25);
    let events = store.events(again.number, 1, 100).unwrap();
    let sequences: Vec<u64> = events.iter().map(|event| event.sequence).collect();
    assert_eq!(sequences, [1, 2, 3, 4, 5, 6]);
    assert_eq!(store.events(again.number, 5, 1).unwrap(), events[4..5]);
}

#[test]
fn a_refused_change_leaves_nothing_behind() {
    let (_folder, store) = store();
    let before = store.create(&new_job("a")).unwrap();
    let error = store.settle("a", Outcome::Completed, None).unwrap_err();
    assert!(matches!(error, StoreError::Illegal { .. }), "{error}");
    let after = store.get("a").unwrap();
    assert_eq!((after.state, after.last_sequence), (JobState::Pending, before.last_sequence));
    assert!(matches!(store.place("absent", &[0]), Err(StoreError::NoJob { .. })));
}

#[test]
fn metrics_that_json_cannot_hold_do_not_stop_the_job() {
    let (_folder, store) = store();
    store.create(&new_job("a")).unwrap();
    store.place("a", &[0]).unwrap();
    let metrics = [("eval_loss".to_owned(), f64::NAN), ("eval_f1".to_owned(), 0.5)].into();
    let evaluated = event(Kind::Evaluated(Evaluated { metrics, ..Default::default() }));
    let finished = event(Kind::Finished(Finished::default()));
    let job = store.record("a", vec![step(1, f64::NAN), evaluated, finished], 1).unwrap();
    assert_eq!(job.metrics.into_iter().collect::<Vec<_>>(), [("eval_f1".to_owned(), 0.5)]);
    let job = store.get("a").unwrap();
    assert!(job.progress.unwrap().loss.is_nan() && job.finished.is_some());
}

#[test]
fn a_restarted_job_counts_restarts_and_keeps_its_history() {
    let (_folder, store) = store();
    store.create(&new_job("a")).unwrap();
    store.place("a", &[0, 1]).unwrap();
    let placed = store.get("a").unwrap();
    assert_eq!((placed.priority, placed.max_run_seconds), (3, Some(60)));
    let at_start = Moment { wall: 7, running: placed.hold_since.unwrap() };
    assert_eq!(placed.deadline(at_start), Some(60_000_007));
    let started = event(Kind::Started(Started::default()));
    let before = store.record("a", vec![started], 100).unwrap();
    let again = Restart {
        reason: "RUNNER_DIED".into(),
        wait: "waits 5 s".into(),
        not_before: 7,
        blamed: None,
    };
    let job = store.restart("a", &again).unwrap();
    assert_eq!((job.state, job.restarts, job.not_before), (JobState::Pending, 1, 7));
    assert_eq!((job.cores.len(), job.waiting_reason.as_str()), (0, "waits 5 s"));
    assert_eq!((job.last_sequence, job.log_offset), (before.last_sequence + 2, 100));
    assert_eq!(store.place("a", &[0, 1]).unwrap().attempt, 2);
}

fn waiting(id: &str, reason: &str) -> Waiting {
    let current = format!("{reason}, as of the {:?}", std::time::Instant::now());
    Waiting { id: id.to_owned(), reason: Reason { current, lasting: reason.to_owned() } }
}

#[test]
fn the_same_waiting_reason_is_one_event() {
    let (_folder, store) = store();
    store.create(&new_job("a")).unwrap();
    store.create(&new_job("b")).unwrap();
    let wait = |reasons: &[(&str, &str)]| {
        let reasons: Vec<Waiting> = reasons.iter().map(|(id, why)| waiting(id, why)).collect();
        store.wait(&reasons).unwrap();
        (store.get("a").unwrap().last_sequence, store.get("b").unwrap().last_sequence)
    };
    let first = wait(&[("a", "no cores"), ("b", "behind a")]);
    assert_eq!(wait(&[("a", "no cores"), ("b", "behind a")]), first);
    assert_eq!(wait(&[("a", "fewer"), ("b", "behind a")]), (first.0 + 1, first.1));
    assert_eq!(store.place("a", &[0]).unwrap().waiting_reason, "");
    let placed = store.get("a").unwrap().last_sequence;
    assert_eq!(wait(&[("a", "no cores"), ("b", "no cores")]), (placed, first.1 + 1), "a runs");
}

#[test]
fn a_request_makes_one_job_for_each_owner() {
    let (_folder, store) = store();
    let request = NewJob { request_id: "r".into(), ..new_job("a") };
    assert_eq!(store.create(&request).unwrap().id, "a");
    let repeated = NewJob { id: "b".into(), ..request.clone() };
    assert_eq!(store.create(&repeated).unwrap().id, "a");
    let other = NewJob { id: "b".into(), request_digest: vec![2], ..request.clone() };
    assert!(matches!(store.create(&other), Err(StoreError::RequestReused { .. })));
    let bob = NewJob { owner: "bob".into(), output_dir: "/bob".into(), ..other };
    assert_eq!(store.create(&bob).unwrap().id, "b");
}

#[test]
fn references_resolve_by_id_then_name_then_prefix() {
    let (_folder, store) = store();
    for id in ["abc1", "abc2", "xyz"] {
        store.create(&NewJob { name: format!("name-of-{id}"), ..new_job(id) }).unwrap();
    }
    store.create(&NewJob { name: "xyz".into(), ..new_job("q") }).unwrap();
    let check = |reference: &str, expect: &str| {
        let found = match store.resolve(reference, None).unwrap() {
            Resolved::Job(job) => job.id,
            Resolved::Nothing => "nothing".into(),
            Resolved::Several(ids) => ids.join(" "),
        };
        assert_eq!(found, expect, "{reference}");
    };
    check("abc1", "abc1");
    check("abc", "abc1 abc2");
    check("x", "xyz");
    check("xyz", "xyz");
    check("name-of-abc2", "abc2");
    assert!(matches!(store.resolve("abc1", Some("bob")).unwrap(), Resolved::Nothing));
    assert!(matches!(store.resolve("abc", Some("bob")).unwrap(), Resolved::Nothing));
    assert!(matches!(store.resolve("abc1", Some("ann")).unwrap(), Resolved::Job(_)));
    assert_eq!(store.list(&[], Some("bob"), i64::MAX, 10).unwrap().len(), 0);
    assert_eq!(store.list(&[], Some("ann"), i64::MAX, 10).unwrap().len(), 4);
    check("", "nothing");
    check("%", "nothing");
}

#[test]
fn a_store_of_a_later_version_is_refused() {
    let (folder, store) = store();
    drop(store);
    let path = folder.path().join("traind.db");
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection.pragma_update(None, "user_version", 1000).unwrap();
    drop(connection);
    let error = Store::open(&path).err().unwrap();
    assert!(matches!(error, StoreError::Newer { found: 1000, .. }), "{error}");
}

#[tokio::test]
async fn a_subscriber_is_notified_of_its_own_job_only() {
    let (_folder, store) = store();
    let job = store.create(&new_job("a")).unwrap();
    store.create(&new_job("b")).unwrap();
    let mut news = store.subscribe(&job);
    store.wait(&[waiting("b", "no cores")]).unwrap();
    let silence = std::time::Duration::from_millis(50);
    assert!(tokio::time::timeout(silence, news.changed()).await.is_err());
    store.wait(&[waiting("a", "no cores")]).unwrap();
    tokio::time::timeout(silence, news.changed()).await.unwrap();
}

/// The long form has 100,000 jobs: see `scripts/soak/run`.
#[test]
fn listing_stays_fast_and_memory_flat_with_many_jobs() {
    let count = std::env::var("TRAIND_SOAK_JOBS").map_or(200, |text| text.parse().unwrap());
    let (_folder, store) = store();
    // Measures how the store scales with its size, not the disk.
    store.writer().pragma_update(None, "synchronous", "OFF").unwrap();
    let resident = || {
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
        statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
    };
    let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let (mut half, before) = (0, descriptors());
    for number in 0..count {
        let id = format!("{number:010}");
        // One job in a hundred is bob's, and fails.
        let (owner, outcome) = match number % 100 {
            0 => ("bob", Outcome::Failed),
            _ => ("ann", Outcome::Completed),
        };
        store.create(&NewJob { owner: owner.into(), ..new_job(&id) }).unwrap();
        store.place(&id, &[0]).unwrap();
        store.settle(&id, outcome, None).unwrap();
        if number == count / 2 {
            half = resident();
        }
    }
    let grown = resident().saturating_sub(half);
    let more = descriptors().saturating_sub(before);
    println!("{count} jobs: {} KiB and {more} descriptors more than at half", grown >> 10);
    let is_long = std::env::var_os("TRAIND_SOAK").is_some();
    assert!(!is_long || grown < 16 << 20, "{grown}");
    // Other tests run beside the short form.
    assert!(!is_long || more == 0, "{more} descriptors");
    let all = &[JobState::Completed, JobState::Failed][..];
    let rare = &[JobState::Failed][..];
    let (hundredth, middle) = (count / 100, count as i64 / 2);
    let check = |what, states, owner, before, expect: usize| {
        let start = std::time::Instant::now();
        let page = store.list(states, owner, before, 100).unwrap();
        let took = start.elapsed();
        println!("a page of {what}: {took:?}");
        assert_eq!(page.len(), expect.min(100), "{what}");
        assert!(page.is_sorted_by_key(|job| std::cmp::Reverse(job.number)), "{what}");
        assert!(!is_long || took.as_millis() < 20, "{what}: {took:?}");
    };
    check("the newest", &[], None, i64::MAX, count);
    check("those in the middle", &[], None, middle, middle as usize - 1);
    check("all states", all, None, i64::MAX, count);
    check("a rare state", rare, None, i64::MAX, hundredth);
    check("an empty state", &[JobState::Running], None, i64::MAX, 0);
    check("one user of few jobs", &[], Some("bob"), i64::MAX, hundredth);
    check("one user in a rare state", rare, Some("ann"), i64::MAX, 0);
    check("an unknown user", &[], Some("eve"), i64::MAX, 0);
}

#[test]
fn statistics_of_splits_are_those_of_the_newest_attempt() {
    let (_folder, store) = store();
    let job = store.create(&new_job("a")).unwrap();
    let other = store.create(&new_job("b")).unwrap();
    store.place("a", &[0, 1]).unwrap();
    store.record("a", vec![prepared("train", 60), prepared("validation", 53)], 300).unwrap();
    store.record("a", vec![step(1, 0.5), prepared("train", 70)], 400).unwrap();
    let held = store.splits(job.number).unwrap();
    let held: Vec<_> = held.iter().map(|data| (data.split.as_str(), data.rows)).collect();
    assert_eq!(held, [("train", 70), ("validation", 53)]);
    assert!(store.splits(other.number).unwrap().is_empty());
}

#[test]
fn the_time_of_all_runs_is_billed() {
    let (_folder, store) = store();
    store.create(&new_job("a")).unwrap();
    let mut billed = 0.0;
    for _ in 0..2 {
        let placed = store.place("a", &[0, 1]).unwrap();
        assert_eq!(placed.billed_seconds, billed, "while it runs");
        std::thread::sleep(std::time::Duration::from_millis(5));
        let job = store.requeue("a", "again").unwrap();
        assert!(job.billed_seconds >= billed + 0.005, "{}", job.billed_seconds);
        billed = job.billed_seconds;
    }
    let ended = store.cancel("a", "not wanted").unwrap();
    assert_eq!((ended.billed_seconds, ended.price_per_hour), (billed, Some(2.5)));
    assert_eq!(store.get("a").unwrap().billed_seconds, billed);
}

/// A receiver of the states.
fn receiver(states: &[&str], is_operators: bool) -> Receiver {
    let states = states.iter().map(|state| (*state).to_owned()).collect();
    let way = Way::Webhook { url: "http://a/".into(), secret_file: None };
    Receiver { states, way, is_operators }
}

/// Webhooks of months would be called anew.
#[test]
fn a_rebuild_notifies_nobody_of_what_has_been() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open_draft(&folder.path().join("traind.db")).unwrap();
    let receivers = vec![receiver(&["pending", "running", "failed"], false)];
    store.create(&NewJob { receivers, ..new_job("a") }).unwrap();
    store.place("a", &[0, 1]).unwrap();
    store.settle("a", Outcome::Failed, None).unwrap();
    let stored =
        store.writer().query_row("SELECT count(*) FROM notifications", [], |row| row.get(0));
    assert_eq!(stored, Ok(0));
}

#[test]
fn notifications_are_stored_with_the_change_and_wait_until_they_are_delivered() {
    let (folder, store) = store();
    store.set_operators_receivers(vec![receiver(&["failed"], true)]);
    let receivers = vec![receiver(&["pending", "running", "failed"], false)];
    store.create(&NewJob { receivers, ..new_job("a") }).unwrap();
    store.place("a", &[0, 1]).unwrap();
    store.record("a", vec![event(Kind::Started(Started::default()))], 1).unwrap();
    store.settle("a", Outcome::Failed, None).unwrap();
    let later = i64::MAX - 1;
    let states = |store: &Store| {
        let (due, next) = store.due(later, 100, &[]).unwrap();
        assert_eq!(next, None);
        let state = |it: super::Delivery| (it.id, it.state, it.account.is_some(), it.attempts);
        due.into_iter().map(state).collect::<Vec<_>>()
    };
    let all: Vec<_> = [("pending", true), ("running", true), ("failed", true), ("failed", false)]
        .into_iter()
        .zip(1..)
        .map(|((state, has_account), id)| (id, state.to_owned(), has_account, 0))
        .collect();
    assert_eq!(states(&store), all);
    let (due, _) = store.due(later, 2, &[]).unwrap();
    let due_without = |busy: &[Option<String>]| {
        let (due, _) = store.due(later, 100, busy).unwrap();
        due.into_iter().map(|it| it.user).collect::<Vec<_>>()
    };
    let ann = Some("ann".to_owned());
    assert_eq!(due_without(&[Some("bob".to_owned()), None]), [(); 3].map(|()| ann.clone()));
    assert_eq!(due_without(std::slice::from_ref(&ann)), [None]);
    let body: serde_json::Value = serde_json::from_str(&due[1].body).unwrap();
    assert_eq!(body["text"], "job name (a) is running");
    assert_eq!((&body["from"], &body["job"]["owner"]), (&"starting".into(), &"ann".into()));
    store.delivered(1).unwrap();
    store.undelivered(2, 5).unwrap();
    assert_eq!(store.due(4, 100, &[]).unwrap().1, Some(5));
    drop(store);
    let store = Store::open(&folder.path().join("traind.db")).unwrap();
    assert_eq!(states(&store)[0], (2, "running".to_owned(), true, 1));
    assert_eq!(states(&store).len(), 3);
}

#[test]
fn a_notification_waits_no_longer_because_the_clock_is_set_back() {
    let (_folder, store) = store();
    let receivers = vec![receiver(&["pending"], false)];
    store.create(&NewJob { receivers, ..new_job("a") }).unwrap();
    let (second, now) = (1_000_000, 1_000_000_000_000);
    let due = |seconds: i64| {
        store.undelivered(1, now + seconds * second).unwrap();
        !store.due(now, 100, &[]).unwrap().0.is_empty()
    };
    assert!(!due(1) && !due(600));
    assert!(due(601), "of a clock that was ahead");
}

#[test]
fn a_restored_run_is_billed_from_its_first_to_its_last_event() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open_draft(&folder.path().join("traind.db")).unwrap();
    store.create(&new_job("a")).unwrap();
    let at = |seconds: i64, kind| {
        let time = Some(prost_types::Timestamp { seconds, nanos: 0 });
        Event { time, ..event(kind) }
    };
    let second = 1_000_000;
    store.place_attempt("a", &[0, 1], 1, Some(100 * second)).unwrap();
    let first = at(100, Kind::Started(Started::default()));
    store.record("a", vec![first, at(130, Kind::Step(Step::default()))], 1).unwrap();
    store.requeue("a", "the store was rebuilt").unwrap();
    store.place_attempt("a", &[0, 1], 2, Some(500 * second)).unwrap();
    let first = at(500, Kind::Started(Started::default()));
    store.record("a", vec![first, at(512, Kind::Finished(Finished::default()))], 2).unwrap();
    let ended = store.settle_at("a", Outcome::Completed, None, 512 * second).unwrap();
    assert_eq!(ended.billed_seconds, 42.0);
}

#[test]
fn energy_is_added_up_and_restored_from_the_last_events_of_runs() {
    let (_folder, store) = store();
    store.create(&new_job("a")).unwrap();
    store.place("a", &[0, 1]).unwrap();
    store.add_energy("a", 30.0).unwrap();
    assert_eq!(store.add_energy("a", 12.0).unwrap().energy_joules, Some(42.0));
    let end =
        |joules| event(Kind::Finished(Finished { energy_joules: joules, ..Finished::default() }));
    store.record("a", vec![end(Some(40.0))], 1).unwrap();
    assert_eq!(store.get("a").unwrap().energy_joules, Some(42.0), "its own sum is newer");
    store.record("a", vec![end(Some(50.0)), end(None)], 2).unwrap();
    assert_eq!(store.get("a").unwrap().energy_joules, Some(50.0));
    assert_eq!(store.billed().unwrap().energy_joules, Some(50.0));
}

#[test]
fn folders_of_outputs_and_checkpoints_are_not_shared() {
    let (_folder, store) = store();
    let job = |id: &str, output: &str, checkpoints: Option<&str>| NewJob {
        output_dir: output.into(),
        resolved: serde_json::json!({"checkpoint_dir": checkpoints}).to_string(),
        ..new_job(id)
    };
    store.create(&job("a", "/a", Some("s3://b/checkpoints"))).unwrap();
    let refused = |new: NewJob| store.create(&new).unwrap_err().to_string();
    let tail = "is in use by job a, which is pending";
    assert_eq!(refused(job("b", "/a", None)), format!("output_dir /a {tail}"));
    assert_eq!(
        refused(job("b", "/b", Some("s3://b/checkpoints"))),
        format!("checkpoint_dir s3://b/checkpoints {tail}")
    );
    assert_eq!(
        refused(job("b", "s3://b/checkpoints", None)),
        format!("output_dir s3://b/checkpoints {tail}")
    );
    assert_eq!(refused(job("b", "/b", Some("/a"))), format!("checkpoint_dir /a {tail}"));
    store.create(&job("b", "/b", Some("/c"))).unwrap();
    store.cancel("a", "").unwrap();
    store.create(&job("c", "/a", Some("s3://b/checkpoints"))).unwrap();
}
