//! The log of a run: averages every `logging_steps`, and the metrics of evaluations, each to the
//! journal, the places of `report_to` and `log_history`.

use serde_json::json;
use traind_job_file::InputTokens;
use traind_models::tasks::preference::Metric;
use traind_proto::v1::Step;
use traind_proto::v1::event::Kind;

use crate::error::RunResult;
use crate::metrics::Metrics;
use crate::output::{LogEntry, Reports};
use crate::progress::{Progress, Timetable};
use crate::reporting::Journal;

pub(crate) struct StepLog {
    journal: Journal,
    reports: Reports,
    timetable: Timetable,
    counted: InputTokens,
    /// The metrics of steps.
    metrics: &'static [Metric],
    /// Norm of the gradients and learning rate of the newest step, whose log an evaluation precedes.
    held: Option<(f64, f64)>,
}

impl StepLog {
    pub(crate) fn new(
        journal: Journal,
        reports: Reports,
        timetable: Timetable,
        counted: InputTokens,
        metrics: &'static [Metric],
    ) -> StepLog {
        StepLog { journal, reports, timetable, counted, metrics, held: None }
    }

    /// Keeps the log of the newest step for `write_held`.
    pub(super) fn hold(&mut self, grad_norm: f64, learning_rate: f64) {
        self.held = Some((grad_norm, learning_rate));
    }

    /// Logs the window of the step that was held, if any.
    pub(super) fn write_held(&mut self, progress: &mut Progress) -> RunResult<()> {
        match self.held.take() {
            Some((grad_norm, learning_rate)) => {
                self.write_window(progress, grad_norm, learning_rate)
            }
            None => Ok(()),
        }
    }

    /// Logs the window of steps that ends with the newest one, and begins another.
    pub(super) fn write_window(
        &mut self,
        progress: &mut Progress,
        grad_norm: f64,
        learning_rate: f64,
    ) -> RunResult<()> {
        let (step, max_steps) = (progress.steps, self.timetable.max_steps);
        let window = progress.meter.averages();
        let epoch = self.timetable.epoch(step);
        let mut entry = LogEntry::from([
            ("loss".to_owned(), json!(window.loss)),
            ("grad_norm".to_owned(), json!(grad_norm)),
            ("learning_rate".to_owned(), json!(learning_rate)),
            ("epoch".to_owned(), json!(epoch)),
            ("step".to_owned(), json!(step)),
        ]);
        let metrics: Vec<_> = Metric::values(self.metrics, &window.metrics).collect();
        entry.extend(metrics.iter().map(|(name, value)| ((*name).to_owned(), json!(value))));
        self.log(progress, entry)?;
        let values = [
            ("loss", window.loss),
            ("grad_norm", grad_norm),
            ("learning_rate", learning_rate),
            ("epoch", epoch),
            ("samples_per_second", window.samples_per_second),
            ("tokens_per_second", window.tokens_per_second),
        ];
        self.reports.write(step, "train", values.into_iter().chain(metrics.iter().copied()))?;
        self.journal.record(Kind::Step(Step {
            step,
            max_steps,
            epoch,
            loss: window.loss,
            learning_rate,
            grad_norm,
            samples_per_second: window.samples_per_second,
            tokens_per_second: window.tokens_per_second,
            input_wait_share: window.input_wait_share,
            time: Some(window.time),
            eta_seconds: (max_steps - step) as f64 * window.seconds_per_step,
            metrics: metrics.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        }))?;
        progress.meter.restart();
        Ok(())
    }

    /// Logs an evaluation after the newest step, unless it was logged before: an attempt that
    /// resumes after an evaluation repeats it for its logits.
    pub(super) fn write_evaluation(
        &mut self,
        progress: &mut Progress,
        metrics: &Metrics,
    ) -> RunResult<()> {
        if is_evaluated(progress) {
            return Ok(());
        }
        let step = progress.steps;
        let mut entry: LogEntry =
            metrics.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
        entry.insert("epoch".to_owned(), json!(self.timetable.epoch(step)));
        entry.insert("step".to_owned(), json!(step));
        self.log(progress, entry)?;
        let values = metrics.iter().map(|(name, value)| (name.trim_start_matches("eval_"), *value));
        self.reports.write(step, "eval", values)
    }

    /// Logs the end of training, with the metrics of the steps after the last window, as TRL's trainers do.
    pub(crate) fn write_summary(
        &mut self,
        progress: &mut Progress,
        mut summary: LogEntry,
    ) -> RunResult<()> {
        // An evaluation behind these steps leaves TRL's model in another mode, whose metrics are logged already.
        if !is_evaluated(progress) {
            let means = progress.meter.averages().metrics;
            let rest = Metric::values(self.metrics, &means);
            summary.extend(rest.map(|(name, value)| (name.to_owned(), json!(value))));
        }
        self.reports.log(&summary)?;
        let numbers =
            summary.iter().filter(|(name, _)| !["epoch", "step"].contains(&name.as_str()));
        let numbers = numbers.filter_map(|(name, value)| Some((name.as_str(), value.as_f64()?)));
        self.reports.write(progress.steps, "train", numbers)?;
        progress.log_history.push(summary);
        Ok(())
    }

    /// Notes in the places of `report_to` that the job has completed.
    pub(crate) fn finish(&mut self) -> RunResult<()> {
        self.reports.finish()
    }

    /// Adds an entry to `log_history`, with `num_input_tokens_seen` where the job counts tokens.
    fn log(&mut self, progress: &mut Progress, mut entry: LogEntry) -> RunResult<()> {
        if self.counted != InputTokens::No {
            let tokens = progress.totals.input_tokens(self.counted);
            entry.insert("num_input_tokens_seen".to_owned(), json!(tokens));
        }
        self.reports.log(&entry)?;
        progress.log_history.push(entry);
        Ok(())
    }
}

/// Returns whether an evaluation after the newest step is logged.
fn is_evaluated(progress: &Progress) -> bool {
    let step = json!(progress.steps);
    let mut entries = progress.log_history.iter().rev();
    entries.any(|entry| entry.contains_key("eval_loss") && entry["step"] == step)
}
