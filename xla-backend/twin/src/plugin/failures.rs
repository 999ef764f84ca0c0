//! Failures of executions that the options ask for, with the runtime's texts.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use traind_neuron::RUNTIME;

use super::behaviour::{STARTED, Started};
use super::errors::{self, INTERNAL, RESOURCE_EXHAUSTED, logged};

/// Executions since the first step of a job was compiled or loaded: those before try the device.
static EXECUTIONS: AtomicU64 = AtomicU64::new(0);
static HAS_STEP: AtomicBool = AtomicBool::new(false);
/// The name of a job's programs.
const STEP: &str = "step";
const TIMEOUT: &str = "NEURON_RT_EXEC_TIMEOUT";
/// The plugin's error of an execution, where the runtime's text is not in it.
const FAILED: &str = "PJRT_LoadedExecutable_Execute: error condition error != 0:";
/// The runtime's default.
const TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);

/// Notes the name of a program that was compiled or read from the cache.
pub(super) fn note_program(name: &str) {
    if name == STEP {
        HAS_STEP.store(true, Ordering::Relaxed);
    }
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
        std::thread::sleep(time_limit());
        return Some(late_error(started));
    }
    if number == options.memory_full_at {
        let text =
            format!("Failed to allocate 4.000GB (alignment: none, usage: tensors) on {core}");
        return Some(errors::new(RESOURCE_EXHAUSTED, &logged(options, text, FAILED)));
    }
    if options.fail_status == 0 || number != options.fail_at {
        return None;
    }
    Some(errors::new(INTERNAL, &logged(options, failed(&core, options.fail_status), FAILED)))
}

/// The error of an execution that read or wrote outside of a tensor, on a core of this place in the process.
pub(super) fn out_of_bounds(started: &Started, place: usize) -> String {
    const OUT_OF_BOUNDS: u32 = 1006;
    let text = format!(
        "{}: failed to run scatter/gather (indirect memory copy via vector DGE), due to out-of-bound access",
        failed(&name_of(started, place), OUT_OF_BOUNDS)
    );
    logged(&started.options, text, FAILED)
}

/// The text about an execution that ended with a status.
fn failed(core: &str, status: u32) -> String {
    let code = RUNTIME.iter().find(|code| code.status == status);
    let name = code.map_or("UNKNOWN", |code| code.name);
    format!("{core} nrt_execute failed: NRT_{name} status={status}")
}

/// The limit of an execution.
pub(super) fn time_limit() -> Duration {
    let seconds = std::env::var(TIMEOUT).ok().and_then(|text| text.parse::<f64>().ok());
    let limit = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    limit.unwrap_or(TIMEOUT_DEFAULT)
}

/// The error of an execution that reached the limit.
pub(super) fn late_error(started: &Started) -> *mut c_void {
    let text = late(started, time_limit());
    errors::new(INTERNAL, &logged(&started.options, text, FAILED))
}

/// The text about an execution that reached the limit.
pub(super) fn late(started: &Started, limit: Duration) -> String {
    let core = core_name(started);
    format!("{core} execution timeout ({} ms) on model step", limit.as_millis())
}

/// The last core of the process, as the runtime names it.
fn core_name(started: &Started) -> String {
    name_of(started, started.cores.len().saturating_sub(1))
}

/// The core of a place in the process, as the runtime names it.
fn name_of(started: &Started, place: usize) -> String {
    let core = started.cores.get(place).copied().unwrap_or_default();
    let per_device = started.machine.cores_per_device().max(1);
    format!("ND {}:NC {}", core / per_device, core % per_device)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The statuses of `nrt_status.h` with their names, a part of the meaning and of the remedy, and whether the same
    /// job may succeed when it is started again.
    const STATUSES: [(u32, &str, &str, &str, bool); 27] = [
        (1, "FAILURE", "without saying why", "restart the job", true),
        (2, "INVALID", "refuses an argument", "report it", false),
        (3, "INVALID_HANDLE", "refuses a handle", "report it", false),
        (4, "RESOURCE", "lacks a resource", "neuron-ls", true),
        (5, "TIMEOUT", "NEURON_RT_EXEC_TIMEOUT", "another core", true),
        (6, "HW_ERROR", "a device failed", "replace the instance", true),
        (7, "QUEUE_FULL", "queue is full", "restart the job", true),
        (9, "LOAD_NOT_ENOUGH_NC", "compiled for more cores", "NEURON_RT_VISIBLE_CORES", false),
        (10, "UNSUPPORTED_NEFF_VERSION", "compiler's format", "of the same SDK", false),
        (11, "FAIL_HOST_MEM_ALLOC", "host has no memory", "larger instance", true),
        (13, "UNINITIALIZED", "not initialized", "report it", false),
        (14, "CLOSED", "was closed", "report it", false),
        (15, "QUEUE_EMPTY", "queue is empty", "report it", false),
        (101, "EXEC_UNIT_UNRECOVERABLE", "a core failed", "restart the job, and the driver", true),
        (1002, "EXEC_BAD_INPUT", "another shape", "report it", false),
        (1003, "EXEC_COMPLETED_WITH_NUM_ERR", "not a number", "learning_rate", false),
        (1004, "EXEC_COMPLETED_WITH_ERR", "reported an error", "restart the job", true),
        (1005, "EXEC_NC_BUSY", "another program", "restart the job", true),
        (1006, "EXEC_OOB", "outside of a tensor", "report it", false),
        (1100, "COLL_PENDING", "a collective has not ended", "restart the job", true),
        (1200, "EXEC_HW_ERR_COLLECTIVES", "a collective failed", "replace the instance", true),
        (1201, "EXEC_HW_ERR_HBM_UE", "memory of a device", "replace the instance", true),
        (1202, "EXEC_HW_ERR_NC_UE", "memory of a core", "replace the instance", true),
        (1203, "EXEC_HW_ERR_DMA_ABORT", "a transfer", "replace the instance", true),
        (
            1204,
            "EXEC_SW_NQ_OVERFLOW",
            "too many notifications",
            "NEURON_RT_ENABLE_DGE_NOTIFICATIONS=0",
            false,
        ),
        (1205, "EXEC_HW_ERR_REPAIRABLE_HBM_UE", "can repair it", "reload the driver", true),
        (1206, "NETWORK_PROXY_FAILURE", "network between hosts", "EFA", true),
    ];

    #[test]
    fn each_status_is_explained_with_its_core() {
        for (status, name, meaning, remedy, may_pass) in STATUSES {
            let text = failed("ND 3:NC 1", status);
            let found = traind_neuron::explain(&text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!(found.code, format!("NRT {status} ({name})"));
            assert_eq!(found.core.as_deref(), Some("ND 3:NC 1"), "{status}");
            assert!(found.meaning.contains(meaning), "{status}: {found}");
            assert!(found.remedy.contains(remedy), "{status}: {found}");
            assert_eq!(found.cause.may_pass(), may_pass, "{status}");
            let whole = found.to_string();
            assert!(whole.contains(found.meaning) && whole.contains(found.remedy), "{whole}");
        }
        let known: Vec<u32> = RUNTIME.iter().map(|code| code.status).collect();
        assert_eq!(known, STATUSES.map(|(status, ..)| status));
    }

    /// The runtime's texts of other failures that the twin injects.
    #[test]
    fn limits_and_full_memories_are_explained() {
        let late = "ND 0:NC 1 execution timeout (30000 ms) on model step";
        let full = "Failed to allocate 4.000GB (alignment: none, usage: tensors) on ND 0:NC 1";
        for (text, code, may_pass) in
            [(late, "NRT 5 (TIMEOUT)", true), (full, "NRT 4 (RESOURCE)", false)]
        {
            let found = traind_neuron::explain(text).unwrap();
            assert_eq!((found.code.as_str(), found.cause.may_pass()), (code, may_pass));
            assert_eq!(found.core.as_deref(), Some("ND 0:NC 1"));
        }
    }
}
