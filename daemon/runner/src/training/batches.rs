//! The batches of the run, collated and uploaded ahead of their use.

use std::sync::Arc;
use std::time::Duration;

use traind_job_file::Train;
use traind_loader::{Collator, HostBatch, Prefetched, Prefetcher};
use traind_xla::runtime::HostArray;

use super::rows::TrainRows;
use super::updates::{Update, Updates};
use crate::data::later::Abandon;
use crate::error::{RunError, RunResult};
use crate::progress::{BatchPosition, Plateau, StepCounts, Timetable};
use crate::session::{Session, UploadedBatch, Uploader, trainer_flos};
use crate::step::StepPrograms;

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
    train: &Train,
    session: &Session,
    rows: TrainRows,
    timetable: &Timetable,
    done: u64,
) -> RunResult<impl Iterator<Item = RunResult<Prefetched<TrainBatch<UploadedBatch>>>> + use<>> {
    let first = timetable.batches_before(done);
    let end = timetable.batches_before(timetable.max_steps);
    let preparation = Preparation {
        timetable: timetable.clone(),
        updates: Updates::new(timetable.clone(), Arc::clone(session.optimizer())),
        programs: session.programs.step_programs(),
        uploader: session.train_uploader(),
        collator: rows.collator.clone(),
        trainer_elements: session.trainer_elements(),
        embedding_noise: train.neftune_noise_alpha.filter(|alpha| *alpha > 0.0),
    };
    let prepare = move |host| preparation.prepare(host);
    let (batches, abandon) = rows.collated(first..end)?;
    let batches = Prefetcher::spawn(batches, prepare)?;
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
}

impl Preparation {
    fn prepare(&self, host: HostBatch) -> RunResult<TrainBatch<UploadedBatch>> {
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
        let padded = rows * padded_length * self.collator.set().sequences_per_row();
        let flos = trainer_flos(padded as f64, self.trainer_elements);
        let (samples, padded_tokens) = (rows as u64, padded as u64);
        StepCounts { samples, tokens: host.tokens, padded_tokens, flos }
    }
}
