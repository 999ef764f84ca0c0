//! Learning-rate schedules: transformers' formulas in f64. `traind-choices` lists them with their options.

use std::f64::consts::PI;

use traind_choices::{LrSchedulerType, Setting};

use crate::error::{Error, Result, check_setting};

/// Options of a schedule, at most.
const OPTIONS_MAX: usize = 3;

/// The progress of a run. The first update has step 0, as in `LambdaLR`; the
/// Trainer logs at step k the rate of the k-th update, which has step k - 1.
#[derive(Clone, Copy, Debug)]
struct Progress {
    step: f64,
    total_steps: f64,
    warmup_steps: f64,
    /// The rate that the factor is multiplied with.
    base: f64,
    /// The options in the order of [`LrSchedulerType::settings`].
    options: [f64; OPTIONS_MAX],
}

/// The rate's factor under a schedule. `None` for schedules that follow evaluations and no formula.
fn factor(schedule: LrSchedulerType) -> Option<fn(Progress) -> f64> {
    Some(match schedule {
        LrSchedulerType::Linear => linear,
        LrSchedulerType::Cosine => cosine,
        LrSchedulerType::CosineWithMinLr => cosine_with_min_lr,
        LrSchedulerType::CosineWithRestarts => cosine_with_restarts,
        LrSchedulerType::Polynomial => polynomial,
        LrSchedulerType::InverseSqrt => inverse_sqrt,
        LrSchedulerType::WarmupStableDecay => warmup_stable_decay,
        LrSchedulerType::Constant => |_| 1.0,
        LrSchedulerType::ConstantWithWarmup => |at| at.warmup().unwrap_or(1.0),
        LrSchedulerType::ReduceLrOnPlateau => return None,
    })
}

/// A timescale that is not given.
const OF_WARMUP: f64 = 0.0;

/// A schedule with its options.
#[derive(Clone, Copy, Debug)]
pub struct LrSchedule {
    factor: fn(Progress) -> f64,
    options: [f64; OPTIONS_MAX],
}

impl LrSchedule {
    /// The schedule that `lr_scheduler_type` names, with `lr_scheduler_kwargs`.
    pub fn new<'a>(
        name: &str,
        kwargs: impl IntoIterator<Item = (&'a str, f64)>,
    ) -> Result<LrSchedule> {
        let unknown =
            |what, name: &str, known| Error::UnknownName { what, name: name.to_owned(), known };
        let named = LrSchedulerType::from_name(name);
        let found = named.and_then(|schedule| Some((schedule.settings(), factor(schedule)?)));
        let (settings, factor) = found.ok_or_else(|| {
            let known = LrSchedulerType::ALL.iter().filter(|it| factor(**it).is_some());
            unknown("lr_scheduler_type", name, known.map(|it| it.as_str()).collect())
        })?;
        let mut options = [0.0; OPTIONS_MAX];
        for (option, setting) in options.iter_mut().zip(settings) {
            *option = setting.default;
        }
        for (name, value) in kwargs {
            let place = settings.iter().position(|setting| setting.name == name);
            let known = || settings.iter().map(|setting| setting.name).collect();
            let place = place.ok_or_else(|| unknown("lr_scheduler_kwargs", name, known()))?;
            let Setting { name, range, .. } = settings[place];
            let fits = |value: f64| value.is_finite() && range.contains(value);
            check_setting(name, format!("a finite number {range}"), value, fits)?;
            options[place] = value;
        }
        Ok(LrSchedule { factor, options })
    }

    /// The rate of the update that follows `step` updates.
    pub fn learning_rate(&self, step: u64, total_steps: u64, warmup_steps: u64, base: f64) -> f64 {
        base * (self.factor)(Progress {
            step: step as f64,
            total_steps: total_steps as f64,
            warmup_steps: warmup_steps as f64,
            base,
            options: self.options,
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

/// Waves that begin at one: half a one unless `num_cycles` says more.
fn cosine(at: Progress) -> f64 {
    let [num_cycles, ..] = at.options;
    at.warmup().unwrap_or_else(|| {
        let wave = 0.5 * (1.0 + (PI * num_cycles * 2.0 * at.after_warmup()).cos());
        wave.max(0.0)
    })
}

/// As `cosine`, down to a last rate: `min_lr`, or the share `min_lr_rate` of the base rate.
fn cosine_with_min_lr(at: Progress) -> f64 {
    let [num_cycles, min_lr, min_lr_rate] = at.options;
    let last = if min_lr > 0.0 { min_lr / at.base } else { min_lr_rate };
    let wave = |progress: f64| 0.5 * (1.0 + (PI * num_cycles * 2.0 * progress).cos());
    at.warmup().unwrap_or_else(|| (wave(at.after_warmup()) * (1.0 - last) + last).max(0.0))
}

/// Up from the share `min_lr_ratio`, level, and back to it in the last `num_decay_steps` along
/// half a cosine.
fn warmup_stable_decay(at: Progress) -> f64 {
    let [num_decay_steps, min_lr_ratio, num_cycles] = at.options;
    let above = |factor: f64| (factor * (1.0 - min_lr_ratio) + min_lr_ratio).max(0.0);
    if let Some(warmup) = at.warmup() {
        return above(warmup);
    }
    // Before the first step where decay is longer than the run.
    let decay_from = at.total_steps - num_decay_steps;
    match at.step {
        step if step < decay_from => 1.0,
        step if step < at.total_steps => {
            let progress = (step - decay_from) / num_decay_steps.max(1.0);
            above(0.5 * (1.0 + (PI * num_cycles * 2.0 * progress).cos()))
        }
        _ => min_lr_ratio,
    }
}

/// `num_cycles` half waves, each from one to zero, and zero behind them.
fn cosine_with_restarts(at: Progress) -> f64 {
    let [num_cycles, ..] = at.options;
    at.warmup().unwrap_or_else(|| match at.after_warmup() {
        progress if progress >= 1.0 => 0.0,
        progress => (0.5 * (1.0 + (PI * (num_cycles * progress % 1.0)).cos())).max(0.0),
    })
}

/// Down to a last rate that stays, along a power of what is left. A base rate
/// below the last one, which transformers refuses, stays as it is.
fn polynomial(at: Progress) -> f64 {
    let [lr_end, power, _] = at.options;
    let last = (lr_end / at.base).min(1.0);
    at.warmup().unwrap_or_else(|| {
        let left = (1.0 - at.after_warmup()).max(0.0);
        (1.0 - last) * left.powf(power) + last
    })
}

/// Falls with the root of the steps, on from one at the end of warm-up; without
/// warm-up on a scale of ten thousand steps.
fn inverse_sqrt(at: Progress) -> f64 {
    const WITHOUT_WARMUP: f64 = 10_000.0;
    let timescale = match at.options {
        [timescale, ..] if timescale != OF_WARMUP => timescale,
        _ if at.warmup_steps > 0.0 => at.warmup_steps,
        _ => WITHOUT_WARMUP,
    };
    at.warmup().unwrap_or_else(|| {
        let shift = timescale - at.warmup_steps;
        ((at.step + shift) / timescale).sqrt().recip()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_polynomial_of_a_tiny_rate_stays_as_it_is() {
        let schedule = LrSchedule::new("polynomial", []).unwrap();
        for base in [0.0, 5e-8] {
            assert_eq!(schedule.learning_rate(7, 10, 0, base), base);
        }
    }

    #[test]
    fn an_unknown_schedule_lists_the_known() {
        let error = LrSchedule::new("linar", []).unwrap_err().to_string();
        assert_eq!(
            error,
            "lr_scheduler_type linar is unknown, known are linear, cosine, cosine_with_min_lr, \
             cosine_with_restarts, polynomial, constant, constant_with_warmup, inverse_sqrt, \
             warmup_stable_decay"
        );
        let error = LrSchedule::new("polynomial", [("num_cycles", 2.0)]).unwrap_err().to_string();
        assert_eq!(error, "lr_scheduler_kwargs num_cycles is unknown, known are lr_end, power");
        let error = LrSchedule::new("constant", [("power", 2.0)]).unwrap_err().to_string();
        assert_eq!(error, "lr_scheduler_kwargs power is unknown, there are none");
    }

    #[test]
    fn options_out_of_their_range_are_refused() {
        for schedule in LrSchedulerType::ALL.iter().filter(|it| factor(**it).is_some()) {
            for setting in schedule.settings() {
                for value in [f64::NAN, f64::INFINITY, -1.0] {
                    let error = LrSchedule::new(schedule.as_str(), [(setting.name, value)]);
                    let error = error.unwrap_err().to_string();
                    let expect = format!("{}: expected a finite number", setting.name);
                    assert!(error.starts_with(&expect), "{schedule}: {error}");
                }
            }
        }
    }
}
