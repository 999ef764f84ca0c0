//! Objects that hold a whole table in a layout of other tools, whose rows cannot be read one at a time.

use serde::de::{IgnoredAny, MapAccess, SeqAccess};

use super::node::{Node, Parsed};
use crate::source::split_names::is_split;

/// Values of the outermost object that are looked at.
const LOOKED_AT: usize = 50;

/// Keys besides those of splits under which a file has a list of rows, which would be a column of one row.
const ROWS: [&str; 6] = ["rows", "examples", "records", "samples", "items", "instances"];

/// The values of the outermost object, by their keys.
#[derive(Default)]
pub(super) struct Shapes {
    found: Vec<(String, Shape)>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Shape {
    /// A list of objects.
    Rows,
    /// An object whose keys are `"0"`, `"1"` and so on, as pandas numbers rows.
    Numbered,
    Object,
    #[default]
    Other,
}

impl Shapes {
    /// A place for the shape of the value of `key`.
    pub(super) fn of(&mut self, key: String) -> Option<&mut Shape> {
        if self.found.len() == LOOKED_AT {
            return None;
        }
        self.found.push((key, Shape::Other));
        self.found.last_mut().map(|(_, shape)| shape)
    }

    /// Says what the object is, and what to write in its place; `None` for one that may be a row.
    pub(super) fn advice(&self) -> Option<String> {
        let is_numbered = |key: &str| key.bytes().all(|byte| byte.is_ascii_digit());
        let all = |is_wanted: &dyn Fn(&(String, Shape)) -> bool| {
            !self.found.is_empty() && self.found.iter().all(is_wanted)
        };
        let is_table = all(&|(_, shape)| *shape == Shape::Numbered)
            || all(&|(key, shape)| {
                is_numbered(key) && matches!(shape, Shape::Object | Shape::Numbered)
            });
        if is_table {
            return Some(
                "it is one object of columns, as pandas writes by default; write a row a line with \
                 to_json(FILE, orient=\"records\", lines=True)"
                    .to_owned(),
            );
        }
        let has_rows = |(key, shape): &&(String, Shape)| {
            let key = key.to_lowercase();
            *shape == Shape::Rows && (is_split(&key) || ROWS.contains(&key.as_str()))
        };
        let splits: Vec<_> =
            self.found.iter().filter(has_rows).map(|(key, _)| format!("{key:?}")).collect();
        (!splits.is_empty()).then(|| {
            format!(
                "it is one object with lists of rows under {}; write each list to a file of its own",
                splits.join(", ")
            )
        })
    }
}

/// A value that only its shape is kept of.
pub(super) struct Shaped<'s>(pub(super) &'s mut Shape);

impl Node for Shaped<'_> {
    fn object<'de, A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        *self.0 = Shape::Object;
        let mut next = 0_u64;
        while let Some(key) = map.next_key::<String>()? {
            map.next_value::<IgnoredAny>()?;
            match key == next.to_string() {
                true if next == 0 || *self.0 == Shape::Numbered => *self.0 = Shape::Numbered,
                _ => *self.0 = Shape::Object,
            }
            next += 1;
        }
        Ok(())
    }

    fn list<'de, A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let mut first = Shape::Other;
        if items.next_element_seed(Parsed(Shaped(&mut first)))?.is_some()
            && matches!(first, Shape::Object | Shape::Numbered)
        {
            *self.0 = Shape::Rows;
        }
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(())
    }

    fn other<E: serde::de::Error>(self) -> Result<(), E> {
        Ok(())
    }
}
