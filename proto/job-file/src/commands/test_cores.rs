//! `traind-runner test-cores`: tests idle cores by programs whose results are known.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A request to test cores, which is one line of JSON: the process ends with the pipe that it comes from.
#[derive(Debug, Serialize, Deserialize)]
pub struct TestCoresRequest {
    /// `cpu`, `cuda` or `neuron`.
    pub platform: String,
    /// The PJRT plugin.
    pub plugin: PathBuf,
    /// The host's numbers of the cores, which are all that the process sees.
    pub cores: Vec<u32>,
    /// The folder of executables, which only the daemon writes.
    pub executables: PathBuf,
}

/// The outcome of a test.
#[derive(Debug, Serialize, Deserialize)]
pub struct TestCoresAnswer {
    /// The answers of cores in the order of the request.
    pub cores: Vec<CoreAnswer>,
}

/// How a core answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CoreAnswer {
    /// The results that were wrong.
    pub problem: Option<String>,
    /// The time of a matrix product.
    pub seconds: f64,
}
