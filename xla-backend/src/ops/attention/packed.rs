//! Attention of packed rows without a kernel: that of padded rows, between two moves of their tokens.

use super::Call;
use crate::error::Result;
use crate::tensor::Tensor;

impl Call {
    /// Both results.
    pub(super) fn packed_forward(self, inputs: &[Tensor]) -> Result<[Tensor; 2]> {
        let [output, statistics] = self.padded().forward(&self.padded_inputs(inputs)?)?;
        Ok([self.packed(&output, inputs)?, statistics])
    }

    /// The gradients of queries, keys and values.
    pub(super) fn packed_backward(self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let gradients = self.padded().backward(&self.padded_inputs(inputs)?)?;
        gradients.iter().map(|gradient| self.packed(gradient, inputs)).collect()
    }

    fn padded(self) -> Call {
        Call { is_packed: false, ..self }
    }

    /// The operands of attention of padded rows. What has a row for each token is padded with zeros.
    fn padded_inputs(self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let ([tokens, places], count) = (self.places(inputs), self.operand_count());
        let (first, is_of_tokens) = (self.first_of_places(), [0, 1, 2, count, count + 2]);
        let rest =
            inputs.iter().enumerate().filter(|(index, _)| !(first..first + 2).contains(index));
        let padded = |(index, input): (usize, &Tensor)| match is_of_tokens.contains(&index) {
            true => input.place_rows(tokens, places),
            false => Ok(input.clone()),
        };
        rest.map(padded).collect()
    }

    /// [B S, N D] to [T, N D].
    fn packed(self, x: &Tensor, inputs: &[Tensor]) -> Result<Tensor> {
        let [tokens, places] = self.places(inputs);
        x.place_rows(places, tokens)
    }

    /// The token of each place, and the place of each token.
    fn places(self, inputs: &[Tensor]) -> [&Tensor; 2] {
        let first = self.first_of_places();
        [&inputs[first], &inputs[first + 1]]
    }

    /// The number of the first operand that says where tokens stand.
    fn first_of_places(self) -> usize {
        4 + usize::from(self.is_causal)
    }
}
