//! Records a training step: forward, backward, the collectives of the optimizer
//! step over the `data` axis, clipping and the update.
//!
//! A step of one batch is one program. A step of several batches is a program
//! for each, which adds to sums on its core, and one that updates: batches of
//! one step may have different lengths, and a program for every combination
//! would be too many to compile. `fp16` takes the same two programs, since the
//! rate of an update hangs on whether the one before was skipped.

use std::sync::Arc;

use traind_models::clip;
use traind_models::optimizers::{Optimizer, Scalars};
use traind_xla::autodiff::gradients;
use traind_xla::ops::ReduceKind;
use traind_xla::ops::random::Random;
use traind_xla::runtime::{InputSpec, Recording, Variable};
use traind_xla::{DType, Shape, Tensor};

use super::ForwardPass;
use crate::error::{RunError, RunResult};
use crate::state::{Accumulation, TrainState};

/// The optimizer's scalars, new in each step.
pub(crate) const SCALARS: &str = "scalars";
/// Steps done before, which seeds the step's random numbers.
pub(crate) const STEP: &str = "step";
/// Rows of the step in the batches before, on all cores.
pub(crate) const FIRST_ROW: &str = "first_row";

/// What a step fetches, the same on every core.
pub(crate) const LOSS: &str = "loss";
pub(crate) const GRAD_NORM: &str = "grad_norm";
/// The loss scale after the step.
pub(crate) const LOSS_SCALE: &str = "loss_scale";
/// 1 where weights were updated, else 0.
pub(crate) const UPDATED: &str = "updated";

/// Everything that the recorded program depends on besides its shapes.
#[derive(Clone)]
pub(crate) struct TrainStep {
    pub forward: ForwardPass,
    pub optimizer: Arc<dyn Optimizer>,
    /// Replica groups of the `data` axis.
    pub data_groups: Vec<Vec<usize>>,
    /// Divides a scaled loss, so that the scale is about that of a mean: a power
    /// of two, which changes no digit.
    pub loss_divisor: f64,
}

/// The sum of gradients over all cores, and what it is divided by.
struct Reduced {
    gradients: Vec<Tensor>,
    weight_sum: Tensor,
}

impl TrainStep {
    /// The inputs of a step in one program, in the order in which they are uploaded.
    pub(crate) fn inputs(&self, rows: usize, positions: usize) -> Vec<InputSpec> {
        let mut inputs = self.forward.layout.step_inputs(rows, positions);
        inputs.extend(self.update_inputs());
        inputs.push(InputSpec::new(STEP, Shape::scalar(DType::U32)));
        inputs
    }

    /// The inputs of one batch of a step.
    pub(crate) fn accumulate_inputs(&self, rows: usize, positions: usize) -> Vec<InputSpec> {
        let mut inputs = self.forward.layout.step_inputs(rows, positions);
        inputs.push(InputSpec::new(STEP, Shape::scalar(DType::U32)));
        inputs.push(InputSpec::new(FIRST_ROW, Shape::scalar(DType::U32)));
        inputs
    }

    /// The inputs of the program that ends a step of several.
    pub(crate) fn update_inputs(&self) -> Vec<InputSpec> {
        let scalars = Shape::new(DType::F32, [self.optimizer.scalar_names().len()]);
        vec![InputSpec::new(SCALARS, scalars)]
    }

    /// A step in one program.
    pub(crate) fn record(&self, at: &mut Recording<'_>, state: &TrainState) -> RunResult<()> {
        let parameters = read_all(at, state.parameters())?;
        let row_offset = at.read(state.row_offset)?;
        let (loss_sum, weight_sum) = self.forward(at, state, &parameters, &row_offset)?;
        let wrt: Vec<&Tensor> = parameters.iter().collect();
        let local = gradients(&loss_sum, &wrt)?;
        let weight_sum = self.fetch_loss(at, &loss_sum, &weight_sum)?;
        let gradients = self.reduce(state, &local)?;
        self.optimize(at, state, Reduced { gradients, weight_sum })
    }

    /// One batch of a step: adds its gradients to those of the batches before.
    pub(crate) fn record_accumulate(
        &self,
        at: &mut Recording<'_>,
        state: &TrainState,
    ) -> RunResult<()> {
        let sums = accumulation(state)?;
        let parameters = read_all(at, state.parameters())?;
        let row_offset = at.read(state.row_offset)?.add(&input(at, FIRST_ROW)?)?;
        let (loss_sum, weight_sum) = self.forward(at, state, &parameters, &row_offset)?;
        let scaled = self.scaled(at, state, &loss_sum)?;
        let wrt: Vec<&Tensor> = parameters.iter().collect();
        for (&sum, gradient) in sums.gradients.iter().zip(gradients(&scaled, &wrt)?) {
            add(at, sum, &gradient)?;
        }
        add(at, sums.loss_sum, &loss_sum)?;
        add(at, sums.weight_sum, &weight_sum)
    }

    /// The end of a step whose batches were added up.
    pub(crate) fn record_update(
        &self,
        at: &mut Recording<'_>,
        state: &TrainState,
    ) -> RunResult<()> {
        let sums = accumulation(state)?;
        let local = read_all(at, sums.gradients.iter().copied())?;
        let (loss_sum, weight_sum) = (at.read(sums.loss_sum)?, at.read(sums.weight_sum)?);
        let weight_sum = self.fetch_loss(at, &loss_sum, &weight_sum)?;
        let gradients = self.reduce(state, &local)?;
        // What the gradients have to be divided by is the scale too.
        let weight_sum = self.scaled(at, state, &weight_sum)?;
        self.optimize(at, state, Reduced { gradients, weight_sum })?;
        sums.reset(at)
    }

    /// `value` times the loss scale, where there is one.
    fn scaled(
        &self,
        at: &mut Recording<'_>,
        state: &TrainState,
        value: &Tensor,
    ) -> RunResult<Tensor> {
        let Some(loss_scale) = &state.loss_scale else { return Ok(value.clone()) };
        let scale = at.read(loss_scale.scale)?.mul_scalar(1.0 / self.loss_divisor)?;
        Ok(value.mul(&scale)?)
    }

    /// Sums of the loss and of the sample weights over this core's rows.
    fn forward(
        &self,
        at: &mut Recording<'_>,
        state: &TrainState,
        parameters: &[Tensor],
        row_offset: &Tensor,
    ) -> RunResult<(Tensor, Tensor)> {
        let seed = at.read(state.seed)?;
        let rows = input(at, "sample_weights")?.shape().element_count();
        let random = Random::new(&seed, &input(at, STEP)?, row_offset)?.with_rows(rows);
        let output = self.forward.record(at, parameters, Some(&random))?;
        let loss = output.loss.ok_or_else(|| missing_input("labels"))?;
        Ok((loss.loss_sum, loss.weight_sum))
    }

    /// Fetches the mean loss over all cores; returns what it was divided by: the sum of the
    /// weights, and 1 where nothing has a weight. The loss and the gradients of such a step
    /// are 0, not 0 divided by 0: then the weights would be lost.
    fn fetch_loss(
        &self,
        at: &mut Recording<'_>,
        loss_sum: &Tensor,
        weight_sum: &Tensor,
    ) -> RunResult<Tensor> {
        let weight_sum = self.all_reduce(weight_sum)?;
        let one = at.trace().scalar(1.0, DType::F32)?;
        let weight_sum = weight_sum.gt_scalar(0.0)?.select(&weight_sum, &one)?;
        let loss = self.all_reduce(loss_sum)?.div(&weight_sum)?;
        at.fetch(LOSS, &loss);
        Ok(weight_sum)
    }

    /// The sums over all cores of `local`, the gradients of this core's loss sum.
    fn reduce(&self, state: &TrainState, local: &[Tensor]) -> RunResult<Vec<Tensor>> {
        let reduced = state
            .layouts()
            .zip(local)
            .map(|(layout, gradient)| layout.reduce(gradient, &self.data_groups));
        Ok(reduced.collect::<Result<_, _>>()?)
    }

    /// Clips and updates.
    fn optimize(
        &self,
        at: &mut Recording<'_>,
        state: &TrainState,
        Reduced { gradients, weight_sum }: Reduced,
    ) -> RunResult<()> {
        let norm = self.norm(state, &gradients)?.div(&weight_sum)?;
        at.fetch(GRAD_NORM, &norm);
        // Any gradient that is not finite makes the norm so.
        let finite = state.loss_scale.as_ref().map(|_| is_finite(&norm)).transpose()?;
        let max_norm = at.read(state.max_grad_norm)?;
        let factor = clip::coefficient(&norm, &max_norm)?.div(&weight_sum)?;
        let scalars = Scalars::split(self.optimizer.as_ref(), &input(at, SCALARS)?)?;
        for (index, gradient) in gradients.iter().enumerate() {
            let gradient = gradient.mul(&factor)?;
            state.parameter(index).update(at, &gradient, self, &scalars, finite.as_ref())?;
        }
        if let (Some(loss_scale), Some(finite)) = (&state.loss_scale, &finite) {
            let scale = loss_scale.advance(at, finite)?;
            at.fetch(LOSS_SCALE, &scale);
            at.fetch(UPDATED, &finite.convert(DType::F32)?);
        }
        Ok(())
    }

    /// The norm of the summed gradients, of which a core may hold only shards.
    fn norm(&self, state: &TrainState, reduced: &[Tensor]) -> RunResult<Tensor> {
        let (shards, whole): (Vec<_>, Vec<_>) =
            state.layouts().zip(reduced.iter().cloned()).partition(|(layout, _)| layout.is_shard());
        let tensors = |part: Vec<(_, Tensor)>| part.into_iter().map(|(_, t)| t).collect::<Vec<_>>();
        let (shards, whole) = (tensors(shards), tensors(whole));
        let trace = reduced[0].trace();
        let mut total = clip::square_sum(trace, &whole)?;
        if !shards.is_empty() {
            total = total.add(&self.all_reduce(&clip::square_sum(trace, &shards)?)?)?;
        }
        Ok(total.sqrt()?)
    }

    fn all_reduce(&self, value: &Tensor) -> RunResult<Tensor> {
        Ok(value.all_reduce(ReduceKind::Sum, &self.data_groups)?)
    }
}

/// Adds to a variable.
fn add(at: &mut Recording<'_>, sum: Variable, value: &Tensor) -> RunResult<()> {
    let total = at.read(sum)?.add(value)?;
    Ok(at.assign(sum, &total)?)
}

/// Neither infinite nor NaN, for which no comparison holds.
fn is_finite(value: &Tensor) -> RunResult<Tensor> {
    Ok(value.abs()?.le_scalar(f64::from(f32::MAX))?)
}

fn accumulation(state: &TrainState) -> RunResult<&Accumulation> {
    state.accumulation.as_ref().ok_or_else(|| missing_input("gradients"))
}

fn read_all(
    at: &mut Recording<'_>,
    variables: impl Iterator<Item = Variable>,
) -> RunResult<Vec<Tensor>> {
    variables.map(|variable| Ok(at.read(variable)?)).collect()
}

fn input(at: &Recording<'_>, name: &str) -> RunResult<Tensor> {
    at.input(name).cloned().ok_or_else(|| missing_input(name))
}

fn missing_input(name: &str) -> RunError {
    traind_models::Error::MissingInput { name: name.to_owned() }.into()
}
