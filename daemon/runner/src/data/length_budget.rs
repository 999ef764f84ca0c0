//! The number of padded lengths by cost: each length saves padding in every step, and costs the
//! compilation of a program.
//!
//! The rates are constants of a platform instead of measurements, so that a run pads alike on a busy
//! host, with another cache, and after a resume.

use std::collections::BTreeSet;

use traind_job_file::{JobFile, Platform};
use traind_loader::{BatchAxis, BatchSizes, LengthBudget};
use traind_models::{Lengths, Model, flops};

/// The most lengths of a job that names no bound.
const LENGTHS_MAX: usize = 12;

/// Positions of the row by which FLOPs per position are estimated.
const POSITIONS: usize = 64;

/// Steps that use the padded lengths.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Passes {
    /// Rows of one core in a batch.
    pub rows_per_core: u32,
    /// How often the batches of an epoch are launched in the run.
    pub epochs: f64,
    /// Whether they compute gradients.
    pub trains: bool,
}

/// The time that a platform needs to compile and to compute.
struct Rates {
    /// Seconds that a training step's program takes to compile, beside those of its layers.
    compile: f64,
    compile_per_layer: f64,
    /// The most cores whose steps share the time of a compilation.
    compilers: u32,
    /// FLOP/s that a core reaches.
    flops: f64,
}

impl Rates {
    /// The rates of a platform. Those of CPUs were measured with a BERT of six layers on AMD Zen 4: 1.2 seconds a
    /// program and 60 GFLOP/s a core. A program is compiled by one thread while steps run on all of the job's cores, so
    /// that the job ends later by the time of that thread divided by the cores. For GPUs, on an H200: programs of BERT
    /// and GPT-2 compile one at a time in 7 to 16 seconds. For NeuronCores, from public reports: minutes a program.
    fn of(platform: Platform) -> Rates {
        match platform {
            Platform::Cpu => {
                Rates { compile: 0.3, compile_per_layer: 0.15, compilers: 2, flops: 60e9 }
            }
            Platform::Cuda => {
                Rates { compile: 4.0, compile_per_layer: 0.8, compilers: 1, flops: 50e12 }
            }
            Platform::Neuron => {
                Rates { compile: 60.0, compile_per_layer: 10.0, compilers: 1, flops: 20e12 }
            }
        }
    }

    /// The time by which a program delays a job on so many cores.
    fn compile_seconds(&self, layers: usize, cores: u32) -> f64 {
        let compile = self.compile + self.compile_per_layer * layers as f64;
        compile / f64::from(cores.clamp(1, self.compilers))
    }
}

/// The budget of padded lengths for batches of which each program serves some of `passes`.
pub(crate) fn length_budget(job: &JobFile, model: &Model, passes: Passes) -> LengthBudget {
    if let Some(lengths) = job.data.padded_lengths_max {
        return LengthBudget::of(lengths as usize);
    }
    let rates = Rates::of(job.resources.platform);
    let forward = model.forward_flops(1, Lengths::of(POSITIONS)) / POSITIONS as f64;
    let compile = rates.compile_seconds(model.num_layers(), job.resources.cores);
    let (flops, compile) = match passes.trains {
        true => (flops::training(forward), compile),
        // A forward pass alone is about a third of the operations, and of the code.
        false => (forward, compile / 3.0),
    };
    // Cores that share a row's layers share its work.
    let cores = f64::from(job.parallel.tensor.max(1)) * f64::from(job.parallel.pipeline.max(1));
    let seconds_per_position = f64::from(passes.rows_per_core) * flops / (rates.flops * cores);
    let tokens = compile / (seconds_per_position * passes.epochs).max(f64::MIN_POSITIVE);
    LengthBudget {
        lengths_max: LENGTHS_MAX,
        tokens_per_length: tokens.min(u64::MAX as f64).ceil() as u64,
    }
}

/// The cost of packing for each padded position, in tokens: embeddings and attention see it, and the states of each
/// layer move between packed and padded rows, whose memory traffic takes 2 % of the time of a token's products with 384
/// hidden elements.
const PADDED_POSITION: f64 = 0.02;
/// The same for each packed token.
const PACKED_TOKEN: f64 = 0.04;

/// The cost of batches of `sizes`: tokens of one row in each, where attention and a program for each size count as many
/// tokens as take as long. Kernels compute the scores of padded queries, but none of padded keys.
pub(super) fn computed_tokens(model: &Model, sizes: &[BatchSizes], budget: LengthBudget) -> f64 {
    let forward = |positions| model.forward_flops(1, Lengths::of(positions));
    let token = (forward(2) - forward(1)).max(f64::MIN_POSITIVE);
    let cost = |sizes: &BatchSizes| {
        let positions = sizes.get(BatchAxis::Positions).max(1);
        let attention = (forward(positions) - forward(1)) / token - (positions - 1) as f64;
        let (positions, tokens) = (positions as f64, sizes.tokens_per_row() as f64);
        let packing = match sizes.get(BatchAxis::PackedPositions) {
            0 => 0.0,
            packed => PADDED_POSITION * positions + PACKED_TOKEN * packed as f64,
        };
        attention * tokens / positions + tokens + packing
    };
    let programs = sizes.iter().collect::<BTreeSet<_>>().len();
    sizes.iter().map(cost).sum::<f64>() + budget.tokens_per_length as f64 * programs as f64
}
