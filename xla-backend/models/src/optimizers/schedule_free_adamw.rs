//! Schedule-free AdamW (Defazio et al., 2024), as `schedulefree.AdamWScheduleFree`: AdamW's steps move a sequence z;
//! gradients are taken at y, between z and a weighted average x of all z; x is the model.
//!
//! The parameter is y, and z is kept as its distance from y, which begins as 0.

use traind_xla::{DType, Shape, Tensor};

use super::{
    NOT_NEGATIVE, Optimizer, Settings, Slot, Update, Updated, check_betas, check_weight_decay,
    not_negative,
};
use crate::error::{Error, Result, check_setting};
use crate::parameters::ParameterSpec;

const DISTANCE: &str = "z_minus_y";

/// Schedule-free AdamW, as `schedulefree.AdamWScheduleFree`.
#[derive(Clone, Debug)]
pub(super) struct ScheduleFreeAdamW {
    settings: Settings,
    /// The powers of the largest learning rate and of the step by which z is weighted in x.
    weight_lr_power: f64,
    r: f64,
}

pub(super) fn build(settings: &Settings) -> Result<Box<dyn Optimizer>> {
    Ok(Box::new(ScheduleFreeAdamW::new(settings)?))
}

impl ScheduleFreeAdamW {
    /// Reads and checks the settings.
    pub(super) fn new(settings: &Settings) -> Result<ScheduleFreeAdamW> {
        check_betas(settings)?;
        let above_zero = "a number above 0 and below 1";
        check_setting("adam_beta1", above_zero, settings.adam_beta1, |beta| beta > 0.0)?;
        check_setting("adam_epsilon", NOT_NEGATIVE, settings.adam_epsilon, not_negative)?;
        check_weight_decay(settings)?;
        let (weight_lr_power, r) = (settings.arg("weight_lr_power", 2.0), settings.arg("r", 0.0));
        check_setting("weight_lr_power", NOT_NEGATIVE, weight_lr_power, not_negative)?;
        check_setting("r", NOT_NEGATIVE, r, not_negative)?;
        Ok(ScheduleFreeAdamW { settings: settings.clone(), weight_lr_power, r })
    }
}

impl Optimizer for ScheduleFreeAdamW {
    fn slots(&self, spec: &ParameterSpec) -> Vec<Slot> {
        let scalar = |name| Slot { name, shape: Shape::scalar(DType::F32) };
        vec![
            Slot::like(spec, DISTANCE),
            Slot::like(spec, "exp_avg_sq"),
            scalar("weight_sum"),
            scalar("rate_weight_max"),
        ]
    }

    fn scalar_names(&self) -> &'static [&'static str] {
        &[
            "learning_rate",
            "beta1",
            "beta2",
            "one_minus_beta2",
            "bias_correction2",
            "epsilon",
            "weight_decay",
            "step_weight",
            "rate_weight",
        ]
    }

    fn scalars(&self, step: u64, learning_rate: f64) -> Vec<f32> {
        let Settings { weight_decay, adam_beta1, adam_beta2, adam_epsilon, .. } = self.settings;
        let scalars = [
            learning_rate,
            adam_beta1,
            adam_beta2,
            1.0 - adam_beta2,
            1.0 - adam_beta2.powf(step as f64),
            adam_epsilon,
            weight_decay,
            (step as f64).powf(self.r),
            learning_rate.powf(self.weight_lr_power),
        ];
        scalars.map(|scalar| scalar as f32).to_vec()
    }

    fn warms_up(&self) -> bool {
        true
    }

    fn evaluated_offset(&self) -> Option<(&'static str, f64)> {
        Some((DISTANCE, 1.0 - 1.0 / self.settings.adam_beta1))
    }

    fn update(&self, at: &Update<'_>) -> Result<Updated> {
        let [distance, exp_avg_sq, weight_sum, rate_weight_max] = at.slots else {
            return Err(Error::MissingInput {
                name: "the slots of schedule-free AdamW".to_owned(),
            });
        };
        let (gradient, scalar) = (at.scaled_gradient()?, |name| at.scalars.get(name));
        let square = gradient.mul(&gradient)?.mul(scalar("one_minus_beta2")?)?;
        let exp_avg_sq = exp_avg_sq.mul(scalar("beta2")?)?.add(&square)?;
        let root = exp_avg_sq.div(scalar("bias_correction2")?)?.sqrt()?;
        let direction = gradient.div(&root.add(scalar("epsilon")?)?)?;
        let direction = match at.weight_decay {
            true => direction.add(&at.parameter.mul(scalar("weight_decay")?)?)?,
            false => direction,
        };
        let movement = direction.mul(scalar("learning_rate")?)?;

        let rate_weight_max = larger(scalar("rate_weight")?, rate_weight_max)?;
        let weight = rate_weight_max.mul(scalar("step_weight")?)?;
        let weight_sum = weight_sum.add(&weight)?;
        // While the learning rate is 0, so are both.
        let one = gradient.trace().scalar(1.0, DType::F32)?;
        let divisor = weight_sum.gt_scalar(0.0)?.select(&weight_sum, &one)?;
        let share = weight.div(&divisor)?;
        let kept = one.sub(&share)?;

        let beta1 = scalar("beta1")?;
        let of_movement = beta1.mul(&kept)?.sub(&one)?;
        let change = distance.mul(&share)?.add(&movement.mul(&of_movement)?)?;
        let distance = distance.sub(&movement.mul(beta1)?)?.mul(&kept)?;
        Ok(Updated {
            parameter: at.parameter.add(&change)?,
            slots: vec![distance, exp_avg_sq, weight_sum, rate_weight_max],
        })
    }
}

fn larger(one: &Tensor, other: &Tensor) -> Result<Tensor> {
    Ok(one.sub(other)?.gt_scalar(0.0)?.select(one, other)?)
}
