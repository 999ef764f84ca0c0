//! Learning-rate schedules: transformers' formulas in f64. `traind-choices` lists them with their options.

use std::f64::consts::PI;

use traind_choices::{LrSchedulerType, Setting};

use crate::error::{Error, Result, check_setting};

/// Options of a schedule that are numbers, at most.
const OPTIONS_MAX: usize = 4;

/// Options of a schedule that are words, at most.
const WORDS_MAX: usize = 2;

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
    /// The options in the order of [`LrSchedulerType::words`].
    words: [&'static str; WORDS_MAX],
}

/// The rate's factor under a schedule. `None` for schedules that follow evaluations and no formula.
fn factor(schedule: LrSchedulerType) -> Option<fn(Progress) -> f64> {
    Some(match schedule {
        LrSchedulerType::Linear => linear,
        LrSchedulerType::Cosine => cosine,
        LrSchedulerType::CosineWithMinLr => cosine_with_min_lr,
        LrSchedulerType::CosineWarmupWithMinLr => cosine_warmup_with_min_lr,
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

/// A first share of the rate that is not given.
const OF_A_STEP: f64 = 0.0;

/// Stable steps that are not given.
const ALL_OTHERS: f64 = -1.0;

/// A schedule with its options.
#[derive(Clone, Copy, Debug)]
pub struct LrSchedule {
    kind: LrSchedulerType,
    factor: fn(Progress) -> f64,
    options: [f64; OPTIONS_MAX],
    words: [&'static str; WORDS_MAX],
}

impl LrSchedule {
    /// The schedule that `lr_scheduler_type` names, with those of `lr_scheduler_kwargs` that are numbers.
    pub fn new<'a>(
        name: &str,
        kwargs: impl IntoIterator<Item = (&'a str, f64)>,
    ) -> Result<LrSchedule> {
        let unknown =
            |what, name: &str, known| Error::UnknownName { what, name: name.to_owned(), known };
        let named = LrSchedulerType::from_name(name);
        let found = named.and_then(|schedule| Some((schedule, factor(schedule)?)));
        let (kind, factor) = found.ok_or_else(|| {
            let known = LrSchedulerType::ALL.iter().filter(|it| factor(**it).is_some());
            unknown("lr_scheduler_type", name, known.map(|it| it.as_str()).collect())
        })?;
        let settings = kind.settings();
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
        let mut words = [""; WORDS_MAX];
        for (word, (_, known)) in words.iter_mut().zip(kind.words()) {
            *word = known[0];
        }
        Ok(LrSchedule { kind, factor, options, words })
    }

    /// The schedule with those of `lr_scheduler_kwargs` that are words.
    pub fn with_words<'a>(
        mut self,
        kwargs: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<LrSchedule> {
        let unknown =
            |what, name: &str, known| Error::UnknownName { what, name: name.to_owned(), known };
        let options = self.kind.words();
        for (name, word) in kwargs {
            let place = options.iter().position(|(option, _)| *option == name);
            let known = || options.iter().map(|(option, _)| *option).collect();
            let place = place.ok_or_else(|| unknown("lr_scheduler_kwargs", name, known()))?;
            let (option, words) = options[place];
            let found = words.iter().find(|known| **known == word);
            self.words[place] = found.ok_or_else(|| unknown(option, word, words.to_vec()))?;
        }
        Ok(self)
    }

    /// The rate of the update that follows `step` updates.
    pub fn learning_rate(&self, step: u64, total_steps: u64, warmup_steps: u64, base: f64) -> f64 {
        base * (self.factor)(Progress {
            step: step as f64,
            total_steps: total_steps as f64,
            warmup_steps: warmup_steps as f64,
            base,
            options: self.options,
            words: self.words,
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

    /// The share of the rate that a cosine ends at: `min_lr`, or `min_lr_rate`.
    fn last_share(&self) -> f64 {
        let [_, min_lr, min_lr_rate, _] = self.options;
        if min_lr > 0.0 { min_lr / self.base } else { min_lr_rate }
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
    at.warmup().unwrap_or_else(|| wave(num_cycles, at.after_warmup()).max(0.0))
}

/// Waves between one and zero that begin at one.
fn wave(num_cycles: f64, progress: f64) -> f64 {
    0.5 * (1.0 + (PI * num_cycles * 2.0 * progress).cos())
}

/// As `cosine`, down to a last rate: `min_lr`, or the share `min_lr_rate` of the base rate.
fn cosine_with_min_lr(at: Progress) -> f64 {
    let [num_cycles, ..] = at.options;
    let last = at.last_share();
    at.warmup()
        .unwrap_or_else(|| (wave(num_cycles, at.after_warmup()) * (1.0 - last) + last).max(0.0))
}

/// As `cosine_with_min_lr`, one step ahead; warms up from `warmup_lr_rate`, in as many steps less one.
fn cosine_warmup_with_min_lr(at: Progress) -> f64 {
    let [num_cycles, _, _, warmup_lr_rate] = at.options;
    if at.step < at.warmup_steps {
        return match warmup_lr_rate {
            OF_A_STEP => (at.step + 1.0) / at.warmup_steps.max(1.0),
            first => first + (1.0 - first) * at.step / (at.warmup_steps - 1.0).max(1.0),
        };
    }
    let last = at.last_share();
    let progress = (at.step - at.warmup_steps + 1.0) / at.steps_after_warmup();
    (wave(num_cycles, progress) * (1.0 - last) + last).max(0.0)
}

/// Up from the share `min_lr_ratio`, level, and back to it in `num_decay_steps`: the last ones, or those after
/// `num_stable_steps`.
fn warmup_stable_decay(at: Progress) -> f64 {
    let [num_decay_steps, min_lr_ratio, num_cycles, num_stable_steps] = at.options;
    let [warmup_type, decay_type] = at.words;
    let above = |factor: f64| (factor * (1.0 - min_lr_ratio) + min_lr_ratio).max(0.0);
    if let Some(warmup) = at.warmup() {
        return above(match warmup_type {
            "cosine" => 0.5 * (1.0 - (PI * warmup).cos()),
            "1-sqrt" => 1.0 - (1.0 - warmup).sqrt(),
            _ => warmup,
        });
    }
    // Before the first step where decay is longer than the run.
    let decay_from = match num_stable_steps {
        ALL_OTHERS => at.total_steps - num_decay_steps,
        stable => at.warmup_steps + stable,
    };
    match at.step {
        step if step < decay_from => 1.0,
        step if step < decay_from + num_decay_steps => {
            let progress = (step - decay_from) / num_decay_steps.max(1.0);
            above(match decay_type {
                "linear" => 1.0 - progress,
                "1-sqrt" => 1.0 - progress.sqrt(),
                _ => wave(num_cycles, progress),
            })
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
    let [lr_end, power, ..] = at.options;
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
             cosine_warmup_with_min_lr, cosine_with_restarts, polynomial, constant, constant_with_warmup, \
             inverse_sqrt, warmup_stable_decay"
        );
        let error = LrSchedule::new("polynomial", [("num_cycles", 2.0)]).unwrap_err().to_string();
        assert_eq!(error, "lr_scheduler_kwargs num_cycles is unknown, known are lr_end, power");
        let error = LrSchedule::new("constant", [("power", 2.0)]).unwrap_err().to_string();
        assert_eq!(error, "lr_scheduler_kwargs power is unknown, there are none");
    }

    #[test]
    fn unknown_words_list_the_known() {
        let refused = |option, word| {
            let schedule = LrSchedule::new("warmup_stable_decay", []).unwrap();
            schedule.with_words([(option, word)]).unwrap_err().to_string()
        };
        assert_eq!(
            refused("decay_type", "sqrt"),
            "decay_type sqrt is unknown, known are cosine, linear, 1-sqrt"
        );
        assert_eq!(
            refused("mode", "max"),
            "lr_scheduler_kwargs mode is unknown, known are warmup_type, decay_type"
        );
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
