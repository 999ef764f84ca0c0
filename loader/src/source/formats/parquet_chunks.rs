//! The pages of a row group on their way to the reader, which makes room for as many values as they claim. Where values
//! repeat, a few bytes claim any number: a row may have two billions of items, a dictionary as many entries, a text
//! share its beginning with the one before. Pages that would take more memory than data does are refused.

use std::sync::Arc;

use parquet::basic::{Encoding, Type};
use parquet::column::page::{Page, PageIterator, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, RowGroupMetaData};
use parquet::file::reader::SerializedPageReader;
use parquet::schema::types::ColumnDescPtr;

use super::parquet_numbers::{delta_count, delta_lengths, each_packed, each_run};
use super::parquet_pages::Pages;

/// The most items of lists, of a column, in rows that are read at a time.
const ITEMS_MAX: u64 = 1 << 24;
/// The most bytes of texts that repeat each other, in a page or in rows that are read at a time.
const REPEATED_MAX: u64 = 1 << 30;

/// A row group whose rows are read `rows_at_a_time`.
pub(super) struct RowGroup {
    pub(super) pages: Pages,
    pub(super) metadata: Arc<ParquetMetaData>,
    pub(super) part: usize,
    pub(super) rows_at_a_time: usize,
}

impl parquet::arrow::arrow_reader::RowGroups for RowGroup {
    fn num_rows(&self) -> usize {
        usize::try_from(self.metadata.row_group(self.part).num_rows()).unwrap_or(0)
    }

    fn column_chunks(&self, column: usize) -> Result<Box<dyn PageIterator>> {
        let group = self.metadata.row_group(self.part);
        let chunk = group.column(column);
        check_place(chunk)?;
        let pages = Arc::new(self.pages.of_column());
        let reader = SerializedPageReader::new(Arc::clone(&pages), chunk, self.num_rows(), None)?;
        let column = chunk.column_descr_ptr();
        let levels = [column.max_rep_level(), column.max_def_level()];
        let widths = levels.map(|level| (i16::BITS - level.leading_zeros()) as u8);
        let rows = self.rows_at_a_time as u64;
        let checked = CheckedPages {
            reader,
            pages,
            column,
            widths,
            rows,
            begun: 0,
            items: 0,
            lengths: Vec::new(),
        };
        Ok(Box::new(Chunk(Some(checked))))
    }

    fn row_groups(&self) -> Box<dyn Iterator<Item = &RowGroupMetaData> + '_> {
        Box::new(std::iter::once(self.metadata.row_group(self.part)))
    }

    fn metadata(&self) -> &ParquetMetaData {
        &self.metadata
    }
}

/// Refuses a place in front of the file, at which the reader panics.
fn check_place(chunk: &ColumnChunkMetaData) -> Result<()> {
    let start = chunk.dictionary_page_offset().unwrap_or(chunk.data_page_offset());
    let length = chunk.compressed_size();
    if start >= 0 && length >= 0 {
        return Ok(());
    }
    let place = format!("the footer places it at byte {start}, with {length} bytes");
    Err(ParquetError::General(format!("column {}: {place}", chunk.column_path())))
}

/// The only chunk of a column in a row group.
struct Chunk(Option<CheckedPages>);

impl Iterator for Chunk {
    type Item = Result<Box<dyn PageReader>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.take().map(|pages| Ok(Box::new(pages) as _))
    }
}

impl PageIterator for Chunk {}

struct CheckedPages {
    reader: SerializedPageReader<Pages>,
    pages: Arc<Pages>,
    column: ColumnDescPtr,
    /// The bits of a repetition level and of a definition level.
    widths: [u8; 2],
    /// The rows that are read at a time.
    rows: u64,
    /// The rows that have begun.
    begun: u64,
    /// The items of those that are read together with the newest of them.
    items: u64,
    /// The lengths of the texts in the dictionary.
    lengths: Vec<u32>,
}

impl Iterator for CheckedPages {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

impl PageReader for CheckedPages {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        let page = self.reader.get_next_page()?;
        match &page {
            Some(Page::DictionaryPage { buf, num_values, .. }) => {
                self.check_dictionary(buf, *num_values)?;
            }
            Some(page) => self.check_page(page)?,
            None => {}
        }
        Ok(page)
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        let next = self.reader.peek_next_page()?;
        self.pages.note_header(next.is_some());
        Ok(next)
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.pages.note_header(false);
        self.reader.skip_next_page()
    }
}

impl CheckedPages {
    fn refuse<T>(&self, message: impl std::fmt::Display) -> Result<T> {
        let column = self.column.path().string();
        Err(ParquetError::General(format!("column {column:?}: {message}")))
    }

    /// The reader makes room for the entries that a page claims, each of which has a byte at least.
    fn check_dictionary(&mut self, bytes: &[u8], entries: u32) -> Result<()> {
        if entries as usize > bytes.len() {
            let bytes = bytes.len();
            return self.refuse(format_args!("a dictionary of {entries} values in {bytes} bytes"));
        }
        if self.column.physical_type() == Type::BYTE_ARRAY {
            self.lengths = lengths_of(bytes);
            // A dictionary may follow pages, too, and the rows at a time are for one before them.
            if self.column.max_rep_level() == 0 && self.longest() > REPEATED_MAX / self.rows {
                let longest = self.longest();
                return self.refuse(format_args!(
                    "a dictionary with a text of {longest} bytes behind its pages"
                ));
            }
        }
        Ok(())
    }

    fn longest(&self) -> u64 {
        self.lengths.iter().max().map_or(0, |longest| u64::from(*longest))
    }

    fn check_page(&mut self, page: &Page) -> Result<()> {
        let Some(parts) = Parts::of(page, self.widths) else {
            return self.refuse("the levels of a page are longer than it");
        };
        if let Some(levels) = parts.repetition
            && self.count_items(levels, &parts).is_none()
        {
            return self.refuse("the levels of a page cannot be read");
        }
        if self.items > ITEMS_MAX {
            let (rows, items) = (self.rows, self.items);
            return self.refuse(match rows {
                1 => format!("a row of {items} items, of {ITEMS_MAX}"),
                _ => format!("{items} items in {rows} rows, of {ITEMS_MAX}"),
            });
        }
        self.check_texts(&parts)
    }

    /// Counts the items of rows that are read together.
    fn count_items(&mut self, levels: &[u8], parts: &Parts<'_>) -> Option<()> {
        let (mut begun, mut items, mut most) = (self.begun, self.items, self.items);
        let rows = self.rows;
        let mut take = |level: u64, times: u64| {
            if level > 0 {
                items += times;
            } else {
                // Rows of one item each: those that are read last are left.
                let is_next = begun % rows + times > rows || begun.is_multiple_of(rows);
                most = most.max(items);
                begun += times;
                items = if is_next { (begun - 1) % rows + 1 } else { items + times };
            }
            most = most.max(items);
        };
        let [width, _] = self.widths;
        match parts.packs_repetition {
            true => each_packed(levels, width, parts.count, |level| take(level, 1)),
            false => each_run(levels, width, parts.count, take)?,
        }
        (self.begun, self.items) = (begun, items);
        if most > ITEMS_MAX {
            self.items = most;
        }
        Some(())
    }

    /// Fails where texts would take much more memory than their page.
    fn check_texts(&self, parts: &Parts<'_>) -> Result<()> {
        if self.column.physical_type() != Type::BYTE_ARRAY {
            return Ok(());
        }
        let repeated = match parts.encoding {
            Encoding::DELTA_LENGTH_BYTE_ARRAY => {
                let count = delta_count(parts.values);
                // Nothing is repeated: lengths alone are made room for.
                count.filter(|count| *count <= parts.count.min(ITEMS_MAX)).map(|_| 0)
            }
            Encoding::DELTA_BYTE_ARRAY => delta_bytes(parts),
            Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY => self.dictionary_bytes(parts),
            _ => Some(0),
        };
        match repeated {
            Some(bytes) if bytes > REPEATED_MAX => {
                self.refuse(format_args!("texts of {bytes} bytes in a page, of {REPEATED_MAX}"))
            }
            Some(_) => Ok(()),
            None => self.refuse("the lengths of the texts of a page are damaged, or too many"),
        }
    }

    /// The bytes of a page's texts that stand in a dictionary, in lists: few rows of one text each are read at a time.
    fn dictionary_bytes(&self, parts: &Parts<'_>) -> Option<u64> {
        let is_list = self.column.max_rep_level() > 0;
        if !is_list || self.longest().saturating_mul(parts.count) <= REPEATED_MAX {
            return Some(0);
        }
        let Some((width, numbers)) = parts.values.split_first() else { return Some(0) };
        if u32::from(*width) > u32::BITS {
            return None;
        }
        let mut bytes = 0u64;
        each_run(numbers, *width, parts.count, |number, times| {
            let place = usize::try_from(number).unwrap_or(usize::MAX);
            let length = self.lengths.get(place).map_or(0, |length| u64::from(*length));
            bytes = bytes.saturating_add(length.saturating_mul(times));
        })?;
        Some(bytes)
    }
}

/// The bytes of texts each of which begins like the one before.
fn delta_bytes(parts: &Parts<'_>) -> Option<u64> {
    let most = parts.count.min(ITEMS_MAX);
    let (prefixes, rest) = delta_lengths(parts.values, most)?;
    let (suffixes, _) = delta_lengths(rest, most)?;
    Some(prefixes.iter().chain(&suffixes).map(|length| u64::from(*length)).sum())
}

/// The lengths of texts that stand one behind the other, each after its length.
fn lengths_of(mut bytes: &[u8]) -> Vec<u32> {
    let mut lengths = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk() {
        let length = u32::from_le_bytes(*length);
        let Some(rest) = rest.get(length as usize..) else { break };
        lengths.push(length);
        bytes = rest;
    }
    lengths
}

/// The parts of a page.
struct Parts<'page> {
    /// The values and those that are missing.
    count: u64,
    /// The levels by which items of a list are told from the first ones of their rows.
    repetition: Option<&'page [u8]>,
    /// An encoding that has no runs.
    packs_repetition: bool,
    encoding: Encoding,
    values: &'page [u8],
}

impl<'page> Parts<'page> {
    fn of(page: &'page Page, widths: [u8; 2]) -> Option<Self> {
        let (count, encoding) = (u64::from(page.num_values()), page.encoding());
        match page {
            Page::DataPage { buf, rep_level_encoding, def_level_encoding, .. } => {
                let [repetition, definition] = widths;
                let (first, rest) = levels(buf, *rep_level_encoding, repetition, count)?;
                let (_, values) = levels(rest, *def_level_encoding, definition, count)?;
                let packs_repetition = *rep_level_encoding != Encoding::RLE;
                let repetition = (repetition > 0).then_some(first);
                Some(Self { count, repetition, packs_repetition, encoding, values })
            }
            Page::DataPageV2 { buf, def_levels_byte_len, rep_levels_byte_len, .. } => {
                let (levels, rest) = buf.split_at_checked(*rep_levels_byte_len as usize)?;
                let values = rest.get(*def_levels_byte_len as usize..)?;
                let [repetition, _] = widths;
                let repetition = (repetition > 0).then_some(levels);
                Some(Self { count, repetition, packs_repetition: false, encoding, values })
            }
            Page::DictionaryPage { .. } => None,
        }
    }
}

/// The levels at the start of a page of the first version, and what follows them.
fn levels(bytes: &[u8], encoding: Encoding, width: u8, count: u64) -> Option<(&[u8], &[u8])> {
    if width == 0 {
        return Some((&[], bytes));
    }
    if encoding == Encoding::RLE {
        let (length, rest) = bytes.split_first_chunk()?;
        return rest.split_at_checked(u32::from_le_bytes(*length) as usize);
    }
    let packed = count.checked_mul(u64::from(width))?.div_ceil(8);
    bytes.split_at_checked(usize::try_from(packed).ok()?)
}
