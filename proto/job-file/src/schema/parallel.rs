//! `parallel`: how the cores of a job share its work.

use crate::section::section;
use crate::spelled::spelled;
use crate::values::Offload;

/// The default of SageMaker's library.
pub(crate) const LOADING_HORIZON: u32 = 4;

section! {
    /// How the cores share the work: `data` x `tensor` x `pipeline` is their number.
    pub struct Parallel {
        /// Let the planner choose the other keys but `placement` and those of offloading, and with them
        /// `train.per_device_train_batch_size`, `gradient_accumulation_steps` and
        /// `gradient_checkpointing`, when the job is submitted: the mesh that `traind plan --auto` puts
        /// first, with as many rows a step. `parallel: auto` is the same. A warning of the job names the
        /// choice, which later runs of the job keep.
        auto: bool = false;
        /// Cores that each see different rows of a batch; by default all that `tensor` and
        /// `pipeline` leave.
        data: Option<u32> = None, in 1.0..=65536.0;
        /// Cores that share each layer: each has some of its attention heads and inner features, and
        /// some tokens of the vocabulary. They all see the same rows. Must divide the model's attention
        /// heads and inner width.
        tensor: u32 = 1, in 1.0..=1024.0;
        /// Divide the positions of each row between the layers that the cores of `tensor` share: norms,
        /// dropout and sums are then computed once, for a part of the activations each. Without effect
        /// if `tensor` is 1.
        sequence_parallel: bool = false;
        /// Stages: groups of cores that each hold some of the layers, through which the rows of a batch
        /// pass one after the other. At most the number of the model's layers.
        pipeline: u32 = 1, in 1.0..=1024.0;
        /// Parts of the model on each stage, with layers of other places (virtual stages). More parts
        /// keep stages idle for less time, and send states between stages more often.
        pipeline_interleave: u32 = 1, in 1.0..=1024.0;
        /// Parts of a batch that are in the pipeline at the same time. Must divide
        /// `train.per_device_train_batch_size`. By default the largest number that divides it, up to 4
        /// for each stage.
        microbatches: Option<u32> = None, in 1.0..=65536.0;
        /// Order in which the job's cores on the host are dealt to the axes, by the letters of `data`,
        /// `pipeline` and `tensor`: cores of the last letter's axis are neighbours, those of the first
        /// are farthest apart. `cluster` is `DPT`, `spread` is `TPD`. Results do not depend on it, up
        /// to rounding. On Neuron, the cores that share layers must be neighbours.
        placement: CorePlacement = CorePlacement::Cluster;
        /// What cores of the `data` axis hold a part each of. `shard_optimizer`: the optimizer's state
        /// (ZeRO stage 1). `shard_grad_op`: also gradients (stage 2). `full_shard`: also parameters
        /// (stage 3), of which each layer's are gathered when it computes, and again in the backward
        /// pass. Parameters of fewer than 16,384 elements, such as biases and norms, stay whole on
        /// every core. `shard_grad_op` and `full_shard` work with every optimizer but `adafactor`.
        fsdp: Fsdp = Fsdp::No;
        /// Keep each part of the optimizer's state on one core of the `data` axis
        /// instead of on all of them: `fsdp: shard_optimizer`.
        shard_optimizer_state: bool = false;
        /// Keep in the host's memory, until a program needs it: `optimizer`, the optimizer's state
        /// between updates, which then run in parts; `activations`, the inputs that the stages of a
        /// pipeline keep for backward passes. Results do not depend on it, up to rounding.
        offload: Offload = Offload::default();
        /// With `offload: activations`, the number of passes of a stage between the time at which an
        /// input is back on the core and its backward pass. Inputs that are read sooner stay.
        activation_loading_horizon: u32 = LOADING_HORIZON, in 1.0..=65536.0;
    }
}

impl Parallel {
    /// What cores of the `data` axis share, by either key.
    pub fn sharding(&self) -> Fsdp {
        match self.fsdp {
            Fsdp::No if self.shard_optimizer_state => Fsdp::ShardOptimizer,
            fsdp => fsdp,
        }
    }
}

spelled! {
    /// What the cores of the `data` axis share, under PyTorch's names where it has one.
    pub enum Fsdp {
        /// Nothing.
        No = "no",
        /// The optimizer's state (ZeRO stage 1).
        ShardOptimizer = "shard_optimizer",
        /// Also the gradients (stage 2): each batch's are scattered, which saves memory where a step
        /// has several batches.
        ShardGradOp = "shard_grad_op" | "shard_grad_op auto_wrap",
        /// Also the parameters (stage 3). Each layer's are gathered before it computes, and again in
        /// the backward pass.
        FullShard = "full_shard" | "full_shard auto_wrap",
    }
}

impl Fsdp {
    /// Whether each core keeps only its shard of gradients.
    pub fn shards_gradients(self) -> bool {
        matches!(self, Fsdp::ShardGradOp | Fsdp::FullShard)
    }

    /// Whether each core keeps only its shard of parameters.
    pub fn shards_parameters(self) -> bool {
        self == Fsdp::FullShard
    }
}

spelled! {
    /// The order of the axes over a job's cores on a host, the slowest first.
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
