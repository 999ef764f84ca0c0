//! Records the programs of a training step whose batches pass through chunks of the model: the forward
//! pass of each, its backward pass, the sums of each stage and its update. A model in one chunk takes
//! the backward program alone.
//!
//! The backward program reads what the forward one keeps of a micro-batch: the activations, or the inputs of
//! layers with `gradient_checkpointing`. That of the last chunk is also its forward pass. The two are halves of one
//! recording, so that the values that one keeps are those that the other reads.

use traind_loader::BatchSizes;
use traind_models::HiddenStates;
use traind_xla::runtime::{Half, RecordedStep, Recorder, Recording, StepInput};
use traind_xla::{DType, Shape, Tensor};

use super::TrainStep;
use super::forward::Passed;
use super::train_step::{
    FIRST_ROW, GradientSums, LossSums, METRICS, STEP, accumulation, add, fetch_mean_loss, input,
    loss_sums,
};
use crate::error::Result;
use crate::state::{Gradient, Loan, ParameterValue, TrainState, UpdatePart};

/// The gradients of the states that a chunk hands on, and of those that it reads.
const GRADIENTS: [&str; 2] = ["state_gradients", "source_state_gradients"];

/// Sums of a stage over its cores: loss and weights of the last stage, and the squares of gradients.
pub(crate) const SUMS: [&str; 3] = ["loss_sum", "weight_sum", "square_sum"];
/// The sums of a task's metrics over the cores of the last stage, f32[M]; zeros of other stages.
pub(crate) const METRIC_SUMS: &str = "metric_sums";
/// The sums of all stages, f32[3 + M].
const TOTALS: &str = "totals";

impl TrainStep {
    /// The inputs of the forward pass of `chunk`.
    pub(super) fn forward_inputs(
        &self,
        sizes: &BatchSizes,
        chunk: usize,
    ) -> Result<Vec<StepInput>> {
        let shared = [STEP, FIRST_ROW].map(|name| StepInput::new(name, Shape::scalar(DType::U32)));
        let shared = shared.into_iter().chain(self.noise_input()).chain(self.cache_input());
        self.forward.inputs(sizes, shared, chunk)
    }

    /// The inputs of one batch of a step in `chunk`: also the gradients of the states that it hands on.
    fn accumulate_inputs(&self, sizes: &BatchSizes, chunk: usize) -> Result<Vec<StepInput>> {
        let mut inputs = self.forward_inputs(sizes, chunk)?;
        if !self.forward.chunks.is_last(chunk) {
            inputs.extend(self.forward.state_inputs(sizes, GRADIENTS)?);
        }
        Ok(inputs)
    }

    /// The inputs of the program that ends a stage's step: the scalars, and the sums of all stages.
    pub(crate) fn stage_update_inputs(&self) -> Vec<StepInput> {
        let mut inputs = self.update_inputs();
        let totals = Shape::new(DType::F32, [SUMS.len() + self.metrics()]);
        inputs.push(StepInput::new(TOTALS, totals));
        inputs
    }

    /// Records the forward pass of a chunk, which leaves its states on the core, and what the backward pass reads.
    pub(crate) fn record_forward(
        &self,
        recorder: &Recorder,
        state: &TrainState,
        sizes: &BatchSizes,
        chunk: usize,
    ) -> Result<RecordedStep> {
        let inputs = self.forward_inputs(sizes, chunk)?;
        recorder.record_half(Half::First, &inputs, |at| self.record_passes(at, state, chunk))
    }

    /// Records one batch of a step in a chunk, which adds its gradients to those of earlier batches. Only the last
    /// chunk has its forward pass in the same program.
    pub(crate) fn record_accumulate(
        &self,
        recorder: &Recorder,
        state: &TrainState,
        sizes: &BatchSizes,
        chunk: usize,
    ) -> Result<RecordedStep> {
        let inputs = self.accumulate_inputs(sizes, chunk)?;
        recorder.record_half(Half::Second, &inputs, |at| self.record_passes(at, state, chunk))
    }

    /// Records both passes of a chunk, with a division between them if it is not the last.
    fn record_passes(
        &self,
        at: &mut Recording<'_>,
        state: &TrainState,
        chunk: usize,
    ) -> Result<()> {
        let parameters = state.read_parameters(at, chunk)?;
        let row_offset = at.read(state.row_offset)?.add(&input(at, FIRST_ROW)?)?;
        let loss = match self.forward(at, state, &parameters, &row_offset, chunk)? {
            Passed::States(states) => {
                Passed::send(at, &states);
                at.divide();
                with_gradients(at, &states)?
            }
            output @ Passed::Output(_) => {
                let (found, sums) = (loss_sums(output)?, accumulation(state)?);
                add(at, sums.loss_sum, &found.loss)?;
                add(at, sums.weight_sum, &found.weight)?;
                if let (Some(sum), Some(metrics)) = (sums.metric_sums, &found.metrics) {
                    add(at, sum, metrics)?;
                }
                self.scaled(at, state, &found.loss)?
            }
        };
        self.accumulate(at, &loss, &parameters, chunk)
    }

    /// Records that the gradients of `loss` are added to those of earlier batches, and that those of the states that
    /// `chunk` reads remain on the core, for the chunk before.
    pub(super) fn accumulate(
        &self,
        at: &mut Recording<'_>,
        loss: &Tensor,
        parameters: &[ParameterValue<'_>],
        chunk: usize,
    ) -> Result<()> {
        let before = self.forward.states_before(at, chunk);
        let of_states = Gradient::accumulate(at, loss, parameters, &before, &self.mesh)?;
        of_states.iter().for_each(|gradient| at.send(gradient));
        Ok(())
    }

    /// The inputs of [`TrainStep::record_reduce`]: the gradient sums of the stages that borrow.
    pub(crate) fn reduce_inputs(&self, state: &TrainState, loans: &[Loan]) -> Vec<StepInput> {
        let inputs = loans.iter().filter_map(|loan| {
            let shape = state.parameter(loan.parameter)?.sum_shape()?;
            Some(StepInput::new(borrowed(loan), shape))
        });
        inputs.collect()
    }

    /// Records the sums of a stage over its cores. `loans` are those of its own parameters.
    pub(crate) fn record_reduce(
        &self,
        at: &mut Recording<'_>,
        state: &TrainState,
        loans: &[Loan],
    ) -> Result<()> {
        let mut local = state.read_gradient_sums(at)?;
        for gradient in &mut local {
            let index = gradient.index();
            for loan in loans.iter().filter(|loan| loan.parameter == index) {
                *gradient = gradient.clone().plus(&input(at, &borrowed(loan))?)?;
            }
        }
        let reduced = Gradient::all_reduced(&local, &self.mesh, None)?;
        for (gradient, sum) in local.iter().zip(&reduced) {
            gradient.store(at, sum)?;
        }
        let sums = LossSums::read(at, accumulation(state)?)?;
        let totals = self.totals(&sums)?;
        let sums = [totals.loss, totals.weight, self.square_sum(at, &reduced)?];
        SUMS.iter().zip(&sums).for_each(|(name, sum)| at.fetch(*name, sum));
        if let Some(metrics) = &totals.metrics {
            at.fetch(METRIC_SUMS, metrics);
        }
        Ok(())
    }

    /// Records a part of the update of a stage's parameters from the sums of all stages.
    pub(crate) fn record_stage_update(
        &self,
        at: &mut Recording<'_>,
        state: &TrainState,
        part: &UpdatePart,
    ) -> Result<()> {
        let totals = input(at, TOTALS)?;
        let total = |index| totals.slice(0, index, index + 1)?.reshape(&[]);
        let [loss_sum, weight_sum, square_sum] = [total(0)?, total(1)?, total(2)?];
        let sums = state.read_stored_sums(at, part)?;
        let reduced = Gradient::all_reduced(&sums, &self.mesh, None)?;
        let weight_sum = fetch_mean_loss(at, &loss_sum, &weight_sum)?;
        if self.metrics() > 0 && part.is_last {
            let metrics = totals.slice(0, SUMS.len(), SUMS.len() + self.metrics())?;
            at.fetch(METRICS, &metrics.div(&weight_sum)?);
        }
        // The gradients are sums of the scaled loss.
        let weight_sum = self.scaled(at, state, &weight_sum)?;
        let norm = square_sum.sqrt()?.div(&weight_sum)?;
        let sums = GradientSums { weight_sum: &weight_sum, norm: &norm };
        self.optimize(at, state, &reduced, sums, part.is_last)?;
        state.reset_sums(at, part)
    }
}

/// A scalar whose gradient with respect to `states` is that which the chunk behind gave. The forward pass does not
/// know it, nor need it.
fn with_gradients(at: &Recording<'_>, states: &HiddenStates) -> Result<Tensor> {
    let mut total = at.trace().scalar(0.0, DType::F32)?;
    for (name, states) in GRADIENTS.iter().zip(states.tensors()) {
        let axes: Vec<usize> = (0..states.rank()).collect();
        let states = states.convert(DType::F32)?;
        let gradient = match at.input(name) {
            Some(gradient) => gradient.clone(),
            None => at.trace().full(0.0, states.shape().clone())?,
        };
        let product = states.mul(&gradient)?;
        total = total.add(&product.sum(&axes)?)?;
    }
    Ok(total)
}

/// The input with the gradient sum of a stage that borrows a parameter.
fn borrowed(loan: &Loan) -> String {
    format!("borrowed.{}.{}", loan.borrower, loan.parameter)
}
