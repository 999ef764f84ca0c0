//! Reads TensorBoard event files: TFRecord frames (length, its masked CRC32C, the event, its
//! masked CRC32C) around the protobuf `Event` of TensorFlow.

use std::fs;
use std::path::Path;

use prost::Message;

/// One point of a curve.
#[derive(Clone, Debug, PartialEq)]
pub struct Scalar {
    pub step: i64,
    pub tag: String,
    pub value: f32,
}

#[derive(Clone, PartialEq, Message)]
struct Event {
    #[prost(double, tag = "1")]
    wall_time: f64,
    #[prost(int64, tag = "2")]
    step: i64,
    #[prost(string, tag = "3")]
    file_version: String,
    #[prost(message, optional, tag = "5")]
    summary: Option<Summary>,
}

#[derive(Clone, PartialEq, Message)]
struct Summary {
    #[prost(message, repeated, tag = "1")]
    value: Vec<SummaryValue>,
}

#[derive(Clone, PartialEq, Message)]
struct SummaryValue {
    #[prost(string, tag = "1")]
    tag: String,
    #[prost(float, optional, tag = "2")]
    simple_value: Option<f32>,
}

/// All scalars of the single event file in a folder, in order.
pub fn read_scalars(folder: &Path) -> Vec<Scalar> {
    let files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.len(), 1, "{files:?}");
    let events = read_events(&fs::read(&files[0]).unwrap());
    assert_eq!(events[0].file_version, "brain.Event:2");
    assert!(events.windows(2).all(|pair| pair[0].wall_time <= pair[1].wall_time));
    events.iter().flat_map(scalars).collect()
}

fn scalars(event: &Event) -> impl Iterator<Item = Scalar> {
    let values = event.summary.iter().flat_map(|summary| &summary.value);
    values.map(|value| Scalar {
        step: event.step,
        tag: value.tag.clone(),
        value: value.simple_value.unwrap(),
    })
}

fn read_events(mut bytes: &[u8]) -> Vec<Event> {
    let mut events = Vec::new();
    while !bytes.is_empty() {
        let length = u64::from_le_bytes(*checked(&mut bytes, 8).first_chunk().unwrap());
        events.push(Event::decode(checked(&mut bytes, length as usize)).unwrap());
    }
    events
}

/// Takes `length` bytes and verifies the checksum after them.
fn checked<'a>(bytes: &mut &'a [u8], length: usize) -> &'a [u8] {
    let (content, rest) = bytes.split_at(length);
    let (checksum, rest) = rest.split_first_chunk().unwrap();
    *bytes = rest;
    let expect = crc32c::crc32c(content).rotate_right(15).wrapping_add(0xa282_ead8);
    assert_eq!(u32::from_le_bytes(*checksum), expect);
    content
}
