//! The order in which each stage of a pipeline passes micro-batches through its chunks.
//!
//! Training alternates one forward and one backward pass (1F1B; Narayanan et al., 2021), so that few
//! micro-batches are under way: a stage first passes as many forward as it takes for the first one to
//! come back. With several chunks on a stage, as many micro-batches as there are stages pass through one
//! chunk before the next. The last chunk has no forward pass of its own: its backward pass includes it.
//!
//! Where the rows of a batch are compared with each other, all micro-batches pass forward first (GPipe; Huang et al.,
//! 2019), also through the last chunk. Before its first backward pass, the last stage compares them. That backward pass
//! passes forward once more, from the states that the first time has read.

use std::collections::{HashMap, HashSet};

use crate::state::Pipeline;

/// A pass of a micro-batch through a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Pass {
    pub direction: Direction,
    pub chunk: usize,
    pub micro: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Direction {
    Forward,
    Backward,
}

impl Pass {
    /// The name by which the values of another chunk reach this pass, and that chunk.
    pub(crate) fn reads(self, last: LastChunk) -> Option<(Pass, usize)> {
        let is_last = self.chunk == last.chunk;
        match self.direction {
            Direction::Backward if !is_last => Some((self, self.chunk + 1)),
            Direction::Backward if last.passes_forward => None,
            _ if self.chunk == 0 => None,
            _ => Some((self.forward(), self.chunk - 1)),
        }
    }

    /// The passes that have to end before this one starts.
    pub(crate) fn needs(self, last: LastChunk) -> Vec<Pass> {
        let reads = self.reads(last).map(|(named, chunk)| Pass { chunk, ..named });
        let own = (!self.is_first(last)).then(|| self.forward());
        reads.into_iter().chain(own).collect()
    }

    /// The forward pass of the same micro-batch through the same chunk.
    pub(crate) fn forward(self) -> Pass {
        Pass { direction: Direction::Forward, ..self }
    }

    /// Whether it is the first pass of its micro-batch through the chunk.
    pub(crate) fn is_first(self, last: LastChunk) -> bool {
        self.direction == Direction::Forward || (self.chunk == last.chunk && !last.passes_forward)
    }
}

/// The last chunk of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LastChunk {
    pub chunk: usize,
    /// Whether it has forward passes of its own, as in evaluations and where rows are compared.
    pub passes_forward: bool,
}

/// The order of a pipeline, by the numbers that it depends on.
#[derive(Clone, Copy, Debug)]
pub struct PipelineOrder {
    /// The number of stages.
    pub stages: usize,
    /// The parts of the model on each stage.
    pub chunks_per_stage: usize,
    /// The micro-batches of a batch.
    pub microbatches: usize,
    /// Whether the rows of a training batch are compared with each other.
    pub compares: bool,
}

impl PipelineOrder {
    /// The order of a batch with `rows` rows on each core.
    pub fn of(pipeline: &Pipeline, rows: usize) -> PipelineOrder {
        PipelineOrder {
            stages: pipeline.stages,
            chunks_per_stage: pipeline.chunks_per_stage(),
            microbatches: pipeline.microbatches(rows),
            compares: false,
        }
    }

    /// The last chunk of a training batch.
    pub(crate) fn last_chunk(&self) -> LastChunk {
        let chunk = self.stages * self.chunks_per_stage - 1;
        LastChunk { chunk, passes_forward: self.compares }
    }

    /// The time that each stage is idle, as a share of the time that it works, where all passes in a
    /// direction take equally long.
    pub fn idle_share(&self) -> f64 {
        (self.stages - 1) as f64 / (self.chunks_per_stage * self.microbatches) as f64
    }

    /// The passes of a stage for a training batch, in words: `F0` is the forward pass of micro-batch 0, `B0` its
    /// backward pass; with several chunks on a stage, `F0.1` is that through the second one.
    pub fn order(&self, stage: usize) -> Vec<String> {
        let word = |pass: Pass| {
            let letter = if pass.direction == Direction::Forward { 'F' } else { 'B' };
            match (self.chunks_per_stage, pass.chunk / self.stages) {
                (1, _) => format!("{letter}{}", pass.micro),
                (_, chunk) => format!("{letter}{}.{chunk}", pass.micro),
            }
        };
        self.training(stage).into_iter().map(word).collect()
    }

    /// The passes of a stage for a training batch.
    pub(crate) fn training(&self, stage: usize) -> Vec<Pass> {
        let forward = self.passes(stage, Direction::Forward);
        let backward = self.passes(stage, Direction::Backward);
        let ahead = match self.compares {
            true => forward.len(),
            false => self.passes_ahead(stage).min(forward.len()),
        };
        let mut passes = forward[..ahead].to_vec();
        for (forward, backward) in forward[ahead..].iter().zip(&backward) {
            passes.extend([*forward, *backward]);
        }
        passes.extend(&backward[forward.len() - ahead..]);
        let LastChunk { chunk: last, passes_forward } = self.last_chunk();
        passes.retain(|pass| {
            pass.direction == Direction::Backward || pass.chunk != last || passes_forward
        });
        self.without_surplus(passes)
    }

    /// The most that a stage keeps at one time for backward passes besides the pass that runs, where `bytes` are those
    /// that a chunk keeps of a micro-batch: on its cores, and in host memory those whose backward pass is more than
    /// `horizon` passes away.
    pub(crate) fn bytes_kept(
        &self,
        stage: usize,
        horizon: Option<usize>,
        bytes: impl Fn(usize) -> u64,
    ) -> [u64; 2] {
        let passes = self.training(stage);
        let ends = backward_places(&passes);
        let (mut kept, mut most) = (HashSet::new(), [0; 2]);
        for (place, pass) in passes.iter().enumerate() {
            let own = (pass.chunk, pass.micro);
            kept.remove(&own);
            let mut now = [0; 2];
            for it @ (chunk, _) in &kept {
                let is_far = horizon.is_some_and(|horizon| ends[it] > place + horizon);
                now[usize::from(is_far)] += bytes(*chunk);
            }
            most = [most[0].max(now[0]), most[1].max(now[1])];
            if pass.direction == Direction::Forward {
                kept.insert(own);
            }
        }
        most
    }

    /// The passes of a stage for a batch that is evaluated.
    pub(crate) fn evaluation(&self, stage: usize) -> Vec<Pass> {
        self.without_surplus(self.passes(stage, Direction::Forward))
    }

    /// The passes of all stages, `of_stages`, in one order that depends on nothing else. Each follows those that it
    /// needs, and those before it on its stage.
    pub(crate) fn one_order(&self, of_stages: &[Vec<Pass>]) -> Vec<Pass> {
        let last = self.last_chunk();
        let mut stages: Vec<_> = of_stages.iter().map(|passes| passes.iter().peekable()).collect();
        let (mut order, mut ended) = (Vec::new(), HashSet::new());
        loop {
            let ready = |pass: &&Pass| pass.needs(last).iter().all(|needed| ended.contains(needed));
            let next: Vec<Pass> =
                stages.iter_mut().filter_map(|stage| stage.next_if(ready).copied()).collect();
            if next.is_empty() {
                return order;
            }
            ended.extend(next.iter().copied());
            order.extend(next);
        }
    }

    /// The passes of micro-batches that exist. Leaving out the others makes no pass wait for a later one.
    fn without_surplus(&self, mut passes: Vec<Pass>) -> Vec<Pass> {
        passes.retain(|pass| pass.micro < self.microbatches);
        passes
    }

    /// The forward passes of a stage before its first backward pass.
    fn passes_ahead(&self, stage: usize) -> usize {
        let behind = self.stages - 1 - stage;
        match self.chunks_per_stage {
            1 => behind,
            chunks => 2 * behind + (chunks - 1) * self.stages,
        }
    }

    /// All passes of a stage in one direction, for as many micro-batches as fill the last group of one for
    /// each stage: a smaller group could wait for itself.
    fn passes(&self, stage: usize, direction: Direction) -> Vec<Pass> {
        let mut passes = Vec::new();
        for first in (0..self.microbatches).step_by(self.stages) {
            for place in 0..self.chunks_per_stage {
                let place = match direction {
                    Direction::Forward => place,
                    Direction::Backward => self.chunks_per_stage - 1 - place,
                };
                let chunk = place * self.stages + stage;
                let group = first..first + self.stages;
                passes.extend(group.map(|micro| Pass { direction, chunk, micro }));
            }
        }
        passes
    }
}

/// The place of each backward pass among those of a stage, by chunk and micro-batch.
pub(crate) fn backward_places(passes: &[Pass]) -> HashMap<(usize, usize), usize> {
    let backward = passes.iter().enumerate().filter(|(_, it)| it.direction == Direction::Backward);
    backward.map(|(place, pass)| ((pass.chunk, pass.micro), place)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The results of an order where a forward pass through a stage takes one tick for each of its
    /// chunks, and a backward pass two.
    struct Ticks {
        end: usize,
        /// The most micro-batches of which a stage keeps activations at one time, of all stages, with that of the pass
        /// that runs.
        saved: u64,
    }

    /// Runs each stage's passes in their order, each as soon as it can. Fails where none can.
    fn run(pipeline_order: PipelineOrder) -> Ticks {
        let last = pipeline_order.last_chunk();
        let passes: Vec<Vec<Pass>> =
            (0..pipeline_order.stages).map(|stage| pipeline_order.training(stage)).collect();
        let mut ends: HashMap<Pass, usize> = HashMap::new();
        let mut next = vec![0; pipeline_order.stages];
        let mut free = vec![0; pipeline_order.stages];
        while (0..pipeline_order.stages).any(|stage| next[stage] < passes[stage].len()) {
            let mut moved = false;
            for stage in 0..pipeline_order.stages {
                let Some(&pass) = passes[stage].get(next[stage]) else { continue };
                let needed = pass.needs(last).into_iter().map(|it| ends.get(&it).copied());
                let Some(ready) = needed.collect::<Option<Vec<_>>>() else { continue };
                let start = ready.into_iter().max().unwrap_or(0).max(free[stage]);
                let ticks = match pass {
                    Pass { direction: Direction::Forward, .. } => 1,
                    Pass { chunk, .. } if chunk == last.chunk => 3,
                    _ => 2,
                };
                free[stage] = start + ticks;
                ends.insert(pass, start + ticks);
                next[stage] += 1;
                moved = true;
            }
            assert!(moved, "{pipeline_order:?} waits for itself");
        }
        let kept = (0..pipeline_order.stages)
            .map(|stage| pipeline_order.bytes_kept(stage, None, |_| 1)[0]);
        let saved = 1 + kept.max().unwrap();
        Ticks { end: *ends.values().max().unwrap(), saved }
    }

    #[test]
    fn stages_are_idle_for_no_longer_than_the_first_and_last_micro_batch_take() {
        for (stages, chunks_per_stage, microbatches) in [
            (2, 1, 8),
            (4, 1, 8),
            (4, 1, 16),
            (8, 1, 32),
            (4, 2, 8),
            (4, 3, 12),
            (8, 2, 16),
            (8, 4, 32),
        ] {
            let pipeline_order =
                PipelineOrder { stages, chunks_per_stage, microbatches, compares: false };
            let Ticks { end, saved } = run(pipeline_order);
            let busy = 3 * microbatches * chunks_per_stage;
            let idle = (end - busy) as f64 / busy as f64;
            let expect = pipeline_order.idle_share();
            assert!(
                (idle / expect - 1.0).abs() < 0.1,
                "{pipeline_order:?}: {idle}, expected {expect}"
            );
            let most = match chunks_per_stage {
                1 => stages,
                chunks => stages * (chunks + 1) - 1,
            };
            assert!(saved <= most as u64, "{pipeline_order:?} keeps {saved} micro-batches");
        }
    }

    #[test]
    fn activations_far_from_their_backward_pass_are_in_host_memory() {
        let pipeline_order =
            PipelineOrder { stages: 8, chunks_per_stage: 2, microbatches: 16, compares: false };
        let kept = |horizon| pipeline_order.bytes_kept(1, horizon, |_| 1);
        let whole = kept(None);
        for horizon in [1, 4, 8] {
            let [on_core, on_host] = kept(Some(horizon));
            // The core keeps what the next passes read.
            assert!(on_core <= horizon as u64, "{horizon}: {on_core} on the core");
            assert!(on_core + on_host >= whole[0], "{horizon}: {on_host} on the host");
        }
        assert_eq!(kept(Some(1000)), whole);
        assert_eq!(whole[1], 0);
        let halves = pipeline_order.bytes_kept(1, None, |chunk| if chunk < 8 { 1 } else { 0 });
        assert!(0 < halves[0] && halves[0] < whole[0], "{halves:?} of {whole:?}");
    }

    /// Checks that one order of all passes keeps that of each stage, and that no pass is before one that it needs.
    fn check_order(pipeline_order: PipelineOrder, of_stage: impl Fn(usize) -> Vec<Pass>) {
        let of_stages: Vec<Vec<Pass>> = (0..pipeline_order.stages).map(of_stage).collect();
        let order = pipeline_order.one_order(&of_stages);
        for (stage, passes) in of_stages.iter().enumerate() {
            let own = order.iter().filter(|pass| pass.chunk % pipeline_order.stages == stage);
            assert!(own.eq(passes), "{pipeline_order:?}: {order:?}");
        }
        let last = pipeline_order.last_chunk();
        for (place, pass) in order.iter().enumerate() {
            let mut needs = pass.needs(last).into_iter();
            assert!(
                needs.all(|needed| order[..place].contains(&needed)),
                "{pipeline_order:?}: {pass:?}"
            );
        }
    }

    #[test]
    fn every_micro_batch_passes_every_chunk_and_no_stage_waits_for_ever() {
        for stages in 2..6 {
            for chunks_per_stage in 1..4 {
                for microbatches in 1..14 {
                    let pipeline_order =
                        PipelineOrder { stages, chunks_per_stage, microbatches, compares: false };
                    run(pipeline_order);
                    for stage in 0..stages {
                        let training = pipeline_order.training(stage);
                        let backward = |pass: &&Pass| pass.direction == Direction::Backward;
                        let count = training.iter().filter(backward).count();
                        assert_eq!(count, chunks_per_stage * microbatches);
                        assert_eq!(pipeline_order.evaluation(stage).len(), count);
                    }
                    check_order(pipeline_order, |stage| pipeline_order.training(stage));
                    check_order(pipeline_order, |stage| pipeline_order.evaluation(stage));
                }
            }
        }
    }
    #[test]
    fn all_micro_batches_pass_forward_before_they_are_compared() {
        for stages in 2..6 {
            for chunks_per_stage in 1..4 {
                for microbatches in 1..14 {
                    let pipeline_order =
                        PipelineOrder { stages, chunks_per_stage, microbatches, compares: true };
                    let count = chunks_per_stage * microbatches;
                    assert_eq!(run(pipeline_order).saved, count as u64, "{pipeline_order:?}");
                    for stage in 0..stages {
                        let (forward, backward): (Vec<Pass>, Vec<Pass>) = pipeline_order
                            .training(stage)
                            .into_iter()
                            .partition(|pass| pass.direction == Direction::Forward);
                        assert_eq!((forward.len(), backward.len()), (count, count));
                        let training = pipeline_order.training(stage);
                        assert_eq!(training, [forward, backward].concat(), "{pipeline_order:?}");
                    }
                    check_order(pipeline_order, |stage| pipeline_order.training(stage));
                }
            }
        }
    }

    #[test]
    fn a_backward_pass_of_compared_rows_reads_what_the_forward_pass_has_read() {
        let last = |passes_forward| LastChunk { chunk: 3, passes_forward };
        let pass = |direction, chunk| Pass { direction, chunk, micro: 0 };
        let backward = pass(Direction::Backward, 3);
        assert_eq!(backward.reads(last(false)), Some((pass(Direction::Forward, 3), 2)));
        assert_eq!(backward.needs(last(false)), [pass(Direction::Forward, 2)]);
        assert_eq!(backward.reads(last(true)), None);
        assert_eq!(backward.needs(last(true)), [pass(Direction::Forward, 3)]);
        let before = pass(Direction::Backward, 2);
        assert_eq!(before.reads(last(true)), Some((before, 3)));
        assert_eq!(before.needs(last(true)), [backward, pass(Direction::Forward, 2)]);
    }
}
