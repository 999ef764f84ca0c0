//! Records a training step: forward, backward, the collectives of the
//! optimizer step over the `data` axis, clipping and the update.

use std::sync::Arc;

use traind_models::clip;
use traind_models::optimizers::{Optimizer, Scalars};
use traind_xla::autodiff::gradients;
use traind_xla::ops::ReduceKind;
use traind_xla::ops::random::Random;
use traind_xla::runtime::{InputSpec, Recording, Variable};
use traind_xla::{DType, Shape, Tensor};

use crate::failure::{RunError, RunResult};
use crate::forward::ForwardPass;
use crate::state::TrainState;

/// The optimizer's scalars, new in each step.
pub(crate) const SCALARS: &str = "scalars";
/// Steps done before, which seeds the step's random numbers.
pub(crate) const STEP: &str = "step";

/// What a step fetches, the same on every core.
pub(crate) const LOSS: &str = "loss";
pub(crate) const GRAD_NORM: &str = "grad_norm";

/// Everything that the recorded program depends on besides its shapes.
#[derive(Clone)]
pub(crate) struct TrainStep {
    pub forward: ForwardPass,
    pub optimizer: Arc<dyn Optimizer>,
    /// Replica groups of the `data` axis.
    pub data_groups: Vec<Vec<usize>>,
}

impl TrainStep {
    /// The inputs, in the order in which they are uploaded.
    pub(crate) fn inputs(&self, rows: usize, positions: usize) -> Vec<InputSpec> {
        let mut inputs = self.forward.layout.step_inputs(rows, positions);
        let scalars = Shape::new(DType::F32, [self.optimizer.scalar_names().len()]);
        inputs.push(InputSpec::new(SCALARS, scalars));
        inputs.push(InputSpec::new(STEP, Shape::scalar(DType::U32)));
        inputs
    }

    pub(crate) fn record(&self, at: &mut Recording<'_>, state: &TrainState) -> RunResult<()> {
        let parameters = read_all(at, state.parameters())?;
        let (loss_sum, weight_sum) = self.forward(at, state, &parameters)?;
        let wrt: Vec<&Tensor> = parameters.iter().collect();
        let local = gradients(&loss_sum, &wrt)?;
        let weight_sum = self.all_reduce(&weight_sum)?;
        let loss = self.all_reduce(&loss_sum)?.div(&weight_sum)?;
        at.fetch(LOSS, &loss);
        self.optimize(at, state, &parameters, &local, &weight_sum)
    }

    /// Sums of the loss and of the row weights over this core's rows.
    fn forward(
        &self,
        at: &mut Recording<'_>,
        state: &TrainState,
        parameters: &[Tensor],
    ) -> RunResult<(Tensor, Tensor)> {
        let seed = at.read(state.seed)?;
        let row_offset = at.read(state.row_offset)?;
        let rows = input(at, "weights")?.shape().element_count();
        let random = Random::new(&seed, &input(at, STEP)?, &row_offset)?.with_rows(rows);
        let output = self.forward.record(at, parameters, Some(&random))?;
        let loss = output.loss.ok_or_else(|| missing_input("labels"))?;
        Ok((loss.loss_sum, loss.weight_sum))
    }

    /// The optimizer step. `local` are the gradients of this core's loss sum.
    fn optimize(
        &self,
        at: &mut Recording<'_>,
        state: &TrainState,
        parameters: &[Tensor],
        local: &[Tensor],
        weight_sum: &Tensor,
    ) -> RunResult<()> {
        let reduced: Vec<Tensor> = state
            .layouts()
            .zip(local)
            .map(|(layout, gradient)| layout.reduce(gradient, &self.data_groups))
            .collect::<Result<_, _>>()?;
        let norm = self.norm(state, &reduced)?.div(weight_sum)?;
        at.fetch(GRAD_NORM, &norm);
        let max_norm = at.read(state.max_grad_norm)?;
        let scale = clip::coefficient(&norm, &max_norm)?.div(weight_sum)?;
        let scalars = Scalars::split(self.optimizer.as_ref(), &input(at, SCALARS)?)?;
        for (index, gradient) in reduced.iter().enumerate() {
            let gradient = gradient.mul(&scale)?;
            state.parameter(index).update(at, &parameters[index], &gradient, self, &scalars)?;
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
