//! Rows of embeddings that are trained while all others are frozen: PEFT's `trainable_token_indices`. The table that
//! layers read is the frozen one with trained rows in the place of its own, also where a head is tied to it.
//!
//! V rows of the table, N trained ones, H hidden.

use std::collections::{BTreeMap, BTreeSet};

use traind_xla::{DType, Shape, Tensor};

use super::module_names::ModuleNames;
use super::nearest;
use crate::error::{Error, Result};
use crate::model::Forward;
use crate::parameters::{Init, ParameterSpec, PartialGradient, Partition, Role};

const FIELD: &str = "peft.trainable_token_indices";
/// The name of trained rows behind the path of their embedding.
const DELTA: &str = "token_adapter.trainable_tokens_delta";
const WEIGHT: &str = ".weight";

/// The tokens whose rows are trained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenIndices {
    /// Rows of the input embedding.
    OfEmbedding(Vec<usize>),
    /// Rows of other tables, by the last part of a module's path.
    OfModules(BTreeMap<String, Vec<usize>>),
}

/// The trained rows of one table.
#[derive(Clone, Debug)]
pub(super) struct TokenRows {
    /// The name of the parameter that holds them: [N, H].
    pub name: String,
    /// The places of the rows in the table.
    pub indices: Vec<usize>,
}

impl TokenRows {
    /// The table [V, H] with the trained rows.
    pub(super) fn placed_in(&self, cx: &Forward<'_>, table: &Tensor) -> Result<Tensor> {
        let rows = cx.parameters.read(&self.name, Some(table.dtype()))?;
        let indices: Vec<f64> = self.indices.iter().map(|index| *index as f64).collect();
        let indices = cx.trace.constant(DType::S32, &[indices.len()], &indices)?;
        let own = table.take(&indices)?.neg()?;
        Ok(table.scatter_add(&indices, &own)?.scatter_add(&indices, &rows)?)
    }
}

/// Trained rows that are added to a model.
pub(super) struct AddedRows {
    /// The name of their table.
    pub table: String,
    pub rows: TokenRows,
    /// The parameter that holds them.
    pub spec: ParameterSpec,
}

/// The trained rows of each table.
pub(super) fn token_rows(
    specs: &[ParameterSpec],
    module_names: ModuleNames,
    tokens: &TokenIndices,
) -> Result<Vec<AddedRows>> {
    let tables = match tokens {
        TokenIndices::OfEmbedding(indices) => vec![(input_embedding(specs)?, indices)],
        TokenIndices::OfModules(modules) => tables(specs, module_names, modules)?,
    };
    let rows = tables.into_iter().map(|(table, indices)| {
        check(table, indices)?;
        let path = table.name.strip_suffix(WEIGHT).unwrap_or(&table.name);
        let rows = TokenRows { name: format!("{path}.{DELTA}"), indices: indices.clone() };
        let spec = ParameterSpec {
            name: rows.name.clone(),
            shape: Shape::new(DType::F32, [indices.len(), table.shape.dims[1]]),
            init: Init::Zeros,
            role: Role::Embedding,
            trainable: true,
            partitions: vec![Partition::Replicated; 2],
            partial_gradient: PartialGradient::Never,
            stages: table.stages.clone(),
            tied: Vec::new(),
        };
        Ok(AddedRows { table: table.name.clone(), rows, spec })
    });
    rows.collect()
}

fn input_embedding(specs: &[ParameterSpec]) -> Result<&ParameterSpec> {
    let mut embeddings = specs.iter().filter(|spec| spec.role == Role::Embedding);
    let found = embeddings.find(|spec| has_row_per_token(spec));
    found.ok_or_else(|| problem("the model has no embedding of tokens".to_owned()))
}

/// The tables of modules, each with its tokens. Modules that are tied have one table.
fn tables<'a>(
    specs: &'a [ParameterSpec],
    module_names: ModuleNames,
    modules: &'a BTreeMap<String, Vec<usize>>,
) -> Result<Vec<(&'a ParameterSpec, &'a Vec<usize>)>> {
    let tables = || specs.iter().filter(|spec| has_row_per_token(spec));
    let is_called = |weight: &str, name: &str| {
        let weight = module_names.parameter(weight);
        weight.strip_suffix(WEIGHT).unwrap_or(&weight).ends_with(name)
    };
    let mut found: BTreeMap<&str, (&ParameterSpec, &Vec<usize>)> = BTreeMap::new();
    let mut of_aliases = Vec::new();
    for (name, indices) in modules {
        if let Some(table) = tables().find(|table| is_called(&table.name, name)) {
            found.insert(&table.name, (table, indices));
            continue;
        }
        let is_tied = |table: &&ParameterSpec| table.tied.iter().any(|it| is_called(it, name));
        let Some(table) = tables().find(is_tied) else {
            let nearest = nearest(name, tables().flat_map(|table| table.name.split('.')));
            return Err(Error::NoSuchModule { field: FIELD, name: name.clone(), nearest });
        };
        of_aliases.push((name, table, indices));
    }
    for (name, table, indices) in of_aliases {
        if found.get(table.name.as_str()).is_none_or(|(_, own)| *own != indices) {
            return Err(problem(format!(
                "{name} is tied to {} (tie_word_embeddings): name the same tokens for both, or for that one alone",
                table.name
            )));
        }
    }
    Ok(found.into_values().collect())
}

fn has_row_per_token(spec: &ParameterSpec) -> bool {
    spec.shape.rank() == 2 && spec.partitions.first() == Some(&Partition::Vocabulary)
}

fn check(table: &ParameterSpec, indices: &[usize]) -> Result<()> {
    let (rows, mut known) = (table.shape.dims[0], BTreeSet::new());
    if indices.is_empty() {
        return Err(problem(format!("has no token of {}", table.name)));
    }
    for index in indices {
        if *index >= rows {
            return Err(problem(format!(
                "{index} is not a token of {}, which has {rows}",
                table.name
            )));
        }
        if !known.insert(index) {
            return Err(problem(format!("token {index} is named twice")));
        }
    }
    Ok(())
}

/// The error for tables that cores divide.
pub(super) fn divided() -> Error {
    problem(
        "cannot be combined with parallel.tensor, which divides the rows of embeddings".to_owned(),
    )
}

fn problem(problem: String) -> Error {
    Error::TokenIndices { field: FIELD, problem }
}
