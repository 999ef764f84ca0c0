//! The settings of a run's state.

use traind_choices::Fsdp;

use super::Reference;

/// The settings of a run's state on the cores.
#[derive(Clone, Copy, Debug)]
pub struct StateConfig {
    /// Determines all random numbers.
    pub seed: u64,
    /// The most rows of the data in a batch on each core. Cores number their rows by it, as random numbers need.
    pub rows_per_core: usize,
    /// The bound of the gradients' norm; infinity where gradients are not clipped.
    pub max_grad_norm: f64,
    /// The state that is sharded over the cores of the `data` axis.
    pub fsdp: Fsdp,
    /// Whether the cores that share layers divide the positions of rows between them.
    pub sequence_parallel: bool,
    /// Whether a step takes several programs: one for each batch, and one that updates. Needed
    /// where a step has several batches, or where the update depends on their results.
    pub accumulates: bool,
    /// Whether the loss is scaled, as products in float16 need.
    pub scales_loss: bool,
    /// Whether the optimizer's state is in host memory between updates.
    pub offloads_optimizer: bool,
    /// The frozen model that the trained one is compared with.
    pub reference: Option<Reference>,
}

impl Default for StateConfig {
    /// One row on each core, without clipping.
    fn default() -> StateConfig {
        StateConfig {
            seed: 42,
            rows_per_core: 1,
            max_grad_norm: f64::INFINITY,
            fsdp: Fsdp::No,
            sequence_parallel: false,
            accumulates: false,
            scales_loss: false,
            offloads_optimizer: false,
            reference: None,
        }
    }
}
