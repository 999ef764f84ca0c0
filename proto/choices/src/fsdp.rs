//! The state that cores of the `data` axis share.

spelled! {
    /// The state that is sharded over the cores of the `data` axis, under PyTorch's names where it
    /// has one.
    pub enum Fsdp {
        /// Nothing.
        No = "no",
        /// The optimizer state (ZeRO stage 1).
        ShardOptimizer = "shard_optimizer",
        /// Also the gradients (stage 2): each batch's are reduce-scattered, which saves memory when
        /// a step has several batches.
        ShardGradOp = "shard_grad_op" | "shard_grad_op auto_wrap",
        /// Also the parameters (stage 3), gathered layer by layer for the forward pass and again
        /// for the backward pass.
        FullShard = "full_shard" | "full_shard auto_wrap",
        /// As `full_shard`, but over the cores of each host: every host has all shards.
        HybridShard = "hybrid_shard" | "hybrid_shard auto_wrap",
        /// As `shard_grad_op`, but over the cores of each host.
        HybridShardZero2 = "hybrid_shard_zero2" | "hybrid_shard_zero2 auto_wrap",
    }
}

impl Fsdp {
    /// Returns whether each core keeps only its shard of gradients.
    pub fn shards_gradients(self) -> bool {
        !matches!(self, Fsdp::No | Fsdp::ShardOptimizer)
    }

    /// Returns whether each core keeps only its shard of parameters.
    pub fn shards_parameters(self) -> bool {
        matches!(self, Fsdp::FullShard | Fsdp::HybridShard)
    }

    /// Returns whether each host of a job has all shards.
    pub fn is_within_hosts(self) -> bool {
        matches!(self, Fsdp::HybridShard | Fsdp::HybridShardZero2)
    }
}
