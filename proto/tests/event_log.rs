//! Faults that a log must survive: torn tails, flipped bits, a reader beside a writer.

#![allow(clippy::unwrap_used)] // helpers of tests fail by panicking

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::mpsc;
use std::thread;

use proptest::prelude::*;
use tempfile::TempDir;
use traind_proto::event_log::{EventLogError, EventLogReader, EventLogWriter, LoggedEvent};
use traind_proto::v1::event::Kind;
use traind_proto::v1::{ClassCount, DataPrepared, Event, Finished, Log, Step};

fn log_line(message: &str) -> Kind {
    Kind::Log(Log { level: 2, message: message.to_owned() })
}

/// A log of these lines and, for each, where the next one begins.
fn write_log(path: &Path, messages: &[String]) -> Vec<LoggedEvent> {
    let mut writer = EventLogWriter::open(path).unwrap();
    for message in messages {
        writer.append(log_line(message)).unwrap();
    }
    drop(writer);
    EventLogReader::open(path).unwrap().read_from(0).unwrap()
}

/// Reads to the end or to the first error.
fn read_all(path: &Path) -> (Vec<Event>, Option<EventLogError>) {
    let reader = EventLogReader::open(path).unwrap();
    let (mut events, mut offset) = (Vec::new(), 0);
    loop {
        match reader.read_from(offset) {
            Ok(batch) if batch.is_empty() => return (events, None),
            Ok(batch) => {
                offset = batch[batch.len() - 1].next_offset;
                events.extend(batch.into_iter().map(|logged| logged.event));
            }
            Err(error) => return (events, Some(error)),
        }
    }
}

fn messages() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec("[a-z]{0,40}", 1..8)
}

#[test]
fn sequences_count_on_over_reopening() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("events.log");
    let step = Kind::Step(Step::default());
    let first = EventLogWriter::open(&path).unwrap().append(step.clone()).unwrap();
    let mut writer = EventLogWriter::open(&path).unwrap();
    let second = writer.append(Kind::Finished(Finished::default())).unwrap();
    writer.sync().unwrap();
    assert_eq!((first.sequence, second.sequence), (1, 2));
    assert_eq!(first.kind, Some(step));
    assert_eq!(read_all(&path).0, [first, second]);
}

#[test]
fn one_writer_at_a_time() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("events.log");
    let _writer = EventLogWriter::open(&path).unwrap();
    let second = EventLogWriter::open(&path);
    assert!(matches!(second, Err(EventLogError::Locked { .. })));
}

#[test]
fn an_event_over_the_limit_is_refused_and_the_log_goes_on() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("events.log");
    let mut writer = EventLogWriter::open(&path).unwrap();
    let refused = writer.append(log_line(&"x".repeat(2 << 20)));
    assert!(matches!(refused, Err(EventLogError::TooLarge { .. })));
    assert_eq!(writer.append(log_line("small")).unwrap().sequence, 1);
    assert_eq!(read_all(&path).0.len(), 1);
}

#[test]
fn more_than_a_chunk_is_read_in_several_calls() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("events.log");
    let long = "x".repeat(1_000_000);
    let first_call = write_log(&path, &vec![long; 9]);
    assert!((1..9).contains(&first_call.len()));
    let (events, error) = read_all(&path);
    assert!(error.is_none());
    let sequences: Vec<_> = events.iter().map(|event| event.sequence).collect();
    assert_eq!(sequences, (1..=9).collect::<Vec<_>>());
}

#[test]
fn a_reader_beside_a_writer_sees_each_event_once_and_whole() {
    const COUNT: u64 = 3000;
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("events.log");
    let mut writer = EventLogWriter::open(&path).unwrap();
    let (done, is_done) = mpsc::channel::<()>();
    let writing = thread::spawn(move || {
        for step in 0..COUNT {
            let message = format!("{step}").repeat(1 + (step % 97) as usize);
            writer.append(log_line(&message)).unwrap();
        }
        drop(done);
    });
    let reader = EventLogReader::open(&path).unwrap();
    let (mut offset, mut seen) = (0, 0);
    loop {
        let ended = matches!(is_done.try_recv(), Err(mpsc::TryRecvError::Disconnected));
        let batch = reader.read_from(offset).unwrap();
        for logged in &batch {
            seen += 1;
            assert_eq!(logged.event.sequence, seen);
            offset = logged.next_offset;
        }
        if ended && batch.is_empty() {
            break;
        }
    }
    writing.join().unwrap();
    assert_eq!(seen, COUNT);
}

proptest! {
    // Every case waits for the disk several times.
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A crash leaves a prefix of what was being written: all whole events are
    /// read, the next writer cuts off the rest and continues.
    #[test]
    fn torn_tail(messages in messages(), cut in any::<prop::sample::Index>()) {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("events.log");
        let whole = write_log(&path, &messages);
        let bytes = fs::read(&path).unwrap();
        let cut = cut.index(bytes.len() + 1);
        fs::write(&path, &bytes[..cut]).unwrap();

        let kept: Vec<_> = whole
            .iter()
            .filter(|logged| logged.next_offset <= cut as u64)
            .map(|logged| logged.event.clone())
            .collect();
        let (events, error) = read_all(&path);
        prop_assert!(error.is_none());
        prop_assert_eq!(&events, &kept);

        let mut writer = EventLogWriter::open(&path).unwrap();
        let end = whole[..kept.len()].last().map_or(0, |logged| logged.next_offset);
        prop_assert_eq!(writer.truncated_bytes(), cut as u64 - end);
        let added = writer.append(log_line("after the crash")).unwrap();
        prop_assert_eq!(added.sequence, kept.len() as u64 + 1);
        prop_assert_eq!(read_all(&path).0.len(), kept.len() + 1);
    }

    /// A machine crash may leave blocks that were never written behind the end.
    #[test]
    fn garbage_tail(messages in messages(), tail in prop::collection::vec(any::<u8>(), 1..200)) {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("events.log");
        let whole = write_log(&path, &messages);
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(&tail).unwrap();
        let writer = EventLogWriter::open(&path).unwrap();
        prop_assert_eq!(writer.truncated_bytes(), tail.len() as u64);
        prop_assert_eq!(read_all(&path).0.len(), whole.len());
    }

    /// A flipped bit never makes an event: readers get what lies in front of the
    /// damage, then an error; a writer refuses to build on it unless it is in
    /// the last event, where it is a torn tail.
    #[test]
    fn flipped_bit(messages in messages(), at in any::<prop::sample::Index>(), bit in 0..8u8) {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("events.log");
        let whole = write_log(&path, &messages);
        let mut bytes = fs::read(&path).unwrap();
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        fs::write(&path, &bytes).unwrap();

        let in_front = whole.iter().filter(|logged| logged.next_offset <= at as u64).count();
        let (events, error) = read_all(&path);
        prop_assert_eq!(events.len(), in_front);
        let corrupt = matches!(error, Some(EventLogError::Corrupt { .. }));
        prop_assert!(corrupt, "no corruption reported");

        let opened = EventLogWriter::open(&path);
        if in_front + 1 == whole.len() {
            prop_assert!(opened.unwrap().truncated_bytes() > 0);
        } else {
            let refused = matches!(opened, Err(EventLogError::Corrupt { .. }));
            prop_assert!(refused, "a writer builds on damage");
        }
    }
}

/// Logs are their users' words: four megabytes of empty events took a hundred in memory, for each reader.
#[test]
fn batches_are_small_whatever_a_log_contains() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("events.log");
    let long = "x".repeat(700 << 10);
    let mut messages = vec![String::new(); 3000];
    messages.extend([long, "end".to_owned()]);
    let all = write_log(&path, &messages);
    let reader = EventLogReader::open(&path).unwrap();
    let (mut batches, mut offset) = (Vec::new(), 0);
    loop {
        let batch = reader.read_batch(offset).unwrap();
        let Some(last) = batch.last() else { break };
        offset = last.next_offset;
        batches.push(batch);
    }
    let sizes: Vec<usize> = batches.iter().map(Vec::len).collect();
    assert_eq!(sizes, [1000, 1000, 1000, 1, 1]);
    assert_eq!(batches.concat(), all);
}

/// An event of a megabyte with a class in each two bytes.
#[test]
fn an_event_of_too_many_parts_is_refused() {
    let written = |classes: usize| {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("events.log");
        let classes = vec![ClassCount::default(); classes];
        let prepared = DataPrepared { classes, ..DataPrepared::default() };
        EventLogWriter::open(&path).unwrap().append(Kind::DataPrepared(prepared)).unwrap();
        read_all(&path)
    };
    let (events, error) = written(65_536);
    assert_eq!((events.len(), error.is_none()), (1, true));
    let (events, error) = written(400_000);
    let corrupt = error.unwrap().to_string();
    assert!(events.is_empty() && corrupt.contains("too many parts"), "{corrupt}");
}
