//! The request for a plan.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::plan::{MpiCost, Processor};
use crate::schema::JobFile;

/// A request for a plan of a job.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PlanRequest {
    /// The job, resolved.
    pub job: JobFile,
    /// The memory of a core; every job fits without it.
    #[serde(default)]
    pub bytes_per_core_max: Option<u64>,
    /// Whether a model's config may be fetched from the hub.
    #[serde(default)]
    pub may_fetch: bool,
    /// The kind of NeuronCores that the job's programs are for; empty for the first one in the table of devices.
    #[serde(default)]
    pub device: String,
    /// The number of instructions to which the flags of Neuron's compiler set its limit, if they do.
    #[serde(default)]
    pub instructions_max: Option<u64>,
    /// Whether the plan has the effects of the parallel settings.
    #[serde(default)]
    pub with_effects: bool,
    /// Plans the job for other machines, or compares all meshes.
    #[serde(default)]
    pub search: Option<MeshSearch>,
}

/// The machines that meshes are compared for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MeshSearch {
    /// A device of the planner's table; empty for the platform's first one.
    #[serde(default)]
    pub device: String,
    /// Whether the job's own mesh alone is planned for the machines, in place of all that its cores can form.
    #[serde(default)]
    pub own_mesh: bool,
    /// The version of Neuron's runtime that programs are for, such as `2.34`; empty for this host's.
    #[serde(default)]
    pub neuron_runtime: String,
    /// Whether numbers of NeuronCores are compared for which AWS documents no collectives: powers of two.
    #[serde(default)]
    pub any_core_count: bool,
    /// The hosts that divide the job's cores evenly, unless the job has several itself.
    pub hosts: u32,
    /// Whether to compare meshes whose layers are divided over hosts too, and whose stages send from device to device,
    /// which no job can do.
    #[serde(default)]
    pub across_hosts: bool,
    /// The price of all hosts together.
    #[serde(default)]
    pub price_per_hour: f64,
    /// The rows of the training data; 0 where unknown.
    #[serde(default)]
    pub rows: u64,
    /// The processor as an earlier search measured it.
    #[serde(default)]
    pub processor: Option<Processor>,
    /// The cost of MPI between processes of this host, if it was measured.
    #[serde(default)]
    pub mpi: Option<MpiCost>,
    /// The reason why it was not; empty if nobody tried.
    #[serde(default)]
    pub mpi_problem: String,
    /// The plugin of GPUs that this host need not have, which then compiles for the fastest meshes.
    #[serde(default)]
    pub plugin: Option<PathBuf>,
}
