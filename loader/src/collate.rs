//! Turns a planned batch into the arrays that go to the cores, row-major and padded to one length.

use std::ops::Range;
use std::sync::Arc;

use crate::{
    BatchPlan, IGNORED_LABEL, Labels, Masking, PaddingSide, Result, ScheduledBatch, TokenizedSet,
};

/// The arrays of one core in one batch. `B` slots, `S` tokens each.
#[derive(Clone, Debug, PartialEq)]
pub struct CoreBatch {
    /// `B`
    pub batch: usize,
    /// `S`
    pub length: usize,
    /// `[B, S]`
    pub input_ids: Vec<i32>,
    /// `[B, S]`: 1 on tokens, 0 on padding. An empty slot attends to its first position, so that
    /// no softmax runs over nothing.
    pub attention_mask: Vec<i32>,
    /// `[B, S]`
    pub token_type_ids: Vec<i32>,
    pub labels: LabelBatch,
    /// `[B]`: 1 for a row, 0 for an empty slot, which must not count in losses and metrics.
    pub sample_weights: Vec<f32>,
    /// The length that transformers pads the global batch to, at most `S`: positions from there
    /// on are of no batch of its, and count as nothing even where padding counts.
    pub padded_length: usize,
    /// `[B]`: the positions of each row's tokens; none in an empty slot.
    pub spans: Vec<Range<usize>>,
}

impl CoreBatch {
    /// The places in `[B, S]` of the tokens of a slot.
    fn places(&self, slot: usize) -> Range<usize> {
        let Range { start, end } = self.spans[slot];
        slot * self.length + start..slot * self.length + end
    }
}

/// The targets of one core. Empty slots hold 0, or [`IGNORED_LABEL`] where tokens have targets.
#[derive(Clone, Debug, PartialEq)]
pub enum LabelBatch {
    None,
    /// `[B]`
    Class(Vec<i32>),
    /// `[B, width]`, `[B]` where that is 1.
    Numbers {
        width: usize,
        values: Vec<f32>,
    },
    /// `[B, C]`
    MultiLabel {
        classes: usize,
        values: Vec<f32>,
    },
    /// `[B, S]`: [`IGNORED_LABEL`] on padding and where a token has no target.
    Token(Vec<i32>),
    /// `[B]` each
    Span {
        start_positions: Vec<i32>,
        end_positions: Vec<i32>,
    },
}

/// A global batch on the host: its plan and its arrays.
#[derive(Clone, Debug)]
pub struct HostBatch {
    pub scheduled: ScheduledBatch,
    /// The arrays of each core.
    pub cores: Vec<CoreBatch>,
    /// Tokens of the global batch, padding not counted.
    pub tokens: u64,
}

/// How rows are padded to one length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Padding {
    pub token_id: u32,
    pub token_type_id: u8,
    pub side: PaddingSide,
    pub to: PadTo,
    /// Whether tokens attend to padding: a tokenizer without `attention_mask` gives none.
    pub is_attended: bool,
}

/// The length that transformers pads a global batch to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PadTo {
    /// That of its longest row, rounded up to a multiple.
    Longest { multiple_of: u32 },
    /// One length for all batches (`pad_to_max_length`).
    MaxLength,
}

impl Padding {
    /// Padding behind the rows, to the longest one, with a token that is not attended to.
    pub fn behind(token_id: u32) -> Self {
        let to = PadTo::Longest { multiple_of: 1 };
        Self { token_id, token_type_id: 0, side: PaddingSide::Right, to, is_attended: false }
    }
}

/// Collates the rows of one set.
#[derive(Clone, Debug)]
pub struct Collator {
    set: Arc<TokenizedSet>,
    padding: Padding,
    masking: Option<Masking>,
}

impl Collator {
    pub fn new(set: Arc<TokenizedSet>, padding: Padding) -> Self {
        Self { set, padding, masking: None }
    }

    /// Masks tokens, whose originals become the targets: anew each epoch, and so always alike in
    /// evaluations, which all are of epoch 0.
    pub fn with_masking(self, masking: Masking) -> Self {
        Self { masking: Some(masking), ..self }
    }

    /// The set whose rows it collates.
    pub fn set(&self) -> &TokenizedSet {
        &self.set
    }

    /// The arrays of all cores for one batch. Fails where the rows cannot be read from the disk.
    pub fn collate(&self, scheduled: ScheduledBatch) -> Result<HostBatch> {
        let plan = &scheduled.plan;
        let cores = (0..plan.cores)
            .map(|core| self.core_batch(plan, core, scheduled.epoch))
            .collect::<Result<_>>()?;
        let lengths = self.set.lengths();
        let tokens = plan.rows.iter().map(|&row| u64::from(lengths[row as usize])).sum();
        Ok(HostBatch { tokens, cores, scheduled })
    }

    /// The length that transformers pads the rows of all cores to.
    fn padded_length(&self, plan: &BatchPlan) -> usize {
        let lengths = plan.rows.iter().map(|&row| self.set.lengths()[row as usize]);
        let padded = match self.padding.to {
            PadTo::Longest { multiple_of } => {
                lengths.max().unwrap_or(0).next_multiple_of(multiple_of.max(1))
            }
            PadTo::MaxLength => plan.length,
        };
        padded.min(plan.length) as usize
    }

    fn core_batch(&self, plan: &BatchPlan, core: usize, epoch: u64) -> Result<CoreBatch> {
        let (batch, length) = (plan.batch_per_core, plan.length as usize);
        let rows = plan.rows_of_core(core);
        let mut collated = CoreBatch {
            batch,
            length,
            input_ids: vec![self.padding.token_id as i32; batch * length],
            attention_mask: vec![0; batch * length],
            token_type_ids: vec![i32::from(self.padding.token_type_id); batch * length],
            labels: self.labels(rows, batch, length),
            sample_weights: vec![0.0; batch],
            padded_length: self.padded_length(plan),
            spans: vec![0..0; batch],
        };
        for slot in 0..batch {
            match rows.get(slot) {
                Some(&row) => {
                    self.fill(&mut collated, slot, row as usize)?;
                    self.fill_targets(&mut collated, slot, row as usize, epoch)?;
                }
                None => collated.attention_mask[slot * length] = 1,
            }
        }
        Ok(collated)
    }

    fn fill(&self, batch: &mut CoreBatch, slot: usize, row: usize) -> Result<()> {
        let ids = self.set.input_ids(row)?;
        let first = match self.padding.side {
            PaddingSide::Left => batch.padded_length - ids.len(),
            PaddingSide::Right => 0,
        };
        batch.spans[slot] = first..first + ids.len();
        let span = batch.places(slot);
        for (place, &id) in batch.input_ids[span.clone()].iter_mut().zip(&ids) {
            *place = id as i32;
        }
        if let Some(types) = self.set.token_type_ids(row)? {
            for (place, &id) in batch.token_type_ids[span.clone()].iter_mut().zip(&types) {
                *place = i32::from(id);
            }
        } else {
            batch.token_type_ids[span.clone()].fill(0);
        }
        let start = slot * batch.length;
        let attended = match self.padding.is_attended {
            true => start..start + batch.padded_length,
            false => span,
        };
        batch.attention_mask[attended].fill(1);
        batch.sample_weights[slot] = 1.0;
        Ok(())
    }

    /// The targets of the tokens of one row, where tokens have some.
    fn fill_targets(
        &self,
        batch: &mut CoreBatch,
        slot: usize,
        row: usize,
        epoch: u64,
    ) -> Result<()> {
        let (first, span) = (batch.spans[slot].start as i32, batch.places(slot));
        let targets = match &mut batch.labels {
            LabelBatch::Token(targets) => targets,
            LabelBatch::Span { start_positions, end_positions } => {
                start_positions[slot] += first;
                end_positions[slot] += first;
                return Ok(());
            }
            _ => return Ok(()),
        };
        let ids = &mut batch.input_ids[span.clone()];
        if let Some(masking) = &self.masking {
            let found = masking.mask(ids, &self.set.masking(row)?, epoch, row as u64);
            targets[span].copy_from_slice(&found);
            return Ok(());
        }
        match self.set.token_labels(row)? {
            Some(found) => targets[span].copy_from_slice(&found),
            None => targets[span].copy_from_slice(ids),
        }
        Ok(())
    }

    fn labels(&self, rows: &[u32], batch: usize, length: usize) -> LabelBatch {
        match self.set.labels() {
            _ if self.masking.is_some() => LabelBatch::Token(vec![IGNORED_LABEL; batch * length]),
            Labels::Token | Labels::InputIds => {
                LabelBatch::Token(vec![IGNORED_LABEL; batch * length])
            }
            Labels::None => LabelBatch::None,
            Labels::Class(ids) => LabelBatch::Class(pick(ids, rows, batch, 1)),
            Labels::Numbers { width, values } => {
                LabelBatch::Numbers { width: *width, values: pick(values, rows, batch, *width) }
            }
            Labels::MultiLabel(labels) => {
                let classes = labels.classes;
                let mut values: Vec<f32> =
                    rows.iter().flat_map(|&row| labels.hot(row as usize)).collect();
                values.resize(batch * classes, 0.0);
                LabelBatch::MultiLabel { classes, values }
            }
            Labels::Span { start_positions, end_positions } => LabelBatch::Span {
                start_positions: pick(start_positions, rows, batch, 1),
                end_positions: pick(end_positions, rows, batch, 1),
            },
        }
    }
}

/// The `each` values of each row, then zeros up to `batch` rows.
fn pick<T: Copy + Default>(values: &[T], rows: &[u32], batch: usize, each: usize) -> Vec<T> {
    let of_row = |&row: &u32| &values[row as usize * each..(row as usize + 1) * each];
    let mut picked: Vec<T> = rows.iter().flat_map(of_row).copied().collect();
    picked.resize(batch * each, T::default());
    picked
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{DataFolder, WordTokenizer, set_of};
    use crate::{
        CausalLm, DatasetOptions, LabelKind, LabelSpec, MaskedLm, TaskSpec, TokenClassification,
        prepare,
    };

    fn collated(rows: &[u32], batch_per_core: usize, cores: usize) -> HostBatch {
        let set = set_of(&[&[5, 6], &[7], &[8, 9, 10]], &[2, 0, 1]);
        let plan = BatchPlan { length: 4, rows: rows.to_vec(), batch_per_core, cores };
        let scheduled = ScheduledBatch { batch: 0, epoch: 0, batch_in_epoch: 0, plan };
        Collator::new(Arc::new(set), Padding::behind(99)).collate(scheduled).unwrap()
    }

    #[test]
    fn rows_are_padded_and_shared_out() {
        let batch = collated(&[2, 0, 1], 2, 2);
        assert_eq!(batch.tokens, 6);
        let first = CoreBatch {
            batch: 2,
            length: 4,
            input_ids: vec![8, 9, 10, 99, 5, 6, 99, 99],
            attention_mask: vec![1, 1, 1, 0, 1, 1, 0, 0],
            token_type_ids: vec![0; 8],
            labels: LabelBatch::Class(vec![1, 2]),
            sample_weights: vec![1.0, 1.0],
            padded_length: 3,
            spans: vec![0..3, 0..2],
        };
        let second = CoreBatch {
            input_ids: vec![7, 99, 99, 99, 99, 99, 99, 99],
            attention_mask: vec![1, 0, 0, 0, 1, 0, 0, 0],
            labels: LabelBatch::Class(vec![0, 0]),
            sample_weights: vec![1.0, 0.0],
            spans: vec![0..1, 0..0],
            ..first.clone()
        };
        assert_eq!(batch.cores, [first, second]);
    }

    #[test]
    fn rows_are_padded_on_the_side_and_to_the_length_of_the_global_batch() {
        let set = Arc::new(set_of(&[&[5, 6], &[7], &[8, 9, 10]], &[2, 0, 1]));
        let step = |padding| {
            let plan = BatchPlan { length: 6, rows: vec![0, 2], batch_per_core: 1, cores: 2 };
            let scheduled = ScheduledBatch { batch: 0, epoch: 0, batch_in_epoch: 0, plan };
            Collator::new(Arc::clone(&set), padding).collate(scheduled).unwrap()
        };
        let left = Padding { side: PaddingSide::Left, ..Padding::behind(99) };
        let first = step(left).cores[0].clone();
        assert_eq!(first.input_ids, [99, 5, 6, 99, 99, 99]);
        assert_eq!(first.attention_mask, [0, 1, 1, 0, 0, 0]);
        assert_eq!((first.padded_length, first.spans[0].clone()), (3, 1..3));
        let attended = Padding { is_attended: true, token_type_id: 1, ..Padding::behind(99) };
        let first = step(attended).cores[0].clone();
        assert_eq!(first.attention_mask, [1, 1, 1, 0, 0, 0]);
        assert_eq!(first.token_type_ids, [0, 0, 1, 1, 1, 1]);
        let to = PadTo::Longest { multiple_of: 4 };
        assert_eq!(step(Padding { to, ..left }).cores[0].padded_length, 4);
        assert_eq!(step(Padding { to: PadTo::MaxLength, ..left }).cores[1].spans[0], 3..6);
    }

    fn token_batch(task: TaskSpec, rows: &str, plan: BatchPlan) -> (HostBatch, Collator) {
        let folder = DataFolder::new();
        let options = DatasetOptions {
            files: [folder.write("a.jsonl", rows)].into_iter().collect(),
            task,
            cache_dir: None,
        };
        let tokenizer = WordTokenizer::reading(|word| word.parse().unwrap());
        let collator =
            Collator::new(prepare(&options, &tokenizer).unwrap().set, Padding::behind(99));
        let scheduled = ScheduledBatch { batch: 0, epoch: 0, batch_in_epoch: 0, plan };
        (collator.collate(scheduled).unwrap(), collator)
    }

    fn plan(length: u32, rows: &[u32], batch_per_core: usize, cores: usize) -> BatchPlan {
        BatchPlan { length, rows: rows.to_vec(), batch_per_core, cores }
    }

    #[test]
    fn targets_of_tokens_are_padded_with_the_ignored_label() {
        let text = || "text".to_owned();
        let rows = "{\"text\": \"5 6 7\"}\n{\"text\": \"8 9 10\"}";
        let task = TaskSpec::CausalLm(CausalLm { text: text(), block_size: 3 });
        let (batch, _) = token_batch(task, rows, plan(4, &[1], 2, 1));
        let targets = [vec![8, 9, 10], vec![IGNORED_LABEL; 5]].concat();
        assert_eq!(batch.cores[0].labels, LabelBatch::Token(targets));
        let rows = "{\"text\": [\"5\", \"6\"], \"tags\": [1, 0]}";
        let kind = LabelKind::Infer { num_labels: None };
        let labels = Some(LabelSpec { column: "tags".to_owned(), kind });
        let task = TokenClassification { words: text(), labels, label_all_tokens: false };
        let (batch, _) =
            token_batch(TaskSpec::TokenClassification(task), rows, plan(3, &[0], 1, 1));
        assert_eq!(batch.cores[0].labels, LabelBatch::Token(vec![1, 0, IGNORED_LABEL]));
    }

    /// What a row is masked to must not hang on the cores it is shared out to or on its batch.
    #[test]
    fn masks_are_the_same_on_any_number_of_cores() {
        let row = format!("{{\"text\": \"{}\"}}\n", "50 ".repeat(40).trim());
        let task = TaskSpec::MaskedLm(MaskedLm { text: "text".to_owned(), block_size: None });
        let (_, collator) = token_batch(task, &row.repeat(4), plan(40, &[0], 1, 1));
        let collator = collator.with_masking(Masking::new(3, 0.3, false, 1, 60).unwrap());
        let of = |epoch, rows: &[u32], batch_per_core, cores| {
            let plan = plan(40, rows, batch_per_core, cores);
            let scheduled = ScheduledBatch { batch: 9, epoch, batch_in_epoch: 0, plan };
            let batch = collator.collate(scheduled).unwrap();
            let ids = batch.cores.iter().flat_map(|core| core.input_ids.clone());
            let targets = batch.cores.iter().flat_map(|core| match &core.labels {
                LabelBatch::Token(targets) => targets.clone(),
                other => panic!("{other:?}"),
            });
            (ids.collect::<Vec<_>>(), targets.collect::<Vec<_>>())
        };
        let one_core = of(2, &[3, 1, 0, 2], 4, 1);
        assert_eq!(one_core, of(2, &[3, 1, 0, 2], 1, 4));
        assert_eq!(one_core.0[40..80], of(2, &[1], 1, 1).0);
        assert_ne!(one_core, of(3, &[3, 1, 0, 2], 4, 1));
        for (id, target) in one_core.0.iter().zip(&one_core.1) {
            assert!(*target == 50 || (*target == IGNORED_LABEL && *id == 50));
        }
    }

    #[test]
    fn a_core_without_rows_computes_on_empty_slots() {
        let batch = collated(&[1], 1, 2);
        assert_eq!(batch.cores[1].sample_weights, [0.0]);
        assert_eq!(batch.cores[1].input_ids, [99; 4]);
        assert_eq!(batch.cores[1].attention_mask, [1, 0, 0, 0]);
    }
}
