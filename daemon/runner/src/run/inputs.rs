//! Everything that is known before the cores are touched: the data, the model without its weights,
//! and the plan of the steps.

use std::ops::Range;
use std::sync::Arc;

use traind_job_file::JobFile;
use traind_loader::{
    Augmentation, Collator, HuggingFaceTokenizer, Masking, Padding, PaddingSide, Sampler,
    SamplerConfig, TextTokenizer, TokenizedSet,
};
use traind_xla::mesh::{Axis, Mesh};

use super::{Context, equality, first_rows};
use crate::checkpoint::{Recipe, Resumed};
use crate::data::lengths::{self, Fits, RowLadders};
use crate::data::predictions;
use crate::data::{self, DataSource, Passes, Splits, length_budget};
use crate::error::RunResult;
use crate::evaluation::TextWriter;
use crate::model::{ModelFolder, OpenModel, Processor};
use crate::progress::Timetable;
use crate::recipe::embedding::SetObjectives;
use crate::recipe::rows;
use crate::reporting::{Downloads, Journal};
use crate::tasks::{self, JobTask};
use crate::training::FirstBatches;

pub(super) struct Inputs {
    pub resumed: Option<Resumed>,
    pub recipe: Recipe,
    pub splits: Splits,
    pub open: OpenModel,
    pub sampler: Sampler,
    pub timetable: Timetable,
    /// Where the sampler knows only the lengths of some rows.
    pub first: Option<FirstBatches>,
    pub ladders: RowLadders,
    pub padding: RowPadding,
    pub writer: Option<TextWriter>,
    /// The sequences of a row, in all splits; where sets have their own, of a row that is evaluated.
    pub sequences: usize,
    /// The objectives of the sets that are trained on, where batches are mixed.
    pub sets: SetObjectives,
    pub mesh: Mesh,
    /// The most tokens of a row.
    pub max_length: u32,
}

/// The rows that are tokenized before the rest of the inputs is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Beginning {
    /// The rows that the run begins with, where these can be chosen.
    FirstRows,
    AllRows,
}

impl Inputs {
    /// The processor of the context's job, and the most tokens that a row has.
    pub(super) fn processor(context: &Context) -> RunResult<(Processor, u32)> {
        let (job, journal) = (&context.spec.job, &context.reporter.journal);
        let folder = ModelFolder::open(job, &context.downloads())?;
        let (positions, task) =
            (folder.max_positions(&job.model)?, tasks::of_job(job, &folder.config)?);
        reader(job, &folder, task.as_ref(), positions, None, journal)
    }

    /// Reads the inputs of a run that continues from `resumed`, if that is given.
    pub(super) fn read(
        context: &Context,
        mesh: Mesh,
        resumed: Option<Resumed>,
        beginning: Beginning,
    ) -> RunResult<Inputs> {
        Inputs::read_behind(None, context, mesh, resumed, beginning)
    }

    /// Reads the inputs of a run on texts of which `first`, if that is given, leaves its tokens.
    pub(super) fn read_behind(
        first: Option<Arc<HuggingFaceTokenizer>>,
        context: &Context,
        mesh: Mesh,
        resumed: Option<Resumed>,
        beginning: Beginning,
    ) -> RunResult<Inputs> {
        let (job, journal) = (&context.spec.job, &context.reporter.journal);
        let downloads = context.downloads();
        let folder = ModelFolder::open(job, &downloads)?;
        let positions = folder.max_positions(&job.model)?;
        lengths::check(job, positions)?;
        folder.warn_of_scores(job, journal)?;
        folder.warn_of_template(job, journal)?;
        let task = tasks::of_job(job, &folder.config)?;
        let (processor, max_length) =
            reader(job, &folder, task.as_ref(), positions, first, journal)?;
        let tokenizer = processor.text();
        let ladders = ladders(job, task.as_ref(), max_length, positions)?;
        let (config, resumed_from) = (sampler(job, &mesh), resumed.as_ref());
        let first_rows = |rows| first_rows::choose(job, &config, &ladders, resumed_from, rows);
        let tokenized =
            Tokenized { task: task.as_ref(), tokenizer: &tokenizer, max_length, positions };
        let mut splits = tokenized.splits(context, &downloads, beginning, &first_rows)?;
        let ladders = lengths::for_tokens_of(job, ladders, splits.sets(), positions)?;
        let pad_token_id = folder.pad_token_id(job, &processor)?;
        let padding = processor.padding(job, pad_token_id);
        let padding = RowPadding::of(job, task.as_ref(), tokenizer.as_ref(), padding, &mesh)?;
        let open = folder.build(job, task, splits.encoder.as_ref(), &processor)?;
        let open = open.with_reference(job, &downloads)?;
        check_model(job, &open, &mesh)?;
        let writer = text_writer(job, &open, processor, pad_token_id, journal)?;
        let set = Arc::clone(&splits.planned()?.set);
        let sequences = checked_sequences(job, &open, &splits, &set)?;
        let sets = set_objectives(job, &set, sequences)?;
        let sampler = lengths::train_sampler(job, config, &set, &ladders)?;
        let deals_rows = resumed_from.map_or(!lengths::pads_to_given(job), Resumed::deals_rows);
        let sampler = if deals_rows { sampler } else { sampler.in_drawn_order() };
        let sampler = lengths::of_sets(job, sampler, &set, &sets)?;
        let timetable = first_rows::timetable(job, &sampler, resumed_from)?;
        let fits = Fits {
            budget: length_budget(job, open.model.as_ref(), training_passes(job, &timetable)),
            to_sample: first_rows::pads_by_sample(job, set.len()),
            padding: padding.padding,
        };
        let sampler = fitted(job, &open, sampler, &set, fits, journal)?;
        let first = splits.later.take().map(|later| FirstBatches {
            end: first_rows::batches(job, &timetable, resumed_from).end,
            later,
        });
        Ok(Inputs {
            resumed,
            recipe: Recipe::of(job, set.len() as u64, splits.train_content.clone(), deals_rows),
            splits,
            open,
            sampler,
            timetable,
            first,
            ladders,
            padding,
            writer,
            sequences,
            sets,
            mesh,
            max_length,
        })
    }
}

/// The processor of a job's rows, with the most tokens that it leaves of one for a model with so many positions. It
/// reads what `first`, if that is given, leaves of a text.
fn reader(
    job: &JobFile,
    folder: &ModelFolder,
    task: &dyn JobTask,
    positions: u32,
    first: Option<Arc<HuggingFaceTokenizer>>,
    journal: &Journal,
) -> RunResult<(Processor, u32)> {
    let limit = lengths::limit(job, task, positions);
    let mut processor = Processor::open(folder, job, journal, limit, positions)?;
    let max_length = processor.text().max_length().unwrap_or(limit).min(limit);
    if let Some(first) = first {
        processor = processor.behind(first)?;
    }
    Ok((processor, max_length))
}

/// The reading of rows by the task and its tokenizer.
struct Tokenized<'a> {
    task: &'a dyn JobTask,
    tokenizer: &'a Arc<dyn TextTokenizer>,
    max_length: u32,
    positions: u32,
}

impl Tokenized<'_> {
    /// Prepares the rows of all splits, on the first host before the others. The rows to train on may be
    /// `first_rows` alone.
    fn splits(
        &self,
        context: &Context,
        downloads: &Downloads,
        beginning: Beginning,
        first_rows: &dyn Fn(usize) -> Option<Vec<u32>>,
    ) -> RunResult<Splits> {
        let job = &context.spec.job;
        let may_begin = beginning == Beginning::FirstRows
            && context.hosts.is_alone()
            && job.guide_model().is_none()
            && !first_rows::needs_all_lengths(job);
        let source = DataSource {
            job,
            cache_dir: &context.spec.cache_dir,
            downloads,
            journal: &context.reporter.journal,
            stop: &context.stop,
            first_rows: may_begin.then_some(first_rows),
        };
        let Tokenized { task, tokenizer, max_length, positions } = *self;
        let prepare = || data::prepare(&source, task, tokenizer, max_length, positions);
        let splits = context.hosts.first_then_others("data", prepare)?;
        equality::check_data(&context.hosts, &splits)?;
        Ok(splits)
    }
}

/// The writer of generated texts, if the job generates any.
fn text_writer(
    job: &JobFile,
    open: &OpenModel,
    processor: Processor,
    pad_token_id: u32,
    journal: &Journal,
) -> RunResult<Option<TextWriter>> {
    let Some(tokenizer) = processor.into_tokenizer() else { return Ok(None) };
    let writer = TextWriter::of_job(job, open, tokenizer, pad_token_id)?;
    if let Some(warning) = writer.as_ref().and_then(TextWriter::warning) {
        journal.warn("MIN_LENGTH_CUT", warning)?;
    }
    Ok(writer)
}

/// Refuses batches and cores that the model cannot have.
fn check_model(job: &JobFile, open: &OpenModel, mesh: &Mesh) -> RunResult<()> {
    lengths::check_rows(job, open.model.rows_max())?;
    Ok(open.model.check_tensor_parallel(mesh.size(Axis::Tensor))?)
}

/// Refuses rows that the task cannot have. Returns the sequences of each that is evaluated, or of all where none is.
fn checked_sequences(
    job: &JobFile,
    open: &OpenModel,
    splits: &Splits,
    set: &TokenizedSet,
) -> RunResult<usize> {
    open.task.check_rows(set)?;
    let evaluated = splits.validation.as_ref().or(splits.test.as_ref());
    let evaluated = evaluated.map_or(set, |split| split.set.as_ref());
    let sequences = evaluated.sequences_per_row();
    splits.check_sequences(job.model.task, sequences)?;
    if let Some(split) = splits.validation.as_ref().filter(|_| job.train.do_train) {
        let set = &split.set;
        open.task.check_evaluated_texts(set.text_columns(), set.sequences_per_row())?;
    }
    Ok(sequences)
}

/// The objectives of the sets of a job that evaluates rows of `evaluated` sequences.
fn set_objectives(job: &JobFile, set: &TokenizedSet, evaluated: usize) -> RunResult<SetObjectives> {
    if !job.mixes_batches() {
        return Ok(SetObjectives::of_rows(job, set.sequences_per_row(), evaluated));
    }
    let texts = set.texts_of_sets().into_iter().map(<[String]>::len);
    let sets = SetObjectives::of_job(job, texts, evaluated);
    sets.check()?;
    Ok(sets)
}

/// The lengths that rows and their targets may be padded to.
fn ladders(
    job: &JobFile,
    task: &dyn JobTask,
    max_length: u32,
    positions: u32,
) -> RunResult<RowLadders> {
    let rows = lengths::ladder(job, task, max_length, positions)?;
    Ok(RowLadders { rows, targets: lengths::target_ladder(job, task, positions)? })
}

/// The sampler with the lengths that cost least.
fn fitted(
    job: &JobFile,
    open: &OpenModel,
    sampler: Sampler,
    set: &TokenizedSet,
    fits: Fits,
    journal: &Journal,
) -> RunResult<Sampler> {
    let sampler = match job.embedding.mini_batch_size {
        Some(rows_max) => sampler.in_parts(rows_max as usize),
        None => sampler,
    };
    let sampler = lengths::fit_cheapest(job, open.model.as_ref(), sampler, fits)?;
    let sampler = predictions::predicting(job, sampler, set)?;
    if job.train.do_train && sampler.is_packed() {
        journal.info("Layers compute the tokens of a batch without its padding")?;
    }
    Ok(sampler)
}

fn training_passes(job: &JobFile, timetable: &Timetable) -> Passes {
    Passes {
        rows_per_core: job.train.per_device_train_batch_size,
        epochs: timetable.max_steps as f64 / timetable.steps_per_epoch.max(1) as f64,
        trains: true,
    }
}

/// The sampler's settings in a job on the cores of `mesh`.
fn sampler(job: &JobFile, mesh: &Mesh) -> SamplerConfig {
    let train = &job.train;
    SamplerConfig {
        batch_per_core: train.per_device_train_batch_size as usize,
        cores: mesh.data_shards(),
        seed: job.data_seed(),
        strategy: rows::sampling_strategy(train.train_sampling_strategy),
        drop_last: train.dataloader_drop_last && train.do_train,
    }
}

/// How the collator pads and masks rows.
pub(super) struct RowPadding {
    padding: Padding,
    masking: Option<Masking>,
    /// Whether tokens predict the labels of those behind them.
    predicts_next: bool,
    /// The shards of this host.
    shards: Range<usize>,
    augmentation: Option<Augmentation>,
    /// The most rows that pass through the model at a time, where batches pass in parts.
    part_rows_max: Option<usize>,
}

impl RowPadding {
    fn of(
        job: &JobFile,
        task: &dyn JobTask,
        tokenizer: &dyn TextTokenizer,
        padding: Padding,
        mesh: &Mesh,
    ) -> RunResult<RowPadding> {
        Ok(RowPadding {
            padding,
            masking: task.masking(tokenizer)?,
            predicts_next: predictions::predicts_next(job.model.task),
            augmentation: task.augmentation(),
            shards: mesh.own_data_shards(),
            part_rows_max: job.embedding.mini_batch_size.map(|rows| rows as usize),
        })
    }

    pub(super) fn collator(&self, set: &Arc<TokenizedSet>) -> Collator {
        let collator = Collator::new(Arc::clone(set), self.padding).of_shards(self.shards.clone());
        let collator = match &self.masking {
            Some(masking) => collator.with_masking(masking.clone()),
            None => collator,
        };
        if self.predicts_next { collator.predicting_next() } else { collator }
    }

    /// The collator of rows to train on.
    pub(super) fn train_collator(&self, set: &Arc<TokenizedSet>) -> Collator {
        let collator = self
            .augmentation
            .into_iter()
            .fold(self.collator(set), |collator, it| collator.with_augmentation(it));
        self.part_rows_max.into_iter().fold(collator, Collator::in_parts)
    }

    pub(super) fn padding(&self) -> Padding {
        self.padding
    }

    /// Whether a row's result depends on the length of the other rows in its batch.
    pub(super) fn depends_on_batch(&self) -> bool {
        self.padding.side == PaddingSide::Left || self.padding.is_attended
    }
}
