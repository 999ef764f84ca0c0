//! Records the two passes of generation. The prefill pass reads a batch of prompts or sources and fills
//! the cache of keys and values; a decode pass reads one more token of each text.
//!
//! B rows, k beams, R = B k texts, S positions of prompts or sources, T slots of the cache, V vocabulary.

use std::collections::HashMap;
use std::sync::Arc;

use traind_loader::{BatchAxis, BatchSizes};
use traind_models::{
    Batch, CacheEntry, CacheKind, Forward, KeyValueCache, Model, ParameterTensors,
};
use traind_xla::runtime::{Recorder, Recording, StepInput, Variable};
use traind_xla::{DType, Shape, Tensor};

use super::Program;
use crate::error::{Error, Result};
use crate::state::TrainState;

/// Fetched from each core: the scores of the next token, f32[B, V] of a prefill pass, or f32[R, V] where it reads
/// each text ([`GenerateStep::rereads`]), and f32[R, V] of a decode pass. They are logits, or with several beams
/// logarithms of probabilities.
pub const SCORES: &str = "scores";

/// Inputs of decode passes: the slot of each text's token, and the text of the pass before that it
/// continues, both s32[R].
const POSITIONS: &str = "cache_positions";
const ORIGINS: &str = "beam_origins";
/// The input of a decoder's prefill pass: the place of each prompt's last token, s32[B].
const LAST: &str = "last_positions";

/// The parameters of a model as variables of a recorder.
pub trait Weights {
    /// Records a read of each.
    fn read(&self, at: &mut Recording<'_>) -> Result<ParameterTensors>;
}

impl Weights for TrainState {
    fn read(&self, at: &mut Recording<'_>) -> Result<ParameterTensors> {
        let parameters = self.read_parameters(at, 0)?;
        self.tensors(at, &parameters)
    }
}

/// The passes of generation with one model.
#[derive(Clone)]
pub struct GenerateStep {
    /// The model that writes.
    pub model: Arc<Model>,
    /// The type of products.
    pub compute_dtype: DType,
    /// The texts that are followed for each row.
    pub beams: usize,
    caches: HashMap<BatchSizes, Vec<CacheVariables>>,
}

/// The variables of one attention layer's keys and values.
#[derive(Clone, Copy, Debug)]
struct CacheVariables {
    kind: CacheKind,
    key: Variable,
    value: Variable,
}

impl GenerateStep {
    /// Fails for a model that writes no texts.
    pub fn new(model: Arc<Model>, compute_dtype: DType, beams: usize) -> Result<GenerateStep> {
        if !model.is_generative() {
            let model_type = model.config().model_type()?.to_owned();
            return Err(traind_models::Error::NoGeneration { model_type }.into());
        }
        Ok(GenerateStep { model, compute_dtype, beams, caches: HashMap::new() })
    }

    /// Whether the model reads a source and writes a text of its own.
    pub fn has_source(&self) -> bool {
        self.model.inputs().iter().any(|spec| spec.name == "decoder_input_ids")
    }

    /// Whether a text may grow beyond the tokens whose states are kept ([`Model::rereads_beyond`]). Then a prefill pass
    /// reads each text of a row by itself, since those that are followed differ when they are read anew.
    pub fn rereads(&self, sizes: &BatchSizes) -> bool {
        let slots = sizes.get(BatchAxis::TargetPositions);
        self.model.rereads_beyond().is_some_and(|tokens| slots > tokens)
    }

    /// Declares the cache of batches of `sizes`, whose target positions are the slots of a text.
    pub fn declare_cache(
        &mut self,
        recorder: &mut Recorder,
        weights: &impl Weights,
        sizes: BatchSizes,
    ) -> Result<()> {
        if self.caches.contains_key(&sizes) {
            return Ok(());
        }
        let mut shapes: Vec<(CacheKind, [Shape; 2])> = Vec::new();
        recorder.record(&self.inputs(Program::Prefill, &sizes), |at| -> Result<()> {
            let (_, entries) = self.prefill(at, weights, &sizes)?;
            let shape_of = |it: &CacheEntry| [it.key.shape().clone(), it.value.shape().clone()];
            shapes = entries.iter().map(|entry| (entry.kind, shape_of(entry))).collect();
            Ok(())
        })?;
        let variables = shapes.into_iter().enumerate().map(|(number, (kind, [key, value]))| {
            let mut declare =
                |part, shape| recorder.declare(format!("cache.{sizes}.{number}.{part}"), shape);
            CacheVariables { kind, key: declare("key", key), value: declare("value", value) }
        });
        let variables = variables.collect();
        self.caches.insert(sizes, variables);
        Ok(())
    }

    /// The variables of the caches, of all batches or of those of `sizes`.
    pub fn caches(&self, sizes: Option<&BatchSizes>) -> impl Iterator<Item = Variable> {
        let caches = self.caches.iter().filter(move |(of, _)| sizes.is_none_or(|it| it == *of));
        caches.flat_map(|(_, entries)| entries).flat_map(|entry| [entry.key, entry.value])
    }

    /// Bytes of all caches on one core.
    pub(crate) fn cache_bytes(&self, recorder: &Recorder) -> u64 {
        self.caches(None).map(|variable| recorder.shape(variable).size_bytes() as u64).sum()
    }

    /// The inputs of a pass, in the order in which [`Session`](crate::session::Session) is given them.
    pub fn inputs(&self, program: Program, sizes: &BatchSizes) -> Vec<StepInput> {
        let (rows, positions) = (sizes.rows(), sizes.get(BatchAxis::Positions));
        let texts = rows * self.beams;
        let input = |name, dims: &[usize]| StepInput::new(name, Shape::new(DType::S32, dims));
        let mut inputs = Vec::new();
        if program == Program::Prefill {
            let rows = if self.rereads(sizes) { texts } else { rows };
            let of_tokens = |name| input(name, &[rows, positions]);
            inputs.extend(["input_ids", "attention_mask"].map(of_tokens));
            match self.has_source() {
                true => inputs.push(input("decoder_input_ids", &[rows, 1])),
                false => inputs.push(input(LAST, &[rows])),
            }
            return inputs;
        }
        inputs.extend([input(self.token_input(), &[texts, 1]), input(POSITIONS, &[texts])]);
        if self.beams > 1 {
            inputs.push(input(ORIGINS, &[texts]));
        }
        if self.has_source() {
            inputs.push(input("attention_mask", &[rows, positions]));
        }
        inputs
    }

    /// Records a pass, which assigns the cache.
    pub fn record(
        &self,
        at: &mut Recording<'_>,
        weights: &impl Weights,
        program: Program,
        sizes: &BatchSizes,
    ) -> Result<()> {
        let variables = self.caches.get(sizes).ok_or(Error::NoCache)?;
        let (logits, entries) = match program {
            Program::Prefill => self.prefill(at, weights, sizes)?,
            _ => self.decode(at, weights, sizes, variables)?,
        };
        for (entry, variables) in entries.iter().zip(variables) {
            // The keys of a source stay as they are.
            if program == Program::Prefill || entry.kind == CacheKind::Tokens {
                at.assign(variables.key, &entry.key)?;
                at.assign(variables.value, &entry.value)?;
            }
        }
        let scores = if self.beams > 1 { logits.log_softmax(1)? } else { logits };
        at.fetch(SCORES, &scores);
        Ok(())
    }

    /// The logits f32[B, V], or f32[R, V] where texts are read anew, and the cache with the rows of each beam.
    fn prefill(
        &self,
        at: &mut Recording<'_>,
        weights: &impl Weights,
        sizes: &BatchSizes,
    ) -> Result<(Tensor, Vec<CacheEntry>)> {
        let batch = bind(at, &self.inputs(Program::Prefill, sizes));
        let cache = KeyValueCache::starting(sizes.get(BatchAxis::TargetPositions));
        let logits = self.logits(at, weights, &batch, &cache)?;
        let rereads = self.rereads(sizes);
        let entries = cache.into_entries().into_iter().map(|entry| match entry.kind {
            CacheKind::Source => Ok(entry),
            CacheKind::Tokens if rereads => Ok(entry),
            CacheKind::Tokens => {
                let (key, value) = (self.repeated(&entry.key)?, self.repeated(&entry.value)?);
                Ok(CacheEntry { key, value, ..entry })
            }
        });
        Ok((logits, entries.collect::<Result<_>>()?))
    }

    /// [B, ...] to [R, ...].
    fn repeated(&self, rows: &Tensor) -> Result<Tensor> {
        let dims = rows.dims();
        let texts = [&[dims[0], self.beams], &dims[1..]].concat();
        let joined = [&[dims[0] * self.beams], &dims[1..]].concat();
        Ok(rows.unsqueeze(1)?.broadcast_to(&texts)?.reshape(&joined)?)
    }

    /// The logits f32[R, V], and the cache with the token of each text.
    fn decode(
        &self,
        at: &mut Recording<'_>,
        weights: &impl Weights,
        sizes: &BatchSizes,
        variables: &[CacheVariables],
    ) -> Result<(Tensor, Vec<CacheEntry>)> {
        let mut batch = bind(at, &self.inputs(Program::Decode, sizes));
        let positions = batch.get(POSITIONS)?.clone();
        let origins = batch.optional(ORIGINS).cloned();
        let mut entries = Vec::with_capacity(variables.len());
        for &CacheVariables { kind, key, value } in variables {
            let (mut key, mut value) = (at.read(key)?, at.read(value)?);
            if let Some(origins) = origins.as_ref().filter(|_| kind == CacheKind::Tokens) {
                (key, value) = (key.take(origins)?, value.take(origins)?);
            }
            entries.push(CacheEntry { kind, key, value });
        }
        if !self.has_source() {
            let present = Shape::new(DType::S32, [positions.dims()[0], 1]);
            batch.insert("attention_mask", at.trace().full(1.0, present)?);
        }
        let slots = sizes.get(BatchAxis::TargetPositions);
        let cache = KeyValueCache::continuing(slots, positions, entries);
        let logits = self.logits(at, weights, &batch, &cache)?;
        Ok((logits, cache.into_entries()))
    }

    fn logits(
        &self,
        at: &mut Recording<'_>,
        weights: &impl Weights,
        batch: &Batch,
        cache: &KeyValueCache,
    ) -> Result<Tensor> {
        let parameters = weights.read(at)?.computed_in(self.compute_dtype);
        let cx = Forward {
            trace: at.trace(),
            parameters: &parameters,
            random: None,
            gradient_checkpointing: false,
            adapters: Some(self.model.adapters()),
            cache: Some(cache),
            embedding_noise: None,
        };
        Ok(self.model.next_token_logits(&cx, batch, batch.optional(LAST))?)
    }

    /// The input of the tokens that a decode pass reads.
    fn token_input(&self) -> &'static str {
        if self.has_source() { "decoder_input_ids" } else { "input_ids" }
    }
}

fn bind(at: &Recording<'_>, inputs: &[StepInput]) -> Batch {
    let mut batch = Batch::new();
    for input in inputs {
        if let Some(tensor) = at.input(&input.name) {
            batch.insert(&input.name, tensor.clone());
        }
    }
    batch
}
