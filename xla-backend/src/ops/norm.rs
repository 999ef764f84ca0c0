//! Layer norm and root-mean-square norm over the last axis as one operation, also of a sum whose
//! first part passes through dropout: what programs that call kernels record.
//!
//! R rows, H elements of a row, B batch rows.

use super::composite::Composite;
use super::random::block_bits;
use super::{Backward, Problem, Random, ResultStorage};
use crate::error::Result;
use crate::graph::{DType, Shape};
use crate::kernels::attributes::{flag, number};
use crate::kernels::{KernelUse, NormBackward, NormForward};
use crate::tensor::Tensor;

/// x [..., H], weight [H] and, where there is one each, bias [H], residual [..., H] and keys of the
/// random bits u32[2, B, blocks of a row] give the normalized rows [..., H]; as a second result the
/// mean and the factor of each row [2, R]; and with a residual as a third one the sum that is
/// normalized.
#[derive(Clone, Copy, Debug)]
pub(super) struct Norm {
    pub(super) epsilon: f64,
    /// Whether the mean is subtracted, and a bias added: layer norm.
    pub(super) centered: bool,
    pub(super) residual: bool,
    /// The rate at which elements are dropped before the residual is added.
    pub(super) dropout: f64,
}

/// The rows that were normalized, weight, statistics, the result's cotangent and, with dropout, keys
/// give gradients: of the rows, the weight, where there is one the bias, and with dropout what was
/// dropped from.
#[derive(Clone, Copy, Debug)]
struct NormGradient(Norm);

impl Tensor {
    /// `torch.nn.functional.layer_norm(residual + dropout(self))` over the last axis, as one
    /// operation. With `random`, elements are dropped at the rate `dropout`; its places count from 0.
    pub fn add_norm(
        &self,
        residual: &Tensor,
        [weight, bias]: [&Tensor; 2],
        epsilon: f64,
        dropout: Option<(f64, &Random)>,
    ) -> Result<Tensor> {
        let norm = Norm { epsilon, centered: true, residual: true, dropout: 0.0 };
        match dropout.filter(|(rate, _)| *rate > 0.0) {
            None => self.apply(norm, &[weight, bias, residual]),
            Some((rate, random)) => {
                let keys = random.keys(self.dims())?;
                self.apply(Norm { dropout: rate, ..norm }, &[weight, bias, residual, &keys])
            }
        }
    }

    /// Whether a norm of this tensor with these parameters is recorded as one operation.
    pub(super) fn has_norm(&self, parameters: &[&Tensor]) -> bool {
        let has_kernel = matches!(self.dtype(), DType::F32 | DType::F64);
        let is_alike = |tensor: &&Tensor| tensor.dtype() == self.dtype() && tensor.rank() == 1;
        self.trace().calls_kernels() && has_kernel && parameters.iter().all(is_alike)
    }
}

/// [..., H] to [R, H].
fn rows(x: &Tensor) -> Result<Tensor> {
    let width = x.dims().last().copied().unwrap_or(1);
    x.reshape(&[x.shape().element_count() / width.max(1), width])
}

impl Norm {
    fn operand_count(self) -> usize {
        2 + usize::from(self.centered) + usize::from(self.residual) + self.key_count()
    }

    fn key_count(self) -> usize {
        usize::from(self.dropout > 0.0)
    }

    /// Checks rows, weight and keys.
    fn check(self, x: &Shape, weight: &Shape, keys: Option<&Shape>) -> Result<(), Problem> {
        let Some(&width) = x.dims.last().filter(|_| x.dtype.is_float()) else {
            return Err("takes rows of floating-point numbers".into());
        };
        if *weight != x.with_dims([width]) {
            return Err("takes a weight for each element of a row".into());
        }
        let Some(keys) = keys else { return Ok(()) };
        let rows = x.element_count() / width.max(1);
        match keys.dims[..] {
            [2, rows_of_batch, blocks]
                if keys.dtype == DType::U32 && rows.is_multiple_of(rows_of_batch * blocks) =>
            {
                Ok(())
            }
            _ => Err("takes two keys for each of equal blocks of rows".into()),
        }
    }

    fn statistics(self, x: &Shape) -> Shape {
        let width = x.dims.last().copied().unwrap_or(1).max(1);
        x.with_dims([2, x.element_count() / width])
    }

    /// `x` [R, H] after dropout by `keys`.
    fn drop_by_keys(self, x: &Tensor, keys: Option<&Tensor>) -> Result<Tensor> {
        let (Some(keys), &[rows, width]) = (keys, x.dims()) else { return Ok(x.clone()) };
        let blocks = (keys.dims()[1] * keys.dims()[2]).max(1);
        let bits = block_bits(keys, 0..rows / blocks, width)?.reshape(x.dims())?;
        x.dropped(self.dropout, &bits)
    }

    /// Mean and factor of each row of `x` [R, H], [R, 1] each.
    fn measure(self, x: &Tensor) -> Result<[Tensor; 2]> {
        let mean = match self.centered {
            true => x.mean_keep(&[1])?,
            false => x.trace().full(0.0, x.shape().with_dims([x.dims()[0], 1]))?,
        };
        let centered = x.sub(&mean)?;
        let square = centered.mul(&centered)?.mean_keep(&[1])?;
        Ok([mean, square.add_scalar(self.epsilon)?.rsqrt()?])
    }

    fn attributes(self) -> String {
        format!(
            "centered = {}, dropout = {}, epsilon = {}, residual = {}",
            flag(self.centered),
            number(self.dropout),
            number(self.epsilon),
            flag(self.residual)
        )
    }
}

impl Composite for Norm {
    fn name(&self) -> &'static str {
        "norm"
    }

    fn storage(&self) -> ResultStorage {
        ResultStorage::Written
    }

    fn reads_memory(&self) -> bool {
        true
    }

    fn infer(&self, inputs: &[Shape]) -> Result<Shape, Problem> {
        if inputs.len() != self.operand_count() {
            let count = self.operand_count();
            return Err(format!("takes {count} operands, got {}", inputs.len()).into());
        }
        let (x, weight) = (&inputs[0], &inputs[1]);
        let (others, keys) = inputs[2..].split_at(inputs.len() - 2 - self.key_count());
        self.check(x, weight, keys.first())?;
        let expected = [self.centered.then_some(weight), self.residual.then_some(x)];
        if !others.iter().eq(expected.into_iter().flatten()) {
            return Err("takes a bias like the weight, and a residual like the rows".into());
        }
        Ok(x.clone())
    }

    fn expand(&self, inputs: &[Tensor]) -> Result<Tensor> {
        Ok(self.expand_all(inputs)?.remove(0))
    }

    fn expand_all(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let dims = inputs[0].dims();
        let mut others = inputs[2..].iter();
        let bias = others.next().filter(|_| self.centered);
        let mut x = rows(&inputs[0])?;
        if self.residual {
            let residual = &inputs[2 + usize::from(self.centered)];
            let keys = inputs[inputs.len() - self.key_count()..].first();
            x = self.drop_by_keys(&x, keys)?.add(&rows(residual)?)?;
        }
        let [mean, factor] = self.measure(&x)?;
        let standard = x.sub(&mean)?.mul(&factor)?.mul(&inputs[1])?;
        let output = match bias {
            Some(bias) => standard.add(bias)?,
            None => standard,
        };
        let column = |x: &Tensor| x.reshape(&[1, x.dims()[0]]);
        let statistics = x.trace().concatenate(&[&column(&mean)?, &column(&factor)?], 0)?;
        let mut results = vec![output.reshape(dims)?, statistics];
        if self.residual {
            results.push(x.reshape(dims)?);
        }
        Ok(results)
    }

    fn kernel(&self, inputs: &[Shape]) -> Option<KernelUse> {
        let is_f32 = inputs[0].dtype == DType::F32;
        is_f32.then(|| KernelUse::of::<NormForward>(self.attributes()))
    }

    fn gradient(&self, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        let (x, weight) = (&at.inputs[0], &at.inputs[1]);
        let statistics = at.output.part(1, self.statistics(x.shape()))?;
        let normalized = match self.residual {
            true => at.output.part(2, x.shape().clone())?,
            false => x.clone(),
        };
        let mut rest = vec![weight, &statistics, at.cotangent];
        rest.extend(&at.inputs[at.inputs.len() - self.key_count()..]);
        let to_rows = normalized.apply(NormGradient(*self), &rest)?;
        let part = |index: usize, like: &Tensor| to_rows.part(index, like.shape().clone());
        let mut gradients = vec![Some(to_rows.clone()), Some(part(1, weight)?)];
        if self.centered {
            gradients.push(Some(part(2, weight)?));
        }
        if self.residual {
            gradients.push(Some(to_rows.clone()));
        }
        if self.dropout > 0.0 {
            gradients[0] = Some(part(2 + usize::from(self.centered), x)?);
            gradients.push(None);
        }
        Ok(gradients)
    }
}

impl Composite for NormGradient {
    fn name(&self) -> &'static str {
        "norm_gradient"
    }

    fn storage(&self) -> ResultStorage {
        ResultStorage::Written
    }

    fn reads_memory(&self) -> bool {
        true
    }

    fn infer(&self, inputs: &[Shape]) -> Result<Shape, Problem> {
        let [x, weight, statistics, cotangent, keys @ ..] = inputs else {
            return Err("takes rows, a weight, statistics and a cotangent".into());
        };
        if keys.len() != self.0.key_count() {
            return Err("takes the keys of random bits where elements are dropped".into());
        }
        self.0.check(x, weight, keys.first())?;
        if *statistics != self.0.statistics(x) || cotangent != x {
            return Err("takes statistics and a cotangent of these rows".into());
        }
        Ok(x.clone())
    }

    fn expand(&self, inputs: &[Tensor]) -> Result<Tensor> {
        Ok(self.expand_all(inputs)?.remove(0))
    }

    /// factor (g - mean(g) - y mean(y g)), where y are the normalized rows and g is weight times
    /// cotangent.
    fn expand_all(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let (x, cotangent) = (rows(&inputs[0])?, rows(&inputs[3])?);
        let column =
            |index: usize| inputs[2].slice(0, index, index + 1)?.reshape(&[x.dims()[0], 1]);
        let (mean, factor) = (column(0)?, column(1)?);
        let standard = x.sub(&mean)?.mul(&factor)?;
        let slope = cotangent.mul(&inputs[1])?;
        let along = standard.mul(&slope.mul(&standard)?.mean_keep(&[1])?)?;
        let level = match self.0.centered {
            true => slope.sub(&slope.mean_keep(&[1])?)?,
            false => slope,
        };
        let to_rows = level.sub(&along)?.mul(&factor)?;
        let mut results = vec![to_rows.reshape(inputs[0].dims())?];
        results.push(cotangent.mul(&standard)?.sum(&[0])?);
        if self.0.centered {
            results.push(cotangent.sum(&[0])?);
        }
        if let Some(keys) = inputs.get(4) {
            let dropped = self.0.drop_by_keys(&to_rows, Some(keys))?;
            results.push(dropped.reshape(inputs[0].dims())?);
        }
        Ok(results)
    }

    fn kernel(&self, inputs: &[Shape]) -> Option<KernelUse> {
        let is_f32 = inputs[0].dtype == DType::F32;
        is_f32.then(|| KernelUse::of::<NormBackward>(self.0.attributes()))
    }
}
