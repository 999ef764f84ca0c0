//! The lengths that rows are cut and padded to.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use traind_job_file::{BatchSampler, JobFile, Platform, TaskName};
use traind_loader::{
    BatchAxis, HuggingFaceTokenizer, Labels, LengthBudget, LengthLadder, PadTo, Padding,
    PaddingSide, Sampler, SamplerConfig, SetMixing, SizedBatch, TextTokenizer, TokenLimit,
    TokenLimits, TokenizedSet,
};
use traind_models::Model;
use traind_wording::counted;

use super::early_rows::EarlyRows;
use super::length_budget::{Packing, computed_tokens};
use crate::error::{RunError, RunResult};
use crate::recipe::embedding::SetObjectives;
use crate::recipe::rows;
use crate::tasks::JobTask;

/// Refuses job files that ask for rows longer than the model's `positions`.
pub(crate) fn check(job: &JobFile, positions: u32) -> RunResult<()> {
    let is_seq2seq = job.model.task == TaskName::Seq2SeqLm;
    let fields = [
        ("data.max_length", job.data.max_length),
        ("data.max_source_length", job.data.max_source_length),
        ("data.max_target_length", job.data.max_target_length.filter(|_| is_seq2seq)),
        ("data.block_size", job.data.block_size),
    ];
    for (name, length) in fields {
        if let Some(length) = length.filter(|&length| length > positions) {
            let problem = format!("the model has {positions} positions");
            return Err(RunError::Field { name, value: length.to_string(), problem });
        }
    }
    Ok(())
}

/// Refuses batches of more rows than the model can take.
pub(crate) fn check_rows(job: &JobFile, rows_max: Option<usize>) -> RunResult<()> {
    let Some(rows_max) = rows_max else { return Ok(()) };
    let train = &job.train;
    let trains = train.do_train.then_some(train.per_device_train_batch_size);
    let given = [
        ("train.per_device_train_batch_size", trains),
        ("train.per_device_eval_batch_size", Some(train.per_device_eval_batch_size)),
    ];
    for (name, rows) in given {
        if let Some(rows) = rows.filter(|&rows| rows as usize > rows_max) {
            let problem =
                "neither the tokenizer nor config.json has a padding token, by which the \
                           model finds the last token of a row: name one in \
                           tokenizer_config.json, or take 1 row a batch"
                    .to_owned();
            return Err(RunError::Field { name, value: rows.to_string(), problem });
        }
    }
    Ok(())
}

/// The largest number of tokens in a row, before the tokenizer's own limit.
pub(crate) fn limit(job: &JobFile, task: &dyn JobTask, positions: u32) -> u32 {
    match (job.row_length(), task.max_length()) {
        (None, Some(default)) => default.min(positions),
        _ => positions,
    }
}

/// The most tokens of rows that are tokenized already: the lengths that the job file gives, else the model's
/// `positions`. As with the Trainer, the defaults of these lengths do not concern them.
pub(crate) fn token_limits(job: &JobFile, positions: u32) -> TokenLimits {
    const POSITIONS: &str = "the positions of the model";
    let data = &job.data;
    let is_seq2seq = job.model.task == TaskName::Seq2SeqLm;
    let given = |lengths: &[(&'static str, Option<u32>)]| {
        let found = lengths.iter().find_map(|(name, tokens)| Some((*name, (*tokens)?)));
        let (name, tokens) = found.unwrap_or((POSITIONS, positions));
        Some(TokenLimit { tokens, name })
    };
    let row = match is_seq2seq {
        true => given(&[("data.max_source_length", data.max_source_length)]),
        false => {
            given(&[("data.block_size", data.block_size), ("data.max_length", data.max_length)])
        }
    };
    TokenLimits { row, target: given(&[("data.max_target_length", data.max_target_length)]) }
}

/// The ladders for the rows of `sets`, which may be tokenized already and longer than texts are cut to.
pub(crate) fn for_tokens_of<'a>(
    job: &JobFile,
    ladders: RowLadders,
    sets: impl Iterator<Item = &'a TokenizedSet>,
    positions: u32,
) -> RunResult<RowLadders> {
    let sets: Vec<_> = sets.filter(|set| set.is_pretokenized()).collect();
    let longest = sets.iter().flat_map(|set| set.lengths()).copied().max().unwrap_or_default();
    let target = sets.iter().filter_map(|set| set.target_lengths()).flatten().copied().max();
    let RowLadders { mut rows, mut targets } = ladders;
    if longest > rows.longest() {
        rows = padded_ladder(job, "rows", longest, positions)?;
    }
    if let (Some(ladder), Some(longest)) = (&mut targets, target)
        && longest > ladder.longest()
    {
        *ladder = padded_ladder(job, "targets", longest, positions)?;
    }
    Ok(RowLadders { rows, targets })
}

/// The longest row and the longest target of a plan, by those of `texts` and by the rows that files were seen to have,
/// for a model with so many positions.
pub(crate) fn planned(
    job: &JobFile,
    texts: [u32; 2],
    rows: EarlyRows,
    positions: u32,
) -> RunResult<[u32; 2]> {
    let Some(tokens) = rows.tokens else { return Ok(texts) };
    let limits = token_limits(job, positions);
    let of_tokens = |what, seen: u32, limit: Option<TokenLimit>, of_texts: u32| -> RunResult<u32> {
        let limit = limit.map_or(positions, |limit| limit.tokens);
        let longest = match tokens.are_known {
            true => seen.min(limit),
            // Some models have no limit.
            false if limit == i32::MAX as u32 => seen.max(of_texts),
            false => limit,
        };
        let padded = padded_ladder(job, what, longest.max(1), positions)?.longest();
        let has_texts = !rows.are_tokens || job.data.pad_to_max_length;
        Ok(if has_texts { padded.max(of_texts) } else { padded })
    };
    let [row, target] = texts;
    Ok([
        of_tokens("rows", tokens.row, limits.row, row)?,
        match target {
            0 => 0,
            target => of_tokens("targets", tokens.target, limits.target, target)?,
        },
    ])
}

/// The lengths that batches are padded to.
pub(crate) fn ladder(
    job: &JobFile,
    task: &dyn JobTask,
    max_length: u32,
    positions: u32,
) -> RunResult<LengthLadder> {
    let longest = task.block_size(max_length).unwrap_or(max_length);
    padded_ladder(job, "rows", longest, positions)
}

/// The lengths that `what` of up to `longest` tokens are padded to.
fn padded_ladder(
    job: &JobFile,
    what: &str,
    longest: u32,
    positions: u32,
) -> RunResult<LengthLadder> {
    let ladder = LengthLadder::new(longest, job.data.pad_to_max_length)?;
    let Some(multiple) = job.data.pad_to_multiple_of else { return Ok(ladder) };
    let padded = ladder.padded_to_multiple_of(multiple)?;
    if padded.longest() > positions {
        let longest = ladder.longest();
        let problem =
            format!("{what} of {longest} tokens would be padded beyond {positions} positions");
        let (name, value) = ("data.pad_to_multiple_of", multiple.to_string());
        return Err(RunError::Field { name, value, problem });
    }
    Ok(padded)
}

/// The lengths that targets are padded to; `None` where rows have none.
pub(crate) fn target_ladder(
    job: &JobFile,
    task: &dyn JobTask,
    positions: u32,
) -> RunResult<Option<LengthLadder>> {
    let Some(length) = task.max_target_length() else { return Ok(None) };
    padded_ladder(job, "targets", length, positions).map(Some)
}

/// The sampler for batches of a set.
pub(crate) fn sampler(
    config: SamplerConfig,
    set: &TokenizedSet,
    ladders: &RowLadders,
) -> RunResult<Sampler> {
    let sampler = Sampler::new(config, positions(set), ladders.rows.clone())?;
    let sampler = with_sequences_of(sampler, set)?;
    match (&ladders.targets, set.target_lengths()) {
        (Some(ladder), Some(lengths)) => {
            Ok(sampler.with_axis(BatchAxis::TargetPositions, lengths, ladder.clone())?)
        }
        _ => Ok(sampler),
    }
}

/// The sampler of rows to train on, which puts equal texts into different batches where the job asks for it.
pub(crate) fn train_sampler(
    job: &JobFile,
    config: SamplerConfig,
    set: &TokenizedSet,
    ladders: &RowLadders,
) -> RunResult<Sampler> {
    let batches_per_step = job.train.gradient_accumulation_steps as usize;
    let sampler = sampler(config, set, ladders)?.in_steps_of(batches_per_step);
    match job.embedding.batch_sampler {
        BatchSampler::NoDuplicates if job.train.do_train => {}
        BatchSampler::GroupByLabel if job.train.do_train => return by_class(job, sampler, set),
        _ => return Ok(sampler),
    }
    let mut texts = Vec::with_capacity(set.len() * set.sequences_per_row());
    for row in 0..set.len() {
        for (place, ids) in set.sequences(row)?.iter().enumerate() {
            let mut hasher = DefaultHasher::new();
            match ids.is_empty() {
                // A text that rows of this set lack, and that is equal to no other.
                true => (row, place).hash(&mut hasher),
                false => ids.hash(&mut hasher),
            }
            texts.push(hasher.finish());
        }
    }
    Ok(sampler.without_duplicates(texts.into())?)
}

/// The sampler whose batches have rows of one set each, where the job mixes batches, or the sizes of its only set.
pub(crate) fn of_sets(
    job: &JobFile,
    sampler: Sampler,
    set: &TokenizedSet,
    sets: &SetObjectives,
) -> RunResult<Sampler> {
    let batches = sets.batches();
    if batches.is_empty() {
        return Ok(sampler);
    }
    let (of_rows, mixing) = match rows::set_mixing(job.data.mixing).filter(|_| job.mixes_batches())
    {
        Some(mixing) => (set.sets_of_rows(), mixing),
        None => (vec![0; set.len()], SetMixing::Proportional),
    };
    Ok(sampler.in_sets(of_rows.into(), batches, mixing)?)
}

/// The sampler with rows of a class together. Fails where batches cannot be made of pairs.
fn by_class(job: &JobFile, sampler: Sampler, set: &TokenizedSet) -> RunResult<Sampler> {
    let Labels::Class(classes) = set.labels() else { return Ok(sampler) };
    let rows = sampler.config().global_batch();
    if rows < 4 || !rows.is_multiple_of(2) {
        return Err(RunError::Field {
            name: "embedding.batch_sampler",
            value: job.embedding.batch_sampler.to_string(),
            problem: format!(
                "a batch has {} on all cores, and pairs of two classes need an even number from 4 on",
                counted(rows, "row")
            ),
        });
    }
    Ok(sampler.by_class(classes.as_slice().into())?)
}

/// The same sampler for all rows of `set`, of which it knows only some lengths.
pub(crate) fn with_lengths_of(sampler: &Sampler, set: &TokenizedSet) -> RunResult<Sampler> {
    let targets = set.target_lengths().map(Arc::from);
    with_sequences_of(sampler.with_lengths([positions(set)].into_iter().chain(targets))?, set)
}

/// The same sampler, which knows the tokens of rows that have several texts.
fn with_sequences_of(sampler: Sampler, set: &TokenizedSet) -> RunResult<Sampler> {
    match set.has_sequences() {
        true => Ok(sampler.with_sequences(set.lengths().into(), set.sequences_per_row())?),
        false => Ok(sampler),
    }
}

fn positions(set: &TokenizedSet) -> Arc<[u32]> {
    (0..set.len()).map(|row| set.positions(row)).collect()
}

/// The lengths that rows and their targets are padded to.
#[derive(Clone, Debug)]
pub(crate) struct RowLadders {
    pub rows: LengthLadder,
    /// `None` where rows have no targets.
    pub targets: Option<LengthLadder>,
}

/// How rows are padded, by the job and the tokenizer. As in TRL, padding stands behind conversations.
pub(crate) fn padding(job: &JobFile, tokenizer: &HuggingFaceTokenizer, token_id: u32) -> Padding {
    let multiple_of = job.data.pad_to_multiple_of.unwrap_or(1);
    let is_chat = job.model.task.is_of_conversations();
    Padding {
        token_id,
        token_type_id: tokenizer.pad_token_type_id(),
        side: if is_chat { PaddingSide::Right } else { tokenizer.padding_side() },
        to: match job.data.pad_to_max_length {
            true => PadTo::MaxLength,
            false => PadTo::Longest { multiple_of },
        },
        is_attended: !is_chat && !tokenizer.model_inputs().attention_mask,
    }
}

/// Fits the padded lengths to the sampler's batches, unless the job file says what to pad to.
pub(crate) fn fit(job: &JobFile, sampler: Sampler, budget: LengthBudget) -> RunResult<Sampler> {
    match pads_to_given(job) {
        true => Ok(sampler),
        false => Ok(sampler.fitted(budget)?),
    }
}

/// Fits the padded lengths to a sample of the sampler's batches.
fn fit_to_sample(job: &JobFile, sampler: Sampler, budget: LengthBudget) -> RunResult<Sampler> {
    match pads_to_given(job) {
        true => Ok(sampler),
        false => Ok(sampler.fitted_to_sample(budget)?),
    }
}

/// Fits the sizes of batches: to padded lengths, or without padding in the layers where that is cheaper. Both have the
/// same batches, and the same random bits for each token.
pub(crate) fn fit_cheapest(
    job: &JobFile,
    model: &Model,
    sampler: Sampler,
    fits: Fits,
) -> RunResult<Sampler> {
    let Fits { budget, to_sample, padding } = fits;
    let padded = match to_sample {
        true => fit_to_sample(job, sampler.clone(), budget)?,
        false => fit(job, sampler.clone(), budget)?,
    };
    if sampler.mixes_sets() || !may_pack(job, model, padding) {
        return Ok(padded);
    }
    let packing = Packing::of(job, model);
    let slots = packing.budget_of_slots(budget);
    let (packed, batches): (_, fn(&Sampler) -> Vec<SizedBatch>) = match to_sample {
        true => (sampler.packed_to_sample(slots)?, Sampler::batches_of_sample),
        false => (sampler.packed(slots)?, Sampler::batches_of_epoch),
    };
    let cost = |sampler: &Sampler| computed_tokens(model, &batches(sampler), &packing, budget);
    Ok(if cost(&packed) < cost(&padded) { packed } else { padded })
}

/// How a sampler is fitted to batches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fits {
    pub budget: LengthBudget,
    /// Whether a sample of the batches stands for all.
    pub to_sample: bool,
    pub padding: Padding,
}

/// Programs for CPUs may move tokens between padded and packed rows, unless cores share layers or batches, or the job
/// file says what to pad to.
fn may_pack(job: &JobFile, model: &Model, padding: Padding) -> bool {
    job.resources.platform == Platform::Cpu
        && model.packs_tokens()
        && is_blind_to_padding(job.model.task)
        && job.parallel.tensor.max(1) * job.parallel.pipeline.max(1) == 1
        && job.data.padded_lengths_max.is_none()
        && !pads_to_given(job)
        && !padding.is_attended
        && (padding.side == PaddingSide::Right || !model.reads_padding_ahead())
}

/// Whether a task's head reads no padding, whose states are zeros then, and the tokens of a batch are known ahead: the
/// head of questions compares all positions, and the mismatched pairs of `kto` are those of a batch.
fn is_blind_to_padding(task: TaskName) -> bool {
    match task {
        TaskName::QuestionAnswering
        | TaskName::Kto
        | TaskName::Seq2SeqLm
        | TaskName::ImageClassification
        | TaskName::ReplacedTokenDetection => false,
        TaskName::SequenceClassification
        | TaskName::TokenClassification
        | TaskName::Embedding
        | TaskName::Reranker
        | TaskName::MaskedLm
        | TaskName::CausalLm
        | TaskName::Sft
        | TaskName::Dpo
        | TaskName::Orpo
        | TaskName::Cpo
        | TaskName::Reward => true,
    }
}

/// Whether the job file says what rows are padded to, so that each row costs as much.
pub(crate) fn pads_to_given(job: &JobFile) -> bool {
    job.data.pad_to_max_length || job.data.pad_to_multiple_of.is_some()
}
