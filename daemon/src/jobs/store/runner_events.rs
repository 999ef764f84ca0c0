//! Events of a job's runner. They may be words of the job's user, so what a job keeps of them is bounded.

use std::collections::BTreeMap;

use prost::Message;
use rusqlite::params;
use traind_proto::v1::{self, event::Kind};

use super::StoreError;
use super::write::Draft;
use crate::clock;
use crate::jobs::limits::{TEXT_BYTES_MAX, clip, limit_failure};
use crate::jobs::state::{JobState, Transition};

/// The most metrics of a job, and the longest name of one. A runner's events may be its user's words.
const METRICS_MAX: usize = 1000;
const METRIC_NAME_BYTES_MAX: usize = 256;
const METRIC_NAMES_BYTES_MAX: usize = 64 << 10;

/// The most metrics of a step that a job shows as its progress.
const STEP_METRICS_MAX: usize = 100;

/// The most splits of a job whose statistics are kept.
const SPLITS_MAX: usize = 100;

/// How much of a runner's event log is kept as the job's history: more than a million steps.
pub(super) const HISTORY_BYTES_MAX: u64 = 256 << 20;

const HISTORY_FULL: &str = "HISTORY_FULL";

impl Draft<'_> {
    /// Applies events of the runner, of whose log everything up to `log_offset` was read.
    pub(super) fn record_all(
        &mut self,
        events: Vec<v1::Event>,
        log_offset: u64,
    ) -> Result<(), StoreError> {
        let was_full = self.is_history_full();
        self.job.log_offset = log_offset;
        events.into_iter().try_for_each(|event| self.record(event))?;
        if self.is_history_full() && !was_full { self.note_full_history() } else { Ok(()) }
    }

    /// Applies an event of the runner to the job, and stores it.
    fn record(&mut self, event: v1::Event) -> Result<(), StoreError> {
        let started = matches!(event.kind, Some(Kind::Started(_)));
        match &event.kind {
            Some(Kind::Started(_)) => {
                // A cluster may start the runners of an attempt again.
                self.job.finished = None;
                self.job.start_time.get_or_insert_with(clock::now);
                self.job.launch_retries = 0;
            }
            // Progress was made, so earlier failures of the host no longer count.
            Some(Kind::Saved(_)) => self.job.host_retries = 0,
            Some(Kind::DataPrepared(prepared)) => self.store_split(prepared)?,
            Some(Kind::Step(step)) => {
                let mut step = step.clone();
                limit(&mut step.metrics, STEP_METRICS_MAX);
                self.job.progress = Some(step);
            }
            Some(Kind::Evaluated(evaluated)) => self.merge_metrics(&evaluated.metrics),
            Some(Kind::Finished(finished)) => {
                self.merge_metrics(&finished.metrics);
                if finished.failure.is_none() {
                    self.job.progress = last_progress(self.job.progress.take(), finished);
                }
                let failure = finished.failure.as_ref();
                if let Some(host) = failure.and_then(|failure| failure.host.as_deref()) {
                    self.job.blame_host(host);
                }
                // The daemon's own sum is greater, unless the store was rebuilt.
                let known = [self.job.energy_joules, finished.energy_joules].into_iter().flatten();
                self.job.energy_joules = known.reduce(f64::max);
                self.job.finished = Some(limited(finished.clone()));
            }
            _ => {}
        }
        if !self.is_history_full() {
            self.store(event)?;
        }
        match self.job.state {
            JobState::Starting if started => self.apply(Transition::Report, ""),
            _ => Ok(()),
        }
    }

    /// Whether no more events of the runner are kept. They still change the job.
    fn is_history_full(&self) -> bool {
        self.job.log_offset > HISTORY_BYTES_MAX
    }

    fn note_full_history(&mut self) -> Result<(), StoreError> {
        let bytes = HISTORY_BYTES_MAX >> 20;
        let message = format!("the job's history is full: no events are kept after {bytes} MiB");
        let code = HISTORY_FULL.to_owned();
        self.append(Kind::Warning(v1::Warning { code, message }))
    }

    /// Stores statistics of a split. They have their own table, since with many classes they are too
    /// large to rewrite with the job at each step.
    fn store_split(&self, prepared: &v1::DataPrepared) -> Result<(), StoreError> {
        let sql = "INSERT INTO splits (job, split, prepared) SELECT ?1, ?2, ?3
                   WHERE (SELECT count(*) FROM splits WHERE job = ?1) < ?4
                   ON CONFLICT (job, split) DO UPDATE SET prepared = excluded.prepared";
        let (number, bytes) = (self.job.number, prepared.encode_to_vec());
        let values = params![number, prepared.split, bytes, SPLITS_MAX];
        let insert = || self.connection.prepare_cached(sql)?.execute(values);
        insert().map(drop).map_err(StoreError::sqlite("store statistics of a split"))
    }

    fn merge_metrics<'m>(&mut self, metrics: impl IntoIterator<Item = (&'m String, &'m f64)>) {
        // JSON has neither NaN nor infinity; the event keeps them.
        let finite = metrics.into_iter().filter(|(_, value)| value.is_finite());
        for (name, value) in finite.filter(|(name, _)| name.len() <= METRIC_NAME_BYTES_MAX) {
            if let Some(known) = self.job.metrics.get_mut(name) {
                *known = *value;
            } else if self.job.metrics.len() < METRICS_MAX
                && self.job.metrics.keys().map(String::len).sum::<usize>() < METRIC_NAMES_BYTES_MAX
            {
                self.job.metrics.insert(name.clone(), *value);
            }
        }
    }
}

/// The progress at the end of a run. Its last step is often none that was logged, and a short run logs none at all.
fn last_progress(logged: Option<v1::Step>, finished: &v1::Finished) -> Option<v1::Step> {
    let (steps, max_steps) = (finished.steps, finished.max_steps);
    // Runs that do not train have no steps, and earlier runners reported no total.
    if max_steps == 0 || logged.as_ref().is_some_and(|step| step.step >= steps) {
        return logged;
    }
    let metric = |name| finished.metrics.get(name).copied().unwrap_or(f64::NAN);
    let unlogged = || v1::Step {
        loss: metric("train_loss"),
        learning_rate: f64::NAN,
        grad_norm: f64::NAN,
        samples_per_second: metric("train_samples_per_second"),
        tokens_per_second: f64::NAN,
        ..v1::Step::default()
    };
    let logged = logged.unwrap_or_else(unlogged);
    Some(v1::Step { step: steps, max_steps, epoch: finished.epoch, eta_seconds: 0.0, ..logged })
}

/// The last event of a runner as a job keeps it: pages of jobs have it, too.
fn limited(mut finished: v1::Finished) -> v1::Finished {
    limit(&mut finished.metrics, STEP_METRICS_MAX);
    clip(&mut finished.output_dir, TEXT_BYTES_MAX);
    finished.failure.iter_mut().for_each(limit_failure);
    finished
}

fn limit(metrics: &mut BTreeMap<String, f64>, most: usize) {
    metrics.retain(|name, _| name.len() <= METRIC_NAME_BYTES_MAX);
    while metrics.len() > most {
        metrics.pop_last();
    }
}
