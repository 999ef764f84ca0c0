//! The part of a plan that explains the parallel settings of a job.

use serde::Deserialize;

/// The effects of a job's parallel settings.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Parallelism {
    pub effects: Vec<Effect>,
    pub places: Vec<Place>,
    pub stages: Vec<StagePasses>,
}

/// A setting and its effect. Bytes are those of a core without it, less those with it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Effect {
    pub setting: String,
    pub effect: String,
    pub saved_bytes: i64,
    pub saved_weights_bytes: i64,
    pub saved_gradients_bytes: i64,
    pub saved_optimizer_bytes: i64,
    pub saved_activations_bytes: i64,
    pub host_bytes: i64,
}

/// The place of a core in the mesh.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Place {
    pub host: u32,
    pub core: u32,
    pub data: u32,
    pub pipeline: u32,
    pub tensor: u32,
}

/// The passes of a pipeline stage.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct StagePasses {
    pub passes: Vec<String>,
}
