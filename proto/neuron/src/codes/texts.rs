//! Errors of plugin, runtime and driver that have no code.

use super::Cause::{self, Busy, Defect, Setup};

const NO_COMPILER: &str = "neuronx-cc is not on the daemon's PATH, or its user may not execute it: `traind doctor \
                           --platform neuron` executes it";

/// A part of an error's text, and its meaning with a remedy.
pub(super) const TEXTS: &[(&str, Cause, &str)] = &[
    (
        "!(args->struct_size == ss)",
        Setup,
        "the plugin serves another version of the PJRT C API: install libneuronxla 3.0 or newer, \
         and do not set NEURON_INTERNAL_PJRT_C_API_VERSION",
    ),
    (
        "!(num_devices > 0)",
        Setup,
        "the plugin finds no devices: check /dev/neuron0, the driver, and the user's groups",
    ),
    (
        "Unable to determine Neuron Driver version",
        Setup,
        "the driver is not loaded: install aws-neuronx-dkms, then `modprobe neuron`",
    ),
    (
        "Incompatible Neuron Driver version",
        Setup,
        "the driver and the runtime do not fit each other: update aws-neuronx-dkms and aws-neuronx-runtime-lib to those \
         of one SDK, then `modprobe -r neuron; modprobe neuron`",
    ),
    (
        "Could not open the nd0",
        Setup,
        "the user may not open /dev/neuron0: add it to the group of the node",
    ),
    (
        "Unknown flags in XLA_FLAGS",
        Setup,
        "XLA_FLAGS has a flag of another platform: remove it from the daemon's environment",
    ),
    (
        "failed to init replica groups",
        Setup,
        "the program has too many different replica groups, or other ones than the links of the cores serve: \
         fewer axes of `parallel` with several cores make fewer",
    ),
    (
        "does not have myself",
        Setup,
        "a core takes part in no group of a collective: report it as a defect of traind, with the job file",
    ),
    (
        "Failed to parse src_target_pairs",
        Setup,
        "a permutation of cores is not a closed ring: choose another `parallel.pipeline`",
    ),
    ("neuronx-cc: error: ", Setup, "neuronx-cc refuses its arguments: check NEURON_CC_FLAGS"),
    ("neuronx-cc: No such file or directory", Setup, NO_COMPILER),
    ("No such file or directory: 'neuronx-cc'", Setup, NO_COMPILER),
    ("neuronx-cc: Permission denied", Setup, NO_COMPILER),
    ("Permission denied: 'neuronx-cc'", Setup, NO_COMPILER),
    (
        "Timeout waiting for incoming connection",
        Busy,
        "a host did not connect: check that all hosts reach the port of NEURON_RT_ROOT_COMM_ID",
    ),
    (
        "Permission denied: '/tmp/",
        Setup,
        "the plugin compiles in a folder below /tmp, which jobs of a daemon with --allow-root cannot open: make the \
         folder that the error names, below /tmp, and start the daemon with a further --allow-root for it",
    ),
    // The beginning of all errors of compiles, and so the last.
    (
        "RunNeuronCCImpl",
        Defect,
        "the compiler failed and named no code: read log-neuron-cc.txt in the run folder, see that the disk has room, \
         and try another version of neuronx-cc",
    ),
];
