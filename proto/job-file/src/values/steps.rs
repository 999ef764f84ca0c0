//! A number of steps, or a share of all steps, as in TrainingArguments.

use serde::{Serialize, Serializer};

use crate::field_type::FieldType;
use crate::node::Node;
use crate::problems::Problems;

/// A number of steps, which is whole, from 1 on; below 1, a share of all steps.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepsOrRatio(f64);

impl StepsOrRatio {
    /// A number of steps.
    pub const fn steps(steps: u32) -> Self {
        Self(steps as f64)
    }

    /// The steps of a job of `total_steps`. A share is rounded up, as
    /// `TrainingArguments.get_warmup_steps` and `TrainerState.compute_steps` do.
    pub fn resolve(self, total_steps: u64) -> u64 {
        if self.0 < 1.0 { (total_steps as f64 * self.0).ceil() as u64 } else { self.0 as u64 }
    }

    /// Returns true for a multiple of `other`: both count steps, or both are shares.
    pub(crate) fn is_multiple_of(self, other: Self) -> bool {
        if (self.0 < 1.0) != (other.0 < 1.0) || other.0 == 0.0 {
            return false;
        }
        let ratio = self.0 / other.0;
        (ratio - ratio.round()).abs() < 1e-9 && ratio >= 1.0 - 1e-9
    }

    /// Returns true for zero steps.
    pub fn is_zero(self) -> bool {
        self.0 == 0.0
    }
}

impl Serialize for StepsOrRatio {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0.fract() == 0.0 {
            serializer.serialize_i64(self.0 as i64)
        } else {
            serializer.serialize_f64(self.0)
        }
    }
}

impl FieldType for StepsOrRatio {
    fn type_name() -> String {
        "integer, or a number below 1".to_owned()
    }

    fn read(node: &Node, path: &str, problems: &mut Problems) -> Option<Self> {
        let number = f64::read(node, path, problems)?;
        if number > 1.0 && number.fract() != 0.0 {
            problems.violation(
                path,
                format!("must be whole, or a share of all steps below 1, not {number}"),
            );
            return None;
        }
        Some(Self(number))
    }

    fn number(&self) -> Option<f64> {
        Some(self.0)
    }
}
