//! Records a training step: forward and backward pass, the collectives over the `data` axis, clipping
//! and the update. The collectives over the `tensor` axis are those of the layers, and of the norm.
//!
//! A step of one batch is one program. A step of several batches is one program for each, which adds
//! to sums on its core, and one that updates: the batches of a step may have different lengths, and
//! there are too many combinations to compile a program for each. `fp16` uses the same two programs,
//! since the learning rate of an update depends on whether the previous one was skipped. The programs
//! of a pipeline are in `chunk_steps`.

use std::collections::BTreeMap;
use std::sync::Arc;

use traind_loader::BatchSizes;
use traind_models::clip;
use traind_models::optimizers::Optimizers;
use traind_models::tasks::preference::Preferences;
use traind_xla::mesh::{Axis, Mesh};
use traind_xla::ops::ReduceKind;
use traind_xla::ops::random::Random;
use traind_xla::runtime::{Recording, StepInput, Variable};
use traind_xla::{DType, Shape, Tensor};

use super::config::StepConfig;
use super::forward::{EMBEDDING_NOISE, ForwardPass, PassParameters, Passed};
use crate::error::{Error, Result};
use crate::state::{Accumulation, Gradient, ParameterUpdate, ParameterValue, TrainState};

/// The optimizer's scalars for this step.
pub(crate) const SCALARS: &str = "scalars";
/// The steps done before, which seed the random numbers.
pub(super) const STEP: &str = "step";
/// The number of rows, on all cores, in the step's earlier batches.
pub(crate) const FIRST_ROW: &str = "first_row";

/// Results of a step, the same on every core.
pub const LOSS: &str = "loss";
/// The norm of all gradients.
pub const GRAD_NORM: &str = "grad_norm";
/// The means of the task's metrics, where it has any.
pub const METRICS: &str = "metrics";
/// The loss scale after the step.
pub const LOSS_SCALE: &str = "loss_scale";
/// 1 where parameters were updated, else 0.
pub const UPDATED: &str = "updated";

/// Everything besides its shapes that a recorded step depends on.
#[derive(Clone)]
pub struct TrainStep {
    /// The forward pass and the loss.
    pub forward: ForwardPass,
    /// The updates of the parameters.
    pub optimizers: Arc<Optimizers>,
    /// The cores of the run: this host's, and the number of hosts.
    pub mesh: Mesh,
    /// Divides a scaled loss, so that its magnitude is that of a mean. A power of two, which rounds
    /// nothing.
    pub loss_divisor: f64,
}

impl TrainStep {
    /// The step of `config` on the cores of `mesh`.
    pub fn new(config: &StepConfig, forward: ForwardPass, mesh: Mesh) -> Result<TrainStep> {
        let loss_divisor = config.rows_per_step.next_power_of_two() as f64;
        let optimizers = Arc::new(config.optimizer.optimizers()?);
        Ok(TrainStep { forward, optimizers, mesh, loss_divisor })
    }

    /// The step of batches of the set that one of `sizes` is of.
    pub(crate) fn of_set(&self, sizes: &BatchSizes) -> TrainStep {
        TrainStep { forward: self.forward.of_set(sizes), ..self.clone() }
    }

    /// The inputs of a step in one program, in the order in which they are uploaded.
    pub fn inputs(&self, sizes: &BatchSizes) -> Vec<StepInput> {
        let mut inputs = self.forward.layout.step_inputs(sizes);
        inputs.extend(self.update_inputs());
        inputs.push(StepInput::new(STEP, Shape::scalar(DType::U32)));
        inputs.extend(self.noise_input());
        inputs
    }

    /// The number of the task's metrics, of which each step gives the means.
    pub(super) fn metrics(&self) -> usize {
        self.forward.preference.as_ref().map_or(0, |objective| objective.columns())
    }

    pub(super) fn noise_input(&self) -> Option<StepInput> {
        let input = StepInput::new(EMBEDDING_NOISE, Shape::scalar(DType::F32));
        self.forward.embedding_noise.then_some(input)
    }

    /// The inputs of the program that ends a step of several.
    pub(crate) fn update_inputs(&self) -> Vec<StepInput> {
        let scalars = Shape::new(DType::F32, [self.optimizers.scalar_count()]);
        vec![StepInput::new(SCALARS, scalars)]
    }

    /// Records a step in one program.
    pub fn record(&self, at: &mut Recording<'_>, state: &TrainState) -> Result<()> {
        let parameters = state.read_parameters(at, 0)?;
        let row_offset = at.read(state.row_offset)?;
        let sums = loss_sums(self.forward(at, state, &parameters, &row_offset, 0)?)?;
        let local = Gradient::of_loss(&sums.loss, &parameters)?;
        let weight_sum = self.fetch_loss(at, &sums)?;
        let numbers = state.shard_numbers(at)?;
        let shard = numbers.as_ref().map(|numbers| &numbers.shard);
        let reduced = Gradient::all_reduced(&local, &self.mesh, shard)?;
        let norm = self.square_sum(at, &reduced)?.sqrt()?.div(&weight_sum)?;
        let sums = GradientSums { weight_sum: &weight_sum, norm: &norm };
        self.optimize(at, state, &reduced, sums, true)
    }

    /// Records the end of a step of several batches.
    pub(crate) fn record_update(&self, at: &mut Recording<'_>, state: &TrainState) -> Result<()> {
        let sums = accumulation(state)?;
        let local = state.read_gradient_sums(at)?;
        let sums = LossSums::read(at, sums)?;
        let weight_sum = self.fetch_loss(at, &sums)?;
        let reduced = Gradient::all_reduced(&local, &self.mesh, None)?;
        // The gradients are sums of the scaled loss.
        let weight_sum = self.scaled(at, state, &weight_sum)?;
        let norm = self.square_sum(at, &reduced)?.sqrt()?.div(&weight_sum)?;
        let sums = GradientSums { weight_sum: &weight_sum, norm: &norm };
        self.optimize(at, state, &reduced, sums, true)?;
        state.update_parts().iter().try_for_each(|part| state.reset_sums(at, part))
    }

    /// Returns `value` times the loss scale, if there is one.
    pub(super) fn scaled(
        &self,
        at: &mut Recording<'_>,
        state: &TrainState,
        value: &Tensor,
    ) -> Result<Tensor> {
        let Some(loss_scale) = &state.loss_scale else { return Ok(value.clone()) };
        let scale = at.read(loss_scale.scale)?.mul_scalar(1.0 / self.loss_divisor)?;
        Ok(value.mul(&scale)?)
    }

    /// Returns the result of `chunk` for this core's rows, the first of which is `row_offset`.
    pub(super) fn forward(
        &self,
        at: &mut Recording<'_>,
        state: &TrainState,
        parameters: &[ParameterValue<'_>],
        row_offset: &Tensor,
        chunk: usize,
    ) -> Result<Passed> {
        let seed = at.read(state.seed)?;
        let rows = input(at, "sample_weights")?.shape().element_count();
        let row_offset = match self.forward.layout.sequences() {
            1 => row_offset.clone(),
            sequences => row_offset.mul_scalar(sequences as f64)?,
        };
        let random = Random::new(&seed, &input(at, STEP)?, &row_offset)?.with_rows(rows);
        let random = self.forward.random_of(chunk, random)?;
        let parameters = PassParameters {
            reference: state.reference_tensors(at, parameters)?,
            trained: state.tensors(at, parameters)?,
            shard: self.forward.shard(at, state)?,
        };
        self.forward.record(at, parameters, Some(&random), chunk)
    }

    /// Fetches the means of loss and metrics over all cores. Returns their divisor.
    fn fetch_loss(&self, at: &mut Recording<'_>, sums: &LossSums) -> Result<Tensor> {
        let totals = self.totals(sums)?;
        let divisor = fetch_mean_loss(at, &totals.loss, &totals.weight)?;
        if let Some(metrics) = &totals.metrics {
            at.fetch(METRICS, &metrics.div(&divisor)?);
        }
        Ok(divisor)
    }

    /// Clips by the `norm` of all gradients and updates. Dividing by `weight_sum` turns the sums
    /// `reduced` into means. `ends_step`: no other program of the step reads the loss scale.
    pub(super) fn optimize(
        &self,
        at: &mut Recording<'_>,
        state: &TrainState,
        reduced: &[Gradient<'_>],
        GradientSums { weight_sum, norm }: GradientSums<'_>,
        ends_step: bool,
    ) -> Result<()> {
        at.fetch(GRAD_NORM, norm);
        // The norm is finite exactly where all gradients are.
        let finite = state.loss_scale.as_ref().map(|_| is_finite(norm)).transpose()?;
        let max_norm = at.read(state.max_grad_norm)?;
        let factor = clip::coefficient(norm, &max_norm)?.div(weight_sum)?;
        let scalars = self.optimizers.split(&input(at, SCALARS)?)?;
        let shard = state.shard_numbers(at)?;
        let update = ParameterUpdate {
            optimizers: self.optimizers.as_ref(),
            scalars: &scalars,
            factor: &factor,
            only_if: finite.as_ref(),
            mesh: &self.mesh,
            shard: shard.as_ref(),
            tensor_index: state.tensor_index(),
        };
        update.apply(at, reduced)?;
        if let (Some(loss_scale), Some(finite), true) = (&state.loss_scale, &finite, ends_step) {
            let scale = loss_scale.advance(at, finite)?;
            at.fetch(LOSS_SCALE, &scale);
            at.fetch(UPDATED, &finite.convert(DType::F32)?);
        }
        Ok(())
    }

    /// The sum of the squares of the summed gradients, of some of which cores have different parts.
    pub(super) fn square_sum(
        &self,
        at: &Recording<'_>,
        reduced: &[Gradient<'_>],
    ) -> Result<Tensor> {
        let mut parts: BTreeMap<Holders, Vec<&Gradient<'_>>> = BTreeMap::new();
        for gradient in reduced {
            parts.entry(Holders::of(gradient)).or_default().push(gradient);
        }
        let whole = parts.remove(&Holders::WHOLE).unwrap_or_default();
        let mut total = clip::square_sum(at.trace(), by_layer(&whole))?;
        for (Holders { axes, is_over_hosts, copies }, part) in parts {
            let sum = clip::square_sum(at.trace(), by_layer(&part))?;
            let sum = match is_over_hosts {
                true => sum.all_reduce_over(ReduceKind::Sum, &self.mesh, &axes)?,
                false => sum.all_reduce(ReduceKind::Sum, &self.mesh.groups(&axes))?,
            };
            // Each copy has added its squares.
            let sum = if copies == 1 { sum } else { sum.mul_scalar(1.0 / copies as f64)? };
            total = total.add(&sum)?;
        }
        Ok(total)
    }

    /// The sums over the rows of all cores, each in a collective of its own: XLA's compiler for GPUs aborts on one of
    /// two numbers.
    pub(super) fn totals(&self, sums: &LossSums) -> Result<LossSums> {
        let all_reduce =
            |value: &Tensor| value.all_reduce_over(ReduceKind::Sum, &self.mesh, &[Axis::Data]);
        let metrics = sums.metrics.as_ref().map(all_reduce).transpose()?;
        Ok(LossSums { loss: all_reduce(&sums.loss)?, weight: all_reduce(&sums.weight)?, metrics })
    }
}

/// The cores that hold the parts of a gradient.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Holders {
    /// The axes along which cores of a host have different parts.
    axes: Vec<Axis>,
    /// Whether those of other hosts have different parts too.
    is_over_hosts: bool,
    /// The number of cores along these axes that have the same part.
    copies: usize,
}

impl Holders {
    /// Each core holds the whole gradient, and counts it once.
    const WHOLE: Holders = Holders { axes: Vec::new(), is_over_hosts: false, copies: 1 };

    fn of(gradient: &Gradient<'_>) -> Holders {
        Holders {
            axes: gradient.axes(),
            is_over_hosts: gradient.is_over_hosts(),
            copies: gradient.copies(),
        }
    }
}

/// The sums that gradients are divided by, and clipped with: f32 scalars.
#[derive(Clone, Copy)]
pub(super) struct GradientSums<'a> {
    /// The sum of the sample weights, times the loss scale where there is one.
    pub weight_sum: &'a Tensor,
    /// The norm of all gradients.
    pub norm: &'a Tensor,
}

/// Sums over this core's rows.
pub(super) struct LossSums {
    pub loss: Tensor,
    /// The sum of the sample weights.
    pub weight: Tensor,
    /// The sums of the task's metrics, f32[M], where it has any.
    pub metrics: Option<Tensor>,
}

impl LossSums {
    /// Reads the sums of a step's batches.
    pub(super) fn read(at: &mut Recording<'_>, sums: &Accumulation) -> Result<LossSums> {
        let metrics = sums.metric_sums.map(|sums| at.read(sums)).transpose()?;
        Ok(LossSums { loss: at.read(sums.loss_sum)?, weight: at.read(sums.weight_sum)?, metrics })
    }
}

pub(super) fn loss_sums(passed: Passed) -> Result<LossSums> {
    let last = match passed {
        Passed::Output(last) => Some(last),
        Passed::States(_) => None,
    };
    let missing = || missing_input("labels");
    let last = last.ok_or_else(missing)?;
    let metrics = last.preferences.as_ref().map(Preferences::metric_sums).transpose()?;
    let loss = last.output.loss.ok_or_else(missing)?;
    Ok(LossSums { loss: loss.loss_sum, weight: loss.weight_sum, metrics })
}

/// Fetches the mean loss from the sums of the loss and of the sample weights. Returns its divisor: the
/// sum of the weights, or 1 where that is 0, so that loss and gradients of a step without labels are 0
/// and not NaN.
pub(super) fn fetch_mean_loss(
    at: &mut Recording<'_>,
    loss_sum: &Tensor,
    weight_sum: &Tensor,
) -> Result<Tensor> {
    let one = at.trace().scalar(1.0, DType::F32)?;
    let weight_sum = weight_sum.gt_scalar(0.0)?.select(weight_sum, &one)?;
    at.fetch(LOSS, &loss_sum.div(&weight_sum)?);
    Ok(weight_sum)
}

/// Records that `value` is added to a variable.
pub(super) fn add(at: &mut Recording<'_>, sum: Variable, value: &Tensor) -> Result<()> {
    let total = at.read(sum)?.add(value)?;
    Ok(at.assign(sum, &total)?)
}

/// Every comparison with NaN is false, so this covers NaN and both infinities.
fn is_finite(value: &Tensor) -> Result<Tensor> {
    Ok(value.abs()?.le_scalar(f64::from(f32::MAX))?)
}

pub(super) fn accumulation(state: &TrainState) -> Result<&Accumulation> {
    state.accumulation.as_ref().ok_or_else(|| missing_input("gradients"))
}

pub(super) fn input(at: &Recording<'_>, name: &str) -> Result<Tensor> {
    at.input(name).cloned().ok_or_else(|| missing_input(name))
}

/// The values of each layer, so that programs of more layers repeat what those of fewer do.
fn by_layer<'a>(gradients: &[&'a Gradient<'_>]) -> impl Iterator<Item = Vec<&'a Tensor>> {
    let layers = gradients.chunk_by(|one, next| one.layer() == next.layer());
    layers.map(|layer| layer.iter().map(|gradient| &gradient.value).collect())
}

fn missing_input(name: &str) -> Error {
    traind_models::Error::MissingInput { name: name.to_owned() }.into()
}
