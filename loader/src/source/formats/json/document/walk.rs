//! A walk through a document that yields one row at a time.

use std::fmt::Display;
use std::io::BufReader;
use std::path::Path;

use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess};
use serde_json::Value as Json;

use super::meter::Meter;
use super::node::{Node, Parsed};
use super::shape::{Shaped, Shapes};
use super::squad::{NotAQuestion, questions};
use super::{Fields, LateTitles};
use crate::error::{Error, Location, Result};
use crate::source::formats::ROW_BYTES_MAX;
use crate::source::formats::compression::open_text;
use crate::source::formats::json::python_numbers::StandardJson;

const DATA: &str = "data";
const PARAGRAPHS: &str = "paragraphs";
const TITLE: &str = "title";

/// The type of the entries of `data`, by the first one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EntryKind {
    Rows,
    Articles,
}

pub(super) struct Walk<'a> {
    path: &'a Path,
    sink: &'a mut dyn FnMut(Fields) -> Result<()>,
    meter: Meter,
    pub(super) kind: Option<EntryKind>,
    /// True once a list of rows was found.
    has_data: bool,
    /// True for a document that is a list, which no file of lines begins with.
    is_list: bool,
    /// Rows handed out.
    pub(super) rows: u64,
    articles: u64,
    pub(super) late_titles: LateTitles,
    /// The values of an object, to say why it is no document.
    shapes: Shapes,
    /// The first fault of the content; the JSON itself may be valid.
    pub(super) error: Option<Error>,
    /// True to continue after an error, to check that the file is a document at all.
    to_the_end: bool,
}

impl<'a> Walk<'a> {
    pub(super) fn new(path: &'a Path, sink: &'a mut dyn FnMut(Fields) -> Result<()>) -> Self {
        Self {
            path,
            sink,
            meter: Meter::new(ROW_BYTES_MAX),
            kind: None,
            has_data: false,
            is_list: false,
            rows: 0,
            articles: 0,
            late_titles: LateTitles::new(),
            shapes: Shapes::default(),
            error: None,
            to_the_end: true,
        }
    }

    /// Through a document that is known, up to the first error.
    pub(super) fn knowing(
        path: &'a Path,
        sink: &'a mut dyn FnMut(Fields) -> Result<()>,
        late_titles: LateTitles,
    ) -> Self {
        Self { late_titles, to_the_end: false, ..Self::new(path, sink) }
    }

    /// Returns true if the file holds a list of rows in one document with nothing behind it.
    pub(super) fn is_one_document(&mut self) -> Result<bool> {
        match self.walk()? {
            Ok(()) if self.has_data => Ok(true),
            Ok(()) => match self.shapes.advice() {
                Some(advice) => Err(Error::bad_file(self.path, "JSON", advice)),
                None => Ok(false),
            },
            // Without any row it is not a document either.
            Err(_) if self.meter.is_exceeded() && self.rows > 0 => Err(self.too_long()),
            Err(error) if error.is_io() && !self.meter.is_exceeded() => {
                Err(Error::io(self.path, "read")(error.into()))
            }
            Err(error) if self.is_list => Err(self.not_json(&error)),
            Err(_) => Ok(false),
        }
    }

    pub(super) fn read(mut self) -> Result<()> {
        let walked = self.walk()?;
        match (self.error.take(), walked) {
            (Some(error), _) => Err(error),
            (None, Err(_)) if self.meter.is_exceeded() => Err(self.too_long()),
            (None, Err(error)) => Err(self.not_json(&error)),
            (None, Ok(())) => Ok(()),
        }
    }

    fn walk(&mut self) -> Result<serde_json::Result<()>> {
        let document = StandardJson::new(self.meter.of(open_text(self.path)?));
        let reader = BufReader::with_capacity(1 << 16, document);
        let mut document = serde_json::Deserializer::from_reader(reader);
        let walked = Parsed(Document(self)).deserialize(&mut document);
        Ok(walked.and_then(|()| document.end()))
    }

    fn emit<E: serde::de::Error>(&mut self, row: Fields) -> Result<(), E> {
        if self.error.is_some() {
            return Ok(());
        }
        match (self.sink)(row) {
            Ok(()) => self.rows += 1,
            Err(error) => return self.fail(error),
        }
        Ok(())
    }

    /// Keeps the error, and ends the walk unless it is to continue to the end.
    fn fail<E: serde::de::Error>(&mut self, error: Error) -> Result<(), E> {
        self.error.get_or_insert(error);
        if self.to_the_end { Ok(()) } else { Err(E::custom("an error that is kept")) }
    }

    fn bad_row<E: serde::de::Error>(&mut self, problem: impl Display) -> Result<(), E> {
        self.fail(Error::BadRow { at: self.here(), message: problem.to_string() })
    }

    fn not_json(&self, error: &serde_json::Error) -> Error {
        let remedy = match error.to_string() {
            found if found.starts_with("key must be a string") => {
                "; Python's notation has single quotes, and JSON double ones: write it with json.dump"
            }
            _ => "",
        };
        Error::bad_file(self.path, "JSON", format!("{error}{remedy}"))
    }

    fn too_long(&self) -> Error {
        Error::RowTooLong { at: self.here(), max: ROW_BYTES_MAX }
    }

    fn here(&self) -> Location {
        Location::of_row(self.path, self.rows)
    }

    /// The title of the current article, of which `fields` were read.
    fn title(&self, fields: &Fields) -> Json {
        let late = self.late_titles.get(&self.articles);
        fields.get(TITLE).or(late).cloned().unwrap_or_default()
    }

    /// An object that is read but for its paragraphs.
    fn finish_entry<E: serde::de::Error>(
        &mut self,
        fields: Fields,
        has_paragraphs: bool,
    ) -> Result<(), E> {
        match self.kind.get_or_insert(EntryKind::Rows) {
            EntryKind::Rows => self.emit(fields),
            EntryKind::Articles if has_paragraphs => {
                self.articles += 1;
                Ok(())
            }
            EntryKind::Articles => self.bad_row(NotAQuestion::NoList { key: PARAGRAPHS }),
        }
    }

    /// A paragraph of the article that the walk is in.
    fn paragraph<E: serde::de::Error>(&mut self, title: &Json, paragraph: &Json) -> Result<(), E> {
        match questions(title, paragraph, |row| self.emit(row)) {
            Ok(emitted) => emitted,
            Err(problem) => self.bad_row(problem),
        }
    }
}

/// The outermost object, or the list itself.
struct Document<'w, 'a>(&'w mut Walk<'a>);

impl Node for Document<'_, '_> {
    fn object<'de, A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            self.0.meter.begin();
            if key == DATA {
                map.next_value_seed(Parsed(Entries(&mut *self.0)))?;
                self.0.has_data = true;
            } else if let Some(shape) = self.0.shapes.of(key) {
                map.next_value_seed(Parsed(Shaped(shape)))?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }

    fn list<'de, A: SeqAccess<'de>>(self, items: A) -> Result<(), A::Error> {
        (self.0.has_data, self.0.is_list) = (true, true);
        Entries(self.0).list(items)
    }

    fn other<E: serde::de::Error>(self) -> Result<(), E> {
        Err(E::custom("expected an object or a list"))
    }
}

/// The list of rows.
struct Entries<'w, 'a>(&'w mut Walk<'a>);

impl Node for Entries<'_, '_> {
    fn list<'de, A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        self.0.meter.begin();
        while items.next_element_seed(Parsed(Entry(&mut *self.0)))?.is_some() {
            self.0.meter.begin();
        }
        Ok(())
    }

    fn other<E: serde::de::Error>(self) -> Result<(), E> {
        Err(E::custom("expected a list"))
    }
}

/// A row, or an article of questions.
struct Entry<'w, 'a>(&'w mut Walk<'a>);

impl Node for Entry<'_, '_> {
    fn object<'de, A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let walk = self.0;
        let (mut fields, mut has_paragraphs) = (Fields::new(), false);
        while let Some(key) = map.next_key::<String>()? {
            if key == PARAGRAPHS && walk.kind != Some(EntryKind::Rows) {
                walk.kind = Some(EntryKind::Articles);
                let title = walk.title(&fields);
                map.next_value_seed(Parsed(Paragraphs { walk: &mut *walk, title }))?;
                has_paragraphs = true;
                continue;
            }
            let value: Json = map.next_value()?;
            match has_paragraphs {
                false => drop(fields.insert(key, value)),
                true if key == TITLE => drop(walk.late_titles.insert(walk.articles, value)),
                true => {}
            }
        }
        walk.finish_entry(fields, has_paragraphs)
    }

    fn list<'de, A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        let problem = "expected an object for each row, found a list; pandas' to_json writes objects with \
                       orient=\"records\"";
        self.0.bad_row(problem)
    }

    fn other<E: serde::de::Error>(self) -> Result<(), E> {
        self.0.bad_row("expected an object for each row")
    }
}

/// The paragraphs of an article, one at a time.
struct Paragraphs<'w, 'a> {
    walk: &'w mut Walk<'a>,
    title: Json,
}

impl Node for Paragraphs<'_, '_> {
    fn list<'de, A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        self.walk.meter.begin();
        while let Some(paragraph) = items.next_element::<Json>()? {
            self.walk.paragraph(&self.title, &paragraph)?;
            self.walk.meter.begin();
        }
        Ok(())
    }

    fn other<E: serde::de::Error>(self) -> Result<(), E> {
        self.walk.bad_row(NotAQuestion::NoList { key: PARAGRAPHS })
    }
}
