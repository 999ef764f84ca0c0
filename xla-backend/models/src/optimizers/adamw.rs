//! `torch.optim.AdamW` (Loshchilov and Hutter, 2017): decay first, decoupled
//! from the gradient, then Adam with bias correction.

use traind_xla::ops::{AdamWScalars, AdamWUpdate, ShardHolders};
use traind_xla::{DType, Tensor};

use super::{
    NOT_NEGATIVE, Optimizer, Settings, Slot, Update, Updated, check_betas, check_weight_decay,
    not_negative,
};
use crate::error::{Error, Result, check_setting};
use crate::parameters::ParameterSpec;

/// The names of the scalars.
pub(super) const SCALARS: [&str; 7] = [
    "decay_factor",
    "one_minus_beta1",
    "beta2",
    "one_minus_beta2",
    "step_size",
    "bias_correction2_sqrt",
    "epsilon",
];

/// Adam with decoupled decay, as `torch.optim.AdamW`.
#[derive(Clone, Debug)]
pub(super) struct AdamW {
    settings: Settings,
}

pub(super) fn build(settings: &Settings) -> Result<Box<dyn Optimizer>> {
    Ok(Box::new(AdamW::new(settings)?))
}

impl AdamW {
    /// Reads and checks the settings.
    pub(super) fn new(settings: &Settings) -> Result<AdamW> {
        check_betas(settings)?;
        check_setting("adam_epsilon", NOT_NEGATIVE, settings.adam_epsilon, not_negative)?;
        check_weight_decay(settings)?;
        Ok(AdamW { settings: settings.clone() })
    }
}

impl Optimizer for AdamW {
    fn slots(&self, spec: &ParameterSpec) -> Vec<Slot> {
        ["exp_avg", "exp_avg_sq"].map(|name| Slot::like(spec, name)).to_vec()
    }

    fn scalar_names(&self) -> &'static [&'static str] {
        &SCALARS
    }

    fn scalars(&self, step: u64, learning_rate: f64) -> Vec<f32> {
        let Settings { weight_decay, adam_beta1, adam_beta2, adam_epsilon, .. } = self.settings;
        let bias_correction = |beta: f64| 1.0 - beta.powf(step as f64);
        let scalars = [
            1.0 - learning_rate * weight_decay,
            1.0 - adam_beta1,
            adam_beta2,
            1.0 - adam_beta2,
            learning_rate / bias_correction(adam_beta1),
            bias_correction(adam_beta2).sqrt(),
            adam_epsilon,
        ];
        scalars.map(|scalar| scalar as f32).to_vec()
    }

    fn update(&self, at: &Update<'_>) -> Result<Updated> {
        let one = at.parameter.trace().scalar(1.0, at.gradient.dtype())?;
        Ok(updated(at.parameter.adamw(&adamw(at, &one)?)?))
    }

    /// A kernel alone is faster than the updates one by one.
    fn update_copies(
        &self,
        updates: &[Update<'_>],
        holders: &ShardHolders<'_>,
    ) -> Result<Option<Vec<Updated>>> {
        let trace = holders.core.trace();
        let is_f32 = |it: &Update<'_>| it.parameter.dtype() == DType::F32;
        if !trace.calls_kernels() || !updates.iter().all(is_f32) {
            return Ok(None);
        }
        let one = trace.scalar(1.0, DType::F32)?;
        let parameters: Vec<&Tensor> = updates.iter().map(|it| it.parameter).collect();
        let of_each = updates.iter().map(|it| adamw(it, &one)).collect::<Result<Vec<_>>>()?;
        let found = trace.sharded_adamw(&parameters, &of_each, holders)?;
        Ok(Some(found.into_iter().map(updated).collect()))
    }
}

/// `one` stands for an absent factor.
fn adamw<'a>(at: &Update<'a>, one: &'a Tensor) -> Result<AdamWUpdate<'a>> {
    let [exp_avg, exp_avg_sq] = at.slots else {
        return Err(Error::MissingInput { name: "exp_avg and exp_avg_sq".to_owned() });
    };
    let scalar = |name| at.scalars.get(name);
    Ok(AdamWUpdate {
        exp_avg,
        exp_avg_sq,
        gradient: at.gradient,
        scalars: AdamWScalars {
            factor: at.factor.unwrap_or(one),
            decay_factor: scalar("decay_factor")?,
            one_minus_beta1: scalar("one_minus_beta1")?,
            beta2: scalar("beta2")?,
            one_minus_beta2: scalar("one_minus_beta2")?,
            step_size: scalar("step_size")?,
            bias_correction2_sqrt: scalar("bias_correction2_sqrt")?,
            epsilon: scalar("epsilon")?,
        },
        decays: at.weight_decay,
    })
}

fn updated([parameter, exp_avg, exp_avg_sq]: [Tensor; 3]) -> Updated {
    Updated { parameter, slots: vec![exp_avg, exp_avg_sq] }
}
