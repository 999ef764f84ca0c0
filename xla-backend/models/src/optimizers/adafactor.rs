//! `transformers.Adafactor` (Shazeer and Stern, 2018) as the Trainer makes it:
//! rates from the schedule, no first moment. The second moment of a matrix is
//! kept as the means of its rows and of its columns.

use traind_xla::Tensor;

use super::{Optimizer, Settings, Shardable, Slot, Update, Updated, check_weight_decay};
use crate::error::{Error, Result};
use crate::parameters::ParameterSpec;

/// The number that is added to each squared gradient.
const EPSILON: f64 = 1e-30;
/// The largest root mean square of an update, before the rate.
const CLIP_THRESHOLD: f64 = 1.0;
/// The power of the step at which older gradients lose their share.
const DECAY_RATE: f64 = -0.8;

/// Adafactor with the rates of the schedule, as the Trainer makes it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Adafactor {
    weight_decay: f64,
}

pub(super) fn build(settings: &Settings) -> Result<Box<dyn Optimizer>> {
    Ok(Box::new(Adafactor::new(settings)?))
}

impl Adafactor {
    /// Reads and checks the settings.
    pub(super) fn new(settings: &Settings) -> Result<Adafactor> {
        check_weight_decay(settings)?;
        Ok(Adafactor { weight_decay: settings.weight_decay })
    }
}

impl Optimizer for Adafactor {
    /// A matrix, or a stack of them, has a mean for each row and each column.
    fn slots(&self, spec: &ParameterSpec) -> Vec<Slot> {
        let (slot, shape) = (|name, shape| Slot { name, shape }, &spec.shape);
        match shape.dims.split_last_chunk() {
            Some((stack, &[rows, columns])) => vec![
                slot("exp_avg_sq_row", shape.with_dims([stack, &[rows]].concat())),
                slot("exp_avg_sq_col", shape.with_dims([stack, &[columns]].concat())),
            ],
            None => vec![slot("exp_avg_sq", shape.clone())],
        }
    }

    /// The update is scaled by its own size over the whole parameter.
    fn shardable(&self, _spec: &ParameterSpec) -> Shardable {
        Shardable::No
    }

    fn scalar_names(&self) -> &'static [&'static str] {
        &["learning_rate", "decay_factor", "beta2", "one_minus_beta2"]
    }

    fn scalars(&self, step: u64, learning_rate: f64) -> Vec<f32> {
        let one_minus_beta2 = (step as f64).powf(DECAY_RATE);
        let decay_factor = 1.0 - learning_rate * self.weight_decay;
        let scalars = [learning_rate, decay_factor, 1.0 - one_minus_beta2, one_minus_beta2];
        scalars.map(|scalar| scalar as f32).to_vec()
    }

    fn update(&self, at: &Update<'_>) -> Result<Updated> {
        let gradient = at.scaled_gradient()?;
        let square = gradient.mul(&gradient)?.add_scalar(EPSILON)?;
        let (slots, inverse_root) = match at.slots {
            [moment] => {
                let moment = advance(at, moment, &square)?;
                (vec![moment.clone()], moment.rsqrt()?)
            }
            [row, column] => {
                let rank = square.rank();
                let row = advance(at, row, &square.mean(&[rank - 1])?)?;
                let column = advance(at, column, &square.mean(&[rank - 2])?)?;
                let inverse_root = factored_inverse_root(&row, &column)?;
                (vec![row, column], inverse_root)
            }
            _ => return Err(Error::MissingInput { name: "exp_avg_sq".to_owned() }),
        };
        let change = clip(&gradient.mul(&inverse_root)?)?;
        let movement = change.mul(at.scalars.get("learning_rate")?)?;
        let parameter = match at.weight_decay {
            true => at.parameter.mul(at.scalars.get("decay_factor")?)?,
            false => at.parameter.clone(),
        };
        Ok(Updated { parameter: parameter.sub(&movement)?, slots })
    }
}

/// The moving average after one more `value`.
fn advance(at: &Update<'_>, moment: &Tensor, value: &Tensor) -> Result<Tensor> {
    let kept = moment.mul(at.scalars.get("beta2")?)?;
    Ok(kept.add(&value.mul(at.scalars.get("one_minus_beta2")?)?)?)
}

/// 1 / sqrt of rows [..., R] times columns [..., C] over the mean of the rows.
fn factored_inverse_root(row: &Tensor, column: &Tensor) -> Result<Tensor> {
    let last = row.rank() - 1;
    let row = row.div(&row.mean_keep(&[last])?)?.rsqrt()?.unsqueeze(last + 1)?;
    Ok(row.mul(&column.rsqrt()?.unsqueeze(last)?)?)
}

/// Scales an update down to the threshold.
fn clip(update: &Tensor) -> Result<Tensor> {
    let count = update.shape().element_count() as f64;
    let size = update.sum_of_squares()?.mul_scalar(1.0 / count)?.sqrt()?;
    let one = size.trace().scalar(1.0, size.dtype())?;
    Ok(update.div(&size.mul_scalar(1.0 / CLIP_THRESHOLD)?.maximum(&one)?)?)
}
