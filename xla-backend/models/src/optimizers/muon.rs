//! `torch.optim.Muon` (Jordan et al., 2024): the matrices of hidden layers move by their momentum, made nearly
//! orthogonal by Newton and Schulz's iteration. All else is updated by AdamW: embeddings, heads, norms and biases.
//!
//! The iteration reads a whole matrix. Where cores have parts of it, each gathers the momentum, computes the same
//! iteration and takes its part of the result, so that slots, gradients and parameters stay divided. It is computed in
//! float32, and PyTorch's in bfloat16.
//!
//! R rows, C columns.

use traind_xla::Tensor;
use traind_xla::ops::ShardHolders;

use super::adamw::{self, AdamW};
use super::{Optimizer, Settings, Shardable, Slot, Update, Updated};
use crate::error::{Error, Result, check_setting};
use crate::parameters::{ParameterSpec, Role, Stage};

/// The coefficients of the iteration's polynomial a X + b (X Xᵀ) X + c (X Xᵀ)² X.
const NS_COEFFICIENTS: [f64; 3] = [3.4445, -4.7750, 2.0315];
/// The least norm that a matrix is divided by.
const EPS: f64 = 1e-7;
/// The root mean square of AdamW's updates, which `match_rms_adamw` gives those of matrices.
const ADAMW_RMS: f64 = 0.2;

/// The scalars of matrices.
const OWN_SCALARS: [&str; 3] = ["learning_rate", "momentum", "one_minus_momentum"];
/// All scalars: AdamW's, and those of matrices behind them.
const SCALARS: [&str; adamw::SCALARS.len() + OWN_SCALARS.len()] = {
    let mut names = [""; adamw::SCALARS.len() + OWN_SCALARS.len()];
    let (first, own) = names.split_at_mut(adamw::SCALARS.len());
    first.copy_from_slice(&adamw::SCALARS);
    own.copy_from_slice(&OWN_SCALARS);
    names
};

/// Muon for the matrices of hidden layers, as `torch.optim.Muon`, and AdamW for all else.
#[derive(Clone, Debug)]
pub(super) struct Muon {
    momentum: f64,
    nesterov: bool,
    ns_coefficients: [f64; 3],
    ns_steps: usize,
    eps: f64,
    adjust_lr: AdjustLr,
    /// The optimizer of all other parameters.
    adamw: AdamW,
}

/// PyTorch's `adjust_lr_fn`: how the learning rate depends on the size of a matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AdjustLr {
    Original,
    MatchRmsAdamW,
}

pub(super) fn build(settings: &Settings) -> Result<Box<dyn Optimizer>> {
    Ok(Box::new(Muon::new(settings)?))
}

impl Muon {
    /// Reads and checks the settings.
    pub(super) fn new(settings: &Settings) -> Result<Muon> {
        let ns_steps = settings.arg("ns_steps", 5.0);
        check_setting("ns_steps", "a whole number", ns_steps, |steps| steps.fract() == 0.0)?;
        let ns_coefficients = match settings.numbers("ns_coefficients") {
            Some(&[a, b, c]) => [a, b, c],
            _ => NS_COEFFICIENTS,
        };
        Ok(Muon {
            momentum: settings.arg("momentum", 0.95),
            nesterov: settings.arg("nesterov", 1.0) != 0.0,
            ns_coefficients,
            ns_steps: ns_steps as usize,
            eps: settings.arg("eps", EPS),
            adjust_lr: AdjustLr::of(settings.word("adjust_lr_fn")),
            adamw: AdamW::new(settings)?,
        })
    }

    /// Newton and Schulz's iteration on a matrix [R, C]: its singular values become about 1.
    fn orthogonalized(&self, matrix: &Tensor) -> Result<Tensor> {
        let [rows, columns] = [matrix.dims()[0], matrix.dims()[1]];
        let is_tall = rows > columns;
        let mut x = if is_tall { matrix.transpose(&[1, 0])? } else { matrix.clone() };
        let least = x.trace().scalar(self.eps, x.dtype())?;
        x = x.div(&x.sum_of_squares()?.sqrt()?.maximum(&least)?)?;
        let [a, b, c] = self.ns_coefficients;
        for _ in 0..self.ns_steps {
            let gram = x.matmul(&x.transpose(&[1, 0])?)?;
            let polynomial = gram.mul_scalar(b)?.add(&gram.matmul(&gram)?.mul_scalar(c)?)?;
            x = x.mul_scalar(a)?.add(&polynomial.matmul(&x)?)?;
        }
        if is_tall { Ok(x.transpose(&[1, 0])?) } else { Ok(x) }
    }

    fn update_matrix(&self, at: &Update<'_>) -> Result<Updated> {
        let [buffer] = at.slots else {
            return Err(Error::MissingInput { name: "momentum_buffer".to_owned() });
        };
        let (gradient, scalar) = (at.scaled_gradient()?, |name| at.scalars.get(name));
        let mixed = |one: &Tensor, other: &Tensor, share: &Tensor| -> Result<Tensor> {
            Ok(one.add(&other.sub(one)?.mul(share)?)?)
        };
        let buffer = mixed(buffer, &gradient, scalar("one_minus_momentum")?)?;
        let direction = match self.nesterov {
            true => mixed(&gradient, &buffer, scalar("momentum")?)?,
            false => buffer.clone(),
        };
        let direction = at.part(&self.orthogonalized(&at.whole(&direction)?)?)?;
        let rate = scalar("learning_rate")?.mul_scalar(self.adjust_lr.factor(at.spec))?;
        let parameter = match at.weight_decay {
            true => at.parameter.mul(scalar("decay_factor")?)?,
            false => at.parameter.clone(),
        };
        let parameter = parameter.sub(&direction.mul(&rate)?)?;
        Ok(Updated { parameter, slots: vec![buffer] })
    }
}

/// Whether a parameter is a matrix that linear layers between embeddings and head multiply by.
fn is_hidden_matrix(spec: &ParameterSpec) -> bool {
    let multiplies = matches!(spec.role, Role::Projection | Role::TransposedProjection);
    let is_in_layer = |stage: &Stage| matches!(stage, Stage::Layer(_));
    multiplies && spec.shape.rank() == 2 && spec.stages.iter().all(is_in_layer)
}

impl AdjustLr {
    fn of(name: Option<&str>) -> AdjustLr {
        match name {
            Some("match_rms_adamw") => AdjustLr::MatchRmsAdamW,
            _ => AdjustLr::Original,
        }
    }

    /// The factor of the learning rate for a matrix, by its rows and columns as they are stored.
    fn factor(self, spec: &ParameterSpec) -> f64 {
        let [rows, columns] = [spec.shape.dims[0] as f64, spec.shape.dims[1] as f64];
        match self {
            AdjustLr::Original => (rows / columns).max(1.0).sqrt(),
            AdjustLr::MatchRmsAdamW => ADAMW_RMS * rows.max(columns).sqrt(),
        }
    }
}

impl Optimizer for Muon {
    fn slots(&self, spec: &ParameterSpec) -> Vec<Slot> {
        match is_hidden_matrix(spec) {
            true => vec![Slot::like(spec, "momentum_buffer")],
            false => self.adamw.slots(spec),
        }
    }

    fn shardable(&self, spec: &ParameterSpec) -> Shardable {
        if is_hidden_matrix(spec) { Shardable::Gathered } else { self.adamw.shardable(spec) }
    }

    fn scalar_names(&self) -> &'static [&'static str] {
        &SCALARS
    }

    fn scalars(&self, step: u64, learning_rate: f64) -> Vec<f32> {
        let own = [learning_rate, self.momentum, 1.0 - self.momentum];
        let mut scalars = self.adamw.scalars(step, learning_rate);
        scalars.extend(own.map(|scalar| scalar as f32));
        scalars
    }

    fn update(&self, at: &Update<'_>) -> Result<Updated> {
        if is_hidden_matrix(at.spec) { self.update_matrix(at) } else { self.adamw.update(at) }
    }

    fn update_copies(
        &self,
        updates: &[Update<'_>],
        holders: &ShardHolders<'_>,
    ) -> Result<Option<Vec<Updated>>> {
        match updates.iter().any(|it| is_hidden_matrix(it.spec)) {
            true => Ok(None),
            false => self.adamw.update_copies(updates, holders),
        }
    }
}
