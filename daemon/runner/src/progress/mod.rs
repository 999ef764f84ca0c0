//! The progress of a run and its timetable: everything besides weights and optimizer state that a
//! later attempt needs.
//!
//! Imports `evaluation`, `output`, `metrics`, `reporting` and `error`.

mod best;
mod meter;
mod plateau;
mod timetable;

use std::path::PathBuf;
use std::time::Instant;

use serde::{Deserialize, Serialize};
use traind_job_file::{InputTokens, JobFile, SaveStrategy};

use crate::evaluation::Evaluation;
use crate::metrics::Metrics;
use crate::output::{LogEntry, TrainerState, checkpoint_folder};
use crate::reporting::StopReason;

pub(crate) use best::{Best, BestRule};
pub(crate) use meter::{Meter, Spent, StepCounts, Window};
pub(crate) use plateau::{Plateau, PlateauRule};
pub(crate) use timetable::{BatchPosition, Timetable};

#[derive(Debug)]
pub(crate) struct Progress {
    pub steps: u64,
    pub totals: Totals,
    pub meter: Meter,
    pub log_history: Vec<LogEntry>,
    pub best: Best,
    /// The state of the schedule `reduce_lr_on_plateau`.
    pub plateau: Plateau,
    /// The scale after the newest step, with `fp16`.
    pub loss_scale: Option<f32>,
    /// The newest evaluation, with the steps done before it.
    pub evaluation: Option<(u64, Evaluation)>,
    /// The folder of checkpoints, or its URL.
    pub checkpoint_dir: PathBuf,
    /// Why the run ended before its last step.
    pub stopped: Option<StopReason>,
    /// The start of this attempt's training.
    pub since: Instant,
}

/// Sums over all steps of all attempts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Totals {
    pub loss: f64,
    pub samples: u64,
    pub tokens: u64,
    /// The tokens with the padding of their batches.
    #[serde(default)]
    pub padded_tokens: u64,
    #[serde(default)]
    pub flos: f64,
    /// The wall time of training, up to the last stop of the clock.
    pub seconds: f64,
    /// Steps without an update, since their gradients were not finite (`fp16`).
    pub skipped_steps: u64,
}

impl Totals {
    /// `num_input_tokens_seen`, as the Trainer counts them.
    pub(crate) fn input_tokens(&self, counted: InputTokens) -> u64 {
        match counted {
            InputTokens::No => 0,
            InputTokens::All => self.padded_tokens,
            InputTokens::NonPadding => self.tokens,
        }
    }
}

impl Default for Progress {
    fn default() -> Progress {
        Progress {
            steps: 0,
            totals: Totals::default(),
            meter: Meter::start(),
            log_history: Vec::new(),
            best: Best::default(),
            plateau: Plateau::default(),
            loss_scale: None,
            evaluation: None,
            checkpoint_dir: PathBuf::new(),
            stopped: None,
            since: Instant::now(),
        }
    }
}

impl Progress {
    /// Starts to count the time of training.
    pub(crate) fn start_clock(&mut self) {
        self.since = Instant::now();
        self.meter.start_clock();
    }

    /// Adds the time since the start to the totals.
    pub(crate) fn stop_clock(&mut self) {
        self.totals = self.totals();
        self.since = Instant::now();
    }

    /// Adds a finished step.
    pub(crate) fn add(&mut self, step: u64, loss: f64, metrics: &[f64], counts: StepCounts) {
        self.steps = step;
        self.totals.loss += loss;
        self.totals.samples += counts.samples;
        self.totals.tokens += counts.tokens;
        self.totals.padded_tokens += counts.padded_tokens;
        self.totals.flos += counts.flos;
        self.meter.add(loss, metrics, counts);
    }

    /// Returns the sums, with the time of this attempt so far.
    pub(crate) fn totals(&self) -> Totals {
        Totals { seconds: self.totals.seconds + self.since.elapsed().as_secs_f64(), ..self.totals }
    }

    /// The metrics of the newest evaluation.
    pub(crate) fn evaluation_metrics(&self) -> Option<&Metrics> {
        self.evaluation.as_ref().map(|(_, evaluation)| &evaluation.metrics)
    }

    /// Returns the content of `trainer_state.json`.
    pub(crate) fn trainer_state(&self, job: &JobFile, timetable: &Timetable) -> TrainerState {
        let train = &job.train;
        let rule = BestRule::of(train);
        let best_folder =
            |step: u64| checkpoint_folder(&self.checkpoint_dir, step).display().to_string();
        TrainerState {
            // The Trainer's is the step of a checkpoint.
            best_global_step: self.best.step.filter(|_| train.save_strategy != SaveStrategy::No),
            best_metric: self.best.metric,
            best_model_checkpoint: self.best.checkpoint.map(best_folder),
            epoch: timetable.epoch(self.steps),
            global_step: self.steps,
            eval_steps: timetable.trainer_eval_steps(&job.train),
            is_hyper_param_search: false,
            is_local_process_zero: true,
            is_world_process_zero: true,
            log_history: self.log_history.clone(),
            logging_steps: timetable.logging_steps,
            max_steps: timetable.max_steps,
            num_input_tokens_seen: self.totals.input_tokens(train.include_num_input_tokens_seen),
            num_train_epochs: timetable.num_train_epochs,
            save_steps: job.train.save_steps.resolve(timetable.max_steps),
            stateful_callbacks: rule
                .and_then(|rule| rule.callback_state(&self.best))
                .into_iter()
                .collect(),
            total_flos: self.totals.flos,
            train_batch_size: u64::from(job.train.per_device_train_batch_size),
            trial_name: None,
            trial_params: None,
        }
    }
}
