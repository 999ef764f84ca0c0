//! Tokens by their ids: those of the input embedding, or a list for each of several modules.

use serde::Serialize;

use crate::field_type::FieldType;
use crate::node::{Node, Value};
use crate::problems::Problems;
use crate::values::Mapping;

/// The value of `trainable_token_indices`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum TokenIndices {
    /// Tokens of the input embedding.
    OfEmbedding(Vec<u32>),
    /// Tokens by the last part of a module's path.
    OfModules(Mapping<Vec<u32>>),
}

impl TokenIndices {
    fn is_empty(&self) -> bool {
        match self {
            Self::OfEmbedding(tokens) => tokens.is_empty(),
            Self::OfModules(modules) => {
                modules.iter().next().is_none() || modules.iter().any(|(_, it)| it.is_empty())
            }
        }
    }
}

impl FieldType for TokenIndices {
    fn type_name() -> String {
        "list of integers or mapping to list of integers".to_owned()
    }

    fn read(node: &Node, path: &str, problems: &mut Problems) -> Option<Self> {
        let tokens = match &node.value {
            Value::Map(_) => Mapping::read(node, path, problems).map(Self::OfModules),
            _ => Vec::read(node, path, problems).map(Self::OfEmbedding),
        }?;
        if tokens.is_empty() {
            problems.violation(path, "must name at least one token");
            return None;
        }
        Some(tokens)
    }
}
