//! Learning-rate schedules: transformers' formulas in f64, a line each in
//! [`SCHEDULES`].

use std::f64::consts::PI;

use crate::error::{Error, Result};

/// Where a run stands. The first update has step 0, as in `LambdaLR`; the
/// Trainer logs at step k the rate of the k-th update, which has step k - 1.
#[derive(Clone, Copy, Debug)]
struct Progress {
    step: f64,
    total_steps: f64,
    warmup_steps: f64,
    /// The rate that the factor is multiplied with.
    base: f64,
}

/// A schedule that TrainingArguments' `lr_scheduler_type` names.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    pub name: &'static str,
    factor: fn(Progress) -> f64,
}

const SCHEDULES: &[Schedule] = &[
    Schedule { name: "linear", factor: linear },
    Schedule { name: "cosine", factor: cosine },
    Schedule { name: "cosine_with_restarts", factor: cosine_with_restarts },
    Schedule { name: "polynomial", factor: polynomial },
    Schedule { name: "inverse_sqrt", factor: inverse_sqrt },
    Schedule { name: "constant", factor: |_| 1.0 },
    Schedule { name: "constant_with_warmup", factor: |at| at.warmup().unwrap_or(1.0) },
];

impl Schedule {
    pub fn from_name(name: &str) -> Result<Schedule> {
        let schedule = SCHEDULES.iter().find(|schedule| schedule.name == name);
        schedule.copied().ok_or_else(|| Error::UnknownName {
            what: "lr_scheduler_type",
            name: name.to_owned(),
            known: SCHEDULES.iter().map(|schedule| schedule.name).collect(),
        })
    }

    /// The rate of the update that follows `step` updates.
    pub fn learning_rate(&self, step: u64, total_steps: u64, warmup_steps: u64, base: f64) -> f64 {
        base * (self.factor)(Progress {
            step: step as f64,
            total_steps: total_steps as f64,
            warmup_steps: warmup_steps as f64,
            base,
        })
    }
}

impl Progress {
    fn warmup(&self) -> Option<f64> {
        (self.step < self.warmup_steps).then(|| self.step / self.warmup_steps.max(1.0))
    }

    fn steps_after_warmup(&self) -> f64 {
        (self.total_steps - self.warmup_steps).max(1.0)
    }

    /// The share of the steps after warm-up that is done.
    fn after_warmup(&self) -> f64 {
        (self.step - self.warmup_steps) / self.steps_after_warmup()
    }
}

fn linear(at: Progress) -> f64 {
    at.warmup().unwrap_or_else(|| ((at.total_steps - at.step) / at.steps_after_warmup()).max(0.0))
}

/// Half a wave, from one to zero.
fn cosine(at: Progress) -> f64 {
    at.warmup().unwrap_or_else(|| (0.5 * (1.0 + (PI * at.after_warmup()).cos())).max(0.0))
}

/// Half waves, each from one to zero: one, as the Trainer asks for by default,
/// and zero behind it.
fn cosine_with_restarts(at: Progress) -> f64 {
    const NUM_CYCLES: f64 = 1.0;
    at.warmup().unwrap_or_else(|| match at.after_warmup() {
        progress if progress >= 1.0 => 0.0,
        progress => (0.5 * (1.0 + (PI * (NUM_CYCLES * progress % 1.0)).cos())).max(0.0),
    })
}

/// Down to a last rate that stays, along a power of what is left. A base rate
/// below the last one, which transformers refuses, stays as it is.
fn polynomial(at: Progress) -> f64 {
    const LAST_RATE: f64 = 1e-7;
    const POWER: f64 = 1.0;
    let last = (LAST_RATE / at.base).min(1.0);
    at.warmup().unwrap_or_else(|| {
        let left = (1.0 - at.after_warmup()).max(0.0);
        (1.0 - last) * left.powf(POWER) + last
    })
}

/// Falls with the root of the steps, on from one at the end of warm-up; without
/// warm-up on a scale of ten thousand steps.
fn inverse_sqrt(at: Progress) -> f64 {
    const TIMESCALE: f64 = 10_000.0;
    let timescale = if at.warmup_steps > 0.0 { at.warmup_steps } else { TIMESCALE };
    at.warmup().unwrap_or_else(|| {
        let shift = timescale - at.warmup_steps;
        ((at.step + shift) / timescale).sqrt().recip()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: f64 = 5e-5;

    /// Name, total steps, warm-up steps and rates by step.
    type Case = (&'static str, u64, u64, &'static [(u64, f64)]);

    /// As PyTorch's `LambdaLR` gave them under transformers' `get_scheduler`.
    #[rustfmt::skip]
    const RATES: &[Case] = &[
        ("linear", 10, 0, &[(0, 5e-05), (1, 4.5e-05), (3, 3.5e-05), (7, 1.5e-05), (9, 5e-06), (10, 0.0), (11, 0.0)]),
        ("linear", 10, 4, &[(0, 0.0), (1, 1.25e-05), (3, 3.7500000000000003e-05), (4, 5e-05), (7, 2.5e-05), (9, 8.333333333333334e-06), (10, 0.0)]),
        ("linear", 3, 5, &[(0, 0.0), (1, 1e-05), (2, 2e-05), (3, 3e-05), (4, 4e-05)]),
        ("cosine", 10, 0, &[(0, 5e-05), (1, 4.877641290737884e-05), (4, 3.272542485937369e-05), (9, 1.2235870926211619e-06), (10, 0.0), (11, 1.2235870926211619e-06)]),
        ("cosine", 10, 4, &[(0, 0.0), (3, 3.7500000000000003e-05), (4, 5e-05), (7, 2.5e-05), (9, 3.3493649053890326e-06), (10, 0.0)]),
        ("cosine", 3, 5, &[(0, 0.0), (2, 2e-05), (4, 4e-05)]),
        ("cosine_with_restarts", 10, 0, &[(0, 5e-05), (1, 4.877641290737884e-05), (4, 3.272542485937369e-05), (9, 1.2235870926211619e-06), (10, 0.0), (11, 0.0)]),
        ("cosine_with_restarts", 10, 4, &[(0, 0.0), (3, 3.7500000000000003e-05), (4, 5e-05), (7, 2.5e-05), (9, 3.3493649053890326e-06), (10, 0.0), (12, 0.0)]),
        ("cosine_with_restarts", 3, 5, &[(0, 0.0), (2, 2e-05), (4, 4e-05), (5, 5e-05)]),
        ("polynomial", 10, 0, &[(0, 5e-05), (1, 4.5010000000000004e-05), (4, 3.0039999999999997e-05), (9, 5.089999999999999e-06), (10, 9.999999999999998e-08), (11, 9.999999999999998e-08)]),
        ("polynomial", 10, 4, &[(0, 0.0), (3, 3.7500000000000003e-05), (4, 5e-05), (7, 2.5050000000000002e-05), (9, 8.416666666666665e-06), (10, 9.999999999999998e-08), (12, 9.999999999999998e-08)]),
        ("polynomial", 3, 5, &[(0, 0.0), (2, 2e-05), (4, 4e-05)]),
        ("inverse_sqrt", 10, 0, &[(0, 5e-05), (1, 4.9997500187484384e-05), (9, 4.9977515176118345e-05), (11, 4.997252266672313e-05)]),
        ("inverse_sqrt", 10, 4, &[(0, 0.0), (3, 3.7500000000000003e-05), (4, 5e-05), (5, 4.4721359549995795e-05), (9, 3.3333333333333335e-05), (11, 3.0151134457776364e-05)]),
        ("constant", 10, 4, &[(0, 5e-05), (3, 5e-05), (11, 5e-05)]),
        ("constant_with_warmup", 10, 0, &[(0, 5e-05), (11, 5e-05)]),
        ("constant_with_warmup", 10, 4, &[(0, 0.0), (1, 1.25e-05), (3, 3.7500000000000003e-05), (4, 5e-05), (11, 5e-05)]),
    ];

    #[test]
    fn rates_are_those_of_transformers() {
        for (name, total, warmup, rates) in RATES {
            let schedule = Schedule::from_name(name).unwrap();
            for (step, expect) in *rates {
                let rate = schedule.learning_rate(*step, *total, *warmup, BASE);
                let what = format!("{name} of {total}, {warmup} warm-up, at {step}");
                assert!((rate - expect).abs() <= 1e-16, "{what}: {rate}, expected {expect}");
            }
        }
    }

    #[test]
    fn a_polynomial_of_a_tiny_rate_stays_as_it_is() {
        let schedule = Schedule::from_name("polynomial").unwrap();
        for base in [0.0, 5e-8] {
            assert_eq!(schedule.learning_rate(7, 10, 0, base), base);
        }
    }

    #[test]
    fn every_schedule_is_in_the_table() {
        for schedule in SCHEDULES {
            assert!(RATES.iter().any(|(name, ..)| *name == schedule.name), "{}", schedule.name);
        }
    }

    #[test]
    fn an_unknown_schedule_lists_the_known() {
        let error = Schedule::from_name("linar").unwrap_err().to_string();
        assert_eq!(
            error,
            "lr_scheduler_type linar is unknown, known are linear, cosine, \
             cosine_with_restarts, polynomial, inverse_sqrt, constant, constant_with_warmup"
        );
    }
}
