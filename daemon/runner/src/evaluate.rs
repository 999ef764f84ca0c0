//! Evaluates a split on all cores and gathers the results in dataset order.

use std::time::Instant;

use traind_loader::{
    Buckets, Collator, GatherInOrder, Labels, Prefetched, Prefetcher, Sampler, SamplerConfig,
    SamplingStrategy,
};
use traind_proto::v1::event::Kind;
use traind_proto::v1::{Evaluated, Phase};
use traind_xla::runtime::Fetched;

use crate::context::Context;
use crate::data::Split;
use crate::eval_step::{LOGITS, LOSS_SUM, WEIGHT_SUM};
use crate::failure::{RunError, RunResult};
use crate::metrics::{ConfusionMatrix, Metrics, argmax};
use crate::session::{Program, Session, UploadedStep};

/// Padded lengths of an evaluation, which has fewer steps than training to save padding in.
const LENGTHS_MAX: usize = 8;

/// A split with its plan: rows of like length together, since results are put
/// back into dataset order anyhow.
#[derive(Debug)]
pub(crate) struct Evaluator {
    split: Split,
    sampler: Sampler,
    pad_token_id: u32,
    classes: usize,
}

/// Logits of every row, in dataset order, and the metrics they give.
#[derive(Clone, Debug)]
pub(crate) struct Evaluation {
    /// By the Trainer's names, such as `eval_accuracy`.
    pub metrics: Metrics,
    pub logits: Vec<Vec<f32>>,
}

impl Evaluator {
    pub(crate) fn new(
        split: Split,
        buckets: Buckets,
        rows_per_core: usize,
        cores: usize,
        pad_token_id: u32,
        classes: usize,
    ) -> RunResult<Evaluator> {
        let config = SamplerConfig {
            batch_per_core: rows_per_core,
            cores,
            seed: 0,
            strategy: SamplingStrategy::GroupByLength,
            drop_last: false,
        };
        let sampler = Sampler::new(config, split.set.lengths(), buckets)?.fitted(LENGTHS_MAX)?;
        Ok(Evaluator { split, sampler, pad_token_id, classes })
    }

    /// Every padded length of the evaluation, ascending.
    pub(crate) fn lengths(&self) -> Vec<u32> {
        self.sampler.shapes(self.sampler.steps_per_epoch() as u64)
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
        let mut sums = Sums::new(self.split.set.len());
        let steps = self.sampler.run(0, self.sampler.steps_per_epoch() as u64);
        let collator = Collator::new(self.split.set.clone(), self.pad_token_id);
        for uploaded in Prefetcher::spawn(steps, collator, session.eval_upload())? {
            let Prefetched { step, .. } = uploaded?;
            let pending = session.run(context, Program::Evaluate, &step)?;
            let fetched = pending.fetch();
            context.activity.completed();
            sums.add(&step, &fetched?, self.classes)?;
        }
        let loss = sums.loss_sum / sums.weight_sum;
        let logits = sums.logits.finish()?;
        let seconds = start.elapsed().as_secs_f64();
        let metrics = self.metrics(loss, &logits, seconds, prefix);
        context.journal.record(Kind::Evaluated(Evaluated {
            split: self.split.name.to_owned(),
            step,
            epoch,
            metrics: metrics.clone().into_iter().collect(),
            rows: self.split.set.len() as u64,
            seconds,
        }))?;
        Ok(Evaluation { metrics, logits })
    }

    /// The metrics that an evaluation gives, with values of no meaning.
    pub(crate) fn metric_names(&self, prefix: &str) -> Metrics {
        let logits = vec![vec![0.0; self.classes]; self.split.set.len()];
        self.metrics(0.0, &logits, 1.0, prefix)
    }

    fn metrics(&self, loss: f64, logits: &[Vec<f32>], seconds: f64, prefix: &str) -> Metrics {
        let mut metrics = match self.split.set.labels() {
            Labels::Class(labels) => self.classification(labels, logits),
            Labels::Number(labels) => regression(labels, logits),
            // Other tasks bring metrics of their own.
            _ => Metrics::new(),
        };
        let (rows, steps) = (logits.len() as f64, self.sampler.steps_per_epoch() as f64);
        metrics.insert("loss".to_owned(), loss);
        metrics.insert("runtime".to_owned(), seconds);
        metrics.insert("samples_per_second".to_owned(), rows / seconds);
        metrics.insert("steps_per_second".to_owned(), steps / seconds);
        metrics.into_iter().map(|(name, value)| (format!("{prefix}_{name}"), value)).collect()
    }

    fn classification(&self, labels: &[i32], logits: &[Vec<f32>]) -> Metrics {
        let mut matrix = ConfusionMatrix::new(self.classes);
        for (&label, logits) in labels.iter().zip(logits) {
            matrix.add(label as usize, argmax(logits));
        }
        matrix.metrics()
    }
}

/// Mean squared error of one number a row.
fn regression(labels: &[f32], logits: &[Vec<f32>]) -> Metrics {
    let squares = labels.iter().zip(logits).map(|(&label, logits)| {
        let difference = f64::from(logits[0]) - f64::from(label);
        difference * difference
    });
    Metrics::from([("mse".to_owned(), squares.sum::<f64>() / labels.len() as f64)])
}

/// What the cores have computed so far.
struct Sums {
    logits: GatherInOrder<Vec<f32>>,
    loss_sum: f64,
    weight_sum: f64,
}

impl Sums {
    fn new(rows: usize) -> Sums {
        Sums { logits: GatherInOrder::new(rows), loss_sum: 0.0, weight_sum: 0.0 }
    }

    fn add(&mut self, step: &UploadedStep, fetched: &Fetched, classes: usize) -> RunResult<()> {
        let plan = &step.host.scheduled.plan;
        for (core, logits) in fetched.per_core(LOGITS)?.iter().enumerate() {
            let logits = logits.to_f32()?;
            self.logits.place(plan, core, logits.chunks(classes).map(<[f32]>::to_vec))?;
        }
        for core in 0..plan.cores {
            self.loss_sum += f64::from(fetched.per_core(LOSS_SUM)?[core].to_f32()?[0]);
            self.weight_sum += f64::from(fetched.per_core(WEIGHT_SUM)?[core].to_f32()?[0]);
        }
        Ok(())
    }
}

impl From<traind_loader::PrefetchError<RunError>> for RunError {
    fn from(error: traind_loader::PrefetchError<RunError>) -> RunError {
        match error {
            traind_loader::PrefetchError::Transfer(error) => error,
            other => RunError::Prefetch(other.to_string()),
        }
    }
}
