//! The state that cores of the `data` axis share.

use std::fmt;

/// The state that is sharded over the cores of the `data` axis, under PyTorch's names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fsdp {
    /// Nothing.
    #[default]
    No,
    /// The optimizer's slots (ZeRO stage 1).
    ShardOptimizer,
    /// Also the gradients (stage 2).
    ShardGradOp,
    /// Also the parameters (stage 3).
    FullShard,
    /// The same as `FullShard` over the cores of each host, all of which have all shards.
    HybridShard,
    /// The same as `ShardGradOp` over the cores of each host.
    HybridShardZero2,
}

impl fmt::Display for Fsdp {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Fsdp::No => "no",
            Fsdp::ShardOptimizer => "shard_optimizer",
            Fsdp::ShardGradOp => "shard_grad_op",
            Fsdp::FullShard => "full_shard",
            Fsdp::HybridShard => "hybrid_shard",
            Fsdp::HybridShardZero2 => "hybrid_shard_zero2",
        })
    }
}

impl Fsdp {
    /// Whether each core keeps only its shard of gradients.
    pub fn shards_gradients(self) -> bool {
        !matches!(self, Fsdp::No | Fsdp::ShardOptimizer)
    }

    /// Whether each core keeps only its shard of parameters.
    pub fn shards_parameters(self) -> bool {
        matches!(self, Fsdp::FullShard | Fsdp::HybridShard)
    }

    /// Whether each host has all shards.
    pub fn is_within_hosts(self) -> bool {
        matches!(self, Fsdp::HybridShard | Fsdp::HybridShardZero2)
    }
}
