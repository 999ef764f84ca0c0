//! The embeddings of a whole batch, and their gradients, where the loss compares all of its rows but parts of them pass
//! through the model one after the other (Gao et al., 2021). Both last from one program of a batch to the next.

use traind_loader::{BatchAxis, BatchSizes, equal_part_rows};
use traind_xla::runtime::{LazyDevice, Recorder, Recording, Variable};
use traind_xla::{DType, Shape, Tensor};

use super::set_zeros;
use crate::error::Result;

/// The sizes of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheConfig {
    /// The most rows of the data in a part of a batch on each core.
    pub rows: usize,
    /// The texts of a row; the most where sets of rows have different numbers of them.
    pub texts: usize,
    /// The numbers of an embedding.
    pub width: usize,
    /// The numbers of a row's label with their type; none where the loss reads none.
    pub label: Option<(DType, usize)>,
    /// The numbers of a guide's vector; none where the loss reads none.
    pub guide: Option<usize>,
}

impl CacheConfig {
    /// The rows of each part of a batch with `rows` rows.
    pub(crate) fn part_rows(&self, rows: usize) -> usize {
        equal_part_rows(rows, self.rows)
    }

    /// The sizes of the parts of a batch of `sizes`.
    pub(crate) fn part_sizes(&self, sizes: BatchSizes) -> BatchSizes {
        sizes.with(BatchAxis::Rows, self.part_rows(sizes.rows()) as u32)
    }
}

/// The cache of a core. All but the gradients are zeros between batches.
#[derive(Clone, Debug)]
pub(crate) struct GradientCache {
    /// f32[N, D], of N texts.
    pub embeddings: Variable,
    /// f32[N]: 0 for texts of empty slots.
    pub weights: Variable,
    /// [N, W], the label of its row beside each text; none where the loss reads none.
    pub labels: Option<Variable>,
    /// f32[N, G]; none where the loss reads no vectors of a guide.
    pub guide: Option<Variable>,
    /// f32[N, D]
    pub gradients: Variable,
    texts: usize,
    /// The rows of the data.
    pub rows: usize,
}

impl GradientCache {
    /// Declares the cache of batches with `rows` rows.
    pub(super) fn declare(
        recorder: &mut Recorder,
        config: &CacheConfig,
        rows: usize,
    ) -> GradientCache {
        let texts = rows * config.texts;
        let mut declare =
            |name, dtype, dims: &[usize]| recorder.declare(name, Shape::new(dtype, dims));
        GradientCache {
            embeddings: declare("cached_embeddings", DType::F32, &[texts, config.width]),
            weights: declare("cached_weights", DType::F32, &[texts]),
            labels: config
                .label
                .map(|(dtype, width)| declare("cached_labels", dtype, &[texts, width])),
            guide: config
                .guide
                .map(|width| declare("cached_guide_vectors", DType::F32, &[texts, width])),
            gradients: declare("cached_gradients", DType::F32, &[texts, config.width]),
            texts,
            rows,
        }
    }

    pub(super) fn start(&self, device: &mut LazyDevice) -> Result<()> {
        let all = [self.embeddings, self.weights, self.gradients];
        all.into_iter().chain(self.targets()).try_for_each(|variable| set_zeros(device, variable))
    }

    /// The inputs of the loss beside embeddings and weights: labels, then the guide's vectors.
    pub(crate) fn targets(&self) -> impl Iterator<Item = Variable> {
        self.labels.into_iter().chain(self.guide)
    }

    /// Records that embeddings, weights and [targets](Self::targets) of a part stand in the cache from `first` on, a
    /// u32 scalar.
    pub(crate) fn put(
        &self,
        at: &mut Recording<'_>,
        [embeddings, weights]: [&Tensor; 2],
        targets: &[Tensor],
        first: &Tensor,
    ) -> Result<()> {
        let targets = self.targets().zip(targets);
        for (variable, part) in
            [(self.embeddings, embeddings), (self.weights, weights)].into_iter().chain(targets)
        {
            let among_zeros = part.dynamic_place(0, first, self.texts)?;
            let all = at.read(variable)?.add(&among_zeros)?;
            at.assign(variable, &all)?;
        }
        Ok(())
    }

    /// Records that all but the gradients are zeros again.
    pub(crate) fn clear(&self, at: &mut Recording<'_>) -> Result<()> {
        for variable in [self.embeddings, self.weights].into_iter().chain(self.targets()) {
            let zeros = at.read(variable)?.cleared()?;
            at.assign(variable, &zeros)?;
        }
        Ok(())
    }

    /// The gradients of the `count` texts from `first` on.
    pub(crate) fn gradients_of(
        &self,
        at: &mut Recording<'_>,
        first: &Tensor,
        count: usize,
    ) -> Result<Tensor> {
        Ok(at.read(self.gradients)?.dynamic_slice(0, first, count)?)
    }
}
