//! `trainer_state.json` with the Trainer's field names, which its tools can read.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// One entry of `log_history`: `loss`, `grad_norm`, `learning_rate`, `epoch` and `step` of a training
/// log, or `eval_*` metrics with `epoch` and `step`.
pub(crate) type LogEntry = BTreeMap<String, Value>;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct TrainerState {
    pub best_global_step: Option<u64>,
    pub best_metric: Option<f64>,
    pub best_model_checkpoint: Option<String>,
    pub epoch: f64,
    #[serde(deserialize_with = "whole")]
    pub eval_steps: u64,
    pub global_step: u64,
    pub is_hyper_param_search: bool,
    pub is_local_process_zero: bool,
    pub is_world_process_zero: bool,
    pub log_history: Vec<LogEntry>,
    #[serde(deserialize_with = "whole")]
    pub logging_steps: u64,
    pub max_steps: u64,
    pub num_input_tokens_seen: u64,
    pub num_train_epochs: u64,
    #[serde(deserialize_with = "whole")]
    pub save_steps: u64,
    pub stateful_callbacks: BTreeMap<String, Value>,
    pub total_flos: f64,
    /// Rows of a step over all cores, over the number of cores.
    pub train_batch_size: u64,
    pub trial_name: Option<String>,
    pub trial_params: Option<Value>,
}

/// Reads a count of steps, which checkpoints of older versions write with a fraction.
fn whole<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    Ok(f64::deserialize(deserializer)? as u64)
}
