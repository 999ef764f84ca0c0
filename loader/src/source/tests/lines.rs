//! Lines of CSV and of plain text.

use std::io::Write;

use super::{check_error, check_text_rows, open, read, read_as, text};
use crate::error::Error;
use crate::source::{CsvOptions, Delimiter, Encoding, FormatOptions, Value};
use crate::testing::DataFolder;

#[test]
fn csv_fields_may_hold_delimiters_quotes_and_line_breaks() {
    check_text_rows("a.csv", "text,label\nplain,1\n", &[(2, "plain", "1")]);
    check_text_rows("a.csv", "label,id,text\n1,7,last\n", &[(2, "last", "1")]);
    check_text_rows(
        "a.csv",
        "text,label\r\n\"a, b\",1\r\n\"say \"\"hi\"\"\",2\r\n\"two\nlines\",3\r\nend,4",
        &[(2, "a, b", "1"), (3, "say \"hi\"", "2"), (4, "two\nlines", "3"), (6, "end", "4")],
    );
    check_text_rows("a.csv", "\u{feff}text,label\n\nété 日本,1\n", &[(3, "été 日本", "1")]);
    check_text_rows("a.csv", "\u{feff}\ntext,label\na,1\n", &[(3, "a", "1")]);
    check_text_rows("a.csv", "text,label\n5\" disk,1\n", &[(2, "5\" disk", "1")]);
    check_text_rows("a.tsv", "text\tlabel\na, b\t1\n", &[(2, "a, b", "1")]);
    check_text_rows("A.CSV", "text,label\nx,1\n", &[(2, "x", "1")]);
}

#[test]
fn csv_fields_are_apart_by_the_delimiter_that_is_given() {
    let folder = DataFolder::new();
    let file = folder.write("a.csv", "text;label\na, b;1\n\"c;d\";2\n");
    let csv = CsvOptions { delimiter: Some(Delimiter::Byte(b';')), ..CsvOptions::default() };
    let format = FormatOptions { csv, ..FormatOptions::default() };
    let rows = read_as(format, &[&file], &["text", "label"]).unwrap();
    let row = |row, line, words, label| (row, Some(line), vec![text(words), text(label)]);
    assert_eq!(rows, [row(0, 2, "a, b", "1"), row(1, 3, "c;d", "2")]);
    let expect =
        "a.csv: no columns \"text\", \"label\"; it has \"text;label\" (is data.delimiter right?)";
    check_error("a.csv", "text;label\na;1\n", expect);
}

#[test]
fn lines_of_plain_text_are_rows_with_or_without_their_breaks() {
    let folder = DataFolder::new();
    let file = folder.write("a.txt", "\u{feff}first, \"line\"\r\n\n  \nlast");
    let row = |row, line, words| (row, Some(line), vec![text(words)]);
    let rows = read(&[&file], &["text"]).unwrap();
    assert_eq!(rows, [row(0, 1, "first, \"line\""), row(1, 4, "last")]);
    let format = FormatOptions { keep_linebreaks: true, ..FormatOptions::default() };
    let rows = read_as(format, &[&file], &["text"]).unwrap();
    assert_eq!(
        rows,
        [row(0, 1, "first, \"line\"\n"), row(1, 2, "\n"), row(2, 3, "  \n"), row(3, 4, "last")]
    );
    let error = read(&[&folder.write("b.txt", b"a\n\xff\n")], &["text"]).unwrap_err();
    let expect = "b.txt, row 1 (line 2), column (whole line): not valid UTF-8; it looks like latin-1, \
                  which data.encoding: latin-1 reads";
    assert_eq!(folder.shown(&error), expect);
    let expect = "a.txt: no column \"label\"; it has text; a .txt file has one text a line, and rows with columns \
                  are in CSV, JSON or Parquet";
    check_error("a.txt", "a\n", expect);
}

#[test]
fn a_bad_csv_row_names_file_row_line_and_column() {
    check_error(
        "a.csv",
        "text,label\nok,1\n\"two\nlines\",2\na,b,3\n",
        "a.csv, row 2 (line 5): 3 fields where the rows before have 2",
    );
    check_error(
        "a.csv",
        b"text,label\nok,1\nbad \xff,2\n",
        "a.csv, row 1 (line 3), column text: not valid UTF-8; it looks like latin-1, which \
         data.encoding: latin-1 reads",
    );
    check_error(
        "a.csv",
        "text,label\nok,1\nx,\"never closed\ny,2\nz,3\n",
        "a.csv, row 1 (line 3): a quoted field is never closed",
    );
    check_error(
        "a.csv",
        b"te\xffxt,label\n",
        "a.csv: not valid UTF-8; it looks like latin-1, which data.encoding: latin-1 reads",
    );
    check_error("a.csv", "\n\n", "a.csv: the file is empty");
}

#[test]
fn text_may_be_in_another_encoding() {
    let folder = DataFolder::new();
    let file = "text,label\ncaf\u{e9},1\n\"two\nlines\",2\n";
    let wide: Vec<u8> = file.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let wide = [b"\xFF\xFE", &wide[..]].concat();
    let latin: Vec<u8> = file.chars().map(|letter| letter as u8).collect();
    for (name, bytes) in [("utf-16", wide.clone()), ("latin-1", latin)] {
        let encoding = Encoding::of_name(name);
        let format = FormatOptions { encoding, ..FormatOptions::default() };
        let rows = read_as(format, &[&folder.write("a.csv", bytes)], &["text"]).unwrap();
        let expect =
            [(0, Some(2), vec![text("caf\u{e9}")]), (1, Some(3), vec![text("two\nlines")])];
        assert_eq!(rows, expect, "{name}");
    }
    let looks = "not valid UTF-8; it looks like utf-16, which data.encoding: utf-16 reads";
    check_error("a.csv", wide, &format!("a.csv: {looks}"));
}

/// They were said to be UTF-16, and would be read as characters of number zero.
#[test]
fn files_of_zeros_are_refused_as_such() {
    for name in ["a.csv", "a.tsv", "a.jsonl", "a.json"] {
        let zeros =
            "it has nothing but zeros, as a file whose content was lost; write or copy it again";
        check_error(name, vec![0; 5000], &format!("{name}: not a readable text file: {zeros}"));
    }
    let folder = DataFolder::new();
    let error = read(&[&folder.write("a.txt", vec![0u8; 5000])], &["text"]).unwrap_err();
    assert!(error.to_string().contains("nothing but zeros"), "{error}");
    // A file system may lose the end of a file alone.
    let long = [b"a line of text\n".repeat(1000), vec![0; 5000]].concat();
    let error = read(&[&folder.write("a.txt", long)], &["text"]).unwrap_err();
    assert!(error.to_string().contains("row 1000 (line 1001): nothing but zeros"), "{error}");
}

#[test]
fn compressed_text_is_read_as_if_it_were_not() {
    let gzip = |text: &str| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    };
    let zstd = |text: &str| zstd::encode_all(text.as_bytes(), 1).unwrap();
    let csv = "text,label\n\"two\nlines\",1\nend,2\n";
    let jsonl =
        "{\"text\": \"two\\nlines\", \"label\": \"1\"}\n\n{\"text\": \"end\", \"label\": \"2\"}";
    let check = |name: &str, bytes: Vec<u8>| {
        let folder = DataFolder::new();
        let rows = read(&[&folder.write(name, &bytes)], &["text", "label"]).unwrap();
        let cells: Vec<Vec<Value>> = rows.iter().map(|row| row.2.clone()).collect();
        assert_eq!(cells, [[text("two\nlines"), text("1")], [text("end"), text("2")]]);
        assert!(rows.iter().all(|row| row.1.is_some()), "lines are known");
        let cut = folder.write(name, &bytes[..bytes.len() / 2]);
        let error = read(&[&cut], &["text", "label"]).unwrap_err();
        assert_eq!(error.file(), Some(folder.path(name).as_path()), "{error}");
    };
    check("a.csv.gz", gzip(csv));
    check("a.csv.zst", zstd(csv));
    check("a.jsonl.gz", gzip(jsonl));
    check("A.JSONL.ZST", zstd(jsonl));
    check("a.csv.gz", [gzip("text,label\n\"two\nlin"), gzip("es\",1\nend,2\n")].concat());
    check_error("a.csv.gz", csv, "a.csv.gz: cannot read: invalid gzip header");
    check_error("a.csv.gz", gzip(""), "a.csv.gz: the file is empty");
    check_error(
        "a.csv.gz",
        gzip("text,label\nok,1\nx,2,3\n"),
        "a.csv.gz, row 1 (line 3): 3 fields where the rows before have 2",
    );
    let misnamed = "not a readable text file: it is compressed, but its name does not end in";
    check_error("a.csv", gzip(csv), &format!("a.csv: {misnamed} .gz"));
    check_error("a.jsonl", zstd(jsonl), &format!("a.jsonl: {misnamed} .zst"));
    let folder = DataFolder::new();
    let error = open(&[folder.write("a.parquet.gz", "x")]).err().unwrap();
    assert!(matches!(error, Error::UnknownFormat { .. }), "{error}");
}
