//! The adapters of a model in its forward pass.
//!
//! N tokens, r the rank, I inputs, O outputs.

use std::collections::{BTreeMap, BTreeSet};

use traind_xla::Tensor;

use super::lora_config::Lora;
use super::module_names::ModuleNames;
use super::targets::Run;
use super::token_rows::{self, TokenRows};
use crate::error::Result;
use crate::layers::{dropout, dropout_of_all, dropout_of_features};
use crate::model::Forward;
use crate::parameters::ParameterSpec;

/// The adapters of a model, by the weight beside which each stands.
#[derive(Clone, Debug, Default)]
pub struct Adapters {
    lora: Option<Lora>,
    module_names: ModuleNames,
    /// The adapters of each weight: more than one where several layers share its rows.
    by_weight: BTreeMap<String, Vec<Adapter>>,
    /// The trained rows of embeddings, by the name of each table.
    token_rows: BTreeMap<String, TokenRows>,
    /// The names of adapters' own parameters.
    own: BTreeSet<String>,
    /// The biases of layers with an adapter.
    biases: BTreeSet<String>,
}

/// The adapter of one layer, with the names of its parameters.
#[derive(Clone, Debug)]
pub(super) struct Adapter {
    /// The path of the layer.
    pub path: String,
    /// [r, I]
    pub a: String,
    /// [O, r]
    pub b: String,
    /// [O], with DoRA.
    pub magnitude: Option<String>,
    /// Whether the layer's weight is [I, O].
    pub transposed: bool,
    /// The run of the weight's rows that is the layer's, where it has not all of them.
    pub run: Option<Run>,
}

/// A linear layer's application without its adapter.
#[derive(Clone)]
pub(crate) struct Applied<'a> {
    pub weight: &'a str,
    /// [N, I], in the type of products.
    pub x: &'a Tensor,
    /// The bias that was added to the product in `y`.
    pub bias: Option<&'a Tensor>,
    /// [N, O]
    pub y: Tensor,
    pub parts: LayerParts,
}

/// How cores that share a linear layer divide it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LayerParts {
    /// Each applies all of it to the tokens that it has.
    Whole,
    /// Each has some of the inputs, and a part of the sum `y`.
    Inputs,
    /// Each has some of the outputs, and all inputs. Where there are fewer parts, `copies`, than cores, several have
    /// the same one.
    Outputs { copies: Option<usize> },
}

impl Adapters {
    pub(super) fn new(lora: Lora, module_names: ModuleNames) -> Adapters {
        Adapters { lora: Some(lora), module_names, ..Adapters::default() }
    }

    pub(super) fn insert(&mut self, weight: &str, bias: String, adapter: Adapter) {
        let own = [Some(&adapter.a), Some(&adapter.b), adapter.magnitude.as_ref()];
        self.own.extend(own.into_iter().flatten().cloned());
        self.biases.insert(bias);
        self.by_weight.entry(weight.to_owned()).or_default().push(adapter);
    }

    pub(super) fn insert_token_rows(&mut self, table: String, rows: TokenRows) {
        self.own.insert(rows.name.clone());
        self.token_rows.insert(table, rows);
    }

    /// The trained rows of embeddings, with the name of each table.
    pub(super) fn token_rows(&self) -> impl Iterator<Item = (&str, &TokenRows)> {
        self.token_rows.iter().map(|(table, rows)| (table.as_str(), rows))
    }

    /// Refuses trained rows of tables that cores divide.
    pub(crate) fn check_whole_tables(&self) -> Result<()> {
        match self.token_rows.is_empty() {
            true => Ok(()),
            false => Err(token_rows::divided()),
        }
    }

    /// Returns whether some rows of the table `name` are trained, and the others not.
    pub fn trains_rows_of(&self, name: &str) -> bool {
        self.token_rows.contains_key(name)
    }

    /// The parameter `name`, of which `value` may have trained rows to be put into their places.
    pub(crate) fn with_token_rows(
        &self,
        cx: &Forward<'_>,
        name: &str,
        value: Tensor,
    ) -> Result<Tensor> {
        match self.token_rows.get(name) {
            Some(rows) => rows.placed_in(cx, &value),
            None => Ok(value),
        }
    }

    /// The settings that the adapters were made by.
    pub fn lora(&self) -> Option<&Lora> {
        self.lora.as_ref()
    }

    /// Returns whether the model has no adapters.
    pub fn is_empty(&self) -> bool {
        self.by_weight.is_empty()
    }

    /// Returns whether `name` is a parameter of an adapter.
    pub fn owns(&self, name: &str) -> bool {
        self.own.contains(name)
    }

    /// Returns whether a parameter is saved: with adapters only what is trained.
    pub fn saves(&self, spec: &ParameterSpec) -> bool {
        self.is_empty() || spec.trainable
    }

    /// The layers that have an adapter.
    pub(super) fn modules(&self) -> impl Iterator<Item = String> {
        self.iter().map(|(_, adapter)| self.module_names.module(&adapter.path))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &Adapter)> {
        let weights = self.by_weight.iter();
        weights.flat_map(|(weight, own)| own.iter().map(|adapter| (weight.as_str(), adapter)))
    }

    /// The name of a parameter in `adapter_model.safetensors`.
    pub fn saved_name(&self, name: &str) -> String {
        self.name_in_file(name, &self.module_names.parameter(name))
    }

    /// The name of a parameter in adapters that were made when modules had the names of the weights.
    pub(super) fn former_name(&self, name: &str) -> String {
        self.name_in_file(name, name)
    }

    /// `renamed` is the name of the parameter `name` behind its module's.
    fn name_in_file(&self, name: &str, renamed: &str) -> String {
        let (module, last) = renamed.rsplit_once('.').unwrap_or(("", renamed));
        match self.biases.contains(name) {
            true => format!("base_model.model.{module}.base_layer.{last}"),
            false => format!("base_model.model.{renamed}"),
        }
    }

    /// Adds the adapter of a layer, if it has one, to the layer's result; those of layers that share a weight to their
    /// parts of it.
    pub(crate) fn apply(&self, cx: &Forward<'_>, layer: Applied<'_>) -> Result<Tensor> {
        let Some((own, lora)) = self.by_weight.get(layer.weight).zip(self.lora.as_ref()) else {
            return Ok(layer.y);
        };
        let of_run = |run| own.iter().find(|adapter| adapter.run == run);
        if let Some(adapter) = of_run(None) {
            return adapter.apply(cx, lora, layer);
        }
        let count = own.iter().find_map(|adapter| adapter.run).map_or(1, |run| run.count);
        let result = |index| {
            let run = Run { index, count };
            let bias = layer.bias.map(|bias| run.slice(bias, 0)).transpose()?;
            let part = Applied { bias: bias.as_ref(), y: run.slice(&layer.y, 1)?, ..layer };
            of_run(Some(run))
                .map_or_else(|| Ok(part.y.clone()), |adapter| adapter.apply(cx, lora, part.clone()))
        };
        let results = (0..count).map(result).collect::<Result<Vec<_>>>()?;
        Ok(cx.trace.concatenate(&results.iter().collect::<Vec<_>>(), 1)?)
    }
}

impl Run {
    /// The run of a tensor that has the rows of a matrix along `axis`.
    fn slice(self, whole: &Tensor, axis: usize) -> Result<Tensor> {
        let run = self.of(whole.dims()[axis]);
        Ok(whole.slice(axis, run.start, run.end)?)
    }
}

impl Applied<'_> {
    /// `x` after dropout, which draws what one core would.
    fn dropped(&self, cx: &Forward<'_>, rate: f64) -> Result<Tensor> {
        match self.parts {
            LayerParts::Whole => dropout(cx, self.x, rate),
            LayerParts::Inputs => dropout_of_features(cx, self.x, rate),
            LayerParts::Outputs { .. } => dropout_of_all(cx, self.x, rate),
        }
    }
}

impl LayerParts {
    /// A parameter of the outputs.
    fn of_outputs(self, cx: &Forward<'_>, parameter: Tensor) -> Result<Tensor> {
        match self {
            LayerParts::Outputs { copies: Some(copies) } => cx.fan_out_copies(parameter, copies),
            _ => Ok(parameter),
        }
    }
}

impl Adapter {
    fn apply(&self, cx: &Forward<'_>, lora: &Lora, layer: Applied<'_>) -> Result<Tensor> {
        let x = layer.dropped(cx, lora.lora_dropout)?;
        let narrow = cx.linear(&x, &cx.factor(&self.a)?, None)?;
        let wide = layer.parts.of_outputs(cx, cx.factor(&self.b)?)?;
        let delta = cx.linear(&narrow, &wide, None)?.mul_scalar(lora.scaling())?;
        match &self.magnitude {
            None => Ok(layer.y.add(&delta)?),
            Some(magnitude) => {
                let scale = self.magnitude_scale(cx, &layer, magnitude, lora.scaling())?;
                self.add_with_magnitude(cx, lora, layer, &x, &delta, &scale)
            }
        }
    }

    /// y + (m − 1) x Wᵀ + m · delta, where the dropout of `x` applies to x Wᵀ too.
    fn add_with_magnitude(
        &self,
        cx: &Forward<'_>,
        lora: &Lora,
        layer: Applied<'_>,
        x: &Tensor,
        delta: &Tensor,
        scale: &Tensor,
    ) -> Result<Tensor> {
        let drops = cx.random.is_some() && lora.lora_dropout > 0.0;
        let base = match (drops, layer.bias) {
            (true, _) => self.product(cx, x, &self.rows_of(cx.factor(layer.weight)?)?)?,
            (false, Some(bias)) => layer.y.sub(bias)?,
            (false, None) => layer.y.clone(),
        };
        let turned = base.mul(&scale.add_scalar(-1.0)?)?.add(&delta.mul(scale)?)?;
        Ok(layer.y.add(&turned)?)
    }

    /// The magnitudes over the norms of W + s B A, which count as constants: [O], in the type of
    /// products.
    fn magnitude_scale(
        &self,
        cx: &Forward<'_>,
        layer: &Applied<'_>,
        magnitude: &str,
        scaling: f64,
    ) -> Result<Tensor> {
        let constant = |name: &str| Ok::<_, crate::Error>(cx.parameter(name)?.stop_gradient()?);
        let weight = self.rows_of(constant(layer.weight)?)?;
        let product = constant(&self.b)?.matmul(&constant(&self.a)?)?.mul_scalar(scaling)?;
        let turned = if self.transposed { weight.swap_axes(0, 1)? } else { weight };
        let sum = turned.add(&product)?;
        let mut squares = sum.mul(&sum)?.sum(&[1])?;
        if layer.parts == LayerParts::Inputs {
            squares = cx.add_parts(&squares)?;
        }
        let magnitude = layer.parts.of_outputs(cx, cx.parameter(magnitude)?)?;
        Ok(magnitude.div(&squares.sqrt()?)?.convert(cx.compute_dtype())?)
    }

    /// The layer's rows of its weight.
    fn rows_of(&self, weight: Tensor) -> Result<Tensor> {
        self.run.map_or(Ok(weight.clone()), |run| run.slice(&weight, 0))
    }

    fn product(&self, cx: &Forward<'_>, x: &Tensor, weight: &Tensor) -> Result<Tensor> {
        match self.transposed {
            true => cx.matmul(x, weight, None),
            false => cx.linear(x, weight, None),
        }
    }
}

pub(super) fn magnitude_name(module: &str) -> String {
    format!("{module}.lora_magnitude_vector")
}
