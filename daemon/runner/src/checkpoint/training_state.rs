//! `training_state.json`: the state that transformers' files do not cover.
//!
//! Random numbers, masks and the order of rows are functions of seeds and counts, so storing the
//! counts is enough.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use traind_job_file::{JobFile, ParamGroup, Train};

use crate::progress::{Best, Plateau, Totals, Window};
use crate::state::ScaleValues;

pub(super) const TRAINING_STATE: &str = "training_state.json";
/// The stem of the file of the optimizer's slots, or of the files with the parts of hosts.
pub(super) const OPTIMIZER: &str = "optimizer";
pub(super) const TRAINER_STATE: &str = "trainer_state.json";

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct TrainingState {
    /// The steps done before.
    pub step: u64,
    pub recipe: Recipe,
    pub totals: Totals,
    /// The steps since the last log.
    pub window: Window,
    pub best: Best,
    /// The state of the schedule `reduce_lr_on_plateau`.
    #[serde(default)]
    pub plateau: Plateau,
    /// Steps by which the rows of a step lie behind its number.
    #[serde(default)]
    pub data_lag: u64,
    /// The scale of losses; `None` without `fp16`.
    pub loss_scale: Option<ScaleValues>,
}

/// The settings that determine which rows a step uses, and how.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Recipe {
    pub optim: String,
    /// The patterns of groups with an optimizer of their own, and its name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub group_optims: Vec<(String, String)>,
    pub seed: u64,
    pub data_seed: u64,
    pub train_sampling_strategy: String,
    pub dataloader_drop_last: bool,
    /// `data.mixing`, where it mixes batches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mixing: Option<String>,
    pub train_rows: u64,
    /// A hash of the training files.
    #[serde(default)]
    pub train_content: Option<String>,
    /// The rows of a step on all cores.
    pub total_train_batch_size: u64,
    /// Whether they are ordered so that cores get as many tokens each. Earlier versions left them as they were drawn.
    #[serde(default)]
    pub deals_rows: bool,
    /// The job file's section of adapters, as JSON.
    #[serde(default)]
    pub peft: Option<Value>,
    /// The reference that the job names.
    #[serde(default)]
    pub ref_model_name_or_path: Option<Value>,
}

impl Recipe {
    pub(crate) fn of(
        job: &JobFile,
        train_rows: u64,
        train_content: Option<String>,
        deals_rows: bool,
    ) -> Recipe {
        let (train, reference) = (&job.train, job.reference_model());
        Recipe {
            optim: train.optim.to_string(),
            group_optims: group_optims(train),
            seed: train.seed,
            data_seed: job.data_seed(),
            train_sampling_strategy: train.train_sampling_strategy.to_string(),
            dataloader_drop_last: train.dataloader_drop_last,
            mixing: job.mixes_batches().then(|| job.data.mixing.to_string()),
            train_rows,
            train_content,
            total_train_batch_size: job.total_train_batch_size(),
            deals_rows,
            peft: job.peft.method.and_then(|_| serde_json::to_value(&job.peft).ok()),
            ref_model_name_or_path: reference
                .and_then(|(_, model)| serde_json::to_value(model).ok()),
        }
    }

    /// Describes each setting by which a run that resumes from `stored` differs from an uninterrupted
    /// one.
    pub(super) fn differences(&self, stored: &Recipe) -> Vec<String> {
        let pairs = [
            ("train.seed", self.seed.to_string(), stored.seed.to_string()),
            ("train.data_seed", self.data_seed.to_string(), stored.data_seed.to_string()),
            (
                "train.train_sampling_strategy",
                self.train_sampling_strategy.clone(),
                stored.train_sampling_strategy.clone(),
            ),
            (
                "train.dataloader_drop_last",
                self.dataloader_drop_last.to_string(),
                stored.dataloader_drop_last.to_string(),
            ),
            (
                "data.mixing",
                self.mixing.clone().unwrap_or_default(),
                stored.mixing.clone().unwrap_or_default(),
            ),
            ("training rows", self.train_rows.to_string(), stored.train_rows.to_string()),
            (
                "content of the training data",
                short_hash(self.train_content.as_ref()),
                // Checkpoints of earlier versions do not have it.
                short_hash(stored.train_content.as_ref().or(self.train_content.as_ref())),
            ),
            (
                "rows a step",
                self.total_train_batch_size.to_string(),
                stored.total_train_batch_size.to_string(),
            ),
            ("peft", shown(self.peft.as_ref()), shown(stored.peft.as_ref())),
            (
                "ref_model_name_or_path",
                shown(self.ref_model_name_or_path.as_ref()),
                shown(stored.ref_model_name_or_path.as_ref()),
            ),
        ];
        let differ = pairs.into_iter().filter(|(_, now, then)| now != then);
        differ.map(|(what, now, then)| format!("{what}: {now}, was {then}")).collect()
    }
}

fn group_optims(train: &Train) -> Vec<(String, String)> {
    let optim = |group: &ParamGroup| Some((group.pattern.clone(), group.optim?.to_string()));
    train.param_groups.iter().filter_map(optim).collect()
}

/// Returns enough of a hash to distinguish it.
fn short_hash(hash: Option<&String>) -> String {
    hash.map_or_else(|| "unknown".to_owned(), |hash| hash.chars().take(12).collect())
}

fn shown(value: Option<&Value>) -> String {
    value.map_or_else(|| "none".to_owned(), Value::to_string)
}
