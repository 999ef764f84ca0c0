//! `spelled!`: an enumeration whose values have Hugging Face's spellings.

use crate::field_type::wrong_type;
use crate::node::{Node, Value};
use crate::problems::{ALIAS_USED, Problems};

/// Declares an enumeration of the job file: `Name = "spelling" | "alternative",`. An alternative
/// spelling is read with a warning.
macro_rules! spelled {
    ($(#[doc = $doc:literal])+ pub enum $name:ident $values:tt) => {
        traind_choices::spelled! { $(#[doc = $doc])+ pub enum $name $values }
        $crate::spelled::spelled_field!($name);
    };
}

/// Makes an enumeration that `traind_choices::spelled!` declares the type of a field.
macro_rules! spelled_field {
    ($name:ident $(, $values_doc:path)?) => {
        impl $crate::field_type::FieldType for $name {
            fn type_name() -> String {
                let names: Vec<String> = Self::ALL.iter().map(|value| format!("`{value}`")).collect();
                names.join(", ")
            }

            $(fn values_doc() -> Option<String> {
                Some($values_doc())
            })?

            fn read(
                node: &$crate::node::Node,
                path: &str,
                problems: &mut $crate::problems::Problems,
            ) -> Option<Self> {
                let spellings: Vec<&str> = Self::ALL.iter().map(|value| value.as_str()).collect();
                let found =
                    $crate::spelled::read(node, path, &spellings, Self::ALIASES, problems)?;
                Self::from_name(found)
            }
        }
    };
}

pub(crate) use {spelled, spelled_field};

/// The spelling that `node` holds, or the one that its alternative stands for.
pub(crate) fn read(
    node: &Node,
    path: &str,
    spellings: &[&'static str],
    aliases: &[(&str, &'static str)],
    problems: &mut Problems,
) -> Option<&'static str> {
    let wanted = || format!("one of {}", spellings.join(", "));
    // YAML of before 2009, which Python's libraries read and write, has `no` for false.
    if node.value == Value::Bool(false)
        && let Some(no) = spellings.iter().find(|spelling| **spelling == "no")
    {
        return Some(no);
    }
    let Value::Text(text) = &node.value else {
        wrong_type(node, path, &wanted(), problems);
        return None;
    };
    if let Some(spelling) = spellings.iter().find(|spelling| *spelling == text) {
        return Some(spelling);
    }
    let alias = aliases.iter().find(|(alias, _)| alias == text);
    match alias {
        Some((_, spelling)) => {
            problems.warning(ALIAS_USED, path, format!("`{text}` is read as `{spelling}`"));
        }
        None => problems.violation(path, format!("must be {}, not `{text}`", wanted())),
    }
    alias.map(|(_, spelling)| *spelling)
}
