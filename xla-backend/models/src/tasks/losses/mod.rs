//! Losses by the names of `train.loss`: a file each, and a line in the list of `traind-choices`. They replace a model's
//! own loss, from the same logits.
//!
//! A loss returns one value for each row or token. The sum of the values, each times the weight of its row, is divided
//! by the sum of the weights; with weights of classes each value and each weight is multiplied by that of its class.
//!
//! N rows or tokens, C classes or numbers.

use std::collections::HashMap;
use std::sync::Arc;

use traind_choices::{LabelsKind, Loss, Setting};
use traind_xla::{DType, Tensor};

use super::problem_type::ProblemType;
use super::sample_weights::{sample_weights, weighted};
use super::token_labels::TokenLabels;
use crate::config::ModelConfig;
use crate::error::{Error, Result, check_setting};
use crate::model::{Batch, LossSum, OutputKind};
use crate::tensor_parallel::Logits;

/// The choice of a loss.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LossSettings {
    /// A name of `train.loss`; the task's own loss where absent.
    pub name: Option<String>,
    /// `train.loss_args`: a loss's own settings.
    pub args: HashMap<String, f64>,
    /// The weight of each class in its order.
    pub class_weights: Option<Vec<f64>>,
    /// The share of each label that is spread over all classes.
    pub label_smoothing: f64,
}

/// Logits, and the labels that they are compared with.
#[derive(Clone, Copy, Debug)]
struct Compared<'a> {
    /// f32[N, C]
    logits: &'a Logits,
    /// s32[N] for classes, else f32[N, C].
    labels: &'a Tensor,
    kind: LabelsKind,
    classes: Option<ClassWeights<'a>>,
}

/// The weights of classes.
#[derive(Clone, Copy, Debug)]
struct ClassWeights<'a> {
    /// f32[C]
    of_classes: &'a Tensor,
    /// The weights of the labels, f32[N].
    of_labels: &'a Tensor,
}

/// The formula of a loss.
trait Formula: Send + Sync {
    /// One loss for each row or token, times the weight of its class: f32[N].
    fn values(&self, at: &Compared<'_>) -> Result<Tensor>;
}

/// Declares the module of each loss, and builds its formula.
macro_rules! modules {
    ($(
        $(#[doc = $doc:literal])+
        $loss:ident = $name:literal in $module:ident, for $labels:tt $(, with $settings:tt)?;
    )+) => {
        $(mod $module;)+

        fn formula(loss: Loss, settings: &LossSettings) -> Result<Arc<dyn Formula>> {
            match loss {
                $(Loss::$loss => $module::build(settings),)+
            }
        }
    };
}

traind_choices::losses!(modules);

/// A loss in place of a model's own.
#[derive(Clone)]
pub struct TaskLoss {
    loss: Loss,
    formula: Arc<dyn Formula>,
    class_weights: Option<Vec<f64>>,
}

impl TaskLoss {
    /// `None` where the settings ask for the model's own loss.
    pub fn new(settings: &LossSettings) -> Result<Option<TaskLoss>> {
        let LossSettings { name, class_weights, label_smoothing, .. } = settings;
        if name.is_none() && class_weights.is_none() && *label_smoothing == 0.0 {
            return Ok(None);
        }
        let loss = match name {
            None => LabelsKind::Classes.default_loss(),
            Some(name) => Loss::from_name(name).ok_or_else(|| Error::UnknownName {
                what: "loss",
                name: name.clone(),
                known: Loss::ALL.iter().map(|loss| loss.as_str()).collect(),
            })?,
        };
        settings.check(loss)?;
        let (formula, class_weights) = (formula(loss, settings)?, class_weights.clone());
        Ok(Some(TaskLoss { loss, formula, class_weights }))
    }

    /// The loss of the logits that a model with `config` returns for each `kind` of item. `None` where the batch holds
    /// no `labels`, as in question answering: then the model's own loss counts.
    pub fn loss(
        &self,
        kind: OutputKind,
        config: &ModelConfig,
        logits: &Logits,
        batch: &Batch,
    ) -> Result<Option<LossSum>> {
        let Some(labels) = batch.optional("labels") else { return Ok(None) };
        if labels.dtype() != DType::S32 {
            let labels_kind = match ProblemType::of(config)? {
                ProblemType::MultiLabel => LabelsKind::Flags,
                _ => LabelsKind::Numbers,
            };
            return self.of_numbers(labels_kind, &logits.values, labels, batch).map(Some);
        }
        match TokenLabels::of_output(kind, batch)? {
            Some(counted) => self.of_classes(&logits.flatten()?, &counted).map(Some),
            None => Ok(None),
        }
    }

    /// Takes logits f32[B, C], with labels f32[B] where there is one number.
    fn of_numbers(
        &self,
        kind: LabelsKind,
        logits: &Tensor,
        labels: &Tensor,
        batch: &Batch,
    ) -> Result<LossSum> {
        self.check(kind)?;
        if self.class_weights.is_some() {
            return Err(self.unfit(kind));
        }
        let labels = labels.reshape(logits.dims())?;
        let logits = Logits::from(logits.convert(DType::F32)?);
        let compared = Compared { logits: &logits, labels: &labels, kind, classes: None };
        weighted(&self.formula.values(&compared)?, &sample_weights(batch)?)
    }

    fn of_classes(&self, logits: &Logits, counted: &TokenLabels) -> Result<LossSum> {
        let (kind, labels) = (LabelsKind::Classes, &counted.labels);
        self.check(kind)?;
        let Some(of_classes) = self.class_weights(logits)? else {
            let compared = Compared { logits, labels, kind, classes: None };
            return weighted(&self.formula.values(&compared)?, &counted.weights);
        };
        let own = labels.is_class(logits.classes())?.convert(DType::F32)?;
        let of_labels = own.mul(&of_classes.unsqueeze(0)?)?.sum(&[1])?;
        let classes = ClassWeights { of_classes: &of_classes, of_labels: &of_labels };
        let compared = Compared { logits, labels, kind, classes: Some(classes) };
        let values = self.formula.values(&compared)?;
        Ok(LossSum {
            loss_sum: values.mul(&counted.weights)?.sum(&[0])?,
            weight_sum: of_labels.mul(&counted.weights)?.sum(&[0])?,
        })
    }

    /// f32[C]
    fn class_weights(&self, logits: &Logits) -> Result<Option<Tensor>> {
        let Some(weights) = &self.class_weights else { return Ok(None) };
        if weights.len() != logits.classes() {
            return Err(Error::ClassWeights { found: weights.len(), classes: logits.classes() });
        }
        let trace = logits.values.trace();
        Ok(Some(trace.constant(DType::F32, &[weights.len()], weights)?))
    }

    fn check(&self, kind: LabelsKind) -> Result<()> {
        if self.loss.labels().contains(&kind) { Ok(()) } else { Err(self.unfit(kind)) }
    }

    fn unfit(&self, kind: LabelsKind) -> Error {
        let labels = match kind {
            LabelsKind::Classes => "one class each",
            LabelsKind::Flags => "several classes each",
            LabelsKind::Numbers => "numbers",
        };
        Error::UnfitLoss { loss: self.loss.as_str(), labels }
    }
}

impl Compared<'_> {
    /// The cross entropy of classes, f32[N], or that of each flag, f32[N, C].
    fn cross_entropy(&self) -> Result<Tensor> {
        match self.kind {
            LabelsKind::Classes => self.logits.cross_entropy(self.labels),
            _ => cross_entropy_of_flags(&self.logits.values, self.labels),
        }
    }

    /// `values`, each times the weight of its class.
    fn times_class_weights(&self, values: Tensor) -> Result<Tensor> {
        match &self.classes {
            Some(classes) => Ok(values.mul(classes.of_labels)?),
            None => Ok(values),
        }
    }

    /// Logits minus labels, f32[N, C].
    fn difference(&self) -> Result<Tensor> {
        Ok(self.logits.values.sub(self.labels)?)
    }
}

impl LossSettings {
    /// Refuses settings that `loss` does not have, and weights that are none.
    fn check(&self, loss: Loss) -> Result<()> {
        let known = loss.settings();
        let unknown = self.args.keys().find(|name| !known.iter().any(|it| it.name == **name));
        if let Some(name) = unknown {
            let known = known.iter().map(|setting| setting.name).collect();
            return Err(Error::UnknownName { what: "loss_args", name: name.clone(), known });
        }
        if loss != Loss::CrossEntropy {
            let expected = format!("0 with the loss {loss}");
            check_setting("label_smoothing_factor", expected, self.label_smoothing, |it| {
                it == 0.0
            })?;
        }
        let is_weight = |weight: f64| weight.is_finite() && weight >= 0.0;
        for weight in self.class_weights.iter().flatten() {
            let expected = "finite numbers of at least 0";
            check_setting("class_weights", expected, *weight, is_weight)?;
        }
        Ok(())
    }

    /// A setting of `loss`, or its default. Fails where it is out of range.
    fn arg(&self, loss: Loss, name: &'static str) -> Result<f64> {
        let known = loss.settings().iter().find(|setting| setting.name == name);
        let Setting { default, range, .. } =
            known.ok_or(Error::MissingInput { name: name.to_owned() })?;
        let value = self.args.get(name).copied().unwrap_or(*default);
        let fits = |value: f64| value.is_finite() && range.contains(value);
        check_setting(name, format!("a finite number {range}"), value, fits)?;
        Ok(value)
    }
}

/// `max(x, 0) - x y + log(1 + exp(-|x|))` for logits and flags f32[N, C]: no overflow for any logit.
pub(super) fn cross_entropy_of_flags(logits: &Tensor, flags: &Tensor) -> Result<Tensor> {
    let tail = logits.abs()?.neg()?.exp()?.log1p()?;
    Ok(logits.maximum_scalar(0.0)?.sub(&logits.mul(flags)?)?.add(&tail)?)
}
