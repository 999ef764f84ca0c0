//! Evaluates a split on all cores and gathers the results in dataset order.
//!
//! Imports `session`, `data`, `tasks`, `metrics`, `step`, `control` and `error`.

mod outputs;

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use traind_job_file::JobFile;
use traind_loader::{
    Buckets, Collator, Prefetched, Prefetcher, Sampler, SamplerConfig, SamplingStrategy,
};
use traind_proto::v1::event::Kind;
use traind_proto::v1::{Evaluated, Phase};

use outputs::Gathering;
pub(crate) use outputs::Outputs;

use crate::control::Context;
use crate::data::{Split, lengths};
use crate::error::{RunError, RunResult};
use crate::metrics::Metrics;
use crate::session::{Program, ProgramShape, Session};
use crate::tasks::{JobTask, Scored};

/// Padded lengths of an evaluation, which has fewer steps than training to save padding in.
const LENGTHS_MAX: usize = 8;

/// A split with its plan. Results are put back into dataset order.
pub(crate) struct Evaluator {
    split: Split,
    task: Arc<dyn JobTask>,
    /// The names of the classes.
    labels: Vec<String>,
    sampler: Sampler,
    collator: Collator,
    /// `prediction_loss_only`.
    loss_only: bool,
}

/// What the cores computed of a split, and the metrics that follow.
#[derive(Clone, Debug)]
pub(crate) struct Evaluation {
    /// By the Trainer's names, such as `eval_accuracy`.
    pub metrics: Metrics,
    pub outputs: Outputs,
}

/// How an evaluator's rows are batched.
#[derive(Clone, Debug)]
pub(crate) struct Batching {
    pub buckets: Buckets,
    pub rows_per_core: usize,
    /// Shares of a batch.
    pub data_shards: usize,
    /// Whether batches hold rows in dataset order, as the Trainer's do; else those of like length
    /// are together.
    pub in_order: bool,
}

impl Batching {
    fn strategy(&self) -> SamplingStrategy {
        match self.in_order {
            true => SamplingStrategy::Sequential,
            false => SamplingStrategy::GroupByLength,
        }
    }
}

impl Evaluator {
    pub(crate) fn new(
        job: &JobFile,
        split: Split,
        task: Arc<dyn JobTask>,
        labels: Vec<String>,
        batching: Batching,
        collator: Collator,
    ) -> RunResult<Evaluator> {
        let config = SamplerConfig {
            batch_per_core: batching.rows_per_core,
            cores: batching.data_shards,
            seed: 0,
            strategy: batching.strategy(),
            drop_last: false,
        };
        let sampler = Sampler::new(config, split.set.lengths(), batching.buckets)?;
        let sampler = lengths::fitted(job, sampler, LENGTHS_MAX)?;
        let loss_only = job.train.prediction_loss_only;
        Ok(Evaluator { split, task, labels, sampler, collator, loss_only })
    }

    /// Every program of the evaluation, by ascending length.
    pub(crate) fn programs(&self, rows: usize) -> impl Iterator<Item = ProgramShape> + use<> {
        let program = self.program();
        let lengths = self.sampler.shapes(self.sampler.batches_per_epoch() as u64).into_iter();
        lengths.map(move |length| ProgramShape { program, rows, positions: length as usize })
    }

    /// The program that it runs.
    fn program(&self) -> Program {
        if self.split.labelled { Program::Evaluate } else { Program::Predict }
    }

    /// `prefix` goes before each metric's name, as in the Trainer.
    pub(crate) fn run(
        &self,
        context: &Context,
        session: &mut Session,
        prefix: &str,
        step: u64,
        epoch: f64,
    ) -> RunResult<Evaluation> {
        let start = Instant::now();
        context.activity.enter(Phase::Evaluate);
        let outputs = self.outputs(context, session)?;
        let seconds = start.elapsed().as_secs_f64();
        let metrics = self.metrics(&outputs, seconds, prefix)?;
        context.journal.record(Kind::Evaluated(Evaluated {
            split: self.split.name.to_owned(),
            step,
            epoch,
            metrics: metrics.clone().into_iter().collect(),
            rows: self.split.set.len() as u64,
            seconds,
        }))?;
        Ok(Evaluation { metrics, outputs })
    }

    fn outputs(&self, context: &Context, session: &mut Session) -> RunResult<Outputs> {
        let readout = self.task.readout();
        let mut gathering = Gathering::new(readout, self.split.labelled, self.split.set.len());
        let batches = self.sampler.run(0, self.sampler.batches_per_epoch() as u64);
        let upload = session.eval_upload(self.program());
        for uploaded in Prefetcher::spawn(batches, self.collator.clone(), upload)? {
            let Prefetched { batch, .. } = uploaded?;
            let pending = session.run(context, self.program(), &batch)?;
            let fetched = pending.fetch();
            context.activity.completed();
            gathering.add(session.device.cores(), &batch, &fetched?)?;
        }
        gathering.finish()
    }

    /// The metrics that an evaluation gives, with values of no meaning.
    pub(crate) fn metric_names(&self, prefix: &str) -> Metrics {
        let mut metrics = match self.loss_only {
            true => Metrics::new(),
            false => self.task.metric_names(self.labels.len()),
        };
        metrics.insert("loss".to_owned(), 0.0);
        self.prefixed(metrics, 1.0, prefix)
    }

    fn metrics(&self, outputs: &Outputs, seconds: f64, prefix: &str) -> RunResult<Metrics> {
        let mut metrics = match self.split.labelled && !self.loss_only {
            true => self.task.metrics(&self.scored(outputs))?,
            false => Metrics::new(),
        };
        if let Some(loss) = outputs.loss() {
            metrics.insert("loss".to_owned(), loss);
        }
        Ok(self.prefixed(metrics, seconds, prefix))
    }

    /// The metrics with the Trainer's figures of speed, under the prefix.
    fn prefixed(&self, mut metrics: Metrics, seconds: f64, prefix: &str) -> Metrics {
        let (rows, steps) = (self.split.set.len() as f64, self.sampler.batches_per_epoch() as f64);
        metrics.insert("runtime".to_owned(), seconds);
        metrics.insert("samples_per_second".to_owned(), rows / seconds);
        metrics.insert("steps_per_second".to_owned(), steps / seconds);
        metrics.into_iter().map(|(name, value)| (format!("{prefix}_{name}"), value)).collect()
    }

    /// Writes what is worth keeping of an evaluation besides its metrics.
    pub(crate) fn write_report(&self, folder: &Path, evaluation: &Evaluation) -> RunResult<()> {
        self.task.write_report(folder, &self.scored(&evaluation.outputs))
    }

    /// Writes `predictions.parquet`.
    pub(crate) fn write_predictions(
        &self,
        folder: &Path,
        evaluation: &Evaluation,
    ) -> RunResult<()> {
        self.task.predictions(&self.scored(&evaluation.outputs))?.write(folder)
    }

    fn scored<'a>(&'a self, outputs: &'a Outputs) -> Scored<'a> {
        Scored { split: &self.split, labels: &self.labels, outputs }
    }
}

impl From<traind_loader::PrefetchError<RunError>> for RunError {
    fn from(error: traind_loader::PrefetchError<RunError>) -> RunError {
        match error {
            traind_loader::PrefetchError::Transfer(error) => error,
            traind_loader::PrefetchError::Collate(error) => error.into(),
            other => RunError::Prefetch(other.to_string()),
        }
    }
}
