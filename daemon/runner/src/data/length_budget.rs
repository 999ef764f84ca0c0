//! The number of padded lengths by cost: each length saves padding in every step, and costs the
//! compilation of a program.
//!
//! The rates are constants of a platform instead of measurements, so that a run pads alike on a busy
//! host, with another cache, and after a resume.

use std::collections::BTreeSet;

use traind_job_file::{JobFile, Platform};
use traind_loader::{BatchAxis, LengthBudget, SizedBatch};
use traind_models::{Lengths, Model, flops};
use traind_xla::kernels::{expected_cpu_kernels, products_are_kernels};
use traind_xla::ops::PackedRows;

use crate::recipe::compute_dtype;

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

/// The costs of packed rows besides the work of their tokens, in tokens.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packing {
    /// The cost of each padded position.
    padded_position: f64,
    /// The cost of each slot.
    slot: f64,
    /// The cost of a slot behind the last token, besides.
    empty_slot: f64,
    /// Whether attention computes only the pairs of tokens that share a row.
    attends_packed: bool,
}

/// The cost of a padded position where attention reads packed tokens: embeddings see it, and the states of the first
/// and the last layer move between packed and padded rows.
const PADDED_POSITION: f64 = 0.01;
/// The cost of a padded position where the states of each layer move four times, whose memory traffic takes 2 % of the
/// time of a token's products with 384 hidden elements.
const PADDED_POSITION_OF_LAYERS: f64 = 0.02;
/// The cost of a slot of packed rows in these moves.
const SLOT: f64 = 0.01;
/// The cost of a slot where the states of each layer move.
const SLOT_OF_LAYERS: f64 = 0.04;

/// The cost of a slot behind the last token of packed rows, in tokens: where all products are kernels, they leave it
/// out, and norms, activations and sums compute it.
const EMPTY_SLOT: f64 = 0.15;
/// The cost of a slot behind the last token, in tokens, where XLA computes the products but for the gradients of
/// weights.
const EMPTY_SLOT_OF_XLA: f64 = 0.7;

impl Packing {
    /// The costs in the programs of a job for CPUs on this host. Several hosts have to agree on the sizes of their
    /// programs, and may have other processors.
    pub(super) fn of(job: &JobFile, model: &Model) -> Packing {
        let (is_alone, kernels) = (job.resources.hosts == 1, expected_cpu_kernels());
        let attends_packed = is_alone
            && model.attends_packed_tokens()
            && PackedRows::has_kernel(kernels, kernels.operand_dtype(compute_dtype(&job.train)));
        let has_products = is_alone && products_are_kernels(job.resources.cores as usize);
        Packing::by_kernels(attends_packed, has_products)
    }

    /// The costs where kernels read packed tokens, or leave empty slots out of products.
    fn by_kernels(attends_packed: bool, has_products: bool) -> Packing {
        let [padded_position, slot] = match attends_packed {
            true => [PADDED_POSITION, SLOT],
            false => [PADDED_POSITION_OF_LAYERS, SLOT_OF_LAYERS],
        };
        let empty_slot = if has_products { EMPTY_SLOT } else { EMPTY_SLOT_OF_XLA };
        Packing { padded_position, slot, empty_slot, attends_packed }
    }

    /// The budget for numbers of packed slots, of which each saves slots that cost less than tokens.
    pub(super) fn budget_of_slots(&self, budget: LengthBudget) -> LengthBudget {
        let tokens_per_length = (budget.tokens_per_length as f64 / self.empty_slot) as u64;
        LengthBudget { tokens_per_length, ..budget }
    }
}

/// The cost of `batches`: tokens of one row in each, where attention and a program for each size count as many tokens
/// as take as long. Kernels compute the scores of padded queries, but none of padded keys.
pub(super) fn computed_tokens(
    model: &Model,
    batches: &[SizedBatch],
    packing: &Packing,
    budget: LengthBudget,
) -> f64 {
    let forward = |positions| model.forward_flops(1, Lengths::of(positions));
    let token = (forward(2) - forward(1)).max(f64::MIN_POSITIVE);
    let cost = |batch: &SizedBatch| {
        let SizedBatch { sizes, tokens_per_row, pairs_per_row } = batch;
        let positions = sizes.get(BatchAxis::Positions).max(1);
        let attention = (forward(positions) - forward(1)) / token - (positions - 1) as f64;
        let (positions, used) = (positions as f64, f64::from(*tokens_per_row));
        match sizes.get(BatchAxis::PackedPositions) {
            0 => attention + positions,
            slots => {
                let slots = slots as f64;
                let pairs = match packing.attends_packed {
                    true => *pairs_per_row as f64,
                    false => used * positions,
                };
                let empty = packing.empty_slot * (slots - used).max(0.0);
                let moves = packing.padded_position * positions + packing.slot * slots;
                attention * pairs / (positions * positions) + used + empty + moves
            }
        }
    };
    let programs = batches.iter().map(|batch| batch.sizes).collect::<BTreeSet<_>>().len();
    batches.iter().map(cost).sum::<f64>() + budget.tokens_per_length as f64 * programs as f64
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;
    use traind_loader::{BatchSizes, LengthLadder};
    use traind_models::{ModelConfig, Task, registry};

    use super::*;

    /// A batch of rows that are equally long.
    fn batch(positions: u32, packed: u32, tokens_per_row: u32) -> SizedBatch {
        let sizes = BatchSizes::of_rows(8).with(BatchAxis::Positions, positions);
        let sizes = sizes.with(BatchAxis::PackedPositions, packed);
        SizedBatch { sizes, tokens_per_row, pairs_per_row: u64::from(tokens_per_row).pow(2) }
    }

    fn model() -> Model {
        model_of(64, 2)
    }

    fn model_of(hidden_size: usize, num_hidden_layers: usize) -> Model {
        let config = json!({
            "model_type": "bert", "vocab_size": 512, "hidden_size": hidden_size,
            "num_hidden_layers": num_hidden_layers, "num_attention_heads": 4,
            "intermediate_size": 4 * hidden_size,
        });
        let config = ModelConfig::new("config.json", config.as_object().unwrap().clone());
        registry::build(config, Task::SequenceClassification).unwrap()
    }

    /// The cost of each two batches, sixteen times.
    fn cost(batches: [SizedBatch; 2], packing: &Packing) -> f64 {
        let budget = LengthBudget { lengths_max: 12, tokens_per_length: 50 };
        computed_tokens(&model(), &[batches; 16].concat(), packing, budget)
    }

    /// The padded lengths of 100 batches whose longest rows have 8 to 107 tokens, for a BERT of six layers.
    fn lengths(platform: &str, epochs: f64) -> usize {
        let yaml = format!(
            "{{name: a, model: {{name_or_path: x, task: sequence-classification, num_labels: 2}}, data: {{train: a.csv}}, \
             resources: {{platform: {platform}}}, output_dir: o}}"
        );
        let job = JobFile::parse(&yaml, Path::new("/")).unwrap().job;
        let passes = Passes { rows_per_core: 32, epochs, trains: true };
        let budget = length_budget(&job, &model_of(384, 6), passes);
        let longest: Vec<u32> = (8..108).collect();
        LengthLadder::fitted(&longest, 107, budget).unwrap().rungs().len()
    }

    /// A program takes a second on a CPU and minutes on a NeuronCore, which computes faster besides.
    #[test]
    fn programs_that_compile_for_minutes_are_few() {
        assert!(lengths("cpu", 3.0) >= 3);
        assert_eq!(lengths("neuron", 3.0), 1);
        assert!(lengths("neuron", 1e6) > 1, "padding costs more than programs");
    }

    /// Batches of 10 and 20 tokens a row: in padded rows of two lengths, or in one or two numbers of slots.
    #[test]
    fn empty_slots_cost_what_programs_compute_of_them() {
        let padded = [batch(14, 0, 10), batch(28, 0, 20)];
        let two = [batch(28, 10, 10), batch(28, 20, 20)];
        let one = [batch(28, 20, 10), batch(28, 20, 20)];
        let budget = LengthBudget { lengths_max: 12, tokens_per_length: 50 };
        let [kernels, xla] = [true, false].map(|has_products| {
            let packing = Packing::by_kernels(true, has_products);
            assert!(cost(two, &packing) < cost(padded, &packing));
            let slots = packing.budget_of_slots(budget).tokens_per_length;
            (cost(two, &packing) - cost(one, &packing), slots)
        });
        assert!(kernels.0 > 0.0 && xla.0 < 0.0, "{kernels:?} {xla:?}");
        assert_eq!([kernels.1, xla.1], [333, 71]);
    }

    /// Rows of 10 tokens beside one of 400, all of which attention pads where no kernel reads them packed.
    #[test]
    fn a_long_row_costs_its_own_pairs_where_attention_reads_packed_tokens() {
        let [packed, padded] = [40, 0].map(|slots| {
            let pairs_per_row = (7 * 10 * 10 + 400 * 400) / 8;
            [SizedBatch { pairs_per_row, ..batch(400, slots, 59) }; 2]
        });
        let [by_kernel, by_layer] =
            [true, false].map(|attends_packed| Packing::by_kernels(attends_packed, true));
        assert_eq!(cost(padded, &by_kernel), cost(padded, &by_layer));
        assert!(cost(packed, &by_kernel) < 0.95 * cost(packed, &by_layer));
    }
}
