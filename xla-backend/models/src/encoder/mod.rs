//! The encoder of BERT and of the families that descend from it: embeddings,
//! then layers that normalize after each sum. Families differ in the names of its parts, in how positions
//! are counted, in where dropout stands, in whether layers share parameters, in whether scores depend on
//! distances, in whether queries and keys turn with their positions, and in whether layers normalize before their parts
//! instead.
//!
//! B rows, S positions, H `hidden_size`, I `intermediate_size`.

mod config;
mod distances;
mod embeddings;
mod layer;
mod rotary_attention;

use std::ops::Range;

use traind_xla::{DType, Tensor};

pub(crate) use config::{EncoderConfig, EncoderNames, PositionBiasTable, Positions, SharedLayers};

use crate::error::Result;
use crate::flops;
use crate::layers::{
    AttentionMask, LayerNorm, Linear, PositionBias, ProjectionNames, Rotary, Window,
    without_padding,
};
use crate::model::{Batch, Body, Forward, HiddenStates, InputSpec, Lengths, PADDED_LENGTH};
use crate::parameters::{ParameterPath, Stage};
use distances::DistanceTable;
use embeddings::Embeddings;
use layer::{Layer, PositionTables};

#[derive(Debug)]
pub(crate) struct Encoder {
    prefix: &'static str,
    config: EncoderConfig,
    embeddings: Embeddings,
    embedding_projection: Option<Linear>,
    position_bias: Option<PositionBias>,
    distances: Option<DistanceTable>,
    /// The layers with parameters of their own.
    layers: Vec<Layer>,
    /// The one of these that each layer is.
    order: Vec<usize>,
    /// Whether the last layer projects the queries of all tokens.
    projects_at_once: bool,
    /// The norm behind the last layer.
    last_norm: Option<LayerNorm>,
}

impl Encoder {
    /// The width of the layers' states.
    pub(crate) fn hidden_size(&self) -> usize {
        self.config.hidden_size()
    }

    pub(crate) fn new(
        root: &mut ParameterPath<'_>,
        names: &EncoderNames,
        config: EncoderConfig,
    ) -> Encoder {
        let mut path = root.at(names.prefix);
        let embeddings = Embeddings::new(&mut path, names, &config);
        Encoder::with_embeddings(root, names, config, embeddings)
    }

    /// Declares an encoder with the embeddings of `other`, to whose parameters those of this one are tied.
    pub(crate) fn sharing_embeddings(
        root: &mut ParameterPath<'_>,
        names: &EncoderNames,
        config: EncoderConfig,
        other: &Encoder,
    ) -> Encoder {
        let [own, others] =
            [names.prefix, other.prefix].map(|prefix| format!("{prefix}.embeddings"));
        root.at("").in_stage(Stage::Embeddings).tie_module(&others, &own);
        let embeddings = other.embeddings.with_dropout(config.embedding_dropout);
        Encoder::with_embeddings(root, names, config, embeddings)
    }

    fn with_embeddings(
        root: &mut ParameterPath<'_>,
        names: &EncoderNames,
        config: EncoderConfig,
        embeddings: Embeddings,
    ) -> Encoder {
        let mut path = root.at(names.prefix);
        let embedding_projection = config.embedding_projection.map(|name| {
            let path = path.at(name).in_stage(Stage::Embeddings).beside_tokens();
            config.linear(path, config.embedding_size, config.hidden_size())
        });
        let order = layer_order(&config);
        let mut layers = Vec::new();
        for (index, place) in order.iter().enumerate() {
            let mut path = path.at(&layer_name(names, &config, index));
            match *place < layers.len() {
                true => path.share_in([Stage::Layer(index)]),
                false => {
                    layers.push(Layer::new(path.in_stage(Stage::Layer(index)), names, &config))
                }
            }
        }
        let position_bias = position_bias(&mut path, &config);
        let distances = DistanceTable::new(&mut path, &config);
        let is_joined = matches!(names.projections, ProjectionNames::Joined(_));
        let projects_at_once = is_joined || config.disentangled.is_some();
        let last_norm = config.last_norm.map(|name| config.layer_norm(path.at(name)));
        Encoder {
            prefix: names.prefix,
            config,
            embeddings,
            embedding_projection,
            position_bias,
            distances,
            layers,
            order,
            projects_at_once,
            last_norm,
        }
    }

    /// f32[B, 1 or N, 1 or S, S].
    fn mask(
        &self,
        cx: &Forward<'_>,
        present: &Tensor,
        padded_length: Option<&Tensor>,
    ) -> Result<AttentionMask> {
        if self.config.disentangled.is_some() {
            return AttentionMask::of_tokens(present, padded_length);
        }
        let window = if self.config.is_decoder { Window::Causal(None) } else { Window::All };
        let mask = window.mask(cx, present)?;
        let Some(bias) = &self.position_bias else { return Ok(mask) };
        let bias = bias.forward(cx, [mask.keys(); 2])?;
        mask.with_learned(&bias)
    }
}

/// The layer with parameters of its own that each layer is.
fn layer_order(config: &EncoderConfig) -> Vec<usize> {
    let count = config.num_hidden_layers;
    let of_layer = |index| match config.shared_layers {
        Some(shared) => {
            let [group, inner] = shared.of_layer(index, count);
            group * shared.inner + inner
        }
        None => index,
    };
    (0..count).map(of_layer).collect()
}

fn layer_name(names: &EncoderNames, config: &EncoderConfig, index: usize) -> String {
    let layers = names.layers;
    match config.shared_layers {
        Some(shared) => {
            let [group, inner] = shared.of_layer(index, config.num_hidden_layers);
            format!("{layers}.{group}.{}.{inner}", shared.name)
        }
        None => format!("{layers}.{index}"),
    }
}

fn position_bias(path: &mut ParameterPath<'_>, config: &EncoderConfig) -> Option<PositionBias> {
    let table = config.position_bias?;
    let mut path = path.at(table.name).in_stage(Stage::Layer(0));
    let dims = [table.rows, config.attention.num_heads];
    let bias = PositionBias::new(path.at(""), dims, config.std(), table.buckets);
    path.share_in((0..config.num_hidden_layers).map(Stage::Layer));
    Some(bias)
}

impl Body for Encoder {
    fn prefix(&self) -> &'static str {
        self.prefix
    }

    fn inputs(&self) -> Vec<InputSpec> {
        InputSpec::of_tokens(self.vocab_size(), self.config.type_vocab_size)
    }

    fn num_layers(&self) -> usize {
        self.order.len()
    }

    fn embeddings(&self, cx: &Forward<'_>, batch: &Batch) -> Result<HiddenStates> {
        let embedded = self.embeddings.forward(cx, batch)?;
        let states = match &self.embedding_projection {
            Some(projection) => projection.forward(cx, &embedded)?.convert(DType::F32)?,
            None => embedded,
        };
        Ok(HiddenStates::of(states))
    }

    fn layers(
        &self,
        cx: &Forward<'_>,
        layers: Range<usize>,
        states: HiddenStates,
        batch: &Batch,
    ) -> Result<HiddenStates> {
        let present = batch.get("attention_mask")?;
        let table = |rotary: &Rotary| rotary.table(cx, present, None);
        let angles = self.config.rotary.as_ref().map(table).transpose()?;
        let distances = self.distances.as_ref().map(|table| table.forward(cx)).transpose()?;
        let positions = PositionTables { angles: angles.as_ref(), distances: distances.as_ref() };
        let x = without_padding(cx, batch, &states.last, |cx, packed, x| {
            let mask = self.mask(cx, present, batch.optional(PADDED_LENGTH))?.of_packed(packed);
            cx.layers("layer", layers, x, |cx, index, x| {
                self.layers[self.order[index]].forward(cx, x, &mask, positions)
            })
        })?;
        Ok(HiddenStates::of(x))
    }

    fn finish(&self, cx: &Forward<'_>, states: &HiddenStates) -> Result<Tensor> {
        match &self.last_norm {
            Some(norm) => norm.forward(cx, &states.last),
            None => Ok(states.last.clone()),
        }
    }

    fn packs_tokens(&self) -> bool {
        self.config.disentangled.is_none()
    }

    fn attends_packed_tokens(&self) -> bool {
        self.packs_tokens() && self.position_bias.is_none()
    }

    fn is_tensor_parallel(&self) -> bool {
        true
    }

    fn vocab_size(&self) -> usize {
        self.config.vocab_size
    }

    fn max_positions(&self) -> usize {
        self.config.positions.longest_row()
    }

    fn leaves_tokens_out(&self) -> bool {
        true
    }

    fn forward_flops(&self, lengths: Lengths, read: Option<usize>) -> f64 {
        let (hidden, inner) = (self.config.hidden_size(), self.config.intermediate_size);
        let layer = flops::Layer::plain(hidden, inner, self.projects_at_once);
        let projection = match &self.embedding_projection {
            Some(_) => flops::dot(self.config.embedding_size as f64, layer.hidden_size as f64),
            None => 0.0,
        };
        let terms = self
            .config
            .disentangled
            .map_or(0.0, |terms| terms.forward_flops(lengths.positions, layer.hidden_size));
        let layers = self.config.num_hidden_layers;
        layer.stack(layers, lengths.positions, read)
            + layers as f64 * terms
            + lengths.positions as f64 * projection
    }
}
