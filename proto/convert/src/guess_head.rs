//! Reads a data file for `traind init`: its columns, the settings without which it cannot be read, and its labels.

use std::collections::BTreeSet;

use serde::Deserialize as _;
use serde_json::{Map, Value};
use traind_choices::doubtful_labels;

/// A file, or the beginning of a large one.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Head {
    /// The names of its columns.
    pub names: Vec<String>,
    /// Fields of `data` that it needs, with their values.
    pub settings: Vec<(&'static str, String)>,
    text: String,
    rows: Rows,
    /// Whether the text is all of the file.
    is_whole: bool,
}

/// How a file has its rows.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
enum Rows {
    /// As lines of fields with a delimiter between them, behind a header.
    Table(char),
    /// As objects, in lines or in a list.
    Json,
    /// Without columns.
    #[default]
    Lines,
}

impl Head {
    /// The columns that `dataset_info.json` of a saved data set says; `None` where it has none.
    pub fn of_features(info: &Value) -> Option<Self> {
        let names = info["features"].as_object()?.keys().cloned().collect();
        Some(Self::of_columns(names))
    }

    /// Columns of which no row is known.
    pub fn of_columns(names: Vec<String>) -> Self {
        Self { names, ..Self::default() }
    }

    /// The first rows of a file whose format is no text.
    pub fn of_rows(rows: &Vec<Value>) -> Self {
        Self { rows: Rows::Json, ..Self::default() }.with_rows(rows)
    }

    /// Whether the labels of a column are numbers of which some are fractions, and so no classes.
    pub fn has_fractions(&self, column: &str) -> bool {
        let labels = self.labels(column);
        let numbers: Option<Vec<f64>> = labels.iter().map(|label| label.parse().ok()).collect();
        numbers.is_some_and(|numbers| numbers.iter().any(|it| it.is_finite() && it.fract() != 0.0))
    }

    /// Takes rows in place of the text.
    fn with_rows(mut self, rows: &Vec<Value>) -> Self {
        let first = rows.first().and_then(Value::as_object);
        let is_squad = first.is_some_and(|first| first.contains_key("paragraphs"));
        self.names = match first {
            Some(_) if is_squad => ["question", "context", "answers"].map(str::to_owned).to_vec(),
            first => first.into_iter().flat_map(Map::keys).cloned().collect(),
        };
        let layout = first.and_then(layout);
        self.settings.extend(layout.map(|layout| ("format", layout.to_owned())));
        self.text = serde_json::to_string(rows).unwrap_or_default();
        self
    }

    /// The labels of a column by which data sets mark rows without one. Rows may have a list of labels, and an empty
    /// label stands for a missing value.
    pub fn no_labels(&self, column: &str) -> Vec<String> {
        let labels = self.labels(column).into_iter().collect::<Vec<String>>();
        let has_missing = labels.len() > 1 && labels[0].is_empty();
        let named = &labels[usize::from(has_missing)..];
        let missing = has_missing.then(String::new);
        // The classes -1, 0 and 1 are often those of a scale.
        let doubtful = doubtful_labels(named).filter(|_| named != ["-1", "0", "1"]);
        missing.into_iter().chain(doubtful.map(|place| named[place].clone())).collect()
    }

    /// The distinct labels of a column.
    fn labels(&self, column: &str) -> BTreeSet<String> {
        let mut labels = BTreeSet::new();
        match self.rows {
            Rows::Table(delimiter) => {
                let Some(place) = self.names.iter().position(|name| name == column) else {
                    return labels;
                };
                let value = |line| fields(line, delimiter).into_iter().nth(place);
                let lines = table(&self.text, self.is_whole);
                labels.extend(lines.map(|line| value(line).unwrap_or_default()));
            }
            Rows::Json => rows(&self.text).for_each(|row| match row.get(column) {
                Some(Value::Array(list)) => labels.extend(list.iter().map(label)),
                value => labels.extend([value.map(label).unwrap_or_default()]),
            }),
            Rows::Lines => {}
        }
        labels
    }
}

/// The rows that are a list under the key `data`, as `datasets` and SQuAD have them.
fn rows_below_data(whole: &Map<String, Value>) -> Option<&Vec<Value>> {
    whole.get("data")?.as_array().filter(|rows| rows.first().is_some_and(Value::is_object))
}

/// The text of a label.
fn label(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Delimiters of CSV files other than a comma.
const DELIMITERS: [char; 3] = [';', '\t', '|'];

/// Reads `bytes` of a file called `name`: the first ones, or with `is_whole` all of them. The head keeps them, since
/// they may be many. `None` for formats that do not begin with names of columns. Fails where the first row of JSON
/// cannot be read.
pub fn head(name: &str, bytes: Vec<u8>, is_whole: bool) -> Result<Option<Head>, serde_json::Error> {
    let name = name.to_lowercase();
    let (encoding, mut text) = decoded(bytes);
    let start = text.trim_start_matches('\u{feff}').trim_start_matches(['\r', '\n']).len();
    text.drain(..text.len() - start);
    let line = text.lines().next().unwrap_or_default();
    let mut head = Head { is_whole, ..Head::default() };
    head.settings.extend(encoding.map(|encoding| ("encoding", encoding.to_owned())));
    if name.ends_with(".csv") {
        let found = delimiter(line);
        head.names = fields(line, found);
        head.settings.extend((found != ',').then(|| ("delimiter", found.to_string())));
        head.rows = Rows::Table(found);
    } else if name.ends_with(".tsv") {
        head.names = fields(line, '\t');
        head.rows = Rows::Table('\t');
    } else if name.ends_with(".jsonl") || name.ends_with(".ndjson") || name.ends_with(".json") {
        let first = first_row(&text)?;
        head.rows = Rows::Json;
        if let Some(rows) = rows_below_data(&first) {
            return Ok(Some(head.with_rows(rows)));
        }
        head.names = first.keys().cloned().collect();
        head.settings.extend(layout(&first).map(|layout| ("format", layout.to_owned())));
    } else if name.ends_with(".txt") {
        head.names = vec!["text".to_owned()];
    } else {
        return Ok(None);
    }
    head.text = text;
    Ok(Some(head))
}

/// The text, and the encoding to name where it is not UTF-8. A character that the end cuts is left out.
fn decoded(bytes: Vec<u8>) -> (Option<&'static str>, String) {
    let units = |read: fn([u8; 2]) -> u16| {
        let units = bytes.chunks_exact(2).map(move |pair| read([pair[0], pair[1]]));
        let letters = char::decode_utf16(units).map(|letter| letter.unwrap_or('\u{fffd}'));
        (Some("utf-16"), letters.collect())
    };
    match bytes[..] {
        [0xff, 0xfe, ..] => return units(u16::from_le_bytes),
        [0xfe, 0xff, ..] => return units(u16::from_be_bytes),
        _ => {}
    }
    match String::from_utf8(bytes) {
        Ok(text) => (None, text),
        Err(error) if error.utf8_error().error_len().is_some() => {
            (Some("latin-1"), error.as_bytes().iter().map(|byte| char::from(*byte)).collect())
        }
        Err(error) => {
            let whole = error.utf8_error().valid_up_to();
            let mut bytes = error.into_bytes();
            bytes.truncate(whole);
            (None, String::from_utf8(bytes).unwrap_or_default())
        }
    }
}

/// The delimiter of a header: a comma if it has one.
fn delimiter(line: &str) -> char {
    let divides = |delimiter: &char| fields(line, *delimiter).len() > 1;
    let other = || DELIMITERS.into_iter().find(divides);
    if divides(&',') { ',' } else { other().unwrap_or(',') }
}

/// The fields of a line of CSV.
fn fields(line: &str, delimiter: char) -> Vec<String> {
    let mut found = vec![String::new()];
    let mut quoted = false;
    for c in line.trim_end_matches('\r').chars() {
        match c {
            '"' => quoted = !quoted,
            c if c == delimiter && !quoted => found.push(String::new()),
            c => found.last_mut().map_or((), |field| field.push(c)),
        }
    }
    found
}

/// The lines of the rows behind the header of CSV. A last one without an end is a row if the text is that of a whole
/// file.
fn table(text: &str, is_whole: bool) -> impl Iterator<Item = &str> {
    let mut quoted = false;
    let lines = text.split_inclusive(move |c| {
        quoted ^= c == '"';
        c == '\n' && !quoted
    });
    let ended = move |line: &'_ str| is_whole || line.ends_with('\n');
    let rows = lines.skip(1).filter(move |line| ended(line));
    rows.map(|line| line.strip_suffix('\n').unwrap_or(line)).filter(|line| !line.is_empty())
}

/// The rows of a list or of lines, up to one that cannot be read.
fn rows(text: &str) -> impl Iterator<Item = Map<String, Value>> {
    let rest = text.trim_start();
    let mut rest = rest.strip_prefix('[').unwrap_or(rest);
    std::iter::from_fn(move || {
        let mut stream = serde_json::Deserializer::from_str(rest).into_iter();
        let row = stream.next()?.ok()?;
        rest = rest[stream.byte_offset()..].trim_start();
        rest = rest.strip_prefix(',').unwrap_or(rest);
        Some(row)
    })
}

/// The first row of a list or of lines.
fn first_row(text: &str) -> Result<Map<String, Value>, serde_json::Error> {
    let rows = text.trim_start();
    let rows = rows.strip_prefix('[').unwrap_or(rows);
    Map::deserialize(&mut serde_json::Deserializer::from_str(rows))
}

/// The layout of other tools that a row has.
fn layout(row: &Map<String, Value>) -> Option<&'static str> {
    let has = |name: &str| row.contains_key(name);
    if has("instruction") && has("output") {
        return Some("alpaca");
    }
    let turns = row.get("conversations")?.as_array()?;
    let is_sharegpt = |turn: &Value| turn.get("from").is_some() && turn.get("value").is_some();
    turns.first().is_some_and(is_sharegpt).then_some("sharegpt")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, bytes: &[u8], names: &str, settings: &[(&'static str, &str)]) {
        let head = head(name, bytes.to_vec(), false).unwrap().unwrap();
        let found: Vec<(&str, &str)> =
            head.settings.iter().map(|(key, value)| (*key, value.as_str())).collect();
        assert_eq!((head.names.join("/").as_str(), found.as_slice()), (names, settings), "{name}");
    }

    #[test]
    fn names_of_columns_are_read_by_the_end_of_the_files_name() {
        check("a.csv", "\u{feff}a,\"b,c\"\r\n1,2\r\n".as_bytes(), "a/b,c", &[]);
        check("a.TSV", b"a\tb\n", "a/b", &[]);
        check("a.csv", b"a;\"b,c\"\n", "a/b,c", &[("delimiter", ";")]);
        check("a.csv", b"text\n", "text", &[]);
        check("a.jsonl", b"{\"text\": 1, \"label\": 2}\n{\"te", "text/label", &[]);
        check("a.json", b"[\n  {\"text\": \"a\",\n \"label\": 2},\n {\"te", "text/label", &[]);
        check("a.txt", b"It was", "text", &[]);
        check("a.json", br#"{"data": [{"text": "a", "label": 1}]}"#, "text/label", &[]);
        let squad = br#"{"version": "1.1", "data": [{"title": "a", "paragraphs": []}]}"#;
        check("a.json", squad, "question/context/answers", &[]);
        check("a.jsonl", br#"{"data": "a", "label": 1}"#, "data/label", &[]);
        check("a.jsonl", br#"{"data": [1, 2], "label": 1}"#, "data/label", &[]);
        assert_eq!(head("a.parquet", b"PAR1".to_vec(), true).unwrap(), None);
        assert!(head("a.json", b"[".to_vec(), true).unwrap_err().is_eof());
        assert!(head("a.json", b"7".to_vec(), true).unwrap_err().is_data());
    }

    #[test]
    fn labels_that_mark_rows_without_one_are_found() {
        let check = |name: &str, text: &str, column: &str, expect: &[&str]| {
            let head = head(name, text.into(), false).unwrap().unwrap();
            assert_eq!(head.no_labels(column), expect, "{text}");
        };
        let snli = "text,label\n\"a\nb, c\",neutral\na,-\nb,contradiction\n";
        check("a.csv", snli, "label", &["-"]);
        check("a.csv", "text;label\r\n-;1\r\nb;0\r\n", "label", &[]);
        check("a.tsv", "text\tlabel\na\t0\nb\t\nc\t1\n", "label", &[""]);
        // The last row may go on, unless it is the last of the file.
        let open = "text,label\na,0\nb,-";
        check("a.csv", open, "label", &[]);
        let whole = head("a.csv", open.into(), true).unwrap().unwrap();
        assert_eq!(whole.no_labels("label"), ["-"]);
        let lines = "{\"label\": 2}\n{\"label\": -1}\n{\"label\": 0}\n{\"label\": 1}\n{\"lab";
        check("a.jsonl", lines, "label", &["-1"]);
        check(
            "a.json",
            "[{\"label\": \"a\"},\n{\"label\": null}, {\"label\": \"n/a\"}]",
            "label",
            &["", "n/a"],
        );
        check("a.jsonl", "{\"tags\": [0, -1]}\n{\"tags\": [1, 2]}\n", "tags", &["-1"]);
        check("a.csv", "text,label\na,0\nb,-1\nc,1\n", "label", &[]);
        // Rows may lack some of the classes.
        check("a.csv", "text,label\na,0\nb,-1\nc,2\n", "label", &["-1"]);
        check("a.csv", "text,label\na,0\nb,-1\nc,2\n", "class", &[]);
        // A file without labels has none to leave out.
        check("a.jsonl", "{\"label\": null}", "label", &[]);
    }

    /// Files of hundreds of MiB are held once.
    #[test]
    fn texts_are_not_copied() {
        let bytes = b"\ntext,label\na,0\n\xc3".to_vec();
        let place = bytes.as_ptr();
        let head = head("a.csv", bytes, false).unwrap().unwrap();
        assert_eq!((head.text.as_ptr(), head.text.as_str()), (place, "text,label\na,0\n"));
    }

    #[test]
    fn fractions_are_no_classes() {
        let check = |name: &str, text: &str, expect: bool| {
            let head = head(name, text.as_bytes().to_vec(), true).unwrap().unwrap();
            assert_eq!(head.has_fractions("label"), expect, "{text}");
        };
        check("a.csv", "text,label\na,0.5\nb,1\n", true);
        check("a.jsonl", "{\"label\": 1.0}\n{\"label\": 2.25}", true);
        check("a.json", "{\"data\": [{\"label\": 0.1}]}", true);
        check("a.csv", "text,label\na,1.0\nb,2\n", false);
        check("a.csv", "text,label\na,0.5\nb,good\n", false);
        check("a.csv", "text,label\na,nan\n", false);
        check("a.csv", "text\na\n", false);
    }

    #[test]
    fn encodings_and_layouts_become_settings() {
        let wide: Vec<u8> = "\u{feff}a\tb\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
        check("a.csv", &wide, "a/b", &[("encoding", "utf-16"), ("delimiter", "\t")]);
        check("a.csv", b"a,b\n\xe9,1\n", "a/b", &[("encoding", "latin-1")]);
        // The last character is not whole.
        check("a.csv", b"a,b\n\xc3", "a/b", &[]);
        let rows = br#"[{"instruction": "a", "input": "", "output": "b"}]"#;
        check("a.json", rows, "instruction/input/output", &[("format", "alpaca")]);
        let rows = br#"{"conversations": [{"from": "human", "value": "a"}]}"#;
        check("a.jsonl", rows, "conversations", &[("format", "sharegpt")]);
        let rows = br#"{"conversations": [{"role": "user", "content": "a"}]}"#;
        check("a.jsonl", rows, "conversations", &[]);
    }
}
