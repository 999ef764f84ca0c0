//! The division of layers over cores in a forward pass.

use traind_xla::Tensor;
use traind_xla::ops::Random;

use super::{PositionShare, TensorCores, VocabularyShare};
use crate::error::Result;
use crate::model::Forward;

impl Forward<'_> {
    /// The number of cores that share each layer.
    pub(crate) fn core_count(&self) -> usize {
        self.cores().map_or(1, TensorCores::count)
    }

    /// All positions of `x`, from which each core that shares the layer computes another part.
    pub(crate) fn fan_out(&self, x: &Tensor) -> Result<Tensor> {
        match (self.positions(), self.cores()) {
            (Some(positions), _) => positions.gather(x),
            (None, Some(cores)) => cores.fan_out(x),
            (None, None) => Ok(x.clone()),
        }
    }

    /// A parameter of which there are `parts` different parts, each with as many cores.
    pub(crate) fn fan_out_copies(&self, parameter: Tensor, parts: usize) -> Result<Tensor> {
        match self.cores() {
            Some(cores) => cores.fan_out_copies(&parameter, parts),
            None => Ok(parameter),
        }
    }

    /// The sum of the parts that the cores computed, at this core's positions.
    pub(crate) fn fan_in(&self, part: &Tensor) -> Result<Tensor> {
        match (self.positions(), self.cores()) {
            (Some(positions), _) => positions.scatter(part),
            (None, Some(cores)) => cores.fan_in(part),
            (None, None) => Ok(part.clone()),
        }
    }

    /// The sum of what the cores computed, on each of them.
    pub(crate) fn add_parts(&self, part: &Tensor) -> Result<Tensor> {
        self.cores().map_or_else(|| Ok(part.clone()), |cores| cores.fan_in(part))
    }

    /// The sum of what the cores computed, from which each core then computes its part.
    pub(crate) fn share_sum(&self, part: &Tensor) -> Result<Tensor> {
        let Some(cores) = self.cores() else { return Ok(part.clone()) };
        cores.fan_out(&cores.fan_in(part)?)
    }

    /// Traces layers that read the tokens `[B, S]`, whose positions cores may divide between them.
    pub(crate) fn over_positions<T>(
        &self,
        tokens: [usize; 2],
        body: impl FnOnce(&Forward<'_>) -> Result<T>,
    ) -> Result<T> {
        let divided = |cores: &&TensorCores| cores.divides_positions() && self.cache.is_none();
        let Some(cores) = self.cores().filter(divided) else { return body(self) };
        self.sharing(Some(PositionShare::new(cores, tokens)?), body)
    }

    /// Traces what all cores compute alike from all positions of `x` [B S, H].
    pub(crate) fn with_all_positions<T>(
        &self,
        x: &Tensor,
        body: impl FnOnce(&Forward<'_>, &Tensor) -> Result<T>,
    ) -> Result<T> {
        let Some(positions) = self.positions() else { return body(self, x) };
        let whole = positions.join(x)?;
        self.sharing(None, |cx| body(cx, &whole))
    }

    /// This core's positions of `x`, which has all of them along `axis`.
    pub(crate) fn own_positions(&self, x: &Tensor, axis: usize) -> Result<Tensor> {
        self.positions().map_or_else(|| Ok(x.clone()), |positions| positions.own(x, axis))
    }

    /// This core's share of a vocabulary of `size` tokens, of which it holds `width`.
    pub(crate) fn vocabulary_share(
        &self,
        size: usize,
        width: usize,
    ) -> Result<Option<VocabularyShare>> {
        self.cores().map(|cores| VocabularyShare::new(cores, size, width)).transpose()
    }

    /// The random bits of tensors that hold this core's positions; none where dropout is off.
    pub(crate) fn random_of_positions(&self) -> Result<Option<Random>> {
        let Some(random) = self.random else { return Ok(None) };
        let positions = self.positions();
        Ok(Some(positions.map_or_else(|| random.clone(), |it| it.random_of_positions(random))))
    }

    /// The random bits of tensors that hold `features` of this core's on the last axis; none where
    /// dropout is off.
    pub(crate) fn random_of_features(&self, features: usize) -> Result<Option<Random>> {
        let Some(random) = self.random else { return Ok(None) };
        let Some(cores) = self.cores() else { return Ok(Some(random.clone())) };
        cores.random_of_features(random, features).map(Some)
    }

    /// The random bits of tensors that hold `heads` heads of each row; none where dropout is off.
    pub(crate) fn random_of_heads(&self, heads: usize) -> Result<Option<Random>> {
        let Some(random) = self.random else { return Ok(None) };
        let Some(cores) = self.cores() else { return Ok(Some(random.clone())) };
        cores.random_of_heads(random, heads).map(Some)
    }

    fn sharing<T>(
        &self,
        positions: Option<PositionShare>,
        body: impl FnOnce(&Forward<'_>) -> Result<T>,
    ) -> Result<T> {
        let parameters = self.parameters.between_layers(positions);
        body(&Forward { parameters: &parameters, ..*self })
    }

    fn cores(&self) -> Option<&TensorCores> {
        self.parameters.cores()
    }

    fn positions(&self) -> Option<&PositionShare> {
        self.parameters.positions()
    }
}
