//! Event logs of all kept versions: each is read whole, and continued. A release needs one of its own, which
//! `TRAIND_WRITE_FIXTURES=1` writes.

#![allow(clippy::unwrap_used)] // helpers of tests fail by panicking

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use prost::Message;
use prost::bytes::BufMut;
use prost::encoding::{WireType, encode_key, encode_varint};
use prost_types::field_descriptor_proto::Type;
use prost_types::{DescriptorProto, FieldDescriptorProto, FileDescriptorSet};
use traind_proto::event_log::{EventLogReader, EventLogWriter};
use traind_proto::v1::event::Kind;
use traind_proto::v1::{Event, Log};

/// The log with an event of a kind that no version has.
const LATER: &str = "later.log";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/event_logs")
}

fn writes_fixtures() -> bool {
    std::env::var_os("TRAIND_WRITE_FIXTURES").is_some()
}

/// The messages of the schema.
struct Schema(Vec<DescriptorProto>);

impl Schema {
    fn load() -> Schema {
        let files = FileDescriptorSet::decode(traind_proto::FILE_DESCRIPTOR_SET).unwrap().file;
        Schema(files.into_iter().flat_map(|file| file.message_type).collect())
    }

    fn message(&self, type_name: &str) -> &DescriptorProto {
        let mut names = type_name
            .trim_start_matches('.')
            .split('.')
            .filter(|name| name.starts_with(char::is_uppercase));
        let outer = names.next().unwrap();
        let outer = self.0.iter().find(|message| message.name() == outer).unwrap();
        match names.next() {
            Some(inner) => outer.nested_type.iter().find(|it| it.name() == inner).unwrap(),
            None => outer,
        }
    }

    /// The encoding of a message with a value in each field. A repeated field has one.
    fn sample(&self, type_name: &str) -> Vec<u8> {
        let mut fields: Vec<_> = self.message(type_name).field.iter().collect();
        fields.sort_by_key(|field| field.number());
        let mut bytes = Vec::new();
        fields.into_iter().for_each(|field| self.sample_field(field, &mut bytes));
        bytes
    }

    fn sample_field(&self, field: &FieldDescriptorProto, bytes: &mut Vec<u8>) {
        let number = field.number() as u32;
        let mut text = |content: &[u8]| {
            encode_key(number, WireType::LengthDelimited, bytes);
            encode_varint(content.len() as u64, bytes);
            bytes.extend(content);
        };
        match field.r#type() {
            Type::Message => text(&self.sample(field.type_name())),
            Type::String | Type::Bytes => text(field.name().as_bytes()),
            Type::Double => {
                encode_key(number, WireType::SixtyFourBit, bytes);
                bytes.put_f64_le(f64::from(number) + 0.5);
            }
            Type::Float => {
                encode_key(number, WireType::ThirtyTwoBit, bytes);
                bytes.put_f32_le(number as f32 + 0.5);
            }
            Type::Bool | Type::Enum => {
                encode_key(number, WireType::Varint, bytes);
                encode_varint(1, bytes);
            }
            _ => {
                encode_key(number, WireType::Varint, bytes);
                encode_varint(u64::from(number) + 100, bytes);
            }
        }
    }

    /// The names of the kinds of events.
    fn kinds(&self) -> impl Iterator<Item = &FieldDescriptorProto> {
        self.message("Event").field.iter().filter(|field| field.oneof_index.is_some())
    }
}

/// The frame of an event, as documented: lengths and checksums in front of the message.
fn frame(payload: &[u8]) -> Vec<u8> {
    let mut frame = (payload.len() as u32).to_le_bytes().to_vec();
    frame.extend(crc32c::crc32c(payload).to_le_bytes());
    frame.extend(crc32c::crc32c(&frame).to_le_bytes());
    frame.extend(payload);
    frame
}

/// The start of an event: its sequence, and a time.
fn head(sequence: u64) -> Vec<u8> {
    let time = prost_types::Timestamp { seconds: 1_700_000_000, nanos: 5000 };
    Event { sequence, time: Some(time), kind: None }.encode_to_vec()
}

/// A log with an event of each kind, with a value in each field.
fn log_of_every_kind() -> Vec<u8> {
    let schema = Schema::load();
    let events = schema.kinds().zip(1..).map(|(kind, sequence)| {
        let mut payload = head(sequence);
        schema.sample_field(kind, &mut payload);
        // Lists of numbers are packed.
        frame(&Event::decode(payload.as_slice()).unwrap().encode_to_vec())
    });
    events.flatten().collect()
}

fn read(path: &Path) -> Vec<Event> {
    let logged = EventLogReader::open(path).unwrap().read_from(0).unwrap();
    logged.into_iter().map(|logged| logged.event).collect()
}

/// Nothing that a log of an earlier version has is unknown: what is read is written as it was.
#[test]
fn logs_of_all_kept_versions_are_read_whole_and_continued() {
    let current = folder().join(format!("{}.log", env!("CARGO_PKG_VERSION")));
    if writes_fixtures() {
        fs::create_dir_all(folder()).unwrap();
        fs::write(&current, log_of_every_kind()).unwrap();
    }
    assert!(current.exists(), "{} is missing: set TRAIND_WRITE_FIXTURES=1", current.display());
    let scratch = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        if path.ends_with(LATER) {
            continue;
        }
        let events = read(&path);
        let again: Vec<u8> = events.iter().flat_map(|it| frame(&it.encode_to_vec())).collect();
        let is_whole = again == fs::read(&path).unwrap();
        assert!(is_whole, "{} has fields that are now unknown", path.display());
        let copy = scratch.path().join("events.log");
        fs::copy(&path, &copy).unwrap();
        let mut writer = EventLogWriter::open(&copy).unwrap();
        let next = writer.append(Kind::Log(Log::default())).unwrap();
        assert_eq!((next.sequence, writer.truncated_bytes()), (events.len() as u64 + 1, 0));
        // The frame of this version is that of the kept ones.
        let written = &fs::read(&copy).unwrap()[again.len()..];
        assert_eq!(written, frame(&next.encode_to_vec()));
    }
}

/// The log of this version has each kind of event that its schema has.
#[test]
fn the_log_of_this_version_has_every_kind_of_event() {
    let version = env!("CARGO_PKG_VERSION");
    let schema = folder().with_file_name("schemas").join(format!("{version}.txt"));
    let schema = fs::read_to_string(schema).unwrap();
    let kinds: BTreeSet<&str> =
        schema.lines().filter_map(|line| line.strip_prefix("field Event.")).collect();
    // Besides `sequence` and `time`.
    let expected = kinds.len() - 2;
    let logged = read(&folder().join(format!("{version}.log")));
    let found: BTreeSet<_> = logged
        .iter()
        .map(|event| std::mem::discriminant(event.kind.as_ref().unwrap()))
        .map(|it| format!("{it:?}"))
        .collect();
    assert!(
        found.len() >= expected,
        "{} of {expected} kinds: set TRAIND_WRITE_FIXTURES=1",
        found.len()
    );
}

/// A daemon reads logs of runners that are newer than itself.
#[test]
fn an_event_of_a_later_version_is_passed_over() {
    let path = folder().join(LATER);
    if writes_fixtures() {
        fs::create_dir_all(folder()).unwrap();
        let mut later = head(1);
        encode_key(1_000, WireType::LengthDelimited, &mut later);
        encode_varint(5, &mut later);
        later.extend(b"later");
        fs::write(&path, frame(&later)).unwrap();
    }
    let events = read(&path);
    assert_eq!(events.len(), 1);
    assert_eq!((events[0].sequence, &events[0].kind), (1, &None));
}
