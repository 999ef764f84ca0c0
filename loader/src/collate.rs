//! Turns a planned batch into the arrays that go to the cores, row-major and padded.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rayon::prelude::*;

use crate::batch::{
    ArraySpec, BatchAxis, CoreBatch, Padding, PredictedTarget, RowData, TargetPadding,
    answer_factors, answer_weights, batch_sums, equal_part_rows, packed_arrays, predicted_arrays,
};
use crate::dataset::{Continuation, TokenizedSet};
use crate::error::{Error, Result};
use crate::image::Augmentation;
use crate::labels::Labels;
use crate::masking::Masking;
use crate::sampler::{BatchPlan, ScheduledBatch};

/// A global batch on the host: its plan and its arrays.
#[derive(Clone, Debug)]
pub struct HostBatch {
    /// The batch and its place in the run.
    pub scheduled: ScheduledBatch,
    /// The arrays of each core of this host.
    pub cores: Vec<CoreBatch>,
    /// The places of `cores` among all cores of the batch.
    pub shards: Range<usize>,
    /// Tokens of the global batch, padding not counted.
    pub tokens: u64,
    /// The time that decoding its images took; zero where it has none.
    pub decoding: Duration,
}

/// Collates the rows of one set.
#[derive(Clone, Debug)]
pub struct Collator {
    set: Arc<TokenizedSet>,
    arrays: Arc<[ArraySpec]>,
    padding: Padding,
    masking: Option<Masking>,
    /// The cores whose arrays are made; all where absent.
    shards: Option<Range<usize>>,
    augmentation: Option<Augmentation>,
    /// The most rows of a core that programs take at a time; all where absent.
    part_rows_max: Option<usize>,
    /// The target that tokens predict, of batches that do not compute all predictions.
    predicted: PredictedTarget,
}

impl Collator {
    /// Makes the arrays of the set's task, padded as `padding` says.
    pub fn new(set: Arc<TokenizedSet>, padding: Padding) -> Self {
        let arrays = set.arrays(&padding).into();
        Self {
            set,
            arrays,
            padding,
            masking: None,
            shards: None,
            augmentation: None,
            part_rows_max: None,
            predicted: PredictedTarget::Own,
        }
    }

    /// Makes the arrays of the cores `shards` alone, those of this host. Rows are padded as before.
    pub fn of_shards(self, shards: Range<usize>) -> Self {
        Self { shards: Some(shards), ..self }
    }

    /// Packs tokens for programs that take at most so many rows of a core at a time, in [equal
    /// parts](crate::equal_part_rows).
    pub fn in_parts(self, rows_max: usize) -> Self {
        Self { part_rows_max: Some(rows_max), ..self }
    }

    /// Masks tokens, whose originals become their targets: anew each epoch, and therefore always
    /// alike in evaluations, which all are of epoch 0.
    pub fn with_masking(self, masking: Masking) -> Self {
        Self { masking: Some(masking), ..self }
    }

    /// Has tokens predict the targets of those behind them, as causal language models do.
    pub fn predicting_next(self) -> Self {
        Self { predicted: PredictedTarget::Next, ..self }
    }

    /// Crops and flips images at random, anew each epoch.
    pub fn with_augmentation(self, augmentation: Augmentation) -> Self {
        Self { augmentation: Some(augmentation), ..self }
    }

    /// The set whose rows it collates.
    pub fn set(&self) -> &TokenizedSet {
        &self.set
    }

    /// Replaces the set by one that is equal but for rows whose tokens were not known.
    pub fn with_set(self, set: Arc<TokenizedSet>) -> Self {
        Self { set, ..self }
    }

    /// Collates scheduled batches one after the other.
    pub fn collate_all<E: From<Error>>(
        self,
        batches: impl Iterator<Item = ScheduledBatch>,
    ) -> impl Iterator<Item = Result<HostBatch, E>> {
        batches.map(move |batch| Ok(self.collate(batch)?))
    }

    /// The arrays of the cores for one batch. Fails where the rows cannot be read from the disk. A batch with more
    /// masked tokens than it was planned for has all of its tokens predicted.
    pub fn collate(&self, mut scheduled: ScheduledBatch) -> Result<HostBatch> {
        let plan = &scheduled.plan;
        let longest = plan.rows.iter().map(|&row| self.set.positions(row as usize)).max();
        let positions = plan.sizes.get(BatchAxis::Positions) as u32;
        let padded = PaddedLengths {
            source: self.padding.padded_length(longest.unwrap_or(0), positions) as usize,
            target: self.padded_target_length(plan) as usize,
        };
        let answers = self.answer_factors(plan, padded);
        let start = Instant::now();
        let shards = self.shards.clone().unwrap_or(0..plan.cores);
        let of_plan = |plan: &BatchPlan| -> Result<Option<Vec<CoreBatch>>> {
            let cores = shards.clone();
            cores
                .map(|core| self.core_batch(plan, core, scheduled.epoch, padded, answers))
                .collect()
        };
        let (cores, sizes) = match of_plan(plan)? {
            Some(cores) => (cores, plan.sizes),
            None => {
                let sizes = plan.sizes.with(BatchAxis::PredictedPositions, 0);
                let plan = BatchPlan { sizes, ..plan.clone() };
                (of_plan(&plan)?.unwrap_or_default(), sizes)
            }
        };
        let lengths = plan.rows.iter().map(|&row| self.set.lengths()[row as usize]);
        let targets = plan.rows.iter().map(|&row| self.target_length(row));
        let tokens = lengths.chain(targets).map(u64::from).sum();
        let decoding = self.set.pixel_values().map_or(Duration::ZERO, |_| start.elapsed());
        scheduled.plan.sizes = sizes;
        Ok(HostBatch { tokens, cores, shards, scheduled, decoding })
    }

    /// The length that transformers pads the targets of a batch to.
    fn padded_target_length(&self, plan: &BatchPlan) -> u32 {
        let longest = plan.rows.iter().map(|&row| self.target_length(row)).max().unwrap_or(0);
        let positions = plan.sizes.get(BatchAxis::TargetPositions) as u32;
        self.padding.padded_length(longest, positions)
    }

    fn target_length(&self, row: u32) -> u32 {
        self.set.target_lengths().map_or(0, |lengths| lengths[row as usize])
    }

    /// The factors of the starts and the ends of answers in a batch, on all cores; None where rows have none.
    fn answer_factors(&self, plan: &BatchPlan, padded: PaddedLengths) -> Option<[f32; 2]> {
        let Labels::Span { .. } = self.set.labels() else { return None };
        let within = |&row: &u32| {
            let row = row as usize;
            let tokens = self.set.lengths()[row] as usize;
            let row = self.placed(row, tokens, padded);
            (row.weight, row.answers_within().unwrap_or_default())
        };
        Some(answer_factors(plan.rows.iter().map(within)))
    }

    fn core_batch(
        &self,
        plan: &BatchPlan,
        core: usize,
        epoch: u64,
        padded: PaddedLengths,
        answers: Option<[f32; 2]>,
    ) -> Result<Option<CoreBatch>> {
        let rows = plan.rows_of_core(core);
        let sequences = match plan.sizes.get(BatchAxis::Sequences) {
            0 => self.set.sequences_per_row(),
            sequences => sequences,
        };
        let read = |slot: usize| match rows.get(slot) {
            Some(&row) => {
                let mut read = self.sequences(row as usize, epoch, padded)?;
                // Rows of sets with fewer texts have empty ones behind them.
                read.truncate(sequences);
                Ok(read)
            }
            None => Ok((0..sequences).map(|_| None).collect()),
        };
        let slots = 0..plan.sizes.rows();
        let slots: Vec<Vec<_>> = match self.set.pixel_values() {
            Some(_) => slots.into_par_iter().map(read).collect::<Result<_>>(),
            None => slots.map(read).collect(),
        }?;
        let mut slots: Vec<Option<RowData<'_>>> = slots.into_iter().flatten().collect();
        if self.masking.is_some() {
            put_batch_sums(&mut slots);
        }
        if let Some(factors) = answers {
            put_answer_weights(&mut slots, factors);
        }
        let sizes = plan.sizes.with(BatchAxis::Rows, slots.len() as u32);
        let predicted = predicted_arrays(&sizes, &slots, self.predicted);
        let Some(predicted) = predicted else { return Ok(None) };
        let span = |slot: &Option<RowData<'_>>| slot.as_ref().map_or(0..0, |row| row.span.clone());
        let mut arrays: Vec<_> =
            self.arrays.iter().map(|array| array.array(&sizes, &slots)).collect();
        let spans: Vec<Range<usize>> = slots.iter().map(span).collect();
        let rows = plan.sizes.rows();
        let part_rows = self.part_rows_max.map_or(rows, |most| equal_part_rows(rows, most));
        arrays.extend(packed_arrays(&sizes, &spans, part_rows * sequences)?);
        arrays.extend(predicted);
        Ok(Some(CoreBatch {
            sizes: plan.sizes,
            arrays,
            // transformers counts the values of images.
            padded_length: self.set.pixel_values().unwrap_or(padded.source),
            spans: spans.into_iter().step_by(sequences).collect(),
        }))
    }

    /// The sequences of a row, each of which takes a row of the arrays.
    fn sequences(
        &self,
        row: usize,
        epoch: u64,
        padded: PaddedLengths,
    ) -> Result<Vec<Option<RowData<'_>>>> {
        if let Some(sequences) = self.set.continuations(row)? {
            let sequences = sequences.into_iter().map(|Continuation { input_ids, targets }| {
                let data = self.sequence(row, input_ids, padded);
                Some(RowData { token_targets: Some(targets), ..data })
            });
            return Ok(sequences.collect());
        }
        if self.set.has_sequences() {
            let mut segments = self.set.token_type_ids(row)?.map(Vec::into_iter);
            let sequences = self.set.sequences(row)?.into_iter().enumerate().map(|(text, ids)| {
                let of_sequence = segments.as_mut().map(|it| it.by_ref().take(ids.len()));
                let token_type_ids = of_sequence.map(Iterator::collect);
                let vector = self.set.text_vector(row, text)?;
                Ok(Some(RowData { token_type_ids, vector, ..self.sequence(row, ids, padded) }))
            });
            return sequences.collect();
        }
        let first = self.row(row, epoch, padded)?;
        if self.set.sequences_per_row() == 1 {
            return Ok(vec![Some(first)]);
        }
        let second = self.sequence(row, self.set.target_ids(row)?, padded);
        let token_targets = self.set.target_token_labels(row)?;
        Ok(vec![Some(first), Some(RowData { token_targets, ..second })])
    }

    /// Reads a row, and masks it if the run masks tokens.
    fn row(&self, row: usize, epoch: u64, padded: PaddedLengths) -> Result<RowData<'_>> {
        let mut data = self.sequence(row, self.set.input_ids(row)?, padded);
        data.token_targets = match &self.masking {
            Some(masking) => {
                data.sampling_seed = masking.sampling_seed(epoch, row as u64);
                let parts = self.set.masking(row)?;
                Some(masking.mask(&mut data.input_ids, &parts, epoch, row as u64))
            }
            None => self.set.token_labels(row)?,
        };
        data.token_type_ids = self.set.token_type_ids(row)?;
        data.text_starts = self.set.text_starts(row)?;
        data.unattended = self.set.unattended(row)?;
        data.target = self.set.target(row, self.target_padding(padded))?;
        data.pixels = self.set.pixels(row, self.augmentation.map(|it| (it, epoch)))?;
        Ok(data)
    }

    /// Tokens of a row at their positions, with nothing else of the row.
    fn sequence(&self, row: usize, ids: Vec<u32>, padded: PaddedLengths) -> RowData<'_> {
        let placed = self.placed(row, ids.len(), padded);
        RowData { input_ids: ids.into_iter().map(|id| id as i32).collect(), ..placed }
    }

    /// A row of so many tokens, without these.
    fn placed(&self, row: usize, tokens: usize, padded: PaddedLengths) -> RowData<'_> {
        let first = self.padding.first_position(tokens, padded.source);
        let span = first..first + tokens;
        let attended = if self.padding.is_attended { 0..padded.source } else { span.clone() };
        RowData {
            input_ids: Vec::new(),
            token_type_ids: None,
            token_targets: None,
            batch_sums: [0.0; 3],
            answer_weights: [0.0; 2],
            sampling_seed: 0,
            text_starts: None,
            unattended: None,
            labels: self.set.labels(),
            row,
            weight: self.set.weight(row),
            answer_base: if self.set.is_pretokenized() { 0 } else { span.start },
            span,
            attended,
            padded_length: padded.source,
            target: None,
            vector: Vec::new(),
            pixels: Vec::new(),
        }
    }

    fn target_padding(&self, padded: PaddedLengths) -> TargetPadding {
        TargetPadding { token_id: self.padding.token_id as i32, length: padded.target }
    }
}

/// Puts the sums over a core's rows beside each of them.
fn put_batch_sums(slots: &mut [Option<RowData<'_>>]) {
    let sums = batch_sums(slots.iter().flatten().map(RowData::terms));
    slots.iter_mut().flatten().for_each(|row| row.batch_sums = sums);
}

/// Puts the weights of answers beside their rows.
fn put_answer_weights(slots: &mut [Option<RowData<'_>>], factors: [f32; 2]) {
    for row in slots.iter_mut().flatten() {
        row.answer_weights = answer_weights(factors, row.answers_within().unwrap_or_default());
    }
}

/// The lengths that transformers pads the rows of a global batch to.
#[derive(Clone, Copy, Debug)]
struct PaddedLengths {
    source: usize,
    target: usize,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::{ArrayValues, BatchSizes, PadTo};
    use crate::dataset::{DatasetOptions, prepare};
    use crate::labels::{IGNORED_LABEL, LabelKind, LabelSpec};
    use crate::tasks::{CausalLm, MaskedLm, QuestionAnswering, TaskSpec, TokenClassification};
    use crate::testing::{DataFolder, WordTokenizer, set_of};
    use crate::token_row::TokenLimits;
    use crate::tokenize::PaddingSide;

    fn plan(length: u32, rows: &[u32], batch_per_core: usize, cores: usize) -> BatchPlan {
        let sizes = BatchSizes::of_rows(batch_per_core).with(BatchAxis::Positions, length);
        BatchPlan { sizes, rows: rows.to_vec(), cores }
    }

    /// The dimensions and values of an array.
    #[track_caller]
    fn integers<'a>(batch: &'a CoreBatch, name: &str) -> (&'a [usize], &'a [i32]) {
        let array = batch.array(name).unwrap();
        let ArrayValues::S32(values) = &array.values else { panic!("{name}: {array:?}") };
        (&array.dims, values)
    }

    #[track_caller]
    fn check(batch: &CoreBatch, name: &str, expect: &[i32]) {
        assert_eq!(integers(batch, name).1, expect, "{name}");
    }

    #[track_caller]
    fn check_weights(batch: &CoreBatch, expect: &[f32]) {
        let weights = &batch.array("sample_weights").unwrap().values;
        assert_eq!(*weights, ArrayValues::F32(expect.to_vec()));
    }

    fn collated(rows: &[u32], batch_per_core: usize, cores: usize) -> HostBatch {
        let set = set_of(&[&[5, 6], &[7], &[8, 9, 10]], &[2, 0, 1]);
        let plan = plan(4, rows, batch_per_core, cores);
        let scheduled = ScheduledBatch { batch: 0, epoch: 0, batch_in_epoch: 0, plan };
        Collator::new(Arc::new(set), Padding::behind(99)).collate(scheduled).unwrap()
    }

    #[test]
    fn rows_are_padded_and_shared_out() {
        let batch = collated(&[2, 0, 1], 2, 2);
        assert_eq!(batch.tokens, 6);
        let [first, second] = batch.cores.as_slice() else { panic!("{batch:?}") };
        assert_eq!(integers(first, "input_ids"), (&[2, 4][..], &[8, 9, 10, 99, 5, 6, 99, 99][..]));
        check(first, "attention_mask", &[1, 1, 1, 0, 1, 1, 0, 0]);
        check(first, "token_type_ids", &[0; 8]);
        assert_eq!(integers(first, "labels"), (&[2][..], &[1, 2][..]));
        check_weights(first, &[1.0, 1.0]);
        assert_eq!((first.padded_length, &first.spans[..]), (3, &[0..3, 0..2][..]));
        check(second, "input_ids", &[7, 99, 99, 99, 99, 99, 99, 99]);
        check(second, "attention_mask", &[1, 0, 0, 0, 1, 0, 0, 0]);
        check(second, "labels", &[0, 0]);
        check_weights(second, &[1.0, 0.0]);
        assert_eq!(second.spans, [0..1, 0..0]);
    }

    #[test]
    fn rows_are_padded_on_the_side_and_to_the_length_of_the_global_batch() {
        let set = Arc::new(set_of(&[&[5, 6], &[7], &[8, 9, 10]], &[2, 0, 1]));
        let collated = |padding| {
            let plan = plan(6, &[0, 2], 1, 2);
            let scheduled = ScheduledBatch { batch: 0, epoch: 0, batch_in_epoch: 0, plan };
            Collator::new(Arc::clone(&set), padding).collate(scheduled).unwrap().cores
        };
        let left = Padding { side: PaddingSide::Left, ..Padding::behind(99) };
        let first = &collated(left)[0];
        check(first, "input_ids", &[99, 5, 6, 99, 99, 99]);
        check(first, "attention_mask", &[0, 1, 1, 0, 0, 0]);
        assert_eq!((first.padded_length, first.spans[0].clone()), (3, 1..3));
        let attended = Padding { is_attended: true, token_type_id: 1, ..Padding::behind(99) };
        let first = &collated(attended)[0];
        check(first, "attention_mask", &[1, 1, 1, 0, 0, 0]);
        check(first, "token_type_ids", &[0, 0, 1, 1, 1, 1]);
        let to = PadTo::Longest { multiple_of: 4 };
        assert_eq!(collated(Padding { to, ..left })[0].padded_length, 4);
        assert_eq!(collated(Padding { to: PadTo::MaxLength, ..left })[1].spans[0], 3..6);
    }

    #[test]
    fn tokens_that_none_attends_to_are_left_out_of_the_mask_alone() {
        let task = TaskSpec::CausalLm(CausalLm { text: "text".to_owned(), block_size: 5 });
        let rows = "{\"input_ids\": [0, 0, 5, 6, 7], \"attention_mask\": [0, 0, 1, 0, 1]}\n\
             {\"input_ids\": [8, 9], \"attention_mask\": [1, 1]}";
        let (batch, _) = token_batch(task, rows, plan(6, &[0, 1], 2, 1));
        let batch = &batch.cores[0];
        check(batch, "input_ids", &[0, 0, 5, 6, 7, 99, 8, 9, 99, 99, 99, 99]);
        check(batch, "attention_mask", &[0, 0, 1, 0, 1, 0, 1, 1, 0, 0, 0, 0]);
    }

    fn token_batch(task: TaskSpec, rows: &str, plan: BatchPlan) -> (HostBatch, Collator) {
        let folder = DataFolder::new();
        let options = DatasetOptions {
            files: [folder.write("a.jsonl", rows)].into_iter().collect(),
            task,
            token_limits: TokenLimits::default(),
            cache_dir: None,
        };
        let tokenizer = WordTokenizer::reading(|word| word.parse().unwrap());
        let collator =
            Collator::new(prepare(&options, &tokenizer).unwrap().set, Padding::behind(99));
        let scheduled = ScheduledBatch { batch: 0, epoch: 0, batch_in_epoch: 0, plan };
        (collator.collate(scheduled).unwrap(), collator)
    }

    #[test]
    fn targets_of_tokens_are_padded_with_the_ignored_label() {
        let text = || "text".to_owned();
        let rows = "{\"text\": \"5 6 7\"}\n{\"text\": \"8 9 10\"}";
        let task = TaskSpec::CausalLm(CausalLm { text: text(), block_size: 3 });
        let (batch, _) = token_batch(task, rows, plan(4, &[1], 2, 1));
        let targets = [vec![8, 9, 10], vec![IGNORED_LABEL; 5]].concat();
        check(&batch.cores[0], "labels", &targets);
        let rows = "{\"text\": [\"5\", \"6\"], \"tags\": [1, 0]}";
        let kind = LabelKind::Infer { num_labels: None };
        let labels =
            Some(LabelSpec { column: "tags".to_owned(), kind, weight: None, ignored: Vec::new() });
        let task = TokenClassification { words: text(), labels, label_all_tokens: false };
        let (batch, _) =
            token_batch(TaskSpec::TokenClassification(task), rows, plan(3, &[0], 1, 1));
        check(&batch.cores[0], "labels", &[1, 0, IGNORED_LABEL]);
    }

    /// The tokens before those with a label, as prompts are labelled.
    #[test]
    fn the_predictions_before_labels_have_places() {
        let rows = "{\"input_ids\": [5, 6, 7], \"labels\": [-100, 6, 7]}\n\
                    {\"input_ids\": [8, 9], \"labels\": [8, 9]}\n\
                    {\"input_ids\": [4, 3], \"labels\": [-100, -100]}";
        let task = TaskSpec::CausalLm(CausalLm { text: "text".to_owned(), block_size: 4 });
        let mut plan = plan(4, &[0, 1, 2], 3, 1);
        plan.sizes = plan.sizes.with(BatchAxis::PredictedPositions, 2);
        let (own, collator) = token_batch(task, rows, plan.clone());
        check(&own.cores[0], "predicted_tokens", &[1, 2, 4, 5, 12, 12]);
        assert_eq!(collator.set().predicted_share(&[0, 1]).unwrap(), Some(0.6));
        let scheduled = ScheduledBatch { batch: 0, epoch: 0, batch_in_epoch: 0, plan };
        let next = collator.predicting_next().collate(scheduled).unwrap();
        check(&next.cores[0], "predicted_tokens", &[0, 1, 4, 12, 12, 12]);
        check(&next.cores[0], "predicted_slots", &[0, 1, 6, 6, 2, 6, 6, 6, 6, 6, 6, 6]);
    }

    /// The starts and the ends that lie within the batch of all cores weigh as much as its rows.
    #[test]
    fn answers_beyond_the_batch_have_no_weight() {
        let rows = "{\"input_ids\": [5, 6], \"start_positions\": 1, \"end_positions\": 3}\n\
                    {\"input_ids\": [7, 8, 9], \"start_positions\": 2, \"end_positions\": 2}";
        let task = TaskSpec::QuestionAnswering(QuestionAnswering {
            id: None,
            question: "question".to_owned(),
            context: "context".to_owned(),
            answers: Some("answers".to_owned()),
            doc_stride: 1,
            keep_offsets: false,
        });
        // Positions behind the longest row are none of its batch in transformers.
        let (batch, collator) = token_batch(task, rows, plan(4, &[0, 1], 2, 2));
        let weights = |core: usize| &batch.cores[core].array("answer_weights").unwrap().values;
        assert_eq!(*weights(0), ArrayValues::F32(vec![1.0, 0.0, 1.0, 2.0]));
        assert_eq!(*weights(1), ArrayValues::F32(vec![0.0; 4]));
        check(&batch.cores[0], "end_positions", &[3, 2]);
        // Padding before rows that are tokenized already does not shift their answers.
        let left = Padding { side: PaddingSide::Left, ..Padding::behind(99) };
        let collator = Collator::new(collator.set.clone(), left);
        let batch = collator.collate(batch.scheduled.clone()).unwrap();
        assert_eq!(batch.cores[0].spans[0], 1..3);
        check(&batch.cores[0], "start_positions", &[1, 2]);
        check(&batch.cores[0], "end_positions", &[3, 2]);
    }

    /// The masked tokens of a row depend neither on its core nor on its batch.
    #[test]
    fn masks_are_the_same_on_any_number_of_cores() {
        let row = format!("{{\"text\": \"{}\"}}\n", "50 ".repeat(40).trim());
        let task = TaskSpec::MaskedLm(MaskedLm { text: "text".to_owned(), block_size: None });
        let (_, collator) = token_batch(task, &row.repeat(4), plan(40, &[0], 1, 1));
        let collator = collator.with_masking(Masking::new(3, 0.3, false, 1, 60).unwrap());
        let of = |epoch, rows: &[u32], batch_per_core, cores| -> [Vec<i32>; 3] {
            let plan = plan(40, rows, batch_per_core, cores);
            let scheduled = ScheduledBatch { batch: 9, epoch, batch_in_epoch: 0, plan };
            let batch = collator.collate(scheduled).unwrap();
            let all =
                |name| batch.cores.iter().flat_map(move |core| integers(core, name).1.to_vec());
            [all("input_ids"), all("labels"), all("sampling_seeds")].map(Iterator::collect)
        };
        let one_core = of(2, &[3, 1, 0, 2], 4, 1);
        assert_eq!(one_core, of(2, &[3, 1, 0, 2], 1, 4));
        let [ids, targets, seeds] = &one_core;
        assert_eq!(ids[40..80], of(2, &[1], 1, 1)[0]);
        let other_epoch = of(3, &[3, 1, 0, 2], 4, 1);
        assert!(one_core.iter().zip(&other_epoch).all(|(one, other)| one != other));
        assert!(seeds.len() == 4 && seeds[0] != seeds[1] && seeds.iter().all(|seed| *seed >= 0));
        for (id, target) in ids.iter().zip(targets) {
            assert!(*target == 50 || (*target == IGNORED_LABEL && *id == 50));
        }
    }

    #[test]
    fn a_host_makes_the_arrays_of_its_own_cores() {
        let set = Arc::new(set_of(&[&[5, 6], &[7], &[8, 9, 10], &[4]], &[2, 0, 1, 1]));
        let scheduled = ScheduledBatch {
            batch: 0,
            epoch: 0,
            batch_in_epoch: 0,
            plan: plan(4, &[2, 0, 1, 3], 1, 4),
        };
        let collator = Collator::new(set, Padding::behind(99));
        let all = collator.collate(scheduled.clone()).unwrap();
        let own = collator.of_shards(2..4).collate(scheduled).unwrap();
        assert_eq!((own.cores.as_slice(), own.shards), (&all.cores[2..], 2..4));
        // Counted over all hosts.
        assert_eq!((own.tokens, all.shards), (all.tokens, 0..4));
    }

    #[test]
    fn a_core_without_rows_computes_on_empty_slots() {
        let batch = collated(&[1], 1, 2);
        check_weights(&batch.cores[1], &[0.0]);
        check(&batch.cores[1], "input_ids", &[99; 4]);
        check(&batch.cores[1], "attention_mask", &[1, 0, 0, 0]);
    }
}
