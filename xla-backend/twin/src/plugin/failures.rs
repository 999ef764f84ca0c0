//! Failures of executions that the options ask for, with the runtime's texts.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use traind_neuron::RUNTIME;

use super::behaviour::{STARTED, Started};
use super::errors::{self, INTERNAL, RESOURCE_EXHAUSTED};

/// Executions since the first step of a job was compiled or loaded: those before try the device.
static EXECUTIONS: AtomicU64 = AtomicU64::new(0);
static HAS_STEP: AtomicBool = AtomicBool::new(false);
const TIMEOUT: &str = "NEURON_RT_EXEC_TIMEOUT";
/// The runtime's default.
const TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);

/// Notes that a program was compiled.
pub(super) fn note_program(code: &str) {
    if code.contains("module @step ") {
        HAS_STEP.store(true, Ordering::Relaxed);
    }
}

/// Notes that a program was read from the cache, which jobs alone use.
pub(super) fn note_loaded() {
    HAS_STEP.store(true, Ordering::Relaxed);
}

/// The failure that the options ask of this execution.
pub(super) fn injected() -> Option<*mut c_void> {
    let started = STARTED.get()?;
    let options = &started.options;
    if !HAS_STEP.load(Ordering::Relaxed) {
        return None;
    }
    let number = EXECUTIONS.fetch_add(1, Ordering::Relaxed) + 1;
    let core = core_name(started);
    if number == options.hang_at {
        let seconds = std::env::var(TIMEOUT).ok().and_then(|text| text.parse::<f64>().ok());
        let limit = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let limit = limit.unwrap_or(TIMEOUT_DEFAULT);
        std::thread::sleep(limit);
        let text = format!("{core} execution timeout ({} ms) on model step", limit.as_millis());
        return Some(errors::new(INTERNAL, &text));
    }
    if number == options.memory_full_at {
        let text =
            format!("Failed to allocate 4.000GB (alignment: none, usage: tensors) on {core}");
        return Some(errors::new(RESOURCE_EXHAUSTED, &text));
    }
    if options.fail_status == 0 || number != options.fail_at {
        return None;
    }
    let code = RUNTIME.iter().find(|code| code.status == options.fail_status);
    let name = code.map_or("UNKNOWN", |code| code.name);
    let text = format!("{core} nrt_execute failed: NRT_{name} status={}", options.fail_status);
    Some(errors::new(INTERNAL, &text))
}

/// The last core of the process, as the runtime names it.
fn core_name(started: &Started) -> String {
    let core = started.cores.last().copied().unwrap_or_default();
    let per_device = started.machine.cores_per_device().max(1);
    format!("ND {}:NC {}", core / per_device, core % per_device)
}
