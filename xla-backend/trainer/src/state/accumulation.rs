//! The sums over the batches of a step, on each core for its own rows, and the loss scale of `fp16`.
//! Both last from one program of a step to the next.

use serde::{Deserialize, Serialize};
use traind_xla::runtime::{HostArray, LazyDevice, Recorder, Recording, Variable};
use traind_xla::{DType, Shape, Tensor};

use super::set_zeros;
use crate::error::Result;

/// `torch.amp.GradScaler`'s defaults.
const SCALE_START: f32 = 65536.0;
const GROWTH_FACTOR: f64 = 2.0;
const BACKOFF_FACTOR: f64 = 0.5;
const GROWTH_INTERVAL: f64 = 2000.0;

/// Sums over the batches of a step, besides each parameter's gradient sum. They are zero between steps.
#[derive(Clone, Debug)]
pub(crate) struct Accumulation {
    /// f32
    pub loss_sum: Variable,
    /// f32
    pub weight_sum: Variable,
    /// f32[M], where the task has metrics of a step.
    pub metric_sums: Option<Variable>,
}

impl Accumulation {
    /// Declares the sums, with those of `metrics` metrics.
    pub(super) fn declare(recorder: &mut Recorder, metrics: usize) -> Accumulation {
        let mut scalar = |name| recorder.declare(name, Shape::scalar(DType::F32));
        let (loss_sum, weight_sum) = (scalar("loss_sum"), scalar("weight_sum"));
        let metric_sums = || recorder.declare("metric_sums", Shape::new(DType::F32, [metrics]));
        Accumulation { loss_sum, weight_sum, metric_sums: (metrics > 0).then(metric_sums) }
    }

    /// The variables of all sums.
    pub(super) fn sums(&self) -> impl Iterator<Item = Variable> {
        [self.loss_sum, self.weight_sum].into_iter().chain(self.metric_sums)
    }

    pub(super) fn start(&self, device: &mut LazyDevice) -> Result<()> {
        self.sums().try_for_each(|sum| set_zeros(device, sum))
    }
}

/// The factor of the loss that keeps gradients in float16 from underflowing. As in
/// `torch.amp.GradScaler`, it is halved after a step whose gradients are not finite and doubled after
/// 2,000 steps whose gradients are.
#[derive(Clone, Debug)]
pub struct LossScale {
    /// f32
    pub scale: Variable,
    /// f32: steps with finite gradients since the scale changed.
    growth_tracker: Variable,
}

/// A [`LossScale`] on the host.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScaleValues {
    /// The factor of the loss.
    pub scale: f32,
    /// The steps with finite gradients since the scale changed.
    pub growth_tracker: f32,
}

impl Default for ScaleValues {
    fn default() -> ScaleValues {
        ScaleValues { scale: SCALE_START, growth_tracker: 0.0 }
    }
}

impl LossScale {
    pub(super) fn declare(recorder: &mut Recorder) -> LossScale {
        let mut scalar = |name| recorder.declare(name, Shape::scalar(DType::F32));
        LossScale { scale: scalar("loss_scale"), growth_tracker: scalar("growth_tracker") }
    }

    pub(super) fn start(&self, device: &mut LazyDevice, start: ScaleValues) -> Result<()> {
        device.set(self.scale, &HostArray::from_f32(&[], &[start.scale])?)?;
        Ok(device.set(self.growth_tracker, &HostArray::from_f32(&[], &[start.growth_tracker])?)?)
    }

    /// The variables of the scale.
    pub(super) fn variables(&self) -> [Variable; 2] {
        [self.scale, self.growth_tracker]
    }

    /// Records the change of the scale after a step; returns the new one.
    pub fn advance(&self, at: &mut Recording<'_>, finite: &Tensor) -> Result<Tensor> {
        let (scale, tracker) = (at.read(self.scale)?, at.read(self.growth_tracker)?);
        let tracker = tracker.add_scalar(1.0)?;
        let grows = tracker.ge_scalar(GROWTH_INTERVAL)?;
        let zero = at.trace().scalar(0.0, DType::F32)?;
        let grown = grows.select(&scale.mul_scalar(GROWTH_FACTOR)?, &scale)?;
        let next = finite.select(&grown, &scale.mul_scalar(BACKOFF_FACTOR)?)?;
        at.assign(self.scale, &next)?;
        let counted = grows.select(&zero, &tracker)?;
        at.assign(self.growth_tracker, &finite.select(&counted, &zero)?)?;
        Ok(next)
    }

    /// Copies the values to the host.
    pub fn values(&self, device: &LazyDevice) -> Result<ScaleValues> {
        let value = |variable| -> Result<f32> { Ok(device.value(variable, 0)?.to_f32()?[0]) };
        Ok(ScaleValues { scale: value(self.scale)?, growth_tracker: value(self.growth_tracker)? })
    }
}
