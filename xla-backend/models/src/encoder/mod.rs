//! The encoder of BERT and of the families that descend from it: embeddings,
//! then layers that normalize after each sum. Families differ in the names of
//! its parts, in how positions are counted and in where dropout stands.
//!
//! B rows, S positions, H `hidden_size`, I `intermediate_size`.

mod config;
mod embeddings;
mod layer;

use std::ops::Range;

use traind_xla::{DType, Tensor};

pub(crate) use config::{EncoderConfig, EncoderNames, Positions};

use crate::body::Body;
use crate::error::Result;
use crate::flops;
use crate::layers::{PackedTokens, Window};
use crate::model::{Batch, Forward, HiddenStates, InputDim, InputSpec, Lengths};
use crate::parameters::{ParameterPath, Stage};
use embeddings::Embeddings;
use layer::Layer;

#[derive(Debug)]
pub(crate) struct Encoder {
    prefix: &'static str,
    config: EncoderConfig,
    embeddings: Embeddings,
    layers: Vec<Layer>,
}

impl Encoder {
    pub(crate) fn new(
        root: &mut ParameterPath<'_>,
        names: &EncoderNames,
        config: EncoderConfig,
    ) -> Encoder {
        let mut path = root.at(names.prefix);
        let embeddings =
            Embeddings::new(path.at("embeddings").in_stage(Stage::Embeddings), &config);
        let layers = (0..config.num_hidden_layers)
            .map(|index| {
                let path = path.at(&format!("{}.{index}", names.layers));
                Layer::new(path.in_stage(Stage::Layer(index)), names, &config)
            })
            .collect();
        Encoder { prefix: names.prefix, config, embeddings, layers }
    }
}

impl Body for Encoder {
    fn prefix(&self) -> &'static str {
        self.prefix
    }

    /// `input_ids`, `attention_mask` and, where there are several segments,
    /// `token_type_ids` (all zero where absent), each s32[B, S].
    fn inputs(&self) -> Vec<InputSpec> {
        let dims = [InputDim::Rows, InputDim::Positions];
        let mut inputs = vec![
            InputSpec::required("input_ids", DType::S32, &dims),
            InputSpec::required("attention_mask", DType::S32, &dims),
        ];
        if self.config.type_vocab_size.is_some_and(|segments| segments > 1) {
            inputs.push(InputSpec::optional("token_type_ids", DType::S32, &dims));
        }
        inputs
    }

    fn num_layers(&self) -> usize {
        self.layers.len()
    }

    fn embeddings(&self, cx: &Forward<'_>, batch: &Batch) -> Result<HiddenStates> {
        Ok(HiddenStates::of(self.embeddings.forward(cx, batch)?))
    }

    fn layers(
        &self,
        cx: &Forward<'_>,
        layers: Range<usize>,
        states: HiddenStates,
        batch: &Batch,
    ) -> Result<HiddenStates> {
        let window = if self.config.is_decoder { Window::Causal(None) } else { Window::All };
        let packed = PackedTokens::of(cx, batch)?;
        let mask = window.mask(cx, batch.get("attention_mask")?)?.of_packed(packed.as_ref());
        let pack = |x: Tensor| packed.as_ref().map_or(Ok(x.clone()), |packed| packed.pack(&x));
        let cx = packed.as_ref().map_or(*cx, |packed| packed.context(cx));
        let mut x = pack(states.last)?;
        for index in layers {
            let layer = &self.layers[index];
            x = cx.layer(&format!("layer{index}"), &x, |cx| layer.forward(cx, &x, &mask))?;
        }
        Ok(HiddenStates::of(packed.as_ref().map_or(Ok(x.clone()), |packed| packed.pad(&x))?))
    }

    fn packs_tokens(&self) -> bool {
        true
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

    fn forward_flops(&self, lengths: Lengths) -> f64 {
        let layer = flops::EncoderLayer {
            hidden_size: self.config.hidden_size(),
            intermediate_size: self.config.intermediate_size,
        };
        self.config.num_hidden_layers as f64 * layer.forward(lengths.positions)
    }
}
