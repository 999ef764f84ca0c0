//! The stages of a pipeline, which hold a part of the model each, and the micro-batches that pass
//! through them. A job without a pipeline has one stage.

use std::collections::BTreeSet;

use traind_loader::{BatchAxis, BatchSizes};
use traind_models::{Chunks, Model, ParameterSpec};

use super::parameter::Place;
use crate::error::{Error, Result};

/// How stages share batches and layers. The default is one part of the model on each stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PipelineConfig {
    /// Parts of the model on each stage.
    pub interleave: usize,
    /// The most micro-batches of a batch; [`Pipeline::MICROBATCHES_PER_STAGE`] for each stage where
    /// `None`.
    pub microbatches: Option<usize>,
    /// Inputs of backward passes are in host memory until so many passes of the stage before; they
    /// stay on the cores where `None`.
    pub loading_horizon: Option<usize>,
}

impl Default for PipelineConfig {
    fn default() -> PipelineConfig {
        PipelineConfig { interleave: 1, microbatches: None, loading_horizon: None }
    }
}

/// The stages of a model and the parts of the model on them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pipeline {
    /// The parts of the model.
    pub chunks: Chunks,
    /// Groups of cores. Chunk `c` is on the stage `c` modulo their number.
    pub stages: usize,
    /// The most micro-batches of a batch.
    microbatches: usize,
}

/// A trained parameter that a stage reads and another one updates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loan {
    /// The place of the parameter among those of the model.
    pub parameter: usize,
    /// The stage that updates it.
    pub owner: usize,
    /// The stage that reads it.
    pub borrower: usize,
}

impl Pipeline {
    /// Micro-batches for each stage where the config names no number.
    pub const MICROBATCHES_PER_STAGE: usize = 4;

    /// Refuses more chunks than the model has layers.
    pub fn of_model(model: &Model, stages: usize, config: &PipelineConfig) -> Result<Pipeline> {
        let (layers, interleave) = (model.num_layers(), config.interleave);
        let pipeline = Pipeline::of_layers(layers, stages, interleave);
        let pipeline = pipeline.ok_or(Error::TooManyParts { layers, stages, interleave })?;
        let microbatches = config.microbatches.unwrap_or(pipeline.microbatches);
        Ok(Pipeline { microbatches, ..pipeline })
    }

    /// `stages` stages of `interleave` chunks each; `None` where a chunk would have no layer.
    pub fn of_layers(layers: usize, stages: usize, interleave: usize) -> Option<Pipeline> {
        let chunks = Chunks::of_layers(layers, stages * interleave)?;
        Some(Pipeline { chunks, stages, microbatches: Pipeline::MICROBATCHES_PER_STAGE * stages })
    }

    /// The same stages with other layers.
    pub fn with_chunks(&self, chunks: Chunks) -> Pipeline {
        Pipeline { chunks, ..*self }
    }

    /// The same stages for batches that are not split.
    pub(crate) fn with_whole_batches(&self) -> Pipeline {
        Pipeline { microbatches: 1, ..self.clone() }
    }

    /// Whether there are several stages.
    pub fn is_divided(&self) -> bool {
        self.stages > 1
    }

    /// The stage of a chunk.
    pub fn stage_of(&self, chunk: usize) -> usize {
        chunk % self.stages
    }

    /// The stage of the last chunk, which computes the loss.
    pub(crate) fn last_stage(&self) -> usize {
        self.stage_of(self.chunks.count() - 1)
    }

    /// The chunks of a stage, in their order.
    pub fn chunks_of(&self, stage: usize) -> impl Iterator<Item = usize> + use<> {
        (stage..self.chunks.count()).step_by(self.stages)
    }

    /// The layers of the largest stage.
    pub fn largest_stage(&self) -> usize {
        let layers =
            |stage| self.chunks_of(stage).map(|chunk| self.chunks.layers(chunk).len()).sum();
        (0..self.stages).map(layers).max().unwrap_or(0)
    }

    /// The number of chunks of a stage.
    pub fn chunks_per_stage(&self) -> usize {
        self.chunks.count() / self.stages
    }

    /// The number of micro-batches of a batch with `rows` rows on each core: the largest up to that
    /// of the config which divides them.
    pub fn microbatches(&self, rows: usize) -> usize {
        if !self.is_divided() {
            return 1;
        }
        let most = self.microbatches.min(rows).max(1);
        (1..=most).rev().find(|count| rows.is_multiple_of(*count)).unwrap_or(1)
    }

    /// The sizes of the micro-batches of a batch of `sizes`.
    pub(crate) fn micro_sizes(&self, sizes: BatchSizes) -> BatchSizes {
        sizes.with(BatchAxis::Rows, self.micro_rows(sizes.rows()) as u32)
    }

    /// The rows of each micro-batch of a batch with `rows` rows.
    pub(crate) fn micro_rows(&self, rows: usize) -> usize {
        rows / self.microbatches(rows)
    }

    /// The places of the parameters that each stage reads, in the model's order.
    pub fn places(&self, model: &Model) -> Vec<Vec<Place>> {
        let mut places = vec![Vec::new(); self.stages];
        for (index, spec) in model.parameters().iter().enumerate() {
            let readers = self.chunks.readers(spec);
            let owner = readers.first().map_or(0, |chunk| self.stage_of(*chunk));
            for chunk in readers {
                let stage = self.stage_of(chunk);
                let of_stage: &mut Vec<Place> = &mut places[stage];
                match of_stage.last_mut().filter(|place| place.index == index) {
                    Some(place) => place.readers.push(chunk),
                    None => {
                        let readers = vec![chunk];
                        of_stage.push(Place { index, readers, is_owned: stage == owner });
                    }
                }
            }
        }
        places
    }

    /// The stage that updates a parameter: that of its first reader.
    pub fn owner(&self, spec: &ParameterSpec) -> usize {
        self.chunks.readers(spec).first().map_or(0, |chunk| self.stage_of(*chunk))
    }

    /// The trained parameters that several stages read.
    pub fn loans(&self, model: &Model) -> Vec<Loan> {
        let mut loans = Vec::new();
        for (parameter, spec) in model.parameters().iter().enumerate().filter(|it| it.1.trainable) {
            let readers = self.chunks.readers(spec);
            let owner = readers.first().map_or(0, |chunk| self.stage_of(*chunk));
            let stages: BTreeSet<usize> =
                readers.into_iter().map(|chunk| self.stage_of(chunk)).collect();
            let borrowers = stages.into_iter().filter(|stage| *stage != owner);
            loans.extend(borrowers.map(|borrower| Loan { parameter, owner, borrower }));
        }
        loans
    }
}
