//! `traind-runner plan`: the memory, the disk space and the meshes of a job. Sizes are in bytes, and those of memory
//! are for one core.

use serde::{Deserialize, Serialize};

use crate::schema::JobFile;

/// The answer to a request for a plan.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlanAnswer {
    /// The plan.
    Plan(Box<Plan>),
    /// The job cannot be planned as it is.
    Violations(Vec<PlanViolation>),
}

/// A key of the job file that the model's config rules out.
#[derive(Debug, Serialize, Deserialize)]
pub struct PlanViolation {
    /// The path of the key.
    pub field: String,
    /// The reason, and the way out.
    pub description: String,
}

/// A warning about the programs of a job, which it can run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanWarning {
    /// Machine-readable, in upper snake case.
    pub code: String,
    /// The text that is displayed.
    pub message: String,
}

/// The plan of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// `model_type` of the model's config.
    pub model_type: String,
    /// The elements of all parameters.
    pub parameters: u64,
    /// The rows of a batch on one core.
    pub rows: u32,
    /// The largest number of tokens in a row.
    pub positions: u64,
    /// The memory that training takes.
    #[serde(flatten)]
    pub memory: CoreMemory,
    /// The memory of a core that the request names, if any.
    #[serde(default)]
    pub bytes_per_core_max: Option<u64>,
    /// A checkpoint.
    pub checkpoint_bytes: u64,
    /// The output folder without checkpoints.
    pub output_bytes: u64,
    /// The output folder with as many checkpoints as exist at one time.
    pub disk_bytes: u64,
    /// The trained parameters by their settings, where a job has groups of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parameter_groups: Vec<PlannedGroup>,
    /// Present where the job does not fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub misfit: Option<Misfit>,
    /// The meshes that a search found, the best first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub meshes: Vec<MeshPlan>,
    /// The job on the first mesh, where the job lets the planner choose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<Box<JobFile>>,
    /// The processor as a search on CPU cores measured it, for later searches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processor: Option<Processor>,
    /// The effects of the parallel settings, if the request asks for them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parallelism: Option<Parallelism>,
    /// How a search predicted the exchange between hosts with CPU cores; empty without one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub network: String,
    /// Warnings about the job's programs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<PlanWarning>,
}

/// The memory of a core while the job trains.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoreMemory {
    /// Parameters, and those of a frozen reference.
    pub weights_bytes: u64,
    /// The part of the weights that a frozen reference has for itself.
    #[serde(default)]
    pub reference_bytes: u64,
    /// Gradients, or their sums over the batches of a step.
    pub gradients_bytes: u64,
    /// The optimizer's state.
    pub optimizer_bytes: u64,
    /// All other values of the largest program.
    pub activations_bytes: u64,
    /// The sum.
    pub bytes_per_core: u64,
    /// The host's memory for a core, of the stage that keeps the most there.
    #[serde(default)]
    pub host_bytes: u64,
}

impl CoreMemory {
    /// Returns whether a core of `bytes_max` has it; every core does where that is unknown.
    pub fn fits(&self, bytes_max: Option<u64>) -> bool {
        bytes_max.is_none_or(|most| self.bytes_per_core <= most)
    }
}

/// Trained parameters that are updated alike.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlannedGroup {
    /// The group's pattern; empty for parameters without a group.
    #[serde(rename = "match")]
    pub pattern: String,
    /// The number of its tensors.
    pub tensors: u64,
    /// The elements of these.
    pub parameters: u64,
    /// The highest learning rate.
    pub learning_rate: f64,
    /// The decay of its weights.
    pub weight_decay: f64,
    /// The name of its optimizer.
    pub optim: String,
}

/// The way out for a job that does not fit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Misfit {
    /// The changes that together make the job fit; none if none were found.
    pub changes: Vec<Change>,
    /// These and other ways, each by itself, in words and with its costs.
    #[serde(default)]
    pub remedies: Vec<String>,
}

impl Misfit {
    /// "it fits with a.b: 1, or with c.d: 2".
    pub fn advice(&self) -> String {
        let words = |it: &Change| format!("{}: {}", it.field, it.value);
        let remedies = match self.remedies.is_empty() {
            true => self.changes.iter().map(words).collect::<Vec<_>>().join(", "),
            false => self.remedies.join(", or with "),
        };
        match remedies.is_empty() {
            true => "no change and no mesh of its cores was found with which it fits".to_owned(),
            false => format!("it fits with {remedies}"),
        }
    }
}

/// A key of the job file and its new value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// The path of the key.
    pub field: String,
    /// The value as the job file spells it.
    pub value: String,
}

/// A mesh with what the job takes on it. Times are seconds of one step, and bytes those of one core.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeshPlan {
    /// Cores that see different rows.
    pub data: u32,
    /// Cores that share each layer.
    pub tensor: u32,
    /// Stages.
    pub pipeline: u32,
    /// Parts of the model on each stage.
    pub pipeline_interleave: u32,
    /// The micro-batches of each batch.
    pub microbatches: u32,
    /// Whether cores that share layers divide positions.
    pub sequence_parallel: bool,
    /// The state that cores shard.
    pub fsdp: String,
    /// Whether layers are computed again for the backward pass.
    pub gradient_checkpointing: bool,
    /// The rows of a core's batch.
    pub per_device_train_batch_size: u32,
    /// The batches of a step.
    pub gradient_accumulation_steps: u32,
    /// The memory of a core.
    #[serde(flatten)]
    pub memory: CoreMemory,
    /// Whether a compiler laid the memory out, instead of an estimate.
    pub compiled: bool,
    /// Whether a core has that memory.
    pub fits: bool,
    /// The bytes sent to other cores of the `data` axis.
    pub data_axis_bytes: u64,
    /// The bytes sent to other cores of the `tensor` axis.
    pub tensor_axis_bytes: u64,
    /// The bytes sent to other stages.
    pub pipeline_axis_bytes: u64,
    /// The time that cores compute.
    pub compute_seconds: f64,
    /// The time that cores exchange values and compute nothing.
    pub communication_seconds: f64,
    /// The time until a stage's first micro-batch, and after its last one.
    pub idle_seconds: f64,
    /// The time of a whole step.
    pub step_seconds: f64,
    /// The rows of all cores in a second.
    pub rows_per_second: f64,
    /// The hours of all steps; 0 where their number is not known.
    pub hours: f64,
    /// The price of these hours; 0 without a price.
    pub price: f64,
}

/// The effects of a job's parallel settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parallelism {
    /// The settings with their effects.
    pub effects: Vec<Effect>,
    /// The places of cores in the mesh, host by host.
    pub places: Vec<Place>,
    /// The order of passes on the first stages.
    pub stages: Vec<StagePasses>,
}

/// A setting and its effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Effect {
    /// The keys of the job file with their values.
    pub setting: String,
    /// The effect in words.
    pub effect: String,
    /// The effect on memory.
    #[serde(flatten)]
    pub saved: SavedBytes,
}

/// The memory of a core without a setting, less that with it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedBytes {
    /// All memory.
    pub saved_bytes: i64,
    /// The part for parameters.
    pub saved_weights_bytes: i64,
    /// The part for gradients.
    pub saved_gradients_bytes: i64,
    /// The part for the optimizer's state.
    pub saved_optimizer_bytes: i64,
    /// The part for all other values.
    pub saved_activations_bytes: i64,
    /// The change of the host's memory for a core.
    pub host_bytes: i64,
}

/// The place of a core in the mesh.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The number of the host.
    pub host: u32,
    /// The number of the core on its host.
    pub core: u32,
    /// The place among the cores that see different rows.
    pub data: u32,
    /// The stage.
    pub pipeline: u32,
    /// The place among the cores that share layers.
    pub tensor: u32,
}

/// The passes of a pipeline stage in one batch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StagePasses {
    /// `F0` is the forward pass of micro-batch 0, `B0` its backward pass; with several parts of the model on a
    /// stage, `F0.1` is that through the second part.
    pub passes: Vec<String>,
}

/// The speed of a host's processor.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Processor {
    /// FLOP/s of each thread in products of matrices while the others do the same.
    pub flops: f64,
    /// Bytes a second that each thread reads and writes in copies while the others do the same.
    pub memory: f64,
    /// The threads that run at one time.
    pub threads: usize,
}

/// The cost of exchanging data by MPI, without the network.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MpiCost {
    /// Seconds of a reduction of one number.
    pub latency_seconds: f64,
    /// Bytes that a process sends in a second.
    pub bytes_per_second: f64,
}
