//! The numbers that a loss takes as labels.

use serde::Serialize;

use crate::error::LabelProblem;

/// The scale of a row's labels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub enum LabelScale {
    /// Any numbers.
    #[default]
    Any,
    /// 1 or 0: whether texts belong together.
    Flag,
    /// 0 to 1: how probable it is that a passage is relevant.
    Probability,
    /// -1 to 1: the cosine that two texts are to have.
    Cosine,
}

/// The rounding error of numbers that were divided by the largest one.
const ROUNDING: f32 = 1e-6;

impl LabelScale {
    /// Fails for a number that the loss does not take.
    pub(crate) fn check(self, numbers: &[f32]) -> Result<(), LabelProblem> {
        let fits = |number: f32| match self {
            Self::Any => true,
            Self::Flag => [0.0, 1.0].contains(&number),
            Self::Probability => (-ROUNDING..=1.0 + ROUNDING).contains(&number),
            Self::Cosine => number.abs() <= 1.0 + ROUNDING,
        };
        let Some(found) = numbers.iter().find(|number| !fits(**number)) else { return Ok(()) };
        let found = found.to_string();
        Err(match self {
            Self::Any | Self::Flag => LabelProblem::NotPaired { found },
            Self::Probability => LabelProblem::NotAProbability { found },
            Self::Cosine => LabelProblem::NotACosine { found },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_beyond_the_scale_of_a_loss_are_refused() {
        let check = |scale: LabelScale, number: f32, expect: Option<&str>| {
            let found = scale.check(&[0.0, number]).err().map(|problem| problem.to_string());
            match (&found, expect) {
                (Some(found), Some(expect)) => assert!(found.starts_with(expect), "{found}"),
                _ => assert_eq!(found.as_deref(), expect),
            }
        };
        check(LabelScale::Any, 1e30, None);
        check(LabelScale::Flag, 1.0, None);
        check(LabelScale::Flag, 0.5, Some("0.5 does not say whether texts belong together"));
        check(LabelScale::Probability, 0.5, None);
        check(LabelScale::Probability, 1.0 + f32::EPSILON, None);
        check(LabelScale::Probability, 3.0, Some("3 is outside 0 to 1"));
        check(LabelScale::Probability, -1.0, Some("-1 is outside 0 to 1"));
        check(LabelScale::Probability, f32::NAN, Some("NaN is outside 0 to 1"));
        check(LabelScale::Cosine, -1.0, None);
        check(LabelScale::Cosine, 5.0, Some("5 is outside -1 to 1"));
    }
}
