//! `section!`: one declaration generates a struct, its documentation, its defaults, its ranges
//! and its reader.

use std::ops::Bound;

use traind_choices::Range;

use crate::field_doc::FieldDoc;
use crate::field_type::{FieldType, wrong_type};
use crate::node::{Entry, Node, Value};
use crate::problems::{Problems, join};

/// Declares a section: `name: type = default, in range;` A field without a
/// default is required; an optional one says `= None`.
macro_rules! section {
    (
        $(#[doc = $section_doc:literal])+
        pub struct $section:ident {
            $(
                $(#[doc = $doc:literal])+
                $name:ident: $type:ty $(= $default:expr)? $(, in $range:expr)?;
            )+
        }
    ) => {
        $(#[doc = $section_doc])+
        #[derive(Debug, Clone, PartialEq, serde::Serialize)]
        pub struct $section {
            $($(#[doc = $doc])+ pub $name: $type,)+
        }

        impl $crate::field_type::FieldType for $section {
            const IS_SECTION: bool = true;

            fn type_name() -> String {
                "mapping".to_owned()
            }

            fn read(
                node: &$crate::node::Node,
                path: &str,
                problems: &mut $crate::problems::Problems,
            ) -> Option<Self> {
                const KEYS: &[&str] = &[$(stringify!($name)),+];
                let fields = $crate::section::Fields::open(node, path, KEYS, problems)?;
                $(let $name: Option<$type> = fields.read(
                    stringify!($name),
                    section!(@option $($default)?),
                    section!(@range $($range)?),
                    problems,
                );)+
                Some(Self { $($name: $name?),+ })
            }

            fn remove_defaults(&self, json: &mut serde_json::Value) {
                $($crate::section::remove_default(
                    json,
                    stringify!($name),
                    &self.$name,
                    section!(@option $($default)?).as_ref(),
                );)+
            }

            fn fields(path: &str) -> Vec<$crate::field_doc::FieldDoc> {
                let mut docs = Vec::new();
                $(docs.extend($crate::section::document::<$type>(
                    $crate::problems::join(path, stringify!($name)),
                    section!(@option $($default)?),
                    section!(@range $($range)?),
                    &[$($doc),+],
                ));)+
                docs
            }
        }
    };
    (@option) => { None };
    (@option $value:expr) => { Some($value) };
    (@range) => { None };
    (@range $range:expr) => { Some(traind_choices::Range::new($range)) };
}

pub(crate) use section;

/// All numbers above a limit, which Rust has no range for.
pub(crate) fn above(limit: f64) -> (Bound<f64>, Bound<f64>) {
    (Bound::Excluded(limit), Bound::Unbounded)
}

/// All numbers above a limit, up to another.
pub(crate) fn above_to(limit: f64, max: f64) -> (Bound<f64>, Bound<f64>) {
    (Bound::Excluded(limit), Bound::Included(max))
}

/// The keys of a section that is being read.
pub(crate) struct Fields<'a> {
    path: &'a str,
    entries: &'a [Entry],
}

impl<'a> Fields<'a> {
    /// Checks that `node` is a mapping and reports keys that are not in `keys`.
    pub(crate) fn open(
        node: &'a Node,
        path: &'a str,
        keys: &[&str],
        problems: &mut Problems,
    ) -> Option<Self> {
        let entries = match &node.value {
            Value::Map(entries) => entries.as_slice(),
            Value::Null => &[],
            _ => {
                wrong_type(node, path, "a mapping of keys to values", problems);
                return None;
            }
        };
        for entry in entries {
            if !keys.contains(&entry.key.as_str()) {
                let nearest = nearest(path, &entry.key, keys, &problems.known_fields());
                problems.violation(&join(path, &entry.key), unknown_key(path, nearest.as_deref()));
            }
        }
        Some(Self { path, entries })
    }

    /// Reads a field. One that cannot be read is reported and gets its default,
    /// so that other faults can be found.
    pub(crate) fn read<T: FieldType>(
        &self,
        name: &str,
        default: Option<T>,
        range: Option<Range>,
        problems: &mut Problems,
    ) -> Option<T> {
        let path = join(self.path, name);
        match self.entries.iter().find(|entry| entry.key == name) {
            None if T::IS_SECTION => T::read(&Node::empty_map(), &path, problems),
            None => {
                if default.is_none() {
                    problems.violation(&path, "is required");
                }
                default
            }
            Some(entry) => T::read(&entry.node, &path, problems)
                .filter(|value| in_range(value, range, &path, problems))
                .or(default),
        }
    }
}

/// Removes the key `name` of the mapping `json` if its `value` is the default, or a section of nothing but defaults.
pub(crate) fn remove_default<T: FieldType + PartialEq>(
    json: &mut serde_json::Value,
    name: &str,
    value: &T,
    default: Option<&T>,
) {
    let Some(keys) = json.as_object_mut() else { return };
    let Some(entry) = keys.get_mut(name) else { return };
    value.remove_defaults(entry);
    let is_empty_section = T::IS_SECTION && entry.as_object().is_some_and(|keys| keys.is_empty());
    if is_empty_section || default == Some(value) {
        keys.shift_remove(name);
    }
}

/// The keys of a section whose values are not the defaults.
pub(crate) fn given<T: FieldType + serde::Serialize>(
    section: &T,
    path: &str,
    problems: &mut Problems,
) -> Vec<String> {
    let keys = |section: &T| match serde_json::to_value(section) {
        Ok(serde_json::Value::Object(keys)) => keys,
        _ => serde_json::Map::new(),
    };
    let Some(default) = T::read(&Node::empty_map(), path, problems) else { return Vec::new() };
    let default = keys(&default);
    let given = keys(section).into_iter().filter(|(key, value)| default.get(key) != Some(value));
    given.map(|(key, _)| key).collect()
}

/// The least similarity of a key of the same section that an unknown one may stand for.
const SIMILARITY_MIN: f64 = 0.4;

/// The least similarity of a key whose spelling was probably missed.
const TYPO_MIN: f64 = 0.75;

/// The key that an unknown one most likely stands for: the same key in another
/// section, or the most similar one of its own section.
fn nearest(section: &str, unknown: &str, keys: &[&str], known: &[String]) -> Option<String> {
    let is_same = |path: &&String| *path == unknown || path.ends_with(&format!(".{unknown}"));
    let elsewhere = known.iter().find(is_same);
    if elsewhere.is_some() {
        return elsewhere.cloned();
    }
    // `epochs` is a word of `num_train_epochs` alone.
    let mut with_word = keys.iter().filter(|key| key.split('_').any(|word| word == unknown));
    if let (Some(key), None) = (with_word.next(), with_word.next()) {
        return Some(join(section, key));
    }
    let spelled_like = |least| nearest_key(unknown, keys.iter().copied(), least);
    // `text` is a word of `text_column`.
    let word = || keys.iter().copied().find(|key| unknown.split('_').any(|word| word == *key));
    let key = spelled_like(TYPO_MIN).or_else(word).or_else(|| spelled_like(SIMILARITY_MIN));
    key.map(|key| join(section, key))
}

/// The key that is spelled most like an unknown one, with a similarity from 0 to 1 that is at least `similarity_min`.
pub fn nearest_key<'key>(
    unknown: &str,
    keys: impl Iterator<Item = &'key str>,
    similarity_min: f64,
) -> Option<&'key str> {
    keys.map(|key| (strsim::normalized_damerau_levenshtein(unknown, key), key))
        .filter(|(similarity, _)| *similarity >= similarity_min)
        .max_by(|(left, _), (right, _)| left.total_cmp(right))
        .map(|(_, key)| key)
}

fn unknown_key(section: &str, nearest: Option<&str>) -> String {
    match nearest {
        Some(nearest) if !section.is_empty() && !nearest.contains('.') => {
            format!("is not a known key; `{nearest}` is a key of the job, outside of all sections")
        }
        Some(nearest) => format!("is not a known key; did you mean `{nearest}`?"),
        None => "is not a known key".to_owned(),
    }
}

fn in_range<T: FieldType>(
    value: &T,
    range: Option<Range>,
    path: &str,
    problems: &mut Problems,
) -> bool {
    let (Some(number), Some(range)) = (value.number(), range) else {
        return true;
    };
    if !range.contains(number) {
        problems.violation(path, format!("must be {range}, not {number}"));
    }
    range.contains(number)
}

/// The documentation of a field, or of the fields of a section.
pub(crate) fn document<T: FieldType + serde::Serialize>(
    path: String,
    default: Option<T>,
    range: Option<Range>,
    doc: &[&str],
) -> Vec<FieldDoc> {
    if T::IS_SECTION {
        return T::fields(&path);
    }
    let lines = doc.iter().map(|line| line.trim()).map(str::to_owned).chain(T::values_doc());
    vec![FieldDoc {
        path,
        type_name: T::type_name(),
        required: default.is_none(),
        default: default.and_then(|value| shown(&value)),
        range: range.map(|range| range.to_string()),
        doc: lines.collect::<Vec<_>>().join(" "),
    }]
}

/// A default as a job file would write it; none for null.
fn shown(value: &impl serde::Serialize) -> Option<String> {
    match serde_json::to_value(value).ok()? {
        serde_json::Value::Null => None,
        serde_json::Value::String(text) => Some(text),
        other => Some(other.to_string()),
    }
}
