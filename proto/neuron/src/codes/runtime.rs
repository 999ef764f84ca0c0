//! Status codes of the runtime, by its header `nrt_status.h`.

use super::Cause::{
    self, Busy, Defect, Hardware, HostMemory, Indices, Setup, Size, Timeout, Unknown, Values,
};

/// A status of the runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuntimeCode {
    pub status: u32,
    /// The name without `NRT_`.
    pub name: &'static str,
    pub cause: Cause,
    pub meaning: &'static str,
    pub remedy: &'static str,
}

const AGAIN: &str = "restart the job; if it fails again, see dmesg";
const REPLACE: &str =
    "see dmesg and traind cores; replace the instance if it happens again on the same core";
const REPORT: &str = "report it as a defect of traind, with the runner's log";

const fn of(
    status: u32,
    name: &'static str,
    cause: Cause,
    meaning: &'static str,
    remedy: &'static str,
) -> RuntimeCode {
    RuntimeCode { status, name, cause, meaning, remedy }
}

pub const RUNTIME: &[RuntimeCode] = &[
    of(1, "FAILURE", Hardware, "the runtime failed without saying why", AGAIN),
    of(2, "INVALID", Defect, "the runtime refuses an argument", REPORT),
    of(3, "INVALID_HANDLE", Defect, "the runtime refuses a handle", REPORT),
    of(
        4,
        "RESOURCE",
        Busy,
        "the runtime lacks a resource, most likely a core that another process holds",
        "end the other process, which neuron-ls shows; if there is none, lower per_device_train_batch_size",
    ),
    of(
        5,
        "TIMEOUT",
        Timeout,
        "a step took longer than NEURON_RT_EXEC_TIMEOUT; a core may be waiting for another in a collective",
        "see whether another core of the job failed first; raise NEURON_RT_EXEC_TIMEOUT for long steps",
    ),
    of(6, "HW_ERROR", Hardware, "a device failed", REPLACE),
    of(7, "QUEUE_FULL", Busy, "the runtime's queue is full", AGAIN),
    of(
        9,
        "LOAD_NOT_ENOUGH_NC",
        Setup,
        "the program was compiled for more cores than the process has, or for cores of another size",
        "set NEURON_LOGICAL_NC_CONFIG to the number of --lnc in NEURON_CC_FLAGS, or neither; see that \
         NEURON_RT_VISIBLE_CORES of a run without a daemon has resources.cores cores, and start again",
    ),
    of(
        10,
        "UNSUPPORTED_NEFF_VERSION",
        Setup,
        "the runtime does not know the compiler's format",
        "install neuronx-cc and aws-neuronx-runtime-lib of the same SDK",
    ),
    of(
        11,
        "FAIL_HOST_MEM_ALLOC",
        HostMemory,
        "the host has no memory left",
        "run fewer jobs at once, or take a larger instance",
    ),
    of(13, "UNINITIALIZED", Defect, "the runtime was not initialized", REPORT),
    of(14, "CLOSED", Defect, "the runtime was closed", REPORT),
    of(15, "QUEUE_EMPTY", Defect, "the runtime's queue is empty", REPORT),
    of(
        101,
        "EXEC_UNIT_UNRECOVERABLE",
        Hardware,
        "a core failed",
        "restart the job, and the driver if that does not help",
    ),
    of(1002, "EXEC_BAD_INPUT", Defect, "a program got an argument of another shape", REPORT),
    of(
        1003,
        "EXEC_COMPLETED_WITH_NUM_ERR",
        Values,
        "a core computed a value that is not a number",
        "lower learning_rate or set max_grad_norm",
    ),
    of(1004, "EXEC_COMPLETED_WITH_ERR", Hardware, "a core reported an error", AGAIN),
    of(1005, "EXEC_NC_BUSY", Busy, "another program runs on the core", AGAIN),
    of(1006, "EXEC_OOB", Indices, "a program read or wrote outside of a tensor", REPORT),
    of(1100, "COLL_PENDING", Busy, "a collective has not ended", AGAIN),
    of(1200, "EXEC_HW_ERR_COLLECTIVES", Hardware, "a collective failed", REPLACE),
    of(1201, "EXEC_HW_ERR_HBM_UE", Hardware, "the memory of a device failed", REPLACE),
    of(1202, "EXEC_HW_ERR_NC_UE", Hardware, "the memory of a core failed", REPLACE),
    of(1203, "EXEC_HW_ERR_DMA_ABORT", Hardware, "a transfer between devices failed", REPLACE),
    of(
        1204,
        "EXEC_SW_NQ_OVERFLOW",
        Setup,
        "the program has too many notifications for the runtime's queue",
        "set NEURON_RT_ENABLE_DGE_NOTIFICATIONS=0 in the daemon's environment",
    ),
    of(
        1205,
        "EXEC_HW_ERR_REPAIRABLE_HBM_UE",
        Hardware,
        "the memory of a device failed, and the device can repair it",
        "reload the driver or reboot the instance, then restart the job",
    ),
    of(
        1206,
        "NETWORK_PROXY_FAILURE",
        Hardware,
        "the network between hosts failed",
        "check EFA on all hosts of the job, then restart it",
    ),
];

/// A status that is not in the table. Newer runtimes have more of them than this one's header.
pub(super) const UNKNOWN: RuntimeCode = of(
    0,
    "",
    Unknown,
    "the runtime failed with a status that traind does not know",
    "look for the status in nrt_status.h of your SDK and for the lines before it in the runner's log; restart the job, \
     and report the status as a defect of traind if it comes again",
);

/// The text of the runtime that tells a full memory from busy cores, which have the same status.
pub const ALLOCATION_FAILED: &str = "Failed to allocate";

/// The status of a core whose memory is full.
pub const MEMORY_FULL: RuntimeCode = of(
    4,
    "RESOURCE",
    Size,
    "the memory of a core is full",
    "lower per_device_train_batch_size or max_length, or set gradient_checkpointing; neuron-ls shows \
     whether another process uses the core",
);

/// Other texts of the runtime that have one of these statuses.
pub(super) const PHRASES: &[(&str, u32)] = &[
    ("not available - Requested", 4),
    ("execution timeout (", 5),
    ("due to out-of-bound access", 1006),
];

pub(super) fn of_status(status: u32) -> Option<&'static RuntimeCode> {
    RUNTIME.iter().find(|code| code.status == status)
}
