//! The rows that are read and written.

use std::collections::HashMap;

use anyhow::{Context as _, bail, ensure};
use serde_json::{Map, Value as Json, json};
use traind_job_file::commands::{MineRequest, MinedRows};
use traind_loader::{Files, Source, Value};

use super::output::RowFile;
use crate::vectors::Candidate;

/// Queries with their positives among all texts, each once.
#[derive(Debug)]
pub(super) struct Pairs {
    columns: [String; 2],
    pub queries: Vec<String>,
    pub corpus: Vec<String>,
    /// The places of each query's positives in the corpus.
    pub positives: Vec<Vec<usize>>,
    /// The number of rows, of pairs or of the corpus, that lack a text.
    pub left_out: usize,
}

/// Numbers of what was written.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Written {
    pub rows: usize,
    pub negatives: usize,
}

/// The positives of a query, and the negatives, the nearest first.
#[derive(Debug)]
pub(super) struct Mined {
    pub positives: Vec<Candidate>,
    pub negatives: Vec<Candidate>,
}

impl Pairs {
    pub(super) fn read(request: &MineRequest) -> anyhow::Result<Pairs> {
        let source = open(&request.file)?;
        let columns = columns(&source, request)?;
        let rows = read_texts(&source, &columns)?;
        let others = match &request.corpus {
            Some(file) => {
                let source = open(file)?;
                let first = || source.columns().first().cloned().unwrap_or_default();
                let column = request.corpus_column.clone().unwrap_or_else(first);
                read_texts(&source, &[column])?
            }
            None => Texts::default(),
        };
        let positives = rows.rows.into_iter().filter_map(|row| <[String; 2]>::try_from(row).ok());
        let pairs = Pairs::of(columns, others.rows.into_iter().flatten(), positives);
        let pairs = Pairs { left_out: rows.left_out + others.left_out, ..pairs };
        ensure!(!pairs.queries.is_empty(), "{}: there is no row with both texts", request.file);
        Ok(pairs)
    }

    /// Texts of a corpus, and behind them the positives of `rows` that are not among them.
    pub(super) fn of(
        columns: [String; 2],
        others: impl Iterator<Item = String>,
        rows: impl Iterator<Item = [String; 2]>,
    ) -> Pairs {
        let (mut corpus, mut queries) = (Distinct::default(), Distinct::default());
        for text in others {
            corpus.add(text);
        }
        let mut positives: Vec<Vec<usize>> = Vec::new();
        for [query, positive] in rows {
            let (query, text) = (queries.add(query), corpus.add(positive));
            positives.resize(queries.texts.len(), Vec::new());
            if !positives[query].contains(&text) {
                positives[query].push(text);
            }
        }
        Pairs { columns, queries: queries.texts, corpus: corpus.texts, positives, left_out: 0 }
    }

    pub(super) fn most_positives(&self) -> usize {
        self.positives.iter().map(Vec::len).max().unwrap_or(0)
    }

    /// The rows of a query.
    pub(super) fn rows(&self, request: &MineRequest, query: usize, mined: &Mined) -> Vec<Json> {
        let row = Row { pairs: self, query, with_scores: request.scores };
        let Mined { positives, negatives } = mined;
        match request.format {
            MinedRows::Triplet => {
                let of_positive = |positive| {
                    negatives.iter().map(move |negative| row.of(&[positive, *negative], "negative"))
                };
                positives.iter().copied().flat_map(of_positive).collect()
            }
            MinedRows::NTuple if negatives.len() < request.num_negatives => Vec::new(),
            MinedRows::NTuple => {
                let of_positive = |positive: &Candidate| {
                    row.of(&[&[*positive][..], &negatives[..]].concat(), "negative_#")
                };
                positives.iter().map(of_positive).collect()
            }
            MinedRows::LabeledPair => {
                let pair = |label: u8| move |text: &Candidate| row.labeled(text, label);
                positives.iter().map(pair(1)).chain(negatives.iter().map(pair(0))).collect()
            }
            MinedRows::LabeledList if negatives.is_empty() => Vec::new(),
            MinedRows::LabeledList => {
                let of_positive =
                    |positive: &Candidate| row.list(&[&[*positive][..], &negatives[..]].concat());
                positives.iter().map(of_positive).collect()
            }
        }
    }
}

/// Writes the rows of all queries to a file that is new and complete, in the format that the end of its name says.
pub(super) fn write(
    request: &MineRequest,
    pairs: &Pairs,
    mined: &[Mined],
) -> anyhow::Result<Written> {
    let (path, aside) = (&request.output, request.scratch.join("rows"));
    let writing = || format!("write {}", path.display());
    let mut out = RowFile::create(&aside, path).with_context(writing)?;
    let mut written = Written::default();
    for (query, mined) in mined.iter().enumerate() {
        for row in pairs.rows(request, query, mined) {
            out.write(row).with_context(writing)?;
            written.rows += 1;
        }
        written.negatives += mined.negatives.len();
    }
    out.finish().with_context(writing)?;
    ensure!(!path.exists(), "{} exists already: name another file", path.display());
    std::fs::rename(&aside, path).with_context(writing)?;
    Ok(written)
}

/// Writes the rows of one query.
#[derive(Clone, Copy)]
struct Row<'a> {
    pairs: &'a Pairs,
    query: usize,
    with_scores: bool,
}

impl Row<'_> {
    fn text(&self, text: &Candidate) -> Json {
        self.pairs.corpus[text.text].as_str().into()
    }

    fn begun(&self) -> Map<String, Json> {
        let query = self.pairs.queries[self.query].as_str();
        Map::from_iter([(self.pairs.columns[0].clone(), query.into())])
    }

    /// A positive and its negatives, in columns with the name `negative`, in which # stands for their number.
    fn of(&self, texts: &[Candidate], negative: &str) -> Json {
        let mut row = self.begun();
        for (place, text) in texts.iter().enumerate() {
            let column = match place {
                0 => self.pairs.columns[1].clone(),
                place => negative.replace('#', &place.to_string()),
            };
            row.insert(column, self.text(text));
        }
        if self.with_scores {
            row.insert("scores".to_owned(), scores(texts));
        }
        row.into()
    }

    fn labeled(&self, text: &Candidate, label: u8) -> Json {
        let mut row = self.begun();
        row.insert(self.pairs.columns[1].clone(), self.text(text));
        match self.with_scores {
            true => row.insert("score".to_owned(), json!(text.score)),
            false => row.insert("label".to_owned(), label.into()),
        };
        row.into()
    }

    fn list(&self, texts: &[Candidate]) -> Json {
        let mut row = self.begun();
        let list = texts.iter().map(|text| self.text(text)).collect();
        row.insert(self.pairs.columns[1].clone(), list);
        match self.with_scores {
            true => row.insert("scores".to_owned(), scores(texts)),
            false => {
                let labels = (0..texts.len()).map(|place| u8::from(place == 0)).collect();
                row.insert("labels".to_owned(), labels)
            }
        };
        row.into()
    }
}

fn scores(texts: &[Candidate]) -> Json {
    texts.iter().map(|text| json!(text.score)).collect()
}

/// Texts that differ, in the order in which they came.
#[derive(Default)]
struct Distinct {
    texts: Vec<String>,
    places: HashMap<String, usize>,
}

impl Distinct {
    /// The place of a text.
    fn add(&mut self, text: String) -> usize {
        let next = self.texts.len();
        *self.places.entry(text).or_insert_with_key(|text| {
            self.texts.push(text.clone());
            next
        })
    }
}

fn open(file: &str) -> anyhow::Result<Source> {
    Ok(Source::open(&Files::from_iter([file.to_owned()]))?)
}

/// The columns of queries and positives.
fn columns(source: &Source, request: &MineRequest) -> anyhow::Result<[String; 2]> {
    let mut first = source.columns().iter();
    let mut or_first = |given: &Option<String>| {
        let next = first.next().cloned();
        given.clone().or(next)
    };
    match [or_first(&request.query), or_first(&request.positive)] {
        [Some(query), Some(positive)] if query != positive => Ok([query, positive]),
        [Some(query), Some(_)] => bail!("{}: both columns are {query}: name them", request.file),
        _ => bail!("{}: a row needs a query and a positive, and has one column", request.file),
    }
}

/// The texts of rows that lack none, and the number of others.
#[derive(Debug, Default)]
struct Texts {
    rows: Vec<Vec<String>>,
    left_out: usize,
}

/// The texts of all rows in `columns`. Rows that lack one are left out.
fn read_texts(source: &Source, columns: &[String]) -> anyhow::Result<Texts> {
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    source.require_columns(&columns)?;
    let mut found = Texts::default();
    for part in source.parts() {
        source.read(part, &columns, &mut |records| {
            for record in 0..records.len() {
                let texts = columns.iter().map(|column| text(records.cell(column, record)));
                match texts.collect::<Option<Vec<_>>>() {
                    Some(texts) => found.rows.push(texts),
                    None => found.left_out += 1,
                }
            }
            Ok(())
        })?;
    }
    Ok(found)
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::Text(text) if !text.is_empty() => Some(text.clone()),
        _ => None,
    }
}
