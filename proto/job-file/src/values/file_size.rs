//! The size of a file, as transformers' `save_pretrained` takes it.

use serde::{Serialize, Serializer};

use crate::field_type::{FieldType, wrong_type};
use crate::node::{Node, Value};
use crate::problems::Problems;

const WANTED: &str = "a number of bytes, or text such as `5GB`";

/// Units are of a thousand, as in `huggingface_hub`. The largest comes first.
const UNITS: &[(&str, u64)] =
    &[("TB", 1_000_000_000_000), ("GB", 1_000_000_000), ("MB", 1_000_000), ("KB", 1_000)];

/// A number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileSize(u64);

impl FileSize {
    pub(crate) const fn gigabytes(count: u64) -> Self {
        Self(count * 1_000_000_000)
    }

    pub fn bytes(self) -> u64 {
        self.0
    }

    fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let (number, unit) = text.split_at_checked(text.len().checked_sub(2)?)?;
        let (_, unit) = UNITS.iter().find(|(name, _)| unit.eq_ignore_ascii_case(name))?;
        let number: f64 = number.trim().parse().ok()?;
        let bytes = number * *unit as f64;
        (0.0..u64::MAX as f64).contains(&bytes).then_some(Self(bytes as u64))
    }
}

/// Writes the size in the largest unit of which it is a multiple.
impl Serialize for FileSize {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match UNITS.iter().find(|(_, unit)| self.0 > 0 && self.0.is_multiple_of(*unit)) {
            Some((name, unit)) => serializer.collect_str(&format_args!("{}{name}", self.0 / unit)),
            None => serializer.serialize_u64(self.0),
        }
    }
}

impl FieldType for FileSize {
    fn type_name() -> String {
        "integer, or text such as `5GB`".to_owned()
    }

    fn read(node: &Node, path: &str, problems: &mut Problems) -> Option<Self> {
        match &node.value {
            Value::Integer(_) => u64::read(node, path, problems).map(Self),
            Value::Text(text) => {
                let size = Self::parse(text);
                if size.is_none() {
                    problems.violation(path, format!("must be {WANTED}, not `{text}`"));
                }
                size
            }
            _ => {
                wrong_type(node, path, WANTED, problems);
                None
            }
        }
    }

    fn number(&self) -> Option<f64> {
        Some(self.0 as f64)
    }
}
