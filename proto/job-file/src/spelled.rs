//! `spelled!`: an enumeration whose values have Hugging Face's spellings.

use crate::field_type::wrong_type;
use crate::node::{Node, Value};
use crate::problems::{ALIAS_USED, Problems};

/// Declares an enumeration: `Name = "spelling" | "alternative",`. An
/// alternative spelling is read with a warning.
macro_rules! spelled {
    (
        $(#[doc = $doc:literal])+
        pub enum $name:ident {
            $(
                $(#[doc = $variant_doc:literal])+
                $variant:ident = $spelling:literal $(| $alias:literal)*,
            )+
        }
    ) => {
        $(#[doc = $doc])+
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[doc = $variant_doc])+ $variant,)+
        }

        impl $name {
            /// All values in their order.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// Hugging Face's spelling.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $spelling,)+
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, formatter: &mut std::fmt::Formatter) -> std::fmt::Result {
                formatter.write_str(self.as_str())
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl $crate::field_type::FieldType for $name {
            fn type_name() -> String {
                [$(concat!("`", $spelling, "`")),+].join(", ")
            }

            fn read(
                node: &$crate::node::Node,
                path: &str,
                problems: &mut $crate::problems::Problems,
            ) -> Option<Self> {
                const SPELLINGS: &[&str] = &[$($spelling),+];
                const ALIASES: &[(&str, &str)] = &[$($(($alias, $spelling),)*)+];
                let spelling = $crate::spelled::read(node, path, SPELLINGS, ALIASES, problems)?;
                Self::ALL.iter().copied().find(|value| value.as_str() == spelling)
            }
        }
    };
}

pub(crate) use spelled;

/// The spelling that `node` holds, or the one that its alternative stands for.
pub(crate) fn read(
    node: &Node,
    path: &str,
    spellings: &[&'static str],
    aliases: &[(&str, &'static str)],
    problems: &mut Problems,
) -> Option<&'static str> {
    let wanted = || format!("one of {}", spellings.join(", "));
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
