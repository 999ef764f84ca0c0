//! `parallel`: how the cores of a job share its work.

use crate::section::section;
use crate::spelled::spelled;

section! {
    /// How the cores share the work: `data` x `tensor` x `pipeline` is their number.
    pub struct Parallel {
        /// Cores that each see different rows of a batch; by default all that `tensor` and
        /// `pipeline` leave.
        data: Option<u32> = None, in 1.0..=65536.0;
        /// Cores that share each layer: each has some of its attention heads and inner features, and
        /// some tokens of the vocabulary. They all see the same rows. Must divide the model's attention
        /// heads and inner width.
        tensor: u32 = 1, in 1.0..=1024.0;
        /// Groups of cores that each hold some of the layers.
        pipeline: u32 = 1, in 1.0..=1024.0;
        /// Parts of a batch that pass through the pipeline one after the other; without effect if
        /// there is no pipeline.
        microbatches: u32 = 1, in 1.0..=65536.0;
        /// Placement of the job's cores on the host.
        placement: CorePlacement = CorePlacement::Cluster;
        /// Keep each part of the optimizer's state on one core of the `data` axis
        /// instead of on all of them.
        shard_optimizer_state: bool = false;
    }
}

spelled! {
    /// The placement of a job's cores on a host.
    pub enum CorePlacement {
        /// Neighbours, for fast collectives.
        Cluster = "cluster",
        /// On as many devices as possible, for the most memory bandwidth per core.
        Spread = "spread",
    }
}
