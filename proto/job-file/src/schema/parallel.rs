//! `parallel`: how the cores of a job share its work.

use crate::section::section;
use crate::spelled::spelled;

section! {
    /// How the cores share the work: `data` x `tensor` x `pipeline` is their number.
    pub struct Parallel {
        /// Cores that each see other rows of a batch; all that `tensor` and `pipeline`
        /// leave where it is left out.
        data: Option<u32> = None, in 1.0..=65536.0;
        /// Cores that share each layer.
        tensor: u32 = 1, in 1.0..=1024.0;
        /// Groups of cores that each hold some of the layers.
        pipeline: u32 = 1, in 1.0..=1024.0;
        /// Parts that a batch goes through the pipeline in; of no effect without one.
        microbatches: u32 = 1, in 1.0..=65536.0;
        /// Which cores of the host to take.
        placement: CorePlacement = CorePlacement::Cluster;
        /// Keep each part of the optimizer's state on one core of the `data` axis
        /// instead of on all of them.
        shard_optimizer_state: bool = false;
    }
}

spelled! {
    /// Which cores of a host a job takes.
    pub enum CorePlacement {
        /// Neighbours, for fast collectives.
        Cluster = "cluster",
        /// On as many devices as there are, for most memory bandwidth a core.
        Spread = "spread",
    }
}
