//! The gradient of a parameter in a recorded program, and its sum over cores.

use traind_xla::Tensor;
use traind_xla::autodiff::accumulated_gradients;
use traind_xla::mesh::{Axis, Mesh};
use traind_xla::ops::ReduceKind;
use traind_xla::runtime::Recording;

use super::training::Training;
use super::{ParameterState, ParameterValue};
use crate::error::Result;
use crate::state::Layout;

/// A trained parameter and its gradient in a recorded program.
#[derive(Clone, Debug)]
pub(crate) struct Gradient<'a> {
    pub(super) parameter: &'a ParameterState,
    pub(super) training: &'a Training,
    pub value: Tensor,
    /// The cores whose gradients are added in it.
    over: Cores,
}

/// The cores over which a gradient is summed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cores {
    /// Its own alone: each core has the gradient of its rows.
    Own,
    /// The cores of this host, each of which has a shard of the sum that other hosts have too.
    Host,
    /// All cores of the job.
    Job,
}

impl Cores {
    /// Returns the cores over which a gradient of `training` is reduced at once.
    fn of(training: &Training) -> Cores {
        match training.distribution.layout() {
            Layout::Shard { shards, .. } if shards.hosts == 1 => Cores::Host,
            _ => Cores::Job,
        }
    }
}

/// A trained parameter, and its value in a recorded program.
#[derive(Clone, Copy)]
struct Trained<'a, 'v> {
    parameter: &'a ParameterState,
    training: &'a Training,
    value: &'v Tensor,
}

/// Returns those of `parameters` that are trained.
fn trained<'a, 'v>(parameters: &'v [ParameterValue<'a>]) -> Vec<Trained<'a, 'v>> {
    let trained = parameters.iter().filter_map(|it| {
        let ParameterValue { parameter, value } = it;
        Some(Trained { parameter, training: parameter.training.as_ref()?, value })
    });
    trained.collect()
}

impl Trained<'_, '_> {
    /// The sum that the backward pass adds to: none where cores reduce the gradient first.
    fn sum(&self, at: &mut Recording<'_>) -> Result<Option<Tensor>> {
        let is_own = self.parameter.cores_of_gradient(self.training) == Cores::Own;
        let sum = self.training.gradient_sum.filter(|_| !(is_own && self.training.sums_reduced));
        Ok(sum.map(|sum| at.read(sum)).transpose()?)
    }
}

impl ParameterState {
    /// The cores over which the backward pass has summed the gradient. That of a shard is a part of the sum over
    /// `data`.
    fn cores_of_gradient(&self, training: &Training) -> Cores {
        match self.distribution.layout().is_shard() {
            true if !training.adds_tensor_cores => Cores::of(training),
            _ => Cores::Own,
        }
    }

    pub(in crate::state) fn read_gradient_sum(
        &self,
        at: &mut Recording<'_>,
    ) -> Option<Result<Gradient<'_>>> {
        let training = self.training.as_ref().filter(|_| self.is_owned())?;
        let sum = at.read(training.gradient_sum?);
        let over = if training.sums_reduced { Cores::of(training) } else { Cores::Own };
        let gradient = |value| Gradient { parameter: self, training, value, over };
        Some(sum.map(gradient).map_err(Into::into))
    }
}

impl<'a> Gradient<'a> {
    /// The gradients of `loss`, a scalar, with respect to the trained ones of `parameters`.
    pub(crate) fn of_loss(
        loss: &Tensor,
        parameters: &[ParameterValue<'a>],
    ) -> Result<Vec<Gradient<'a>>> {
        let trained = trained(parameters);
        let values: Vec<&Tensor> = trained.iter().map(|it| it.value).collect();
        let gradients = traind_xla::autodiff::gradients(loss, &values)?;
        Ok(gradients.into_iter().zip(trained).map(|(value, of)| Gradient::of(of, value)).collect())
    }

    /// Records that the gradients of `loss` are added to the step's sums. Returns its gradients with respect to
    /// `others`.
    pub(crate) fn accumulate(
        at: &mut Recording<'_>,
        loss: &Tensor,
        parameters: &[ParameterValue<'a>],
        others: &[Tensor],
        mesh: &Mesh,
    ) -> Result<Vec<Tensor>> {
        let trained = trained(parameters);
        let wrt: Vec<&Tensor> = trained.iter().map(|it| it.value).chain(others).collect();
        let mut sums = trained.iter().map(|it| it.sum(at)).collect::<Result<Vec<_>>>()?;
        sums.resize(wrt.len(), None);
        let mut gradients = accumulated_gradients(loss, &wrt, &sums)?;
        let of_others = gradients.split_off(trained.len());
        for ((of, value), sum) in trained.into_iter().zip(gradients).zip(sums) {
            let Some(variable) = of.training.gradient_sum else { continue };
            let total = match sum {
                Some(_) => value,
                None => {
                    let reduced = Gradient::of(of, value).reduced_at_once(mesh)?;
                    at.read(variable)?.add(&reduced.value)?
                }
            };
            at.assign(variable, &total)?;
        }
        Ok(of_others)
    }

    fn of(Trained { parameter, training, .. }: Trained<'a, '_>, value: Tensor) -> Gradient<'a> {
        Gradient { parameter, training, value, over: parameter.cores_of_gradient(training) }
    }

    /// The place of the parameter among those of the model.
    pub(crate) fn index(&self) -> usize {
        self.parameter.index()
    }

    /// The sum with that of another stage, which reads the same parameter.
    pub(crate) fn plus(self, other: &Tensor) -> Result<Gradient<'a>> {
        Ok(Gradient { value: self.value.add(other)?, ..self })
    }

    /// Records that the sum is kept for the program that updates: reduced, unless a shard of the whole
    /// sum is, which has another shape.
    pub(crate) fn store(&self, at: &mut Recording<'_>, reduced: &Gradient<'_>) -> Result<()> {
        let Some(sum) = self.training.gradient_sum else { return Ok(()) };
        let kept = if self.stores_reduced() { &reduced.value } else { &self.value };
        Ok(at.assign(sum, kept)?)
    }

    /// A sum that was kept by [`Gradient::store`].
    pub(in crate::state) fn stored(self) -> Gradient<'a> {
        Gradient { over: if self.stores_reduced() { Cores::Job } else { Cores::Own }, ..self }
    }

    fn stores_reduced(&self) -> bool {
        self.training.sums_reduced || !self.training.distribution.layout().is_shard()
    }

    /// The axes along which cores of this host have different parts of the reduced gradient.
    pub(crate) fn axes(&self) -> Vec<Axis> {
        self.training.distribution.axes()
    }

    /// Whether those of other hosts have different parts too.
    pub(crate) fn is_over_hosts(&self) -> bool {
        self.training.distribution.is_over_hosts()
    }

    /// The number of cores along these axes that have the same part.
    pub(crate) fn copies(&self) -> usize {
        self.training.distribution.copies()
    }

    /// Whether cores have gradients of their own rows, whose sum each needs whole.
    pub(super) fn is_own_of_whole(&self) -> bool {
        let is_shard = self.training.distribution.layout().is_shard()
            || self.parameter.distribution.layout().is_shard();
        self.over == Cores::Own && !is_shard
    }

    /// Whether cores have gradients of their own rows, of whose sum each needs a shard that no other host has.
    pub(super) fn is_own_of_shard(&self) -> bool {
        self.over == Cores::Own
            && Cores::of(self.training) == Cores::Host
            && self.updates_shard_of_whole()
    }

    /// Whether the core updates a shard of a parameter of which it has the whole.
    pub(super) fn updates_shard_of_whole(&self) -> bool {
        self.training.distribution.layout().is_shard()
            && !self.parameter.distribution.layout().is_shard()
    }

    /// The number of the layer that alone reads the parameter.
    pub(crate) fn layer(&self) -> Option<usize> {
        self.training.layer
    }

    /// The axes along which cores add whole gradients.
    pub(super) fn summed_axes(&self) -> Vec<Axis> {
        match self.training.adds_tensor_cores {
            true => vec![Axis::Data, Axis::Tensor],
            false => vec![Axis::Data],
        }
    }

    /// Replaces its own value by the sum over all cores.
    pub(super) fn with_sum(&self, value: Tensor) -> Gradient<'a> {
        Gradient { value, over: Cores::Job, ..self.clone() }
    }

    /// Sums the gradient over all cores; each keeps its own shard, if there are any. `shard`: its number.
    pub(super) fn reduced(self, mesh: &Mesh, shard: Option<&Tensor>) -> Result<Gradient<'a>> {
        if let Some(value) = self.sum_of_rows(mesh, shard)? {
            return Ok(Gradient { value, over: Cores::Job, ..self });
        }
        let on_host = self.reduced_at_once(mesh)?;
        if on_host.over == Cores::Job || mesh.hosts() == 1 {
            return Ok(on_host);
        }
        let value = on_host.value.all_reduce_hosts(ReduceKind::Sum, mesh.hosts())?;
        Ok(Gradient { value, over: Cores::Job, ..on_host })
    }

    /// Sums a gradient of which all hosts have the same shards over the cores of this host, and another one over
    /// all.
    fn reduced_at_once(self, mesh: &Mesh) -> Result<Gradient<'a>> {
        if self.over != Cores::Own {
            return Ok(self);
        }
        let value = self.sum(mesh)?;
        Ok(Gradient { value, over: Cores::of(self.training), ..self })
    }

    /// The sum of gradients of an embedding, of which few rows are not zero: cores in one memory exchange these alone.
    fn sum_of_rows(
        &self,
        mesh: &Mesh,
        shard: Option<&Tensor>,
    ) -> traind_xla::Result<Option<Tensor>> {
        let are_together = self.value.trace().calls_kernels() && mesh.hosts() == 1;
        if self.over != Cores::Own || self.training.adds_tensor_cores || !are_together {
            return Ok(None);
        }
        let groups = mesh.groups(&[Axis::Data]);
        match (self.training.distribution.layout().is_shard(), shard) {
            (false, _) => self.value.all_reduce_rows(&groups),
            (true, Some(shard)) => self.value.reduce_rows_to_part(shard, &groups),
            (true, None) => Ok(None),
        }
    }

    fn sum(&self, mesh: &Mesh) -> traind_xla::Result<Tensor> {
        let over_tensor =
            |value: &Tensor| value.all_reduce(ReduceKind::Sum, &mesh.groups(&[Axis::Tensor]));
        let layout = self.training.distribution.layout();
        let is_scattered = self.parameter.distribution.layout().is_shard();
        match (self.training.adds_tensor_cores, is_scattered, layout.is_shard()) {
            (true, true, _) => over_tensor(&self.value),
            (true, false, true) => over_tensor(&layout.reduce(&self.value, mesh)?),
            (true, false, false) => {
                self.value.all_reduce_over(ReduceKind::Sum, mesh, &self.summed_axes())
            }
            (false, ..) => layout.reduce(&self.value, mesh),
        }
    }
}
