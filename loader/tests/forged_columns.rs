//! Files of some hundred bytes that claim billions of values. They are refused by name, within little memory.

// What cannot be set up is a failed test.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::Arc;

use arrow_array::builder::{ListBuilder, NullBuilder};
use arrow_array::{Array, ArrayRef, FixedSizeListArray, NullArray, RecordBatch};
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{DataType, Field};
use traind_loader::{Error, Source};

/// The types of Thrift's compact protocol.
const I32: u8 = 5;
const I64: u8 = 6;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const STRUCT: u8 = 12;

/// Parquet's types of values, kinds of pages and encodings.
const INT32: i64 = 1;
const TEXT: i64 = 6;
const FIXED_BYTES: i64 = 7;
const DATA_PAGE: i64 = 0;
const DICTIONARY_PAGE: i64 = 2;
const PLAIN: i64 = 0;
const RLE: i64 = 3;
const DELTA_LENGTHS: i64 = 6;
const DELTA_TEXTS: i64 = 7;
const RLE_DICTIONARY: i64 = 8;

/// Two billions.
const MANY: u64 = i32::MAX as u64;
const MEGABYTE: u64 = 1 << 20;

/// A struct of Thrift, whose fields come in their order.
#[derive(Default)]
struct Fields {
    bytes: Vec<u8>,
    last: u8,
}

impl Fields {
    fn field(mut self, number: u8, kind: u8, content: impl AsRef<[u8]>) -> Self {
        self.bytes.push((number - self.last) << 4 | kind);
        self.last = number;
        self.bytes.extend(content.as_ref());
        self
    }

    fn number(self, number: u8, kind: u8, value: i64) -> Self {
        self.field(number, kind, varint((value << 1 ^ value >> 63) as u64))
    }

    fn text(self, number: u8, text: &str) -> Self {
        self.field(number, BINARY, sized(text))
    }

    fn list(self, number: u8, kind: u8, items: &[Vec<u8>]) -> Self {
        self.field(number, LIST, [vec![(items.len() as u8) << 4 | kind], items.concat()].concat())
    }

    fn end(mut self) -> Vec<u8> {
        self.bytes.push(0);
        self.bytes
    }
}

fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

fn sized(text: &str) -> Vec<u8> {
    [varint(text.len() as u64), text.as_bytes().to_vec()].concat()
}

/// A column called "items" of one row group.
struct Column {
    kind: i64,
    is_list: bool,
    pages: Vec<Vec<u8>>,
    /// The values and the rows that the footer claims.
    values: u64,
    rows: u64,
    offset: Option<i64>,
}

impl Column {
    fn of(kind: i64, is_list: bool, pages: Vec<Vec<u8>>) -> Self {
        Self { kind, is_list, pages, values: 1, rows: 1, offset: None }
    }

    /// A file of this column.
    fn file(&self) -> Vec<u8> {
        let element = |name: &str, repetition, children, converted| {
            let element = Fields::default().number(3, I32, repetition).text(4, name);
            element.number(5, I32, children).number(6, I32, converted).end()
        };
        let root = Fields::default().text(4, "root").number(5, I32, 1).end();
        let leaf = |name: &str| {
            let leaf = Fields::default().number(1, I32, self.kind).number(2, I32, 1 << 30);
            leaf.number(3, I32, 1).text(4, name).end()
        };
        // Converted types 3 and 0 stand for lists and texts; readers of structs ignore the latter.
        let list = || vec![element("items", 1, 1, 3), element("list", 2, 1, 0), leaf("element")];
        let (schema, path) = match self.is_list {
            true => (list(), vec!["items", "list", "element"]),
            false => (vec![leaf("items")], vec!["items"]),
        };
        let schema = [vec![root], schema].concat();
        let path: Vec<_> = path.into_iter().map(sized).collect();
        let pages = self.pages.concat();
        let size = pages.len() as i64;
        let has_dictionary = self.pages.len() > 1;
        let encodings: Vec<_> = [PLAIN, RLE].map(|it| varint(it as u64 * 2)).into();
        let mut chunk = Fields::default()
            .number(1, I32, self.kind)
            .list(2, I32, &encodings)
            .list(3, BINARY, &path)
            .number(4, I32, 0)
            .number(5, I64, self.values as i64)
            .number(6, I64, size)
            .number(7, I64, size)
            .number(9, I64, self.offset.unwrap_or(4));
        if has_dictionary {
            chunk = chunk.number(11, I64, 4);
        }
        let column = Fields::default().number(2, I64, 4).field(3, STRUCT, chunk.end()).end();
        let group = Fields::default().list(1, STRUCT, &[column]);
        let group = group.number(2, I64, size).number(3, I64, self.rows as i64).end();
        let footer = Fields::default().number(1, I32, 1).list(2, STRUCT, &schema);
        let footer = footer.number(3, I64, self.rows as i64).list(4, STRUCT, &[group]).end();
        let length = (footer.len() as u32).to_le_bytes();
        [b"PAR1".as_slice(), &pages, &footer, &length, b"PAR1"].concat()
    }
}

/// A page of `count` values, which stand in `body` behind their levels.
fn page(kind: i64, count: u64, encoding: i64, body: &[u8]) -> Vec<u8> {
    let size = body.len() as i64;
    let own = Fields::default().number(1, I32, count as i64).number(2, I32, encoding);
    let (field, own) = match kind {
        DICTIONARY_PAGE => (7, own),
        _ => (5, own.number(3, I32, RLE).number(4, I32, RLE)),
    };
    let head = Fields::default().number(1, I32, kind).number(2, I32, size).number(3, I32, size);
    [head.field(field, STRUCT, own.end()).end(), body.to_vec()].concat()
}

/// Levels in runs, after their length.
fn levels(runs: &[(u64, u8)]) -> Vec<u8> {
    let runs: Vec<u8> = runs
        .iter()
        .flat_map(|(times, level)| {
            let mut run = varint(times << 1);
            run.push(*level);
            run
        })
        .collect();
    [(runs.len() as u32).to_le_bytes().to_vec(), runs].concat()
}

/// The levels of one row that has `count` items of the level `definition`.
fn one_row(count: u64, definition: u8) -> Vec<u8> {
    [levels(&[(1, 0), (count - 1, 1)]), levels(&[(count, definition)])].concat()
}

/// `count` lengths from `first` on, each `step` more than the one before, in one block.
fn lengths(count: u64, first: u8, step: u8) -> Vec<u8> {
    let block = count.next_multiple_of(128);
    [varint(block), vec![1], varint(count), vec![first * 2, step * 2, 0]].concat()
}

fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

fn read(path: &Path) -> Result<u64, Error> {
    let source = Source::open(&[path.to_str().unwrap().to_owned()].into_iter().collect())?;
    let parts = source.parts().into_iter();
    parts.map(|part| source.read(part, &["items"], &mut |_| Ok(()))).sum()
}

/// Reads a file of `bytes`, which must be small, and returns the error, which must name it.
fn refused(name: &str, bytes: &[u8]) -> String {
    assert!(bytes.len() < 1 << 18, "{} bytes", bytes.len());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    let before = peak();
    let error = read(&path).unwrap_err();
    let grown = peak() - before;
    assert!(grown < 64 * MEGABYTE, "{} MB more of memory: {error}", grown / MEGABYTE);
    assert_eq!(error.file(), Some(path.as_path()), "{error}");
    error.to_string()
}

fn check(column: &Column, expect: &str) {
    let error = refused("a.parquet", &column.file());
    assert!(error.contains(expect), "{error}");
}

#[test]
fn the_forged_files_are_read_where_they_claim_what_they_have() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.parquet");
    let list = page(DATA_PAGE, 1_000_000, PLAIN, &one_row(1_000_000, 2));
    std::fs::write(&path, Column::of(INT32, true, vec![list]).file()).unwrap();
    assert_eq!(read(&path).unwrap(), 1);
    // Ten texts, each of which begins like the one before.
    let texts = [lengths(10, 0, 1), lengths(10, 1, 0), b"0123456789".to_vec()].concat();
    let texts = page(DATA_PAGE, 10, DELTA_TEXTS, &[levels(&[(10, 1)]), texts].concat());
    let column = Column { rows: 10, values: 10, ..Column::of(TEXT, false, vec![texts]) };
    std::fs::write(&path, column.file()).unwrap();
    assert_eq!(read(&path).unwrap(), 10);
}

#[test]
fn a_row_of_two_billion_items_is_refused() {
    let items = page(DATA_PAGE, MANY, PLAIN, &one_row(MANY, 2));
    check(&Column::of(INT32, true, vec![items]), "items in 8192 rows, of 16777216");
    // Pages of the same row.
    let mut pages = vec![page(DATA_PAGE, 9_000_000, PLAIN, &one_row(9_000_000, 2))];
    let more = [levels(&[(9_000_000, 1)]), levels(&[(9_000_000, 2)])].concat();
    pages.push(page(DATA_PAGE, 9_000_000, PLAIN, &more));
    let column = Column { values: 18_000_000, ..Column::of(INT32, true, vec![pages.concat()]) };
    check(&column, "a row of 18000000 items, of 16777216");
}

#[test]
fn a_dictionary_that_claims_to_be_huge_is_refused() {
    let dictionary = page(DICTIONARY_PAGE, MANY, PLAIN, &[0; 4]);
    let values = page(DATA_PAGE, 1, RLE_DICTIONARY, &[levels(&[(1, 1)]), vec![0, 2]].concat());
    let column = Column::of(INT32, false, vec![dictionary, values]);
    check(&column, "a dictionary of 2147483647 values in 4 bytes");
}

#[test]
fn lists_that_repeat_a_long_text_are_refused() {
    let text = [65_536u32.to_le_bytes().to_vec(), vec![b'x'; 65_536]].concat();
    let dictionary = page(DICTIONARY_PAGE, 1, PLAIN, &text);
    let count = 1 << 20;
    let body = [one_row(count, 3), vec![0], varint(count << 1)].concat();
    let values = page(DATA_PAGE, count, RLE_DICTIONARY, &body);
    let column = Column { values: count, ..Column::of(TEXT, true, vec![dictionary, values]) };
    check(&column, "texts of 68719476736 bytes in a page");
}

#[test]
fn lengths_that_a_page_claims_are_not_made_room_for() {
    for encoding in [DELTA_LENGTHS, DELTA_TEXTS] {
        let body = [levels(&[(1, 1)]), lengths(1 << 40, 0, 0), lengths(1, 0, 0)].concat();
        let values = page(DATA_PAGE, 1, encoding, &body);
        check(&Column::of(TEXT, false, vec![values]), "are damaged, or too many");
    }
    // Each text has the one before as its beginning.
    let count = 60_000;
    let body = [levels(&[(count, 1)]), lengths(count, 0, 1), lengths(count, 1, 0)].concat();
    let body = [body, vec![b'x'; count as usize]].concat();
    let values = page(DATA_PAGE, count, DELTA_TEXTS, &body);
    let column = Column { values: count, rows: count, ..Column::of(TEXT, false, vec![values]) };
    check(&column, "texts of 1800030000 bytes in a page");
}

#[test]
fn values_of_a_gigabyte_that_are_missing_are_refused() {
    let values = page(DATA_PAGE, 1_000, PLAIN, &levels(&[(1_000, 0)]));
    let column =
        Column { values: 1_000, rows: 1_000, ..Column::of(FIXED_BYTES, false, vec![values]) };
    check(&column, "values of type FixedSizeBinary(1073741824) cannot be read");
}

#[test]
fn rows_and_places_that_a_footer_claims_are_compared_with_the_file() {
    let value = || page(DATA_PAGE, 1, PLAIN, &[levels(&[(1, 1)]), vec![7; 4]].concat());
    let column = |rows| Column { rows, ..Column::of(INT32, false, vec![value()]) };
    check(&column(1 << 40), "1099511627776 rows in ");
    check(&column(2), "row group 1 has fewer rows than the footer states");
    check(&column(0), "row group 1 has more rows than the footer states");
    for (offset, expect) in
        [(1 << 40, ""), (100_000, ""), (-1, "places it at byte -1"), (i64::MAX, "")]
    {
        let column = Column { offset: Some(offset), ..column(1) };
        check(&column, expect);
    }
}

#[test]
fn values_of_arrow_files_that_take_no_space_are_counted() {
    let nothing = |rows| Arc::new(NullArray::new(rows)) as ArrayRef;
    let field = Arc::new(Field::new("item", DataType::Null, true));
    let many = 1 << 30;
    let fixed = FixedSizeListArray::new(field, many, nothing(many as usize), None);
    let mut list = ListBuilder::new(NullBuilder::new());
    list.values().append_nulls(many as usize);
    list.append(true);
    let list = list.finish();
    for (array, rows) in [(Arc::new(fixed) as ArrayRef, 1), (Arc::new(list) as ArrayRef, 1)] {
        assert_eq!(array.len(), rows);
        let batch = RecordBatch::try_from_iter([("items", array)]).unwrap();
        let mut writer = StreamWriter::try_new(Vec::new(), &batch.schema()).unwrap();
        writer.write(&batch).unwrap();
        let error = refused("a.arrow", &writer.into_inner().unwrap());
        assert!(error.contains("row 1 takes "), "{error}");
    }
}
