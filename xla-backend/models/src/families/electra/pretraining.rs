//! ELECTRA's pre-training: a generator, `ElectraForMaskedLM`, and the discriminator of the tokens that it replaces,
//! `ElectraForPreTraining`, one behind the other.
//!
//! The generator's layers come first. Between them and the discriminator's, tokens are drawn in the places of masked
//! ones. Its parameters stand below `generator`, the discriminator's as in its own model.
//!
//! B rows, S positions, M masked positions that are predicted, H `hidden_size`, V `vocab_size`.

use std::ops::Range;

use traind_xla::ops::random::Random;
use traind_xla::{DType, Shape, Tensor};

use super::{ENCODER, resolve_encoder};
use crate::config::ModelConfig;
use crate::encoder::{Encoder, EncoderConfig};
use crate::error::Result;
use crate::families::bert;
use crate::families::encoder_family::{EncoderFamily, FamilyConfig};
use crate::flops;
use crate::heads::{MaskedLmHead, MaskedLmNames, Predicts, Transform};
use crate::layers::Linear;
use crate::model::{
    Batch, Body, Forward, Head, HiddenStates, InputDim, InputSpec, Lengths, Model, Output,
    OutputKind, ReadTokens,
};
use crate::parameters::{ParameterPath, Stage};
use crate::tasks::replaced_tokens::batch_sums_input;
use crate::tasks::token_labels;
use crate::tensor_parallel::Logits;

/// A number for each row, from which its tokens are drawn: s32[B].
const SAMPLING_SEEDS: &str = "sampling_seeds";
/// The numbers of each token that [`OutputKind::ReplacedTokens`] has.
const NUMBERS: usize = 3;

/// The names of a generator with embeddings of its own.
const GENERATOR: EncoderFamily = EncoderFamily {
    encoder: bert::encoder_names("generator.electra"),
    masked_lm: MaskedLmNames {
        dense: "generator.generator_predictions.dense",
        norm: "generator.generator_predictions.LayerNorm",
        words: "generator.electra.embeddings.word_embeddings.weight",
        bias: "generator.generator_lm_head.bias",
        decoder_weight: "generator.generator_lm_head.weight",
        decoder_bias: None,
    },
    ..ENCODER
};

/// Builds generator and discriminator by the config of the latter.
pub(super) fn build(mut config: ModelConfig) -> Result<Model> {
    let settings = config.token_generator().cloned().unwrap_or_default().resolved(&config)?;
    config.set_token_generator(settings);
    Model::assemble(config, |config, root| {
        let body = Pretraining::new(config, root)?;
        let vocab_size = body.vocab_size();
        Ok((body, ReplacedTokens { vocab_size }))
    })
}

#[derive(Debug)]
struct Pretraining {
    generator: Encoder,
    generator_head: MaskedLmHead,
    discriminator: Encoder,
    /// The layers behind the discriminator, the last of which gives a number.
    transform: Transform,
    prediction: Linear,
    temperature: f64,
}

impl Pretraining {
    fn new(config: &ModelConfig, root: &mut ParameterPath<'_>) -> Result<Pretraining> {
        let own = resolve_encoder(config)?;
        // The settings of a model that is built are resolved.
        let settings = config.token_generator().cloned().unwrap_or_default();
        let generator_config = settings.config.as_deref().unwrap_or(config);
        let generator = (GENERATOR.resolve)(generator_config)?;
        check_positions(generator_config, &generator.encoder, &own)?;
        let tied = ties_embeddings(config, settings.tie_embeddings, &generator.encoder, &own)?;

        let boundary = generator.encoder.num_hidden_layers;
        let behind_generator = |stage| match stage {
            Stage::Embeddings => Stage::Layer(boundary),
            Stage::Layer(layer) => Stage::Layer(boundary + layer),
            Stage::Head => Stage::Head,
        };
        let discriminator = root.in_other_stages(behind_generator, |root| {
            Encoder::new(root, &ENCODER.encoder, own.clone())
        });
        let encoder = generator.encoder.clone();
        let encoder = match tied {
            true => Encoder::sharing_embeddings(root, &GENERATOR.encoder, encoder, &discriminator),
            false => Encoder::new(root, &GENERATOR.encoder, encoder),
        };
        let mut path = root.at("").in_stage(Stage::Layer(boundary));
        let generator_head = generator_head(generator_config, &generator, &mut path, tied)?;
        let hidden_size = own.hidden_size();
        let mut path = root.at("discriminator_predictions");
        Ok(Pretraining {
            generator: encoder,
            generator_head,
            discriminator,
            transform: Transform {
                dense: own.linear(path.at("dense"), hidden_size, hidden_size),
                activation: own.hidden_act,
                norm: None,
                widths: [hidden_size; 2],
            },
            prediction: own.linear(path.at("dense_prediction"), hidden_size, 1),
            temperature: settings.temperature,
        })
    }

    /// Draws tokens by the last states f32[B S, H] of the generator in the places of masked ones, and embeds them for
    /// the discriminator. Rows without labels stay as they are. Returns what is known of each token, f32[B S, 2], too.
    fn replace_tokens(
        &self,
        cx: &Forward<'_>,
        states: &Tensor,
        batch: &Batch,
    ) -> Result<(Tensor, Tensor)> {
        let Some(labels) = batch.optional("labels") else {
            let HiddenStates { last, .. } = self.discriminator.embeddings(cx, batch)?;
            return Ok((last, nothing_beside(cx, batch)?));
        };
        let ids = batch.get("input_ids")?;
        let tokens = ids.shape().element_count();
        let chosen = MaskedTokens(ReadTokens::labelled(batch)?);
        let states = chosen.chosen(states)?;
        let logits = cx.scope("generator_head", || self.generator_head.logits(cx, &states))?;
        let losses = logits.cross_entropy(&chosen.numbers(&labels.reshape(&[tokens])?)?)?;
        let losses = chosen.at_places(&losses.unsqueeze(1)?)?;
        let drawn = self.draw(&logits, batch, &chosen)?;
        let drawn = chosen.numbers_at_places(&drawn)?.reshape(ids.dims())?;
        let is_masked = labels.ge_scalar(0.0)?;
        let [original, new] = [is_masked.select(labels, ids)?, is_masked.select(&drawn, ids)?];
        let is_replaced = new.ne(&original)?.convert(DType::F32)?.reshape(&[tokens, 1])?;
        let mut batch = batch.clone();
        batch.insert("input_ids", new);
        let HiddenStates { last, .. } = self.discriminator.embeddings(cx, &batch)?;
        let beside = cx.trace.concatenate(&[&is_replaced, &losses], 1)?;
        Ok((last, beside))
    }

    /// States as layers hand them on, which are as wide as those of the wider model: f32[B S, W].
    fn handed_on(&self, last: Tensor, beside: Tensor) -> Result<HiddenStates> {
        let width = self.generator.hidden_size().max(self.discriminator.hidden_size());
        let missing = width - last.dims()[1];
        let last = if missing > 0 { last.pad(1, 0, missing, 0.0)? } else { last };
        Ok(HiddenStates { last, encoder: Some(beside) })
    }

    /// A token for each of the chosen places, by the hash of the row's seed and of the place.
    fn draw(&self, logits: &Logits, batch: &Batch, chosen: &MaskedTokens) -> Result<Tensor> {
        let ids = batch.get("input_ids")?;
        let (dims, tokens) = (ids.dims(), ids.shape().element_count());
        let seeds = batch.get(SAMPLING_SEEDS)?.convert(DType::U32)?.unsqueeze(1)?;
        let seeds = seeds.broadcast_to(dims)?.reshape(&[tokens])?;
        let positions = ids.trace().iota(DType::U32, dims, 1)?.reshape(&[tokens])?;
        let [seeds, positions] = [chosen.numbers(&seeds)?, chosen.numbers(&positions)?];
        logits.times(1.0 / self.temperature)?.sample(&Random::of_seeds(&seeds, &positions)?)
    }
}

/// The tokens that the generator predicts: the masked ones where the batch says where they are, else all.
struct MaskedTokens(Option<ReadTokens>);

impl MaskedTokens {
    /// [B S, H] to [B M, H].
    fn chosen(&self, x: &Tensor) -> Result<Tensor> {
        self.0.as_ref().map_or_else(|| Ok(x.clone()), |tokens| tokens.of_all(x))
    }

    /// [B M, W] to [B S, W], with zeros at other places.
    fn at_places(&self, x: &Tensor) -> Result<Tensor> {
        self.0.as_ref().map_or_else(|| Ok(x.clone()), |tokens| tokens.to_all(x))
    }

    /// Integers [B S] to [B M]. Those behind the last masked token are no token's, and nothing reads their results.
    fn numbers(&self, x: &Tensor) -> Result<Tensor> {
        self.0.as_ref().map_or_else(|| Ok(x.clone()), |tokens| Ok(x.take(&tokens.places)?))
    }

    /// Integers [B M] to [B S], with those of some token at places that are not masked.
    fn numbers_at_places(&self, x: &Tensor) -> Result<Tensor> {
        self.0.as_ref().map_or_else(|| Ok(x.clone()), |tokens| Ok(x.take(&tokens.numbers)?))
    }
}

/// Whether both have the same embeddings. Refuses what sizes do not allow.
fn ties_embeddings(
    config: &ModelConfig,
    asked: Option<bool>,
    generator: &EncoderConfig,
    own: &EncoderConfig,
) -> Result<bool> {
    let sizes = |of: &EncoderConfig| {
        [of.embedding_size, of.positions.rows(), of.type_vocab_size.unwrap_or(0)]
    };
    let are_equal = sizes(generator) == sizes(own);
    if asked == Some(true) && !are_equal {
        let problem =
            "the embeddings of generator and discriminator differ in size, and cannot be tied";
        return Err(config.error("embedding_size", problem));
    }
    Ok(asked.unwrap_or(true) && are_equal)
}

/// Refuses a generator that cannot read the discriminator's rows.
fn check_positions(
    config: &ModelConfig,
    generator: &EncoderConfig,
    own: &EncoderConfig,
) -> Result<()> {
    let (found, expected) = (generator.positions.rows(), own.positions.rows());
    if found >= expected {
        return Ok(());
    }
    let problem = format!("expected at least {expected}, as the discriminator has, found {found}");
    Err(config.error("max_position_embeddings", problem))
}

fn generator_head(
    config: &ModelConfig,
    family: &FamilyConfig,
    root: &mut ParameterPath<'_>,
    tied: bool,
) -> Result<MaskedLmHead> {
    let words = if tied { ENCODER.masked_lm.words } else { GENERATOR.masked_lm.words };
    let masked_lm = MaskedLmNames { words, ..GENERATOR.masked_lm };
    let names = EncoderFamily { masked_lm, ..GENERATOR };
    names.masked_lm_head(config, family, root, Predicts::Itself)
}

/// The numbers known of each token before any is drawn: f32[B S, 2], zeros.
fn nothing_beside(cx: &Forward<'_>, batch: &Batch) -> Result<Tensor> {
    let tokens = batch.get("input_ids")?.shape().element_count();
    Ok(cx.trace.full(0.0, Shape::new(DType::F32, [tokens, NUMBERS - 1]))?)
}

/// The first `width` columns of states.
fn of_width(states: &Tensor, width: usize) -> Result<Tensor> {
    match states.dims()[1] == width {
        true => Ok(states.clone()),
        false => Ok(states.slice(1, 0, width)?),
    }
}

impl Body for Pretraining {
    fn prefix(&self) -> &'static str {
        self.discriminator.prefix()
    }

    fn inputs(&self) -> Vec<InputSpec> {
        let mut inputs = self.discriminator.inputs();
        inputs.push(InputSpec::target(SAMPLING_SEEDS, DType::S32, &[InputDim::Rows]));
        inputs.push(batch_sums_input());
        inputs
    }

    fn num_layers(&self) -> usize {
        self.generator.num_layers() + self.discriminator.num_layers()
    }

    /// The boundary is in no run of equal layers, even where both models have layers of one size.
    fn traces_alike(&self, layer: usize, other: usize) -> bool {
        let is_generator = |layer: usize| layer < self.generator.num_layers();
        is_generator(layer) == is_generator(other)
    }

    fn embeddings(&self, cx: &Forward<'_>, batch: &Batch) -> Result<HiddenStates> {
        let HiddenStates { last, .. } = self.generator.embeddings(cx, batch)?;
        self.handed_on(last, nothing_beside(cx, batch)?)
    }

    fn layers(
        &self,
        cx: &Forward<'_>,
        layers: Range<usize>,
        states: HiddenStates,
        batch: &Batch,
    ) -> Result<HiddenStates> {
        let boundary = self.generator.num_layers();
        let of_generator = layers.start.min(boundary)..layers.end.min(boundary);
        let of_discriminator =
            layers.start.saturating_sub(boundary)..layers.end.saturating_sub(boundary);
        let width = match layers.start <= boundary {
            true => self.generator.hidden_size(),
            false => self.discriminator.hidden_size(),
        };
        let (last, beside) = (of_width(&states.last, width)?, states.encoder);
        let HiddenStates { last, .. } = match of_generator.is_empty() {
            true => HiddenStates::of(last),
            false => cx.scope("generator", || {
                self.generator.layers(cx, of_generator, HiddenStates::of(last), batch)
            })?,
        };
        let beside = beside.map_or_else(|| nothing_beside(cx, batch), Ok)?;
        if of_discriminator.is_empty() {
            return self.handed_on(last, beside);
        }
        let (last, beside) = match of_discriminator.start {
            0 => cx.scope("replaced_tokens", || self.replace_tokens(cx, &last, batch))?,
            _ => (last, beside),
        };
        let HiddenStates { last, .. } =
            self.discriminator.layers(cx, of_discriminator, HiddenStates::of(last), batch)?;
        self.handed_on(last, beside)
    }

    /// The numbers of each token, f32[B S, 3], of all positions, which those of the generator are of.
    fn finish(&self, cx: &Forward<'_>, states: &HiddenStates) -> Result<Tensor> {
        let last = of_width(&states.last, self.discriminator.hidden_size())?;
        let logits = cx.with_all_positions(&last, |cx, states| {
            let x = self.transform.forward(cx, states)?;
            Ok(self.prediction.forward(cx, &x)?.convert(DType::F32)?)
        })?;
        Ok(match &states.encoder {
            Some(beside) => cx.trace.concatenate(&[&logits, beside], 1)?,
            None => logits.pad(1, 0, NUMBERS - 1, 0.0)?,
        })
    }

    fn is_tensor_parallel(&self) -> bool {
        true
    }

    fn packs_tokens(&self) -> bool {
        self.generator.packs_tokens() && self.discriminator.packs_tokens()
    }

    fn attends_packed_tokens(&self) -> bool {
        self.generator.attends_packed_tokens() && self.discriminator.attends_packed_tokens()
    }

    fn vocab_size(&self) -> usize {
        self.discriminator.vocab_size()
    }

    fn max_positions(&self) -> usize {
        self.discriminator.max_positions()
    }

    fn forward_flops(&self, lengths: Lengths, _read: Option<usize>) -> f64 {
        let prediction =
            self.transform.forward_flops() + flops::dot(self.transform.widths[1] as f64, 1.0);
        let predicted = match lengths.predicted_positions {
            0 => lengths,
            predicted => Lengths { positions: predicted, ..lengths },
        };
        self.generator.forward_flops(lengths, None)
            + self.generator_head.forward_flops(predicted)
            + self.discriminator.forward_flops(lengths, None)
            + lengths.positions as f64 * prediction
    }
}

/// Hands on the numbers of each token, of which [`crate::tasks::replaced_tokens`] makes losses.
#[derive(Debug)]
struct ReplacedTokens {
    vocab_size: usize,
}

impl Head for ReplacedTokens {
    fn inputs(&self) -> Vec<InputSpec> {
        token_labels::inputs(self.vocab_size)
    }

    fn output(&self) -> OutputKind {
        OutputKind::ReplacedTokens
    }

    /// It gets the numbers of all positions.
    fn divides_positions(&self) -> bool {
        true
    }

    fn forward(&self, _cx: &Forward<'_>, numbers: &Tensor, batch: &Batch) -> Result<Output> {
        let logits = Logits::from(numbers.clone()).by_row(batch.rows()?)?;
        Ok(Output { logits, loss: None })
    }

    fn forward_flops(&self, _lengths: Lengths) -> f64 {
        0.0
    }
}
