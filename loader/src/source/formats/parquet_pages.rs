//! A Parquet file whose page headers are checked before the reader allocates memory for the pages:
//! a header states the unpacked size, up to 2 GiB, and the reader trusts it.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::ParquetMetaData;
use parquet::file::reader::{ChunkReader, Length};

use super::compression::GROWTH_MAX;
use super::thrift;

/// Pages up to this size pass, whatever the file states about its columns: writers aim at 1 MiB.
const PAGE_BYTES: u64 = 256 << 20;
/// The head of the next field, where it is an `i32`, in Thrift's compact protocol.
const NEXT_FIELD_IS_I32: u8 = 0x15;
/// The type of a page that is a dictionary.
const DICTIONARY_PAGE: i32 = 2;

pub(super) struct Pages {
    file: Arc<File>,
    page_bytes_max: u64,
    /// The reader has the header of the next page, and asks for what follows it as if for a header.
    has_header: AtomicBool,
}

impl Pages {
    /// No page is longer than the longest column of a row group, or grows to more than text does: a file may state any
    /// size of its columns, too.
    pub(super) fn new(file: File, metadata: &ParquetMetaData) -> Pages {
        let columns = metadata.row_groups().iter().flat_map(|group| group.columns());
        let stated = columns.filter_map(|column| u64::try_from(column.uncompressed_size()).ok());
        let longest = stated.max().unwrap_or(0).min(file.len().saturating_mul(GROWTH_MAX));
        let has_header = AtomicBool::new(false);
        Pages { file: Arc::new(file), page_bytes_max: longest.max(PAGE_BYTES), has_header }
    }

    /// The same file, for the reader of another column.
    pub(super) fn of_column(&self) -> Pages {
        let file = Arc::clone(&self.file);
        Pages { file, page_bytes_max: self.page_bytes_max, has_header: AtomicBool::new(false) }
    }

    /// Notes whether the reader has looked at the next page, whose header is checked then.
    pub(super) fn note_header(&self, has_header: bool) {
        self.has_header.store(has_header, Ordering::Relaxed);
    }
}

impl Length for Pages {
    fn len(&self) -> u64 {
        self.file.len()
    }
}

impl ChunkReader for Pages {
    type T = BufReader<File>;

    /// The reader asks for this at the header of each page.
    fn get_read(&self, start: u64) -> Result<Self::T> {
        let mut reader = self.file.get_read(start)?;
        if self.has_header.swap(false, Ordering::Relaxed) {
            return Ok(reader);
        }
        let header = reader.fill_buf()?;
        match unpacked_bytes(header) {
            Some(bytes) if bytes > self.page_bytes_max => {
                Err(ParquetError::General(format!("a page of {bytes} bytes at byte {start}")))
            }
            // The reader takes the fields in any order and form, but writers have one.
            None if !header.is_empty() => {
                Err(ParquetError::General(format!("the head of a page at byte {start}")))
            }
            _ => Ok(reader),
        }
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        if start.saturating_add(length as u64) > self.len() {
            return Err(ParquetError::EOF(format!("{length} bytes at byte {start}")));
        }
        self.file.get_bytes(start, length)
    }
}

/// Returns the unpacked size of the page that begins at `start` if it is a dictionary.
pub(super) fn dictionary_bytes(file: &File, start: u64) -> Option<u64> {
    let mut header = [0; 16];
    let read = file.read_at(&mut header, start).ok()?;
    let (kind, bytes) = kind_and_bytes(&header[..read])?;
    (kind == DICTIONARY_PAGE).then_some(bytes)
}

/// The second field of a page's header; the first is its type.
fn unpacked_bytes(header: &[u8]) -> Option<u64> {
    kind_and_bytes(header).map(|(_, bytes)| bytes)
}

fn kind_and_bytes(header: &[u8]) -> Option<(i32, u64)> {
    let mut bytes = header.iter().copied();
    let kind = i32_field(&mut bytes)?;
    let size = i32_field(&mut bytes)?;
    Some((kind, u64::try_from(size).ok()?))
}

fn i32_field(bytes: &mut impl Iterator<Item = u8>) -> Option<i32> {
    if bytes.next()? != NEXT_FIELD_IS_I32 {
        return None;
    }
    // The reader, too, takes the lower half of a longer number.
    thrift::number(|| bytes.next()).map(|number| number as i32)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parquet::arrow::arrow_reader::ArrowReaderMetadata;

    use super::*;
    use crate::testing::DataFolder;

    /// The reader would allocate two gigabytes for a page that has 23 bytes, however its head says so.
    #[test]
    fn a_page_that_claims_to_be_huge_is_refused() {
        let column = arrow_array::StringArray::from(vec!["text"; 3]);
        let batch =
            arrow_array::RecordBatch::try_from_iter([("text", Arc::new(column) as _)]).unwrap();
        let mut good = Vec::new();
        let mut writer =
            parquet::arrow::ArrowWriter::try_new(&mut good, batch.schema(), None).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        let folder = DataFolder::new();
        let path = folder.write("a.parquet", good);
        let metadata = ArrowReaderMetadata::load(&File::open(&path).unwrap(), Default::default());
        let metadata = metadata.unwrap();
        let head = |bytes: &[u8]| {
            let path = folder.write("head", bytes);
            let pages = Pages::new(File::open(path).unwrap(), metadata.metadata());
            pages.get_read(0).map(drop).map_err(|error| error.to_string())
        };
        assert_eq!(head(&[0x15, 0x04, 0x15, 0x10, 0x15, 0x10]), Ok(()));
        assert_eq!(head(&[]), Ok(()), "the reader says that the file ends");
        let refused = |bytes: &[u8], expect: &str| {
            let error = head(bytes).unwrap_err();
            assert!(error.contains(expect), "{error}");
        };
        let huge = [0xfe, 0xff, 0xff, 0xff, 0x0f];
        refused(&[&[0x15, 0x04, 0x15], &huge[..]].concat(), "a page of 2147483647 bytes");
        // The second field with its number, and before the first one.
        refused(&[&[0x15, 0x04, 0x05, 0x04], &huge[..]].concat(), "the head of a page at byte 0");
        refused(&[&[0x25], &huge[..], &[0x05, 0x02, 0x04]].concat(), "the head of a page");
    }

    #[test]
    fn the_length_of_a_page_is_in_its_header() {
        // A dictionary page of 300 bytes.
        assert_eq!(unpacked_bytes(&[0x15, 0x04, 0x15, 0xd8, 0x04, 0x15, 0x02]), Some(300));
        let largest = [0x15, 0x00, 0x15, 0xfe, 0xff, 0xff, 0xff, 0x0f];
        assert_eq!(unpacked_bytes(&largest), Some(i32::MAX as u64));
        let wrapped = [0x15, 0x04, 0x15, 0xff, 0xff, 0xff, 0xff, 0x30];
        assert_eq!(unpacked_bytes(&wrapped), Some(2_013_265_920));
        let none =
            [&[][..], &[0x15], &[0x15, 0x00, 0x25, 0x02], &[0x15, 0x00, 0x15, 0x01], &[0xff; 40]];
        for header in none {
            assert_eq!(unpacked_bytes(header), None, "{header:?}");
        }
    }
}
