//! A YAML document as a tree of values with their positions.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{Location, Spanned};

use crate::violation::{Position, Violation};

/// Deepest nesting of mappings and lists. The parser recurses: at its own limit of
/// 64 it takes the 2 MiB of stack that a server's thread has.
pub(crate) const DEPTH_MAX: usize = 16;

/// A value. Overrides and files without lines have no position.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    pub(crate) value: Value,
    pub(crate) at: Option<Position>,
}

/// A YAML value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Integer(i128),
    Float(f64),
    Text(String),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

/// A key with its value. Keys keep the order and the spelling of the file.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) key_at: Option<Position>,
    pub(crate) node: Node,
}

impl Node {
    /// Parses a document. `true` and `false` alone are booleans: the `no` of
    /// `eval_strategy: no` is text. A key given twice is an error.
    pub(crate) fn parse(yaml: &str) -> Result<Self, Violation> {
        let options = serde_saphyr::options! {
            strict_booleans: true,
            budget: serde_saphyr::budget! { max_depth: DEPTH_MAX },
            with_snippet: false,
        };
        let read: Result<Read<true>, _> = serde_saphyr::from_str_with_options(yaml, options);
        read.map(|read| read.0).map_err(|error| {
            let at = error.location().and_then(position);
            Violation::new("", describe_syntax_error(&error), at)
        })
    }

    /// A mapping without keys, as an absent section is read.
    pub(crate) fn empty_map() -> Self {
        Self { value: Value::Map(Vec::new()), at: None }
    }

    /// The node as JSON, for maps that are handed on as they are.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        match &self.value {
            Value::Null => serde_json::Value::Null,
            Value::Bool(value) => (*value).into(),
            Value::Integer(value) => integer_to_json(*value),
            Value::Float(value) => (*value).into(),
            Value::Text(value) => value.clone().into(),
            Value::List(nodes) => nodes.iter().map(Node::to_json).collect(),
            Value::Map(entries) => {
                entries.iter().map(|entry| (entry.key.clone(), entry.node.to_json())).collect()
            }
        }
    }
}

impl Value {
    /// The value as a message names it: "the text `abc`".
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Null => "null".to_owned(),
            Self::Bool(value) => value.to_string(),
            Self::Integer(value) => value.to_string(),
            Self::Float(value) => format!("{value:?}"),
            Self::Text(value) => format!("the text `{value}`"),
            Self::List(_) => "a list".to_owned(),
            Self::Map(_) => "a mapping".to_owned(),
        }
    }
}

fn position(location: Location) -> Option<Position> {
    let line = u32::try_from(location.line()).ok()?;
    let column = u32::try_from(location.column()).ok()?;
    (line > 0).then_some(Position { line, column })
}

fn integer_to_json(value: i128) -> serde_json::Value {
    // A node's integers come from a parser's i64 and u64.
    i64::try_from(value).map_or_else(|_| (value as u64).into(), Into::into)
}

/// The parser's words without the position, which a violation carries itself.
fn describe_syntax_error(error: &serde_saphyr::Error) -> String {
    use serde_saphyr::Error;
    match error.without_snippet() {
        Error::DuplicateMappingKey { key: Some(key), .. } => {
            format!("gives the key `{key}` twice")
        }
        Error::Budget { .. } => format!("is too large, or deeper than {DEPTH_MAX} levels"),
        Error::MultipleDocuments { .. } => {
            "has more than one YAML document; remove the `---` between them, or all but one"
                .to_owned()
        }
        Error::NonFiniteFloat { .. } => "has a number that is not finite".to_owned(),
        other => {
            let text = other.to_string();
            let message = text.split(" at line ").next().unwrap_or(&text);
            let remedy = match message.contains("unknown anchor") {
                true => "; put quotes around a value that begins with `*`",
                false => "",
            };
            format!("is not valid YAML: {message}{remedy}")
        }
    }
}

/// A node read from YAML, whose parser reports positions, or from a format whose parser does
/// not.
struct Read<const LOCATED: bool>(Node);

/// A value whose inner nodes are read like it.
struct ReadValue<const LOCATED: bool>(Value);

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Read::<false>::deserialize(deserializer).map(|read| read.0)
    }
}

impl<'de, const LOCATED: bool> Deserialize<'de> for Read<LOCATED> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if !LOCATED {
            let value = ReadValue::<LOCATED>::deserialize(deserializer)?.0;
            return Ok(Self(Node { value, at: None }));
        }
        let spanned = Spanned::<ReadValue<LOCATED>>::deserialize(deserializer)?;
        let at = position(spanned.referenced);
        Ok(Self(Node { value: spanned.value.0, at }))
    }
}

impl<'de, const LOCATED: bool> Deserialize<'de> for ReadValue<LOCATED> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor::<LOCATED>).map(Self)
    }
}

struct ValueVisitor<const LOCATED: bool>;

impl<'de, const LOCATED: bool> Visitor<'de> for ValueVisitor<LOCATED> {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Integer(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Integer(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Float(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut nodes = Vec::new();
        while let Some(Read::<LOCATED>(node)) = access.next_element()? {
            nodes.push(node);
        }
        Ok(Value::List(nodes))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut entries = Vec::new();
        while let Some((key, key_at)) = next_key::<_, LOCATED>(&mut access)? {
            let Read::<LOCATED>(node) = access.next_value()?;
            entries.push(Entry { key, key_at, node });
        }
        Ok(Value::Map(entries))
    }
}

fn next_key<'de, A: MapAccess<'de>, const LOCATED: bool>(
    access: &mut A,
) -> Result<Option<(String, Option<Position>)>, A::Error> {
    if !LOCATED {
        return Ok(access.next_key()?.map(|key| (key, None)));
    }
    let key: Option<Spanned<String>> = access.next_key()?;
    Ok(key.map(|key| (key.value, position(key.referenced))))
}
