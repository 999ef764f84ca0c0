//! One event on disk: `[length u32][payload CRC u32][header CRC u32][payload]`,
//! little-endian, CRC-32C, the payload a prost message. The header has a checksum
//! of its own so that a damaged length differs from a frame still being written.

use prost::Message;

use super::EventLogError;
use crate::v1::Event;
use crate::v1::event::Kind;

/// Bytes in front of the payload.
pub(super) const HEADER_BYTES: usize = 12;

/// The largest payload. A length above it is damage, not an event.
pub const FRAME_BYTES_MAX: usize = 1 << 20;

/// The most parts of an event, such as classes: more than any run reports. Parts without content take two bytes each in
/// a log, and thirty in memory.
const PARTS_MAX: usize = 100_000;

/// The content of the bytes at an offset.
#[derive(Debug)]
pub(super) enum Decoded {
    /// An event, and the bytes its frame takes.
    Event(Box<Event>, usize),
    /// The beginning of a frame, or nothing.
    Incomplete,
    /// No frame that was ever written.
    Corrupt(&'static str),
}

/// The frame of an event.
pub(super) fn encode(event: &Event) -> Result<Vec<u8>, EventLogError> {
    let payload = event.encode_to_vec();
    if payload.len() > FRAME_BYTES_MAX {
        return Err(EventLogError::TooLarge { bytes: payload.len() });
    }
    let length = payload.len() as u32; // at most FRAME_BYTES_MAX
    let mut frame = Vec::with_capacity(HEADER_BYTES + payload.len());
    frame.extend(length.to_le_bytes());
    frame.extend(crc32c::crc32c(&payload).to_le_bytes());
    frame.extend(crc32c::crc32c(&frame).to_le_bytes());
    frame.extend(payload);
    Ok(frame)
}

/// Decodes the frame that begins `bytes`.
pub(super) fn decode(bytes: &[u8]) -> Decoded {
    let Some((header, rest)) = bytes.split_at_checked(HEADER_BYTES) else {
        return Decoded::Incomplete;
    };
    let Some((length, payload_crc)) = decode_header(header) else {
        return Decoded::Corrupt("header checksum differs");
    };
    let Some(payload) = rest.get(..length) else {
        return Decoded::Incomplete;
    };
    if crc32c::crc32c(payload) != payload_crc {
        return Decoded::Corrupt("payload checksum differs");
    }
    match Event::decode(payload) {
        Ok(event) if parts(&event) > PARTS_MAX => Decoded::Corrupt("event has too many parts"),
        Ok(event) => Decoded::Event(Box::new(event), HEADER_BYTES + length),
        Err(_) => Decoded::Corrupt("payload is not an event"),
    }
}

/// The number of an event's parts.
fn parts(event: &Event) -> usize {
    match &event.kind {
        Some(Kind::Started(started)) => started.cores.len(),
        Some(Kind::DataPrepared(prepared)) => prepared.classes.len(),
        Some(Kind::ModelLoaded(loaded)) => loaded.initialized.len() + loaded.unexpected.len(),
        Some(Kind::Step(step)) => step.metrics.len(),
        Some(Kind::Evaluated(evaluated)) => evaluated.metrics.len(),
        Some(Kind::Finished(finished)) => finished.metrics.len(),
        _ => 0,
    }
}

/// Returns true if a whole frame begins anywhere behind the first byte. The bytes in front of it
/// were then synced once, and are not a torn tail.
pub(super) fn is_anywhere(bytes: &[u8]) -> bool {
    (1..bytes.len()).any(|at| matches!(decode(&bytes[at..]), Decoded::Event(..)))
}

/// Payload length and checksum, where the header is intact.
fn decode_header(header: &[u8]) -> Option<(usize, u32)> {
    let length = u32_at(header, 0) as usize;
    let intact = crc32c::crc32c(&header[..8]) == u32_at(header, 8);
    (intact && length <= FRAME_BYTES_MAX).then_some((length, u32_at(header, 4)))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}
