//! Evaluates a split on all cores.
//!
//! Each of several hosts evaluates its share of every batch. The first has the results, and the others learn the
//! metrics from it.
//!
//! Imports `decoding`, `model`, `data`, `tasks`, `recipe`, `metrics`, `hosts`, `reporting` and `error`.

mod collected;
mod gathering;
mod read_back;
mod writing;

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use prost::Message;

use traind_job_file::JobFile;
use traind_loader::{
    Collator, HostBatch, LengthBudget, Padding, Prefetched, Prefetcher, Sampler, SamplerConfig,
    SamplingStrategy,
};
use traind_models::Model;
use traind_proto::v1::event::Kind;
use traind_proto::v1::{Evaluated, Phase};
use traind_wording::counted;
use traind_xla::runtime::Fetched;

use gathering::Gathering;
pub(crate) use writing::{TextWriter, check_generation};

use crate::data::Split;
use crate::data::lengths::{self, Fits, RowLadders};
use crate::data::predictions;
use crate::error::{RunError, RunResult};
use crate::hosts::Hosts;
use crate::metrics::Metrics;
use crate::reporting::{Reporter, RowsSoFar};
use crate::session::Session;
use crate::step::{Program, ProgramShape};
use crate::tasks::{JobTask, KnownRows, Outputs, Scored};

/// The channel on which the first host sends metrics.
const METRICS: &str = "metrics";

/// A split and its batches. Results are put back into dataset order.
pub(crate) struct Evaluator {
    split: Split,
    task: Arc<dyn JobTask>,
    /// The names of the classes.
    labels: Vec<String>,
    sampler: Sampler,
    collator: Collator,
    /// `prediction_loss_only`, or rows from which no metric can be computed.
    loss_only: bool,
    /// Whether rows or classes have weights in the loss.
    weighted: bool,
    /// Present where the job generates texts.
    writer: Option<TextWriter>,
    reporter: Reporter,
    hosts: Hosts,
}

/// The results of an evaluation.
#[derive(Clone, Debug)]
pub(crate) struct Evaluation {
    /// The metrics under the Trainer's names, such as `eval_accuracy`.
    pub metrics: Metrics,
    /// Empty on all hosts but the first.
    pub outputs: Outputs,
}

/// How an evaluator's rows are batched.
#[derive(Clone, Debug)]
pub(crate) struct Batching {
    pub ladders: RowLadders,
    pub rows_per_core: usize,
    /// The data shards of a batch.
    pub data_shards: usize,
    /// The number of padded lengths.
    pub budget: LengthBudget,
    pub padding: Padding,
    /// Whether batches take rows in dataset order, as the Trainer's do, rather than by length.
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

/// A split with all that turns its rows into results.
pub(crate) struct EvaluatedSplit {
    pub split: Split,
    pub task: Arc<dyn JobTask>,
    /// The names of the classes.
    pub labels: Vec<String>,
    pub collator: Collator,
}

/// The sampler with the lengths that cost least. Rows of one text are grouped by length and have little padding, but a
/// pair may have a short text beside a long one.
fn fitted(
    job: &JobFile,
    model: &Model,
    sampler: Sampler,
    split: &Split,
    batching: &Batching,
) -> RunResult<Sampler> {
    let Batching { budget, padding, .. } = *batching;
    match split.set.has_sequences() {
        true => {
            let fits = Fits { budget, to_sample: false, padding };
            lengths::fit_cheapest(job, model, sampler, fits)
        }
        false => lengths::fit(job, sampler, budget),
    }
}

impl Evaluator {
    pub(crate) fn new(
        job: &JobFile,
        model: &Model,
        evaluated: EvaluatedSplit,
        batching: &Batching,
        reporter: Reporter,
        hosts: Hosts,
    ) -> RunResult<Evaluator> {
        let EvaluatedSplit { split, task, labels, collator } = evaluated;
        let config = SamplerConfig {
            batch_per_core: batching.rows_per_core,
            cores: batching.data_shards,
            seed: 0,
            strategy: batching.strategy(),
            drop_last: false,
        };
        let sampler = lengths::sampler(config, &split.set, &batching.ladders)?;
        let sampler = fitted(job, model, sampler, &split, batching)?;
        if sampler.is_packed() {
            let name = split.name;
            reporter.journal.info(format!("{name} data: layers compute no padding"))?;
        }
        let sampler = predictions::predicting(job, sampler, &split.set)?;
        let loss_only = job.train.prediction_loss_only || !task.has_metrics(&split.set);
        let weighted = job.data.weight.is_some() || job.train.class_weights.is_some();
        let writer = None;
        Ok(Evaluator {
            split,
            task,
            labels,
            sampler,
            collator,
            loss_only,
            weighted,
            writer,
            reporter,
            hosts,
        })
    }

    /// The same evaluator, which also generates texts.
    pub(crate) fn with_writer(self, writer: Option<TextWriter>) -> Evaluator {
        Evaluator { writer, ..self }
    }

    /// The programs of the evaluation, in the order of their first use.
    pub(crate) fn programs(&self) -> Vec<ProgramShape> {
        let program = self.program();
        let uses = self.sampler.first_uses(0..self.sampler.batches_per_epoch() as u64);
        let sizes = || uses.iter().map(|(_, sizes)| *sizes);
        let mut programs: Vec<ProgramShape> = Vec::new();
        if self.computes_logits() {
            programs.extend(sizes().map(|sizes| ProgramShape::of_batch(program, sizes)));
        }
        programs.extend(self.writer.iter().flat_map(|writer| writer.programs(sizes())));
        programs
    }

    /// Whether rows pass through the model beside generation, which has no losses.
    fn computes_logits(&self) -> bool {
        self.split.labelled || self.writer.is_none()
    }

    fn program(&self) -> Program {
        if self.split.labelled { Program::Evaluate } else { Program::Predict }
    }

    /// Evaluates the model after `step` steps. Names of metrics begin with `prefix`, as in the
    /// Trainer.
    pub(crate) fn run(
        &self,
        session: &mut Session,
        prefix: &str,
        step: u64,
        epoch: f64,
    ) -> RunResult<Evaluation> {
        let (start, compile_wait) = (Instant::now(), session.compile_wait());
        self.reporter.activity.enter(Phase::Evaluate);
        let outputs = self.outputs(session)?;
        // The time of compiling is not counted, as in the Trainer.
        let compile_wait = session.compile_wait() - compile_wait;
        let seconds = (start.elapsed() - compile_wait).as_secs_f64();
        let metrics = match self.hosts.is_first() {
            true => self.metrics(&outputs, seconds, prefix)?,
            false => Metrics::new(),
        };
        let evaluated = self.agree(Evaluated {
            split: self.split.name.to_owned(),
            step,
            epoch,
            metrics: metrics.into_iter().collect(),
            rows: self.split.set.len() as u64,
            seconds,
        })?;
        let metrics = evaluated.metrics.clone().into_iter().collect();
        self.reporter.journal.record(Kind::Evaluated(evaluated))?;
        Ok(Evaluation { metrics, outputs })
    }

    /// Returns the evaluation of the first host, on whose metrics all decide.
    fn agree(&self, evaluated: Evaluated) -> RunResult<Evaluated> {
        if self.hosts.is_alone() {
            return Ok(evaluated);
        }
        let bytes = self.hosts.broadcast(METRICS, evaluated.encode_to_vec())?;
        Evaluated::decode(bytes.as_slice())
            .map_err(|error| RunError::Panicked(format!("decode the metrics of host 0: {error}")))
    }

    fn outputs(&self, session: &mut Session) -> RunResult<Outputs> {
        let mut outputs = match self.computes_logits() {
            true => self.logits(session)?,
            false => Outputs::default(),
        };
        if let Some(writer) = &self.writer {
            let (split, sampler, collator) = (&self.split, &self.sampler, &self.collator);
            let texts = writer.write(session, &self.hosts, split, sampler, collator)?;
            outputs.texts = Some(texts);
        }
        Ok(outputs)
    }

    fn logits(&self, session: &mut Session) -> RunResult<Outputs> {
        let readout = self.task.readout();
        let (share, divisor) = (self.task.batch_share(), self.task.loss_divisor());
        let labelled = self.split.labelled;
        let mut gathering = Gathering::new(readout, labelled, share, divisor, self.weighted);
        self.launch_all(session, |batch, fetched| gathering.add(batch, fetched))?;
        gathering.finish(&self.hosts, self.split.set.len())
    }

    /// Calls `place` with the logits of each row, by its number in the set, while other rows are computed. The cores
    /// are those of this host alone.
    pub(crate) fn each_row(
        &self,
        session: &mut Session,
        mut place: impl FnMut(u32, &[f32]) -> RunResult<()> + Send,
    ) -> RunResult<()> {
        let readout = self.task.readout();
        self.launch_all(session, |batch, fetched| {
            let Some(fetched) = fetched else { return Ok(()) };
            for (shard, core) in batch.cores.iter().enumerate() {
                let values = readout.rows(fetched, shard, &core.spans)?;
                let rows = batch.scheduled.plan.rows_of_core(batch.shards.start + shard);
                for (row, values) in rows.iter().zip(&values) {
                    place(*row, &values.values)?;
                }
            }
            Ok(())
        })
    }

    /// Launches all batches, and calls `read` with each and its results, which may be on another host.
    fn launch_all(
        &self,
        session: &mut Session,
        mut read: impl FnMut(&HostBatch, Option<&Fetched>) -> RunResult<()> + Send,
    ) -> RunResult<()> {
        let (mut so_far, mut done) = (RowsSoFar::new(&self.reporter.journal), 0);
        let (name, total, is_first) =
            (self.split.name, self.split.set.len(), self.hosts.is_first());
        let batches = self.sampler.run(0, self.sampler.batches_per_epoch() as u64);
        let uploader = session.eval_uploader(self.program());
        let upload = move |host| RunResult::Ok(uploader.upload(host, |_| Ok(Vec::new()))?);
        let uploaded = Prefetcher::spawn(self.collator.clone().collate_all(batches), upload)?;
        read_back::beside_launches(
            uploaded,
            |uploaded| {
                let Prefetched { batch, .. } = uploaded?;
                let launch = session.launch_evaluation(self.program(), &batch)?;
                Ok((batch.host, launch))
            },
            |(batch, launch)| {
                read(&batch, launch.fetch()?.as_ref())?;
                done += batch.scheduled.plan.rows.len();
                // The first of several hosts reports the rows of all.
                if !is_first {
                    return Ok(());
                }
                so_far.report(|| format!("{name} data: {done} of {} done", counted(total, "row")))
            },
        )
    }

    /// The names of the metrics that an evaluation gives, with arbitrary values.
    pub(crate) fn metric_names(&self, prefix: &str) -> Metrics {
        let mut metrics = match self.loss_only {
            true => Metrics::new(),
            false => self.task.metric_names(&KnownRows::of_set(&self.split.set, self.labels.len())),
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

    /// Adds the Trainer's metrics of speed and prefixes all names.
    fn prefixed(&self, mut metrics: Metrics, seconds: f64, prefix: &str) -> Metrics {
        let (rows, steps) = (self.split.set.len() as f64, self.sampler.batches_per_epoch() as f64);
        metrics.insert("runtime".to_owned(), seconds);
        metrics.insert("samples_per_second".to_owned(), rows / seconds);
        metrics.insert("steps_per_second".to_owned(), steps / seconds);
        metrics.into_iter().map(|(name, value)| (format!("{prefix}_{name}"), value)).collect()
    }

    /// Writes the task's files about an evaluation.
    pub(crate) fn write_report(&self, folder: &Path, evaluation: &Evaluation) -> RunResult<()> {
        self.task.write_report(folder, &self.scored(&evaluation.outputs))
    }

    /// Writes `predictions.parquet`, with missing values for rows that were left out since they lack a text.
    pub(crate) fn write_predictions(
        &self,
        folder: &Path,
        evaluation: &Evaluation,
    ) -> RunResult<()> {
        let predictions = self.task.predictions(&self.scored(&evaluation.outputs))?;
        match self.split.set.rows_of_files() {
            Some(rows) => predictions.at(&rows)?.write(folder),
            None => predictions.write(folder),
        }
    }

    fn scored<'a>(&'a self, outputs: &'a Outputs) -> Scored<'a> {
        let Split { set, questions, .. } = &self.split;
        Scored { set, questions, labels: &self.labels, outputs }
    }
}
