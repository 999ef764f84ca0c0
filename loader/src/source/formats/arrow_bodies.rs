//! The sizes that compressed batches of Arrow files claim. The reader allocates them before it decompresses, so a file
//! of some bytes could take all memory.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use arrow_ipc::{Block, Message, RecordBatch, root_as_message};

use super::compression::bytes_max;
use crate::error::{Error, Result};

/// Precedes the length of a message's metadata, except in old files.
const CONTINUATION: [u8; 4] = [0xff; 4];
/// The bytes of such a length, and of the size in front of a compressed buffer.
const LENGTH_BYTES: u64 = 4;
const SIZE_BYTES: usize = 8;

/// A message of a file, and where the body begins that it describes.
struct Place {
    metadata: Vec<u8>,
    body: u64,
}

/// Fails if a batch of a file with a footer, which lists `blocks`, decompresses to more than data does.
pub(super) fn check_blocks<'a>(
    path: &Path,
    file: &mut File,
    blocks: impl Iterator<Item = &'a Block>,
) -> Result<()> {
    for block in blocks {
        let [at, length] = [block.offset(), block.metaDataLength().into()].map(|it: i64| it as u64);
        let place = place(file, at).map_err(Error::io(path, "read"))?;
        if let Some(place) = place {
            check(path, file, &Place { body: at.saturating_add(length), ..place })?;
        }
    }
    Ok(())
}

/// Fails if a batch of a stream decompresses to more than data does.
pub(super) fn check_stream(path: &Path, file: &mut File) -> Result<()> {
    let mut at = 0;
    while let Some(found) = place(file, at).map_err(Error::io(path, "read"))? {
        let Some(body_bytes) = check(path, file, &found)? else { break };
        at = found.body.saturating_add(body_bytes);
    }
    Ok(())
}

/// Reads the message at a place; `None` at the end, or where the reader will find the file damaged.
fn place(file: &mut File, at: u64) -> io::Result<Option<Place>> {
    let size = file.metadata()?.len();
    let Some(first) = piece::<4>(file, at)? else { return Ok(None) };
    // The first piece was read, so these are within the file, or just behind it.
    let (length, start) = match first == CONTINUATION {
        true => (piece::<4>(file, at + LENGTH_BYTES)?, at + 2 * LENGTH_BYTES),
        false => (Some(first), at + LENGTH_BYTES),
    };
    let length = length.map_or(0, |length| u64::from(u32::from_le_bytes(length)));
    let body = start.saturating_add(length);
    if length == 0 || body > size {
        return Ok(None);
    }
    let mut metadata = vec![0; length as usize];
    file.seek(SeekFrom::Start(start))?;
    file.read_exact(&mut metadata)?;
    Ok(Some(Place { metadata, body }))
}

/// Returns the bytes of a message's body; `None` where the reader will find the message damaged.
fn check(path: &Path, file: &mut File, place: &Place) -> Result<Option<u64>> {
    let Ok(message) = root_as_message(&place.metadata) else { return Ok(None) };
    let Ok(body_bytes) = u64::try_from(message.bodyLength()) else { return Ok(None) };
    let compressed = batch(&message).filter(|batch| batch.compression().is_some());
    if let Some(batch) = compressed {
        let claimed = claimed_bytes(file, &batch, place.body).map_err(Error::io(path, "read"))?;
        if claimed > bytes_max(body_bytes) {
            let message = format!(
                "a batch of {body_bytes} bytes decompresses to {claimed}, which is more than 200 times its size and \
                 1 GiB; if that is what it has, write it without compression"
            );
            return Err(Error::bad_file(path, "Arrow", message));
        }
    }
    Ok(Some(body_bytes))
}

fn batch<'a>(message: &Message<'a>) -> Option<RecordBatch<'a>> {
    let of_dictionary = || message.header_as_dictionary_batch()?.data();
    message.header_as_record_batch().or_else(of_dictionary)
}

/// The sum of the sizes that stand in front of the compressed buffers of a batch.
fn claimed_bytes(file: &mut File, batch: &RecordBatch<'_>, body: u64) -> io::Result<u64> {
    let mut sum = 0_u64;
    for buffer in batch.buffers().into_iter().flatten() {
        let at = u64::try_from(buffer.offset()).map(|offset| body.saturating_add(offset));
        let is_long = usize::try_from(buffer.length()).is_ok_and(|length| length >= SIZE_BYTES);
        let (Ok(at), true) = (at, is_long) else { continue };
        let claimed = piece::<SIZE_BYTES>(file, at)?.map_or(0, i64::from_le_bytes);
        // -1 stands for a buffer that is not compressed.
        sum = sum.saturating_add(u64::try_from(claimed).unwrap_or(0));
    }
    Ok(sum)
}

/// Reads some bytes; `None` if the file has fewer there.
fn piece<const N: usize>(file: &mut File, at: u64) -> io::Result<Option<[u8; N]>> {
    let mut bytes = [0; N];
    file.seek(SeekFrom::Start(at))?;
    match file.read_exact(&mut bytes) {
        Ok(()) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, RecordBatch, StringArray};
    use arrow_ipc::CompressionType;
    use arrow_ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};

    use crate::source::formats::{FormatOptions, arrow};

    const TEXT: &str = "a text that repeats and so is compressed";
    const ROWS: usize = 300;

    fn written(compression: CompressionType, as_file: bool) -> Vec<u8> {
        let texts: StringArray = std::iter::repeat_n(Some(TEXT), ROWS).collect();
        let batch = RecordBatch::try_from_iter([("text", Arc::new(texts) as ArrayRef)]).unwrap();
        let options = IpcWriteOptions::default().try_with_compression(Some(compression)).unwrap();
        if as_file {
            let mut writer =
                FileWriter::try_new_with_options(Vec::new(), &batch.schema(), options).unwrap();
            writer.write(&batch).unwrap();
            return writer.into_inner().unwrap();
        }
        let mut writer =
            StreamWriter::try_new_with_options(Vec::new(), &batch.schema(), options).unwrap();
        writer.write(&batch).unwrap();
        writer.into_inner().unwrap()
    }

    #[test]
    fn a_batch_that_claims_to_be_huge_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.arrow");
        let opened = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            arrow::open(&path, &FormatOptions::default()).map(drop).map_err(|it| it.to_string())
        };
        let size = ((TEXT.len() * ROWS) as i64).to_le_bytes();
        for compression in [CompressionType::ZSTD, CompressionType::LZ4_FRAME] {
            for as_file in [true, false] {
                let mut bytes = written(compression, as_file);
                assert_eq!(opened(&bytes), Ok(()));
                // Compressed offsets may contain the same bytes, but stand before the texts.
                let at = bytes.windows(size.len()).rposition(|window| window == size).unwrap();
                for huge in [2_i64 << 30, 1 << 40, i64::MAX] {
                    bytes[at..at + size.len()].copy_from_slice(&huge.to_le_bytes());
                    let error = opened(&bytes).unwrap_err();
                    assert!(
                        error.contains("decompresses to"),
                        "{compression:?} {as_file}: {error}"
                    );
                    assert!(error.contains("a.arrow"), "{error}");
                }
            }
        }
    }
}
