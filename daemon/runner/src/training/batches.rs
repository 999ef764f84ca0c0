//! The batches of the run, collated and uploaded ahead of their use.

use std::iter;
use std::sync::Arc;
use std::time::Duration;

use traind_job_file::JobFile;
use traind_loader::{ArrayValues, BatchAxis, Collator, HostBatch, Prefetched, Prefetcher};
use traind_trainer::train_loop::Update;
use traind_xla::runtime::HostArray;

use super::rows::TrainRows;
use super::updates::Updates;
use crate::data::later::Abandon;
use crate::error::{RunError, RunResult};
use crate::profile::Profiler;
use crate::progress::{BatchPosition, Plateau, StepCounts, Timetable};
use crate::session::{Session, UploadedBatch, Uploader, trainer_flos};
use crate::step::StepPrograms;

/// The weights of a batch's rows, 0 in empty slots.
const SAMPLE_WEIGHTS: &str = "sample_weights";

/// A batch that is ready to be launched.
#[derive(Debug)]
pub(crate) struct TrainBatch<B> {
    pub position: BatchPosition,
    pub counts: StepCounts,
    /// The rows of the files.
    pub source_rows: Vec<u32>,
    /// The time that decoding its images took.
    pub decoding: Duration,
    /// The update that the batch's program makes; `None` where a step has a program for it.
    pub update: Option<Update>,
    pub inputs: B,
}

/// Starts to prepare the batches of all steps but the first `done`.
pub(crate) fn prefetch(
    job: &JobFile,
    session: &Session,
    rows: TrainRows,
    timetable: &Timetable,
    done: u64,
    profiler: &Profiler,
) -> RunResult<impl Iterator<Item = RunResult<Prefetched<TrainBatch<UploadedBatch>>>> + use<>> {
    let first = timetable.batches_before(done);
    let end = timetable.batches_before(timetable.max_steps);
    let preparation = Preparation {
        timetable: timetable.clone(),
        updates: Updates::new(timetable.clone(), Arc::clone(session.optimizers())),
        programs: session.programs.step_programs(),
        uploader: session.train_uploader(),
        collator: rows.collator.clone(),
        trainer_elements: session.trainer_elements(),
        embedding_noise: job.train.neftune_noise_alpha.filter(|alpha| *alpha > 0.0),
        batches_count_alike: job.model.task.is_of_preferences(),
    };
    let uploads = profiler.clone();
    let prepare = move |host| uploads.timed("loader", "upload", || preparation.prepare(host));
    let (mut batches, abandon) = rows.collated(first..end)?;
    let collations = profiler.clone();
    let collated = iter::from_fn(move || collations.timed("loader", "collate", || batches.next()));
    let batches = Prefetcher::spawn(collated, prepare)?;
    Ok(Batches { _abandon: abandon, batches }.map(|batch| batch.map_err(RunError::from)))
}

/// Prefetched batches. The thread that prepares them may wait for rows, so when they are dropped, the wait
/// must end first.
struct Batches<T> {
    _abandon: Option<Abandon>,
    batches: T,
}

impl<T: Iterator> Iterator for Batches<T> {
    type Item = T::Item;

    fn next(&mut self) -> Option<T::Item> {
        self.batches.next()
    }
}

/// Uploads batches on the loader's thread.
struct Preparation {
    timetable: Timetable,
    updates: Updates,
    programs: StepPrograms,
    uploader: Uploader,
    collator: Collator,
    trainer_elements: usize,
    /// `neftune_noise_alpha`, if it is above 0.
    embedding_noise: Option<f64>,
    /// Whether the loss of a step of several batches is the mean of theirs, as TRL's trainers take it, and
    /// not that of their rows.
    batches_count_alike: bool,
}

impl Preparation {
    fn prepare(&self, mut host: HostBatch) -> RunResult<TrainBatch<UploadedBatch>> {
        if self.batches_count_alike {
            weigh_as_full(&mut host);
        }
        let plan = &host.scheduled.plan;
        let position = self.timetable.position(host.scheduled.batch);
        let counts = self.counts(&host);
        let (set, decoding) = (self.collator.set(), host.decoding);
        let source_rows = plan.rows.iter().map(|row| set.source_row(*row as usize) as u32);
        let source_rows = source_rows.collect();
        let step = HostArray::from_u32(&[], &[position.step as u32])?;
        let update = match self.programs {
            StepPrograms::Fused => Some(self.updates.after(position.step, &Plateau::default())?),
            StepPrograms::Accumulated => None,
        };
        let noise = self.noise_on_embeddings(&host)?;
        let batch_row = position.batch_in_step * (plan.sizes.rows() * plan.cores) as u64;
        let shared = |row: usize| {
            let mut shared = match &update {
                Some(update) => vec![update.scalars.clone(), step.clone()],
                None => {
                    let first_row = batch_row as u32 + row as u32;
                    vec![step.clone(), HostArray::from_u32(&[], &[first_row])?]
                }
            };
            shared.extend(noise.clone());
            Ok(shared)
        };
        let inputs = self.uploader.upload(host, shared)?;
        Ok(TrainBatch { position, counts, source_rows, decoding, update, inputs })
    }

    /// The magnitude of the noise on embeddings, where there is noise.
    fn noise_on_embeddings(&self, host: &HostBatch) -> RunResult<Option<HostArray>> {
        let Some(alpha) = self.embedding_noise else { return Ok(None) };
        let length = host.cores.first().map_or(1, |batch| batch.padded_length.max(1));
        let magnitude = alpha / (length as f64).sqrt();
        Ok(Some(HostArray::from_f32(&[], &[magnitude as f32])?))
    }

    fn counts(&self, host: &HostBatch) -> StepCounts {
        let rows = host.scheduled.plan.rows.len();
        let padded_length = host.cores.first().map_or(0, |batch| batch.padded_length);
        let sequences = match host.scheduled.plan.sizes.get(BatchAxis::Sequences) {
            0 => self.collator.set().sequences_per_row(),
            sequences => sequences,
        };
        let padded = rows * padded_length * sequences;
        let flos = trainer_flos(padded as f64, self.trainer_elements);
        let (samples, padded_tokens) = (rows as u64, padded as u64);
        StepCounts { batches: 1, samples, tokens: host.tokens, padded_tokens, flos }
    }
}

/// Lets the rows of a batch that is not full weigh as much as those of a full one.
fn weigh_as_full(host: &mut HostBatch) {
    let plan = &host.scheduled.plan;
    let (slots, rows) = (plan.sizes.rows() * plan.cores, plan.rows.len());
    if rows == 0 || rows == slots {
        return;
    }
    let factor = slots as f32 / rows as f32;
    for array in host.cores.iter_mut().flat_map(|core| &mut core.arrays) {
        if let (SAMPLE_WEIGHTS, ArrayValues::F32(weights)) = (array.name, &mut array.values) {
            weights.iter_mut().for_each(|weight| *weight *= factor);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use traind_loader::{BatchArray, BatchPlan, BatchSizes, CoreBatch, ScheduledBatch};

    use super::*;

    /// A batch of two cores with two slots each.
    fn batch(rows: u32) -> HostBatch {
        let sizes = BatchSizes::of_rows(2);
        let plan = BatchPlan { sizes, rows: (0..rows).collect(), cores: 2 };
        let cores = (0..2).map(|core| {
            let filled = |slot: u32| if core * 2 + slot < rows { 1.0 } else { 0.0 };
            let values = ArrayValues::F32(vec![filled(0), filled(1)]);
            let array = BatchArray { name: SAMPLE_WEIGHTS, dims: vec![2], values };
            CoreBatch { sizes, arrays: vec![array], padded_length: 4, spans: vec![0..1, 0..1] }
        });
        HostBatch {
            cores: cores.collect(),
            scheduled: ScheduledBatch { batch: 0, epoch: 0, batch_in_epoch: 0, plan },
            shards: 0..2,
            tokens: 1,
            decoding: Duration::ZERO,
        }
    }

    #[test]
    fn a_batch_that_is_not_full_weighs_as_a_full_one() {
        let check = |rows, expect: [[f32; 2]; 2]| {
            let mut host = batch(rows);
            weigh_as_full(&mut host);
            for (core, expect) in host.cores.iter().zip(expect) {
                let weights = &core.array(SAMPLE_WEIGHTS).unwrap().values;
                assert_eq!(*weights, ArrayValues::F32(expect.to_vec()), "{rows} rows");
            }
        };
        check(4, [[1.0, 1.0], [1.0, 1.0]]);
        check(2, [[2.0, 2.0], [0.0, 0.0]]);
        check(1, [[4.0, 0.0], [0.0, 0.0]]);
        check(0, [[0.0, 0.0], [0.0, 0.0]]);
    }
}
