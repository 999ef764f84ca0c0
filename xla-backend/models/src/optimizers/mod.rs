//! Optimizers: one file each, and a line in the list of `traind-choices`. The arithmetic on
//! tensors is traced once; what changes from step to step (learning rate, bias
//! corrections, decay) is computed on the host in f64, as PyTorch does, and is
//! an input of the step: a new rate never recompiles.

mod args;
mod groups;

use std::collections::HashMap;
use std::fmt::Debug;

use traind_choices::Optim;
use traind_xla::ops::ShardHolders;
use traind_xla::{Shape, Tensor};

use crate::error::{Error, Result, check_setting};
use crate::parameters::ParameterSpec;

pub use groups::{GroupSettings, Optimizers, Pattern};

/// The settings of an optimizer, under TrainingArguments' names.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The decay of weights in an update, as a share of the learning rate.
    pub weight_decay: f64,
    /// The share of Adam's first moment that stays.
    pub adam_beta1: f64,
    /// The share of Adam's second moment that stays.
    pub adam_beta2: f64,
    /// The number that keeps Adam's divisors from zero.
    pub adam_epsilon: f64,
    /// `optim_args`: an optimizer's own settings, under PyTorch's names.
    pub args: HashMap<String, Arg>,
}

/// The value of one of an optimizer's own settings.
#[derive(Clone, Debug, PartialEq)]
pub enum Arg {
    /// A number; 1 and 0 for flags.
    Number(f64),
    /// A list of numbers.
    Numbers(Vec<f64>),
    /// A choice by its name.
    Word(String),
}

impl From<f64> for Arg {
    fn from(number: f64) -> Arg {
        Arg::Number(number)
    }
}

impl Settings {
    fn arg(&self, name: &str, default: f64) -> f64 {
        match self.args.get(name) {
            Some(Arg::Number(number)) => *number,
            _ => default,
        }
    }

    fn numbers(&self, name: &str) -> Option<&[f64]> {
        match self.args.get(name) {
            Some(Arg::Numbers(numbers)) => Some(numbers),
            _ => None,
        }
    }

    fn word(&self, name: &str) -> Option<&str> {
        match self.args.get(name) {
            Some(Arg::Word(word)) => Some(word),
            _ => None,
        }
    }
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            weight_decay: 0.0,
            adam_beta1: 0.9,
            adam_beta2: 0.999,
            adam_epsilon: 1e-8,
            args: HashMap::new(),
        }
    }
}

/// State that an optimizer keeps for each parameter. It begins as zeros.
#[derive(Clone, Debug, PartialEq)]
pub struct Slot {
    /// PyTorch's name for it.
    pub name: &'static str,
    /// The shape of the whole slot.
    pub shape: Shape,
}

impl Slot {
    /// A slot with an element for each of the parameter's.
    fn like(spec: &ParameterSpec, name: &'static str) -> Slot {
        Slot { name, shape: spec.shape.clone() }
    }
}

/// The parts of a parameter that an optimizer can update by themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shardable {
    /// Any: each element is updated by itself.
    ByElement,
    /// Any, with the others' gradients or slots from [`Update::whole`].
    Gathered,
    /// No part: the optimizer reads the whole parameter.
    No,
}

/// The arithmetic of an optimizer: state, scalars of a step and update.
pub trait Optimizer: Debug + Send + Sync {
    /// The state of a whole parameter. A slot of its shape is distributed as the parameter is.
    fn slots(&self, spec: &ParameterSpec) -> Vec<Slot>;

    /// The names of [`Optimizer::scalars`], in its order.
    fn scalar_names(&self) -> &'static [&'static str];

    /// The scalars of one update. `step` counts updates from 1.
    fn scalars(&self, step: u64, learning_rate: f64) -> Vec<f32>;

    /// The parts of a parameter that are updated as they would be in the whole.
    fn shardable(&self, spec: &ParameterSpec) -> Shardable {
        let _ = spec;
        Shardable::ByElement
    }

    /// Returns whether the optimizer itself lowers the learning rate of the first `warmup_steps`, whatever the
    /// schedule does.
    fn warms_up(&self) -> bool {
        false
    }

    /// Returns a slot and a factor: evaluations and saved models have the sum of each parameter and their product.
    /// `None` where they have the parameter itself.
    fn evaluated_offset(&self) -> Option<(&'static str, f64)> {
        None
    }

    /// Traces the update of one parameter, or of a part of one that [`Optimizer::shardable`] allows.
    fn update(&self, at: &Update<'_>) -> Result<Updated>;

    /// Traces the updates of parameters of which each of `holders` has a copy, and a shard of slots and gradient, in
    /// one operation. `None` where there is none.
    fn update_copies(
        &self,
        updates: &[Update<'_>],
        holders: &ShardHolders<'_>,
    ) -> Result<Option<Vec<Updated>>> {
        let _ = (updates, holders);
        Ok(None)
    }
}

/// The cores that hold the parts of a parameter, in a trace.
pub trait Parts: Debug {
    /// The whole tensor of which each core has its part.
    fn whole(&self, part: &Tensor) -> Result<Tensor>;

    /// This core's part of a whole tensor.
    fn part(&self, whole: &Tensor) -> Result<Tensor>;
}

/// One parameter before its update.
#[derive(Clone, Copy, Debug)]
pub struct Update<'a> {
    /// The parameter's name, role and whole shape.
    pub spec: &'a ParameterSpec,
    /// The value, or this core's part of it.
    pub parameter: &'a Tensor,
    /// The gradient, of the parameter's shape.
    pub gradient: &'a Tensor,
    /// The factor of the gradient; 1 where it is absent.
    pub factor: Option<&'a Tensor>,
    /// The state in the order of [`Optimizer::slots`].
    pub slots: &'a [Tensor],
    /// The scalars of the update.
    pub scalars: &'a Scalars,
    /// False for parameters that are not decayed.
    pub weight_decay: bool,
    /// Present where the tensors are this core's part of the parameter's.
    pub parts: Option<&'a dyn Parts>,
}

impl Update<'_> {
    /// The whole tensor that `part` is this core's part of, distributed as the parameter is.
    pub fn whole(&self, part: &Tensor) -> Result<Tensor> {
        self.parts.map_or_else(|| Ok(part.clone()), |parts| parts.whole(part))
    }

    /// This core's part of a whole tensor.
    pub fn part(&self, whole: &Tensor) -> Result<Tensor> {
        self.parts.map_or_else(|| Ok(whole.clone()), |parts| parts.part(whole))
    }

    /// The gradient times its factor.
    pub fn scaled_gradient(&self) -> Result<Tensor> {
        match self.factor {
            Some(factor) => Ok(self.gradient.mul(factor)?),
            None => Ok(self.gradient.clone()),
        }
    }
}

/// One parameter after its update.
#[derive(Clone, Debug)]
pub struct Updated {
    /// The new value.
    pub parameter: Tensor,
    /// The new state, in the order of [`Optimizer::slots`].
    pub slots: Vec<Tensor>,
}

/// The scalars of an update as tensors, by name.
#[derive(Clone, Debug)]
pub struct Scalars {
    tensors: HashMap<&'static str, Tensor>,
}

impl Scalars {
    /// Takes apart one input f32`[n]` that holds [`Optimizer::scalars`]: one
    /// buffer a step, since handing over many small ones costs time.
    pub fn split(optimizer: &dyn Optimizer, packed: &Tensor) -> Result<Scalars> {
        Scalars::split_from(optimizer, packed, 0)
    }

    /// Takes apart an input that holds the optimizer's scalars from the element `first` on.
    fn split_from(optimizer: &dyn Optimizer, packed: &Tensor, first: usize) -> Result<Scalars> {
        let names = (first..).zip(optimizer.scalar_names());
        let tensors = names
            .map(|(index, name)| Ok((*name, packed.slice(0, index, index + 1)?.squeeze(0)?)))
            .collect::<Result<_>>()?;
        Ok(Scalars { tensors })
    }

    /// Returns a scalar by its name. Fails where the optimizer has none of this name.
    pub fn get(&self, name: &str) -> Result<&Tensor> {
        self.tensors.get(name).ok_or_else(|| Error::MissingInput { name: name.to_owned() })
    }
}

/// Declares the module of each optimizer, and builds one of them.
macro_rules! modules {
    ($(
        $(#[doc = $doc:literal])+
        $optim:ident = $names:tt in $module:ident $(, $($kind:ident $settings:tt)+)?;
    )+) => {
        $(mod $module;)+

        fn build_named(optim: Optim, settings: &Settings) -> Result<Box<dyn Optimizer>> {
            match optim {
                $(Optim::$optim => $module::build(settings),)+
            }
        }
    };
}

traind_choices::optimizers!(modules);

/// The optimizer that `optim` names.
pub fn build(optim: &str, settings: &Settings) -> Result<Box<dyn Optimizer>> {
    let named = Optim::from_name(optim).ok_or_else(|| Error::UnknownName {
        what: "optimizer",
        name: optim.to_owned(),
        known: Optim::ALL.iter().map(|optim| optim.as_str()).collect(),
    })?;
    args::check(named, &settings.args)?;
    build_named(named, settings)
}

const BETA: &str = "a number from 0 up to but not 1";
const NOT_NEGATIVE: &str = "a finite number of at least 0";

fn check_weight_decay(settings: &Settings) -> Result<()> {
    check_setting("weight_decay", NOT_NEGATIVE, settings.weight_decay, not_negative)
}

fn check_betas(settings: &Settings) -> Result<()> {
    check_setting("adam_beta1", BETA, settings.adam_beta1, beta)?;
    check_setting("adam_beta2", BETA, settings.adam_beta2, beta)
}

fn beta(number: f64) -> bool {
    (0.0..1.0).contains(&number)
}

/// Adds decay to the gradient, as optimizers do whose decay is not decoupled.
fn decayed_gradient(at: &Update<'_>) -> Result<Tensor> {
    let gradient = at.scaled_gradient()?;
    match at.weight_decay {
        true => Ok(gradient.add(&at.parameter.mul(at.scalars.get("weight_decay")?)?)?),
        false => Ok(gradient),
    }
}

fn not_negative(number: f64) -> bool {
    number.is_finite() && number >= 0.0
}
