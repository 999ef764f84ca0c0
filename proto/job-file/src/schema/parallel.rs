//! `parallel`: how the cores of a job share its work.

use traind_choices::Fsdp;

use crate::section::section;
use crate::spelled::spelled;
use crate::values::Offload;

/// The default of SageMaker's library.
pub(crate) const LOADING_HORIZON: u32 = 4;

section! {
    /// How the cores divide the work: `data` x `tensor` x `pipeline` is their number.
    pub struct Parallel {
        /// Let the planner choose the other keys except `placement` and those for offloading, as
        /// well as `train.per_device_train_batch_size`, `gradient_accumulation_steps` and
        /// `gradient_checkpointing`, when the job is submitted: the mesh that `traind plan --auto`
        /// lists first, with the same number of rows per step. `parallel: auto` is equivalent. A
        /// warning on the job states the choice, which later runs of the job keep.
        auto: bool = false;
        /// Number of cores that see different rows of a batch (data parallelism); defaults to all
        /// that `tensor` and `pipeline` leave.
        data: Option<u32> = None, in 1.0..=65536.0;
        /// Number of cores of a host that share each layer (tensor parallelism): each has some of its
        /// attention heads and inner features, and part of the vocabulary. They all see the same
        /// rows. Must divide the model's attention heads and inner width.
        tensor: u32 = 1, in 1.0..=1024.0;
        /// Between the layers that the cores of `tensor` share, divide the positions of each row
        /// among them: each core then computes norms, dropout and sums only for its part of the
        /// activations. No effect if `tensor` is 1.
        sequence_parallel: bool = false;
        /// Number of pipeline stages: groups of cores that each hold some of the layers, through
        /// which the rows of a batch pass in turn. At most the number of the model's layers. On several
        /// hosts, stages that do not fit on each host are on different ones.
        pipeline: u32 = 1, in 1.0..=1024.0;
        /// Virtual stages per stage: parts of the model from different places. More of them reduce
        /// the idle time of stages, but send activations between stages more often.
        pipeline_interleave: u32 = 1, in 1.0..=1024.0;
        /// Number of micro-batches that a batch is split into for the pipeline. Must divide
        /// `train.per_device_train_batch_size`. Defaults to the largest number that divides it, up
        /// to 4 per stage.
        microbatches: Option<u32> = None, in 1.0..=65536.0;
        /// Order in which the job's cores on the host are assigned to the axes, by the initials of
        /// `data`, `pipeline` and `tensor`: cores along the last axis are neighbours, those along
        /// the first are farthest apart. `cluster` is `DPT`, `spread` is `TPD`. On several hosts, P
        /// before D also puts stages on different hosts. Results do not depend on it, up to
        /// rounding. On Neuron, the cores that share layers must be neighbours.
        placement: CorePlacement = CorePlacement::Cluster;
        /// State to shard over the cores of the `data` axis, of all hosts. `shard_optimizer`: the
        /// optimizer state (ZeRO stage 1). `shard_grad_op`: also gradients (stage 2). `full_shard`:
        /// also parameters (stage 3), which are gathered layer by layer for the forward pass and
        /// again for the backward pass. `hybrid_shard` and `hybrid_shard_zero2` are `full_shard` and
        /// `shard_grad_op` over the cores of each host, so that only sums of gradients cross the
        /// network. Parameters of fewer than 16,384 elements, such as biases and norms, are
        /// replicated on every core. All but `shard_optimizer` work with every optimizer but
        /// `adafactor`.
        fsdp: Fsdp = Fsdp::No;
        /// Shard the optimizer state over the `data` axis instead of replicating it, as `fsdp:
        /// shard_optimizer` does.
        shard_optimizer_state: bool = false;
        /// State to keep in host memory until a program needs it: `optimizer`, the optimizer state
        /// between updates, which then run in parts; `activations`, what pipeline stages keep of
        /// forward passes for backward passes: activations, or with `train.gradient_checkpointing`
        /// the inputs of layers. Results do not depend on it, up to rounding.
        offload: Offload = Offload::default();
        /// With `offload: activations`, how many passes of its stage before its backward pass a
        /// micro-batch's activations are loaded back to the core. Those needed sooner stay there.
        activation_loading_horizon: u32 = LOADING_HORIZON, in 1.0..=65536.0;
    }
}

impl Parallel {
    /// The state that cores of the `data` axis share, by either key.
    pub fn sharding(&self) -> Fsdp {
        match self.fsdp {
            Fsdp::No if self.shard_optimizer_state => Fsdp::ShardOptimizer,
            fsdp => fsdp,
        }
    }
}

spelled! {
    /// The order of the axes over a job's cores on a host, slowest first.
    pub enum CorePlacement {
        /// `DPT`: cores that share layers are neighbours.
        Cluster = "cluster",
        /// `TPD`: cores that share layers are farthest apart.
        Spread = "spread",
        /// Data, pipeline, tensor.
        Dpt = "DPT",
        /// Data, tensor, pipeline.
        Dtp = "DTP",
        /// Pipeline, data, tensor.
        Pdt = "PDT",
        /// Pipeline, tensor, data.
        Ptd = "PTD",
        /// Tensor, data, pipeline.
        Tdp = "TDP",
        /// Tensor, pipeline, data.
        Tpd = "TPD",
    }
}

impl CorePlacement {
    /// The letters of the axes, the slowest first.
    pub fn order(self) -> &'static str {
        match self {
            CorePlacement::Cluster => "DPT",
            CorePlacement::Spread => "TPD",
            order => order.as_str(),
        }
    }
}
