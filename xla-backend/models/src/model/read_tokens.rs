//! The tokens whose last states a head reads, where it does not read all: behind the attention of the last layer,
//! the others are of no use, and are left out.
//!
//! B rows, S positions, T tokens (B S, or fewer where padding is left out), R tokens that are read, H hidden.

use traind_xla::ops::Random;
use traind_xla::{DType, Shape, Tensor};

use super::{Batch, PACKED_TOKENS, PADDED_TOKENS, PREDICTED_SLOTS, PREDICTED_TOKENS};
use crate::error::Result;

#[derive(Clone, Debug)]
pub(crate) struct ReadTokens {
    /// The place of each among all tokens, s32[R]; T where there are fewer.
    pub places: Tensor,
    /// The number of each token among those that are read, s32[T]; R where it is not read.
    pub numbers: Tensor,
    /// Draws the bits that they have among all tokens; none where dropout is off.
    pub random: Option<Random>,
    /// Whether they are the tokens of packed rows, in their order: all but padding.
    pub are_packed: bool,
}

impl ReadTokens {
    /// The first token of each of the rows `[B, S]` of a batch.
    pub(crate) fn first(batch: &Batch, dims: [usize; 2]) -> Result<ReadTokens> {
        let zeros = batch.any_row_input()?.trace().full(0.0, Shape::new(DType::S32, [dims[0]]))?;
        ReadTokens::at(&zeros, dims)
    }

    /// The tokens at `positions` s32[B], one of each of the rows `[B, S]`.
    pub(crate) fn at(positions: &Tensor, dims: [usize; 2]) -> Result<ReadTokens> {
        let (trace, [rows, length]) = (positions.trace(), dims);
        let of_token = |axis| trace.iota(DType::S32, &dims, axis);
        let is_read = of_token(1)?.eq(&positions.unsqueeze(1)?.broadcast_to(&dims)?)?;
        let no_number = trace.full(rows as f64, Shape::new(DType::S32, dims))?;
        let numbers = is_read.select(&of_token(0)?, &no_number)?.reshape(&[rows * length])?;
        Ok(ReadTokens::new(places_in_rows(positions, length)?, numbers))
    }

    /// The tokens of a batch with labels whose predictions are compared with these; none where all are computed.
    pub(crate) fn labelled(batch: &Batch) -> Result<Option<ReadTokens>> {
        ReadTokens::of_inputs(batch, [PREDICTED_TOKENS, PREDICTED_SLOTS])
    }

    /// The tokens of a batch with labels that predict the next one; none where all do.
    pub(crate) fn predicting_next(batch: &Batch) -> Result<Option<ReadTokens>> {
        let labelled = ReadTokens::labelled(batch)?;
        labelled.map_or_else(|| ReadTokens::packed(batch), |read| Ok(Some(read)))
    }

    /// The tokens of a batch with labels that are no padding; none where its rows are not packed.
    fn packed(batch: &Batch) -> Result<Option<ReadTokens>> {
        let read = ReadTokens::of_inputs(batch, [PACKED_TOKENS, PADDED_TOKENS])?;
        Ok(read.map(|read| ReadTokens { are_packed: true, ..read }))
    }

    fn of_inputs(batch: &Batch, names: [&str; 2]) -> Result<Option<ReadTokens>> {
        let of_name = |name| batch.optional("labels").and_then(|_| batch.optional(name));
        let flat = |x: &Tensor| x.reshape(&[x.shape().element_count()]);
        let [Some(places), Some(numbers)] = names.map(of_name) else { return Ok(None) };
        Ok(Some(ReadTokens::new(flat(places)?, flat(numbers)?)))
    }

    fn new(places: Tensor, numbers: Tensor) -> ReadTokens {
        ReadTokens { places, numbers, random: None, are_packed: false }
    }

    /// The same tokens, with their bits of `random`, which draws those of all tokens of the rows `[B, S]`.
    pub(super) fn with_random(
        self,
        random: Option<&Random>,
        dims: [usize; 2],
    ) -> Result<ReadTokens> {
        let Some(random) = random else { return Ok(self) };
        let of_token = |axis| -> Result<Tensor> {
            let numbers = self.places.trace().iota(DType::U32, &dims, axis)?;
            Ok(numbers.reshape(&[dims[0] * dims[1]])?.take(&self.places)?)
        };
        let random = random.of_tokens(&of_token(0)?, &of_token(1)?);
        Ok(ReadTokens { random: Some(random), ..self })
    }

    /// The same tokens among others: `places` are theirs, s32[R], and `numbers` those of the others, s32[T].
    pub(crate) fn among(&self, places: Tensor, numbers: Tensor) -> ReadTokens {
        ReadTokens { random: self.random.clone(), ..ReadTokens::new(places, numbers) }
    }

    /// [T, H] to [R, H], with zeros where there are fewer tokens than places.
    pub(crate) fn of_all(&self, x: &Tensor) -> Result<Tensor> {
        Ok(x.place_rows(&self.places, &self.numbers)?)
    }

    /// The numbers [T] of those that are read, [R]; `none` where there are fewer tokens than places.
    pub(crate) fn numbers_of_all(&self, x: &Tensor, none: f64) -> Result<Tensor> {
        numbers_at(&self.places, x, none)
    }

    /// [R, H] to [T, H], with zeros for tokens that are not read.
    pub(crate) fn to_all(&self, x: &Tensor) -> Result<Tensor> {
        Ok(x.place_rows(&self.numbers, &self.places)?)
    }
}

/// The places among all tokens of those at `positions` s32[B], one of each row of `length`: s32[B].
pub(crate) fn places_in_rows(positions: &Tensor, length: usize) -> Result<Tensor> {
    let rows = positions.trace().iota(DType::S32, positions.dims(), 0)?;
    Ok(rows.mul_scalar(length as f64)?.add(positions)?)
}

/// The number of `table` [N] at each of `places` s32[M]; `none` at those behind its end.
pub(crate) fn numbers_at(places: &Tensor, table: &Tensor, none: f64) -> Result<Tensor> {
    let numbers = table.take(places)?;
    let none = numbers.trace().full(none, numbers.shape().clone())?;
    Ok(places.lt_scalar(table.dims()[0] as f64)?.select(&numbers, &none)?)
}
