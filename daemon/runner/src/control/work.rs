//! How much arithmetic the programs of a run do, and how much the cores could do.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use traind_models::{ParameterSpec, Role, flops};
use traind_pjrt::{Executable, Value};

/// Floating-point operations of one run of a program on one core.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Work {
    /// What the compiler counts in the executable; 0 where it does not tell.
    pub executed: f64,
    /// What the model's dots take at least: recomputation is not among it.
    pub model: f64,
}

impl Work {
    /// `forward` operations of the model's forward pass.
    pub(crate) fn of(executable: &Executable, forward: f64, trains: bool) -> Work {
        let model = if trains { flops::training(forward) } else { forward };
        Work { executed: counted(executable), model }
    }
}

/// A figure for people to look at: a plugin that fails to tell it fails no run.
fn counted(executable: &Executable) -> f64 {
    let cost = executable.program().cost_analysis().ok().flatten().unwrap_or_default();
    match cost.get("flops") {
        Some(Value::Float(flops)) if *flops > 0.0 => f64::from(*flops),
        _ => 0.0,
    }
}

/// What transformers' `floating_point_ops` counts for training on so many positions, padding
/// among them: six for each and each parameter that is no embedding.
pub(crate) fn trainer_flos(parameters: &[ParameterSpec], positions: f64) -> f64 {
    let counted = parameters.iter().filter(|parameter| parameter.role != Role::Embedding);
    let elements: usize = counted.map(|parameter| parameter.shape.element_count()).sum();
    6.0 * positions * elements as f64
}

/// Work done in a window of time.
#[derive(Debug)]
pub(crate) struct WorkMeter {
    started: Instant,
    window: Duration,
    done: VecDeque<(Instant, Work)>,
}

impl WorkMeter {
    pub(crate) fn new(now: Instant, window: Duration) -> WorkMeter {
        WorkMeter { started: now, window, done: VecDeque::new() }
    }

    /// Time before the first program is none in which work could be done.
    pub(crate) fn add(&mut self, now: Instant, work: Work) {
        if self.done.is_empty() {
            self.started = now;
        }
        self.forget(now);
        self.done.push_back((now, work));
    }

    /// Work a second over the window, or since the first program if that is shorter.
    pub(crate) fn rate(&self, now: Instant) -> Work {
        let seconds = self.window.min(now.duration_since(self.started)).as_secs_f64();
        let recent = self.done.iter().filter(|(at, _)| now.duration_since(*at) <= self.window);
        let sum = recent.fold(Work::default(), |sum, (_, work)| Work {
            executed: sum.executed + work.executed,
            model: sum.model + work.model,
        });
        if seconds <= 0.0 {
            return Work::default();
        }
        Work { executed: sum.executed / seconds, model: sum.model / seconds }
    }

    fn forget(&mut self, now: Instant) {
        while self.done.front().is_some_and(|(at, _)| now.duration_since(*at) > self.window) {
            self.done.pop_front();
        }
    }
}

/// What dots are computed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Precision {
    /// bfloat16 or float16.
    Half,
    TensorFloat32,
    Float32,
}

/// What one core of a device can do at most in dense dots, in operations a second. `None` for a device that is not known; a CPU's depends on too much.
///
/// Figures are the vendors' data sheets'. A NeuronCore's is its share of the chip's.
pub(crate) fn peak(device_kind: &str, precision: Precision) -> Option<f64> {
    const TERA: f64 = 1e12;
    const PEAKS: &[(&str, [f64; 3])] = &[
        ("H200", [989.4, 494.7, 66.9]),
        ("H100 PCIe", [756.0, 378.0, 51.2]),
        ("H100 NVL", [835.5, 417.7, 60.0]),
        ("H100", [989.4, 494.7, 66.9]),
        ("A100", [312.0, 156.0, 19.5]),
        ("L40S", [362.0, 183.0, 91.6]),
        ("A10G", [70.0, 35.0, 31.2]),
        ("L4", [121.0, 60.0, 30.3]),
        ("NC_v2", [95.0, 23.8, 23.8]),
        ("NC_v3", [83.4, 22.6, 22.6]),
    ];
    let (_, [half, tensor_float_32, float32]) =
        PEAKS.iter().find(|(name, _)| device_kind.contains(name))?;
    Some(
        TERA * match precision {
            Precision::Half => half,
            Precision::TensorFloat32 => tensor_float_32,
            Precision::Float32 => float32,
        },
    )
}

/// All memory of this machine, in bytes.
pub(crate) fn host_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().trim_end_matches(" kB").parse::<u64>().ok().map(|kib| kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_that_of_the_window() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut meter = WorkMeter::new(start, Duration::from_secs(60));
        assert_eq!(meter.rate(at(5)), Work::default());
        let work = Work { executed: 30.0, model: 20.0 };
        for second in 100..=140 {
            meter.add(at(second), work);
        }
        let soon = meter.rate(at(140));
        assert!((soon.executed - 41.0 * 30.0 / 40.0).abs() < 1e-9, "{soon:?}");
        let later = meter.rate(at(190));
        assert!((later.model - 11.0 * 20.0 / 60.0).abs() < 1e-9, "{later:?}");
        assert_eq!(meter.rate(at(500)), Work::default());
    }

    #[test]
    fn peaks_are_of_the_named_device() {
        use Precision::{Float32, Half, TensorFloat32};
        assert_eq!(peak("NVIDIA H100 80GB HBM3", Half), Some(989.4e12));
        assert_eq!(peak("NVIDIA H100 PCIe", TensorFloat32), Some(378.0e12));
        assert_eq!(peak("NVIDIA H100 NVL", Half), Some(835.5e12));
        assert_eq!(peak("NVIDIA L40S", Float32), Some(91.6e12));
        assert_eq!(peak("NVIDIA L4", Half), Some(121.0e12));
        assert_eq!(peak("cpu", Float32), None);
    }
}
