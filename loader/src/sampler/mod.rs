//! Plans the rows of each batch: pure arithmetic on row counts and lengths, done before the first
//! step.
//!
//! It keeps the guarantees of PyTorch's `DistributedSampler` (disjoint shards, as many batches on
//! every core, a new order each epoch) and adds three: the global batch does not depend on the number
//! of cores, which share its tokens evenly, and no row is repeated to fill the last batch.

mod apart;
mod axis;
mod balanced;
mod gather;
mod grouped;
mod order;
mod packed;
mod plan;
mod predicted;
mod sample;
mod sets;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

pub use gather::GatherInOrder;
pub use packed::SizedBatch;
pub use plan::{BatchPlan, EpochPlan, ScheduledBatch};
pub use predicted::MaskedShare;
use predicted::Predicted;
pub use sets::{SetBatches, SetMixing};

use crate::batch::{BatchAxis, BatchSizes};
use crate::error::Result;
use crate::length_ladder::{LengthBudget, LengthLadder};
use apart::RowTexts;
use axis::PaddedAxis;
use balanced::balanced;
use packed::RowSequences;
use sets::RowSets;
use traind_wording::counted;

/// The order of the rows (`train_sampling_strategy`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SamplingStrategy {
    /// A new shuffle each epoch.
    Random,
    /// Data set order, each epoch.
    Sequential,
    /// Shuffled, then rows of like length together: least padding.
    GroupByLength,
}

/// The settings of a [`Sampler`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SamplerConfig {
    /// Rows of one core in a batch (`per_device_train_batch_size`).
    pub batch_per_core: usize,
    /// The cores that see different rows, on all hosts.
    pub cores: usize,
    /// Determines the order of rows.
    pub seed: u64,
    /// The rule of the order.
    pub strategy: SamplingStrategy,
    /// Leaves out the last partial batch of an epoch (`dataloader_drop_last`).
    pub drop_last: bool,
}

impl SamplerConfig {
    /// Rows of all cores in one batch.
    pub fn global_batch(&self) -> usize {
        self.batch_per_core * self.cores
    }

    /// The number of batches of `rows` rows.
    fn batches_of(&self, rows: usize) -> usize {
        match self.drop_last {
            true => rows / self.global_batch(),
            false => rows.div_ceil(self.global_batch()),
        }
    }
}

/// Plans every epoch of a run over rows of known lengths. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Sampler {
    config: SamplerConfig,
    /// The axes that batches are padded along; rows are ordered by their lengths along the first.
    axes: Vec<PaddedAxis>,
    /// The texts of each row, no two of which may be equal within a batch.
    texts: Option<RowTexts>,
    /// The class of each row, where batches have pairs of the same one.
    classes: Option<Arc<[i32]>>,
    /// The set of each row, where each batch is of one set.
    sets: Option<RowSets>,
    /// The numbers of tokens that a row's share of a core's packed rows may have; `None` where layers compute padding.
    packed: Option<LengthLadder>,
    /// The rows of a core that pass through the layers at a time, and share packed rows; all of a batch where absent.
    part_rows: Option<usize>,
    /// The sequences of each row, where it has several.
    sequences: Option<RowSequences>,
    /// The predictions of batches that do not compute all.
    predicted: Option<Predicted>,
    /// The batches whose gradients a step sums.
    batches_per_step: usize,
    /// Whether rows are ordered so that cores get as many tokens each, where their order is free.
    deals_rows: bool,
}

impl Sampler {
    /// `lengths` are the token counts of all rows. Fails on an empty set or batch, on rows beyond
    /// the longest rung, and where `drop_last` would leave no batch.
    pub fn new(
        config: SamplerConfig,
        lengths: impl Into<Arc<[u32]>>,
        ladder: LengthLadder,
    ) -> Result<Self, SamplerError> {
        let (lengths, global_batch) = (lengths.into(), config.global_batch());
        let rows = lengths.len();
        if global_batch == 0 {
            return Err(SamplerError::EmptyBatch);
        }
        if rows == 0 {
            return Err(SamplerError::NoRows);
        }
        if config.drop_last && rows < global_batch {
            return Err(SamplerError::NothingLeft { rows, global_batch });
        }
        let axes = vec![PaddedAxis::new(BatchAxis::Positions, lengths, ladder)?];
        let (texts, classes, sets) = (None, None, None);
        let (packed, part_rows, sequences, predicted) = (None, None, None, None);
        Ok(Self {
            config,
            axes,
            texts,
            classes,
            sets,
            packed,
            part_rows,
            sequences,
            predicted,
            batches_per_step: 1,
            deals_rows: true,
        })
    }

    /// The same sampler for steps of so many batches (`gradient_accumulation_steps`).
    pub fn in_steps_of(self, batches: usize) -> Self {
        Self { batches_per_step: batches.max(1), ..self }
    }

    /// The same sampler, each of whose cores takes consecutive rows, as in runs of earlier versions.
    pub fn in_drawn_order(self) -> Self {
        Self { deals_rows: false, ..self }
    }

    /// The same sampler for rows that also have `lengths` along another axis. Fails on a row
    /// beyond the longest rung, or without a length.
    pub fn with_axis(
        mut self,
        axis: BatchAxis,
        lengths: impl Into<Arc<[u32]>>,
        ladder: LengthLadder,
    ) -> Result<Self, SamplerError> {
        let axis = PaddedAxis::new(axis, lengths.into(), ladder)?;
        if axis.lengths.len() != self.rows() {
            let (found, rows) = (axis.lengths.len(), self.rows());
            return Err(SamplerError::TooFewValues { found, rows });
        }
        self.axes.push(axis);
        Ok(self)
    }

    /// The same sampler, which puts rows with a text in common into different batches as far as there are enough
    /// others. `texts` has as many numbers for each row, which are equal where texts are. Fails where a row has none.
    pub fn without_duplicates(mut self, texts: Arc<[u64]>) -> Result<Self, SamplerError> {
        let (found, rows) = (texts.len(), self.rows());
        if found < rows || !found.is_multiple_of(rows) {
            return Err(SamplerError::TooFewValues { found, rows });
        }
        self.texts = Some(RowTexts::new(texts, rows));
        Ok(self)
    }

    /// The same sampler, which puts two rows or more of a class into the same batch as far as there are enough. Fails
    /// where a row has no class.
    pub fn by_class(mut self, classes: Arc<[i32]>) -> Result<Self, SamplerError> {
        let (found, rows) = (classes.len(), self.rows());
        if found != rows {
            return Err(SamplerError::TooFewValues { found, rows });
        }
        self.classes = Some(classes);
        Ok(self)
    }

    /// The same sampler, each of whose batches has rows of one set. `of_rows` has the number of each row's set among
    /// `sets`. Fails where a set has no rows, or too few for a batch that the mixing needs.
    pub fn in_sets(
        mut self,
        of_rows: Arc<[u32]>,
        sets: Vec<SetBatches>,
        mixing: SetMixing,
    ) -> Result<Self, SamplerError> {
        let (found, rows) = (of_rows.len(), self.rows());
        if found != rows {
            return Err(SamplerError::TooFewValues { found, rows });
        }
        self.sets = Some(RowSets::new(of_rows, sets, mixing, &self.config)?);
        Ok(self)
    }

    /// The same rows in the same batches, padded to ladders within `budget`: those that suit an
    /// epoch's batches best. Two axes share their number, since each pair of lengths is a shape of
    /// its own. They depend on the rows and the global batch alone, so a
    /// run with another seed, on more cores or resumed pads alike and finds its programs compiled.
    pub fn fitted(&self, budget: LengthBudget) -> Result<Self> {
        let order = self.any_order();
        let batches = self.cut(&order);
        let budget = self.budget_of_axis(budget);
        let axes = self.axes.iter().map(|axis| axis.fitted(&batches, budget));
        Ok(Self { axes: axes.collect::<Result<_>>()?, ..self.clone() })
    }

    /// The same sampler for rows of other lengths, along its first axis and the others. Ladders
    /// remain. Fails on rows beyond them.
    pub fn with_lengths(
        &self,
        lengths: impl IntoIterator<Item = Arc<[u32]>>,
    ) -> Result<Self, SamplerError> {
        let axes = self.axes.iter().zip(lengths);
        let axes =
            axes.map(|(axis, of_rows)| PaddedAxis::new(axis.axis, of_rows, axis.ladder.clone()));
        Ok(Self { axes: axes.collect::<Result<_, _>>()?, ..self.clone() })
    }

    /// Whether each of its batches has rows of one set.
    pub fn mixes_sets(&self) -> bool {
        self.sets.is_some()
    }

    /// The settings it was built from.
    pub fn config(&self) -> &SamplerConfig {
        &self.config
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.lengths().len()
    }

    /// The token counts of all rows.
    pub fn lengths(&self) -> &[u32] {
        &self.axes[0].lengths
    }

    /// The number of batches in every epoch.
    pub fn batches_per_epoch(&self) -> usize {
        match &self.sets {
            Some(sets) => sets.batches_per_epoch(),
            None => self.config.batches_of(self.rows()),
        }
    }

    /// The plan of one epoch, a pure function of the settings and `epoch`.
    pub fn epoch(&self, epoch: u64) -> EpochPlan {
        let order = self.order(epoch);
        let batches = self.cut(&order);
        let ends = batches.iter().scan(0, |end, rows| {
            *end += rows.len();
            Some(*end)
        });
        EpochPlan {
            ends: ends.collect(),
            sizes: batches.iter().map(|rows| self.sizes(rows)).collect(),
            order: order.into(),
            cores: self.config.cores,
        }
    }

    /// Batches `from..total_batches` of the whole run, epochs end to end. A resumed run starts at
    /// the first batch that its checkpoint has not seen.
    pub fn run(
        &self,
        from: u64,
        total_batches: u64,
    ) -> impl Iterator<Item = ScheduledBatch> + Send + use<> {
        let sampler = self.clone();
        let per_epoch = self.batches_per_epoch() as u64;
        let mut current: Option<(u64, EpochPlan)> = None;
        (from..total_batches).filter_map(move |batch| {
            let (epoch, batch_in_epoch) = (batch / per_epoch, batch % per_epoch);
            if current.as_ref().is_none_or(|(planned, _)| *planned != epoch) {
                current = Some((epoch, sampler.epoch(epoch)));
            }
            let plan = current.as_ref()?.1.batch(batch_in_epoch as usize)?;
            Some(ScheduledBatch { batch, epoch, batch_in_epoch, plan })
        })
    }

    /// The sizes of some batches of the run, each once, with the first batch that has them and in
    /// that order: a program is compiled for each.
    pub fn first_uses(&self, batches: Range<u64>) -> Vec<(u64, BatchSizes)> {
        let per_epoch = self.batches_per_epoch() as u64;
        let end = match self.config.strategy {
            // All epochs are alike.
            SamplingStrategy::Sequential => batches.end.min(batches.start + per_epoch),
            SamplingStrategy::Random | SamplingStrategy::GroupByLength => batches.end,
        };
        let mut seen = BTreeSet::new();
        let mut uses = Vec::new();
        for epoch in batches.start / per_epoch..end.div_ceil(per_epoch) {
            let numbered = (epoch * per_epoch..).zip(self.epoch(epoch).sizes().to_vec());
            let in_range = numbered.filter(|(batch, _)| (batches.start..end).contains(batch));
            uses.extend(in_range.filter(|(_, sizes)| seen.insert(*sizes)));
        }
        uses
    }

    /// The rows of some batches of the run, as long as all rows have known lengths or `strategy` does not depend on
    /// them.
    pub fn rows_of(&self, batches: Range<u64>) -> Vec<u32> {
        self.run(batches.start, batches.end).flat_map(|batch| batch.plan.rows).collect()
    }

    /// The rows of an epoch in the order of its batches, without those that it leaves out.
    fn order(&self, epoch: u64) -> Vec<u32> {
        let order = self.order_of_batches(epoch);
        let shared = match self.config.strategy {
            // What a step computes depends on neither the cores nor the batches that share it.
            SamplingStrategy::Random if self.deals() => {
                order.chunks(self.config.global_batch() * self.batches_per_step).collect()
            }
            _ => self.cut(&order),
        };
        shared.into_iter().flat_map(|rows| self.dealt(rows)).collect()
    }

    /// Rows that cores share, so that each gets as many tokens where the run orders them for it.
    fn dealt(&self, rows: &[u32]) -> Vec<u32> {
        if self.deals() { balanced(rows, self.tokens()) } else { rows.to_vec() }
    }

    fn deals(&self) -> bool {
        let in_any_batch = self.texts.is_none() && self.classes.is_none() && self.sets.is_none();
        match self.config.strategy {
            SamplingStrategy::Sequential => false,
            SamplingStrategy::GroupByLength => self.deals_rows,
            SamplingStrategy::Random => self.deals_rows && in_any_batch,
        }
    }

    /// The rows of an epoch's batches one after the other, those of a batch in any order.
    fn order_of_batches(&self, epoch: u64) -> Vec<u32> {
        let order = order::epoch_order(self, epoch);
        if let Some(sets) = &self.sets {
            return sets.mixed(self, &order, epoch);
        }
        let mut order = self.arranged(order);
        order.truncate(self.batches_per_epoch() * self.config.global_batch());
        order
    }

    /// Rows in an order whose batches have no text twice, or pairs of rows of a class, where the run asks for it.
    fn arranged(&self, mut order: Vec<u32>) -> Vec<u32> {
        if let Some(texts) = &self.texts {
            order = texts.apart(&order, self.config.global_batch());
        }
        if let Some(classes) = &self.classes {
            order = grouped::grouped(&order, classes);
        }
        order
    }

    /// Cuts the order of an epoch into its batches.
    fn cut<'order>(&self, order: &'order [u32]) -> Vec<&'order [u32]> {
        let global_batch = self.config.global_batch();
        match &self.sets {
            Some(sets) => sets.cut(order, global_batch),
            None => order.chunks(global_batch).collect(),
        }
    }

    /// The order of the rows in an epoch of any run on these rows.
    fn any_order(&self) -> Vec<u32> {
        self.with_any_seed().order(0)
    }

    /// The sampler of any run on these rows, from which ladders are fitted.
    fn with_any_seed(&self) -> Self {
        let mut any_seed = self.clone();
        any_seed.config.seed = 0;
        any_seed
    }

    /// The budget of each ladder, if `budget` is that of their combinations.
    fn budget_of_axis(&self, budget: LengthBudget) -> LengthBudget {
        let lengths_max = (budget.lengths_max as f64).powf(1.0 / self.axes.len() as f64).ceil();
        LengthBudget { lengths_max: lengths_max as usize, ..budget }
    }

    /// The sizes of a batch of `rows`.
    fn sizes(&self, rows: &[u32]) -> BatchSizes {
        let share = if self.is_packed() { self.share_of_row(rows) } else { 0 };
        self.sizes_of_share(rows, share)
    }

    /// The sizes of a batch with a known `share_of_row`: the tokens of the core with the most, divided by its rows.
    fn sizes_of_share(&self, rows: &[u32], share_of_row: u32) -> BatchSizes {
        let sizes = BatchSizes::of_rows(self.config.batch_per_core);
        let sizes = sizes.with(BatchAxis::PackedPositions, self.packed_positions(share_of_row));
        let sizes = self.sets.iter().fold(sizes, |sizes, sets| sets.with_sizes(sizes, rows));
        let sizes =
            self.axes.iter().fold(sizes, |sizes, axis| sizes.with(axis.axis, axis.padded(rows)));
        self.predicted.iter().fold(sizes, |sizes, predicted| predicted.with_sizes(sizes))
    }
}

/// Why rows cannot be planned or gathered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "each message says what its variant and its fields are")]
pub enum SamplerError {
    #[error("it has no rows")]
    NoRows,
    #[error("batch size and cores must be at least 1")]
    EmptyBatch,
    #[error(
        "dataloader_drop_last leaves no step: {}, {} a step",
        counted(.rows, "row"),
        counted(.global_batch, "row")
    )]
    NothingLeft { rows: usize, global_batch: usize },
    #[error(
        "set {} of data.train has {} with texts, which make no batch of {global_batch}",
        .set + 1,
        counted(.rows, "row")
    )]
    NoBatchOfSet { set: usize, rows: usize, global_batch: usize },
    #[error("row {row} has {}, the longest padded length is {longest}", counted(.length, "token"))]
    TooLong { row: usize, length: u32, longest: u32 },
    #[error("{found} values for a core with {rows} rows")]
    TooFewValues { found: usize, rows: usize },
    #[error("row {row} is outside the data set")]
    NoSuchRow { row: usize },
    #[error("row {row} was computed twice")]
    RowTwice { row: usize },
    #[error("row {row} was not computed")]
    NoValue { row: usize },
}
