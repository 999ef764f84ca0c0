//! TensorBoard event files: TFRecord frames around protobuf events.
//!
//! A frame is the length (u64), its masked CRC32C, the event, and the event's
//! masked CRC32C, all little-endian. The field numbers are TensorFlow's.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use prost::Message;

use super::super::failed;
use crate::error::RunResult;

#[derive(Clone, PartialEq, Message)]
struct Event {
    #[prost(double, tag = "1")]
    wall_time: f64,
    #[prost(int64, tag = "2")]
    step: i64,
    #[prost(string, optional, tag = "3")]
    file_version: Option<String>,
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
    // Optional so that 0 is written too: TensorBoard drops a value without this field.
    #[prost(float, optional, tag = "2")]
    simple_value: Option<f32>,
}

/// Appends scalars to one event file.
#[derive(Debug)]
pub(super) struct TensorBoardWriter {
    path: PathBuf,
    file: File,
}

impl TensorBoardWriter {
    /// Creates `folder/events.out.tfevents.<seconds>.<host>.<pid>`.
    pub(super) fn create(folder: &Path, host: &str) -> RunResult<TensorBoardWriter> {
        std::fs::create_dir_all(folder).map_err(failed("create", folder))?;
        let path = file_path(folder, host);
        let file = File::create(&path).map_err(failed("create", &path))?;
        let mut writer = TensorBoardWriter { path, file };
        writer.append(&Event {
            wall_time: unix_seconds(),
            file_version: Some("brain.Event:2".to_owned()),
            ..Event::default()
        })?;
        Ok(writer)
    }

    /// Writes the values of one step.
    pub(super) fn scalars(&mut self, step: u64, values: &[(String, f64)]) -> RunResult<()> {
        let value = values
            .iter()
            .map(|(tag, value)| SummaryValue {
                tag: tag.clone(),
                simple_value: Some(*value as f32),
            })
            .collect();
        self.append(&Event {
            wall_time: unix_seconds(),
            step: step as i64,
            file_version: None,
            summary: Some(Summary { value }),
        })
    }

    fn append(&mut self, event: &Event) -> RunResult<()> {
        let event = event.encode_to_vec();
        let length = (event.len() as u64).to_le_bytes();
        let mut frame = Vec::with_capacity(event.len() + 16);
        frame.extend(length);
        frame.extend(masked_crc(&length).to_le_bytes());
        frame.extend(&event);
        frame.extend(masked_crc(&event).to_le_bytes());
        self.file.write_all(&frame).map_err(failed("append to", &self.path))
    }
}

fn file_path(folder: &Path, host: &str) -> PathBuf {
    let seconds = unix_seconds() as u64;
    folder.join(format!("events.out.tfevents.{seconds}.{host}.{}", std::process::id()))
}

/// TFRecord masks its checksums, since the CRC of data that contains CRCs is weak.
fn masked_crc(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

fn unix_seconds() -> f64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map(|elapsed| elapsed.as_secs_f64()).unwrap_or_default()
}
