//! Writes texts token by token, as transformers' `generate` does: passes on the cores score the next
//! token of each text, and the host chooses it.
//!
//! Imports `error` alone.

mod beams;
mod loaded;
mod processors;
mod sampling;
mod search;
mod settings;
#[cfg(test)]
mod tests;

use std::ops::RangeInclusive;

use rayon::prelude::*;
use traind_loader::{BatchAxis, BatchSizes};
use traind_xla::runtime::HostArray;

use crate::error::RunResult;
use crate::session::Session;
use crate::step::{GenerateStep, Program};
use search::{RowSearch, Start};

pub(crate) use loaded::LoadedModel;
pub(crate) use sampling::mix;
pub(crate) use settings::GenerationSettings;

/// Runs passes on the cores.
pub(crate) trait Passes {
    /// Runs a pass of each data shard with its inputs; returns each shard's scores.
    fn run(
        &mut self,
        program: Program,
        sizes: BatchSizes,
        inputs: Vec<Vec<HostArray>>,
    ) -> RunResult<Vec<Vec<f32>>>;
}

impl Passes for Session {
    fn run(
        &mut self,
        program: Program,
        sizes: BatchSizes,
        inputs: Vec<Vec<HostArray>>,
    ) -> RunResult<Vec<Vec<f32>>> {
        Ok(self.run_pass(program, sizes, &inputs)?)
    }
}

/// The rows of one data shard's batch: prompts, padded behind, or sources.
#[derive(Clone, Debug)]
pub(crate) struct ShardRows {
    /// `[B S]`.
    pub input_ids: Vec<i32>,
    pub attention_mask: Vec<i32>,
    /// The numbers of the rows, from which tokens are drawn; fewer than B where slots are empty.
    pub numbers: Vec<u64>,
}

/// Generates texts with one model.
#[derive(Clone, Debug)]
pub(crate) struct Generator {
    settings: GenerationSettings,
    has_source: bool,
    /// The positions of the model.
    positions: usize,
    /// The tokens beyond which a text is read anew.
    rereads_beyond: Option<usize>,
    seed: u64,
}

impl Generator {
    pub(crate) fn new(
        settings: GenerationSettings,
        step: &GenerateStep,
        seed: u64,
    ) -> RunResult<Generator> {
        let (has_source, positions) = (step.has_source(), step.model.max_positions());
        if has_source {
            settings.decoder_start()?;
        }
        let rereads_beyond = step.model.rereads_beyond();
        Ok(Generator { settings, has_source, positions, rereads_beyond, seed })
    }

    /// The positions that a pass of several tokens needs for prompts of `lengths`, whose texts have `slots`. All texts
    /// grow by one token at a time, so that the longest of those that are read anew is as much longer as its prompt.
    pub(crate) fn width(&self, lengths: RangeInclusive<usize>, slots: usize) -> usize {
        let (shortest, longest) = lengths.into_inner();
        match self.outgrown(slots) {
            Some(tokens) => (tokens + 1 + longest - shortest).clamp(longest, slots.max(longest)),
            None => longest,
        }
    }

    /// The slots that texts need behind prompts of up to `prompt` tokens; 1 where there is a source.
    /// Fails where the model has fewer positions.
    pub(crate) fn slots(&self, prompt: usize) -> RunResult<usize> {
        let prompt = if self.has_source { 1 } else { prompt };
        let length = self.settings.max_length(prompt, self.positions);
        let problem = if length > self.positions {
            format!("texts of {length} tokens, and the model has {} positions", self.positions)
        } else if length <= prompt {
            format!("texts of {length} tokens, and the prompt has {prompt}")
        } else {
            if let Some(found) = self.settings.unfeasible(prompt, self.positions) {
                found.refuse(&self.settings)?;
            }
            return Ok(length);
        };
        Err(self.settings.error(self.settings.length_key(), problem))
    }

    /// A warning that texts behind prompts of `prompt` tokens are not as long as the model's settings demand.
    pub(crate) fn warning(&self, prompt: usize) -> Option<String> {
        let prompt = if self.has_source { 1 } else { prompt };
        let found = self.settings.unfeasible(prompt, self.positions)?;
        Some(found.warning(&self.settings))
    }

    /// Generates the texts of a batch on all data shards, without their prompts. The target positions
    /// of `sizes` are the slots of a text.
    pub(crate) fn generate(
        &self,
        passes: &mut impl Passes,
        sizes: BatchSizes,
        shards: &[ShardRows],
    ) -> RunResult<Vec<Vec<Vec<u32>>>> {
        let mut searches: Vec<Vec<RowSearch>> =
            shards.iter().map(|shard| self.searches(&sizes, shard)).collect::<RunResult<_>>()?;
        let scores = match self.outgrown(sizes.get(BatchAxis::TargetPositions)) {
            Some(_) => self.read_texts(passes, sizes, &searches)?,
            None => {
                let inputs = shards.iter().map(|shard| self.prefill_inputs(&sizes, shard));
                let inputs = inputs.collect::<RunResult<_>>()?;
                let scores = passes.run(Program::Prefill, sizes, inputs)?;
                scores.into_iter().map(|scores| self.repeated(scores, sizes.rows())).collect()
            }
        };
        self.advance(&mut searches, scores, sizes.rows());
        while searches.iter().flatten().any(|search| !search.is_done()) {
            let scores = if searches.iter().flatten().any(|search| self.is_read_anew(search)) {
                self.read_texts(passes, sizes, &searches)?
            } else {
                let inputs = searches.iter().zip(shards);
                let inputs =
                    inputs.map(|(searches, shard)| self.decode_inputs(&sizes, searches, shard));
                passes.run(Program::Decode, sizes, inputs.collect::<RunResult<_>>()?)?
            };
            self.advance(&mut searches, scores, sizes.rows());
        }
        let texts = |shard: Vec<RowSearch>| shard.into_iter().map(RowSearch::into_tokens).collect();
        Ok(searches.into_iter().map(texts).collect())
    }

    fn searches(&self, sizes: &BatchSizes, shard: &ShardRows) -> RunResult<Vec<RowSearch>> {
        let width = sizes.get(BatchAxis::Positions);
        let rows = shard.numbers.iter().enumerate().map(|(index, &row)| {
            let range = index * width..(index + 1) * width;
            let prompt = match self.has_source {
                true => vec![self.settings.decoder_start()?],
                false => prompt(&shard.input_ids[range.clone()], &shard.attention_mask[range]),
            };
            let max_length = self.slots(prompt.len())?;
            let start = Start { prompt: &prompt, max_length, row, seed: self.seed };
            Ok(RowSearch::new(&self.settings, &start))
        });
        rows.collect()
    }

    /// The tokens beyond which texts in `slots` are read anew, if they may have more ([`GenerateStep::rereads`]).
    fn outgrown(&self, slots: usize) -> Option<usize> {
        self.rereads_beyond.filter(|tokens| slots > *tokens)
    }

    /// Whether the text has just become so long that its tokens have other states.
    fn is_read_anew(&self, search: &RowSearch) -> bool {
        !search.is_done() && self.rereads_beyond.is_some_and(|tokens| search.len() == tokens + 1)
    }

    /// The scores of the token behind each text, all of whose tokens are read.
    fn read_texts(
        &self,
        passes: &mut impl Passes,
        sizes: BatchSizes,
        searches: &[Vec<RowSearch>],
    ) -> RunResult<Vec<Vec<f32>>> {
        let inputs = searches.iter().map(|searches| self.text_inputs(&sizes, searches));
        passes.run(Program::Prefill, sizes, inputs.collect::<RunResult<_>>()?)
    }

    fn text_inputs(&self, sizes: &BatchSizes, searches: &[RowSearch]) -> RunResult<Vec<HostArray>> {
        let (texts, width) =
            (sizes.rows() * self.settings.num_beams, sizes.get(BatchAxis::Positions));
        let [mut ids, mut mask] = [(); 2].map(|()| vec![0; texts * width]);
        let mut last = vec![0; texts];
        for (text, tokens) in searches.iter().flat_map(RowSearch::texts).enumerate() {
            for (place, token) in tokens.iter().enumerate() {
                (ids[text * width + place], mask[text * width + place]) = (*token as i32, 1);
            }
            last[text] = tokens.len() as i32 - 1;
        }
        let dims = [texts, width];
        Ok(vec![
            HostArray::from_s32(&dims, &ids)?,
            HostArray::from_s32(&dims, &mask)?,
            HostArray::from_s32(&[texts], &last)?,
        ])
    }

    fn prefill_inputs(&self, sizes: &BatchSizes, shard: &ShardRows) -> RunResult<Vec<HostArray>> {
        let (rows, width) = (sizes.rows(), sizes.get(BatchAxis::Positions));
        let dims = [rows, width];
        let mut inputs = vec![
            HostArray::from_s32(&dims, &shard.input_ids)?,
            HostArray::from_s32(&dims, &shard.attention_mask)?,
        ];
        if self.has_source {
            let start = self.settings.decoder_start()? as i32;
            inputs.push(HostArray::from_s32(&[rows, 1], &vec![start; rows])?);
        } else {
            let lengths = shard.attention_mask.chunks(width).map(|mask| mask.iter().sum::<i32>());
            let last: Vec<i32> = lengths.map(|length| (length - 1).max(0)).collect();
            inputs.push(HostArray::from_s32(&[rows], &last)?);
        }
        Ok(inputs)
    }

    fn decode_inputs(
        &self,
        sizes: &BatchSizes,
        searches: &[RowSearch],
        shard: &ShardRows,
    ) -> RunResult<Vec<HostArray>> {
        let (rows, beams) = (sizes.rows(), self.settings.num_beams);
        let texts = rows * beams;
        // Empty slots of the batch repeat the first token.
        let (mut tokens, mut positions) = (vec![0; texts], vec![0; texts]);
        let mut origins: Vec<i32> = (0..texts as i32).collect();
        for (row, search) in searches.iter().enumerate() {
            let inputs = search.next_inputs();
            for (beam, (token, origin)) in inputs.into_iter().enumerate() {
                let text = row * beams + beam;
                tokens[text] = token as i32;
                positions[text] = (search.len() - 1) as i32;
                origins[text] = (row * beams + origin) as i32;
            }
        }
        let mut inputs = vec![
            HostArray::from_s32(&[texts, 1], &tokens)?,
            HostArray::from_s32(&[texts], &positions)?,
        ];
        if beams > 1 {
            inputs.push(HostArray::from_s32(&[texts], &origins)?);
        }
        if self.has_source {
            let dims = [rows, sizes.get(BatchAxis::Positions)];
            inputs.push(HostArray::from_s32(&dims, &shard.attention_mask)?);
        }
        Ok(inputs)
    }

    /// The scores of each row for each of its beams: [B V] to [B k V].
    fn repeated(&self, scores: Vec<f32>, rows: usize) -> Vec<f32> {
        match self.settings.num_beams {
            1 => scores,
            beams => {
                let by_row = scores.chunks(scores.len() / rows);
                by_row.flat_map(|row| row.repeat(beams)).collect()
            }
        }
    }

    fn advance(&self, searches: &mut [Vec<RowSearch>], mut scores: Vec<Vec<f32>>, rows: usize) {
        let settings = &self.settings;
        for (searches, scores) in searches.iter_mut().zip(&mut scores) {
            let width = (scores.len() / rows).max(1);
            let by_row = scores.par_chunks_mut(width);
            searches.par_iter_mut().zip(by_row).for_each(|(search, scores)| {
                search.advance(settings, scores);
            });
        }
    }
}

/// The tokens of a row without its padding.
fn prompt(ids: &[i32], mask: &[i32]) -> Vec<u32> {
    let present = ids.iter().zip(mask).filter(|(_, present)| **present != 0);
    present.map(|(id, _)| *id as u32).collect()
}
