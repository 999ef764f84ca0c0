//! The names of a file's columns: the keys of all its rows, each once, in the order in which they
//! first appear.

use std::collections::HashSet;
use std::fmt;
use std::path::Path;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};

use crate::error::{Error, Result};

/// The bytes that the names may take. A file beyond it has data for keys, such as ids.
const BYTES_MAX: usize = 4 << 20;

/// The memory that a name takes besides its text.
const BYTES_PER_NAME: usize = 64;

#[derive(Default)]
pub(super) struct ColumnNames {
    names: Vec<String>,
    known: HashSet<String>,
    bytes: usize,
}

impl ColumnNames {
    /// Adds a key of a row. Beyond the limit none is added, which [`Self::check`] reports.
    pub(super) fn add(&mut self, name: &str) {
        if self.bytes > BYTES_MAX || self.known.contains(name) {
            return;
        }
        self.bytes += name.len() + BYTES_PER_NAME;
        self.names.push(name.to_owned());
        self.known.insert(name.to_owned());
    }

    /// Adds the names of later rows.
    pub(super) fn extend(&mut self, later: &Self) {
        later.names.iter().for_each(|name| self.add(name));
    }

    /// Adds the keys of an object, whose values are passed over. A malformed object may add some.
    pub(super) fn add_keys(&mut self, object: &str) -> serde_json::Result<()> {
        let mut parser = serde_json::Deserializer::from_str(object);
        parser.deserialize_map(Keys(self))?;
        parser.end()
    }

    /// The names; an error where there are too many.
    pub(super) fn check(self, path: &Path) -> Result<Vec<String>> {
        if self.bytes > BYTES_MAX {
            let count = self.names.len();
            let message = format!(
                "its rows have more than {count} different keys; keys are names of columns, the \
                 same in all rows"
            );
            return Err(Error::bad_file(path, "JSON", message));
        }
        Ok(self.names)
    }
}

/// The keys of an object.
struct Keys<'names>(&'names mut ColumnNames);

impl<'de> Visitor<'de> for Keys<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while map.next_key_seed(Key(&mut *self.0))?.is_some() {
            map.next_value::<IgnoredAny>()?;
        }
        Ok(())
    }
}

/// One key.
struct Key<'names>(&'names mut ColumnNames);

impl<'de> DeserializeSeed<'de> for Key<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Key<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a key")
    }

    fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<(), E> {
        self.0.add(name);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_once_in_the_order_of_their_first_appearance() {
        let mut names = ColumnNames::default();
        names.add_keys(r#"{"b": {"x": 1}, "a": [{"y": 2}]}"#).unwrap();
        names.add_keys(r#"{"a\n": null, "b": 3, "a": ""}"#).unwrap();
        assert!(names.add_keys("[1]").is_err() && names.add_keys(r#"{"c": 1} {"#).is_err());
        assert_eq!(names.check(Path::new("a.jsonl")).unwrap(), ["b", "a", "a\n", "c"]);
    }

    #[test]
    fn data_for_keys_is_refused() {
        let mut names = ColumnNames::default();
        (0..100_000).for_each(|id| names.add(&id.to_string()));
        let error = names.check(Path::new("a.jsonl")).unwrap_err().to_string();
        assert!(error.contains("different keys"), "{error}");
    }
}
