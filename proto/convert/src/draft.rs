//! A job file that is being written: fields in order, notes on what was dropped or changed, and
//! refusals.

use std::fmt::{self, Write};
use std::path::Path;

use serde_json::{Map, Value};
use traind_job_file::{JobFile, Violation};

use crate::Refused;
use crate::shared::is_text;
use crate::values::{parse, shown};

/// A key of the source that was dropped, changed or refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// Key of the source, or path of a field; empty for the settings as a whole.
    pub key: String,
    /// Reason.
    pub text: String,
}

impl fmt::Display for Note {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        match self.key.as_str() {
            "" => formatter.write_str(&self.text),
            key => write!(formatter, "{key}: {}", self.text),
        }
    }
}

/// A job file made of other settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Converted {
    /// YAML that the job file's parser accepts, with the notes as comments.
    pub job_file: String,
    /// Keys that were dropped or changed.
    pub notes: Vec<Note>,
}

/// Sections in the order of a job file; fields of none come first and last.
const SECTIONS: [&str; 18] = [
    "model",
    "data",
    "train",
    "peft",
    "dpo",
    "reward",
    "orpo",
    "cpo",
    "kto",
    "embedding",
    "reranker",
    "resources",
    "parallel",
    "slurm",
    "kubernetes",
    "notify",
    "output_dir",
    "checkpoint_dir",
];

struct Field {
    path: String,
    value: Value,
    /// Key of the source, where its name differs.
    key: Option<String>,
}

pub(crate) struct Draft {
    fields: Vec<Field>,
    /// Fields that the caller set: the source's are passed over.
    given: usize,
    notes: Vec<Note>,
    refusals: Vec<Note>,
}

impl Draft {
    /// `fields` are values by path, as YAML.
    pub(crate) fn new(fields: &[(String, String)]) -> Result<Self, Refused> {
        let read = |(path, yaml): &(String, String)| {
            let value = serde_saphyr::from_str(yaml);
            let value =
                value.map_err(|error| Refused::because(path, format!("is no YAML: {error}")))?;
            Ok(Field { path: path.clone(), value, key: None })
        };
        let fields = fields.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        let given = fields.len();
        Ok(Self { fields, given, notes: Vec::new(), refusals: Vec::new() })
    }

    /// Sets a field from a key of the source, unless the caller did.
    pub(crate) fn set(&mut self, path: &str, value: Value, key: &str) {
        // A column `1` and a run `2024` are names.
        let is_name = is_text(path) && (value.is_number() || value.is_boolean());
        let value = if is_name { shown(&value).into() } else { value };
        match self.fields.iter().position(|field| field.path == path) {
            Some(at) if at < self.given => {}
            Some(at) if self.fields[at].value == value => {}
            Some(_) => self.refuse(key, format!("{path} is given twice, with other values")),
            None => {
                let differs = path.rsplit('.').next() != Some(key) && !key.is_empty();
                let key = differs.then(|| key.to_owned());
                self.fields.push(Field { path: path.to_owned(), value, key });
            }
        }
    }

    /// Sets a field that the source decides without a key for it.
    pub(crate) fn imply(&mut self, path: &str, value: impl Into<Value>) {
        if self.get(path).is_none() {
            self.set(path, value.into(), "");
        }
    }

    pub(crate) fn get(&self, path: &str) -> Option<&Value> {
        self.fields.iter().find(|field| field.path == path).map(|field| &field.value)
    }

    /// Whether the caller set a field.
    pub(crate) fn is_given(&self, path: &str) -> bool {
        self.fields[..self.given].iter().any(|field| field.path == path)
    }

    /// Changes the value of a field that the source set; returns false for those of the caller.
    pub(crate) fn change(&mut self, path: &str, change: impl FnOnce(&Value) -> Value) -> bool {
        let found = self.fields[self.given..].iter_mut().find(|field| field.path == path);
        found.map(|field| field.value = change(&field.value)).is_some()
    }

    pub(crate) fn note(&mut self, key: &str, text: impl Into<String>) {
        self.notes.push(Note { key: key.to_owned(), text: text.into() });
    }

    pub(crate) fn refuse(&mut self, key: &str, text: impl Into<String>) {
        self.refusals.push(Note { key: key.to_owned(), text: text.into() });
    }

    /// The value, or none where it is refused, so that what follows is read all the same.
    pub(crate) fn refuse_all<T>(&mut self, read: Result<T, Refused>) -> Option<T> {
        read.map_err(|refused| self.refusals.extend(refused.notes)).ok()
    }

    /// The job file, if it is one, under a line that says where it comes from.
    pub(crate) fn finish(mut self, header: &str) -> Result<Converted, Refused> {
        self.imply("output_dir", "out");
        let name = self.name();
        self.imply("name", name);
        if self.refusals.is_empty() {
            self.check_required();
        }
        let parsed = JobFile::parse(&self.render(""), Path::new("/"));
        if !self.refusals.is_empty() {
            let wrong = parsed.err().into_iter().flatten();
            let wrong: Vec<Note> = wrong
                .filter(|found| self.is_wrong_by_itself(found))
                .map(|found| self.note_of(found))
                // The source's own sentence is enough.
                .filter(|found| self.refusals.iter().all(|refused| refused.key != found.key))
                .collect();
            return Err(Refused { notes: self.refusals.into_iter().chain(wrong).collect() });
        }
        match parsed {
            Err(violations) => Err(Refused {
                notes: violations.into_iter().map(|found| self.note_of(found)).collect(),
            }),
            Ok(parsed) => {
                for warning in parsed.warnings {
                    let key = self.key_of(&warning.field);
                    self.note(&key, warning.description);
                }
                Ok(Converted { job_file: self.render(header), notes: self.notes })
            }
        }
    }

    /// The last part of the output folder's path.
    fn name(&self) -> String {
        let folder = self.get("output_dir").and_then(Value::as_str).unwrap_or_default();
        let name = folder.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        let name = if name.is_empty() || name.starts_with('.') { "converted" } else { name };
        name.chars().filter(|c| !c.is_control()).take(128).collect()
    }

    /// Refuses the draft where it lacks a field that every job needs.
    fn check_required(&mut self) {
        let trains = self.get("train.do_train") != Some(&Value::Bool(false));
        let required = ["model.name_or_path", "model.task", "data.train"];
        for path in required.into_iter().filter(|path| trains || *path != "data.train") {
            if self.get(path).is_none() {
                self.refuse(path, format!("is required; give it by --set {path}=…"));
            }
        }
    }

    /// Whether a violation is about a value, which the keys that were refused do not explain.
    fn is_wrong_by_itself(&self, found: &Violation) -> bool {
        let is_value = found.description.starts_with("must be ");
        is_value && self.get(&found.field).is_some_and(|value| !value.is_null())
    }

    /// A violation under the source's key. An option that its value was forgotten of is true.
    fn note_of(&self, found: Violation) -> Note {
        let is_bare = self.get(&found.field) == Some(&Value::Bool(true))
            && found.description.starts_with("must be ")
            && !found.description.starts_with("must be true");
        let text = if is_bare { "needs a value".to_owned() } else { found.description };
        Note { key: self.key_of(&found.field), text }
    }

    /// The source's key of a field, or the field.
    fn key_of(&self, path: &str) -> String {
        let field = self.fields.iter().find(|field| field.path == path);
        field.and_then(|field| field.key.clone()).unwrap_or_else(|| path.to_owned())
    }

    fn render(&self, header: &str) -> String {
        let mut yaml = String::new();
        if !header.is_empty() {
            yaml += &format!("# {header}\n");
        }
        for note in &self.notes {
            yaml += &format!("# {}\n", note.to_string().replace(['\n', '\r'], " "));
        }
        self.render_section("", &mut yaml);
        for section in SECTIONS {
            self.render_section(section, &mut yaml);
        }
        yaml
    }

    /// The fields of a section; those of none for the empty name.
    fn render_section(&self, section: &str, yaml: &mut String) {
        let (own, prefix) = (self.fields.iter(), format!("{section}."));
        let rows: Vec<(&str, &Field)> = match section {
            "" => own.filter(|field| field.path == "name").map(|field| ("name", field)).collect(),
            "output_dir" | "checkpoint_dir" => {
                own.filter(|field| field.path == section).map(|field| (section, field)).collect()
            }
            _ => own.filter_map(|f| Some((f.path.strip_prefix(&prefix)?, f))).collect(),
        };
        let indent =
            if matches!(section, "" | "output_dir" | "checkpoint_dir") { "" } else { "  " };
        if !rows.is_empty() && !indent.is_empty() {
            yaml.push_str(&format!("{section}:\n"));
        }
        for Line { key, value, comments } in lines(&rows) {
            let comment = match comments.is_empty() {
                true => String::new(),
                false => format!("  # {}", comments.join(", ")),
            };
            // Writing to a string cannot fail.
            let _ = writeln!(yaml, "{indent}{key}: {}{comment}", scalar(&value));
        }
    }
}

/// A line of a section, with the source's keys.
struct Line<'a> {
    key: String,
    value: Value,
    comments: Vec<&'a str>,
}

/// The lines of a section's fields. Fields of one section within it share a line.
fn lines<'a>(rows: &[(&str, &'a Field)]) -> Vec<Line<'a>> {
    let mut lines: Vec<Line<'a>> = Vec::new();
    for (key, field) in rows {
        let (key, value) = nested(key, &field.value);
        let comment = field.key.as_deref();
        match (lines.iter_mut().find(|line| line.key == key), value) {
            (Some(Line { value: Value::Object(known), comments, .. }), Value::Object(more)) => {
                known.extend(more);
                comments.extend(comment);
            }
            (_, value) => lines.push(Line { key, value, comments: comment.into_iter().collect() }),
        }
    }
    lines
}

/// A field of a section within a section, such as `columns.rename`, as a mapping of the outer one.
fn nested(key: &str, value: &Value) -> (String, Value) {
    match key.split_once('.') {
        None => (key.to_owned(), value.clone()),
        Some((outer, inner)) => {
            let (inner, value) = nested(inner, value);
            (outer.to_owned(), Value::Object(Map::from_iter([(inner, value)])))
        }
    }
}

/// A value in one line of YAML. Text is bare where it can be read as nothing else.
fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) if is_bare(text) => text.clone(),
        other => other.to_string(),
    }
}

fn is_bare(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./@".contains(c);
    text.starts_with(|c: char| c.is_ascii_alphabetic() || "./".contains(c))
        && text.chars().all(plain)
        && parse(text).is_string()
        && !matches!(text, "." | ".." | "y" | "n" | "~" | ".nan" | ".inf")
        && !text.contains("---")
}
