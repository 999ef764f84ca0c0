//! Codes of neuronx-cc.

use super::Cause::{self, Defect, HostMemory, Indices, Integers, Operation, Setup, Size};

/// The meaning of a code, or of all codes that begin so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompilerCode {
    /// The code without `NCC_`.
    pub code: &'static str,
    pub cause: Cause,
    pub meaning: &'static str,
    pub remedy: &'static str,
}

const SMALLER: &str =
    "lower per_device_train_batch_size or max_length, or set gradient_checkpointing";
const SHORTER: &str = "lower per_device_train_batch_size or max_length, or raise parallel.tensor, by which cores divide \
                       each layer: `traind plan --auto` finds meshes that fit";
const FEWER: &str = "lower per_device_train_batch_size or max_length, or raise parallel.tensor, by which cores divide each \
                     layer: `traind plan --auto` finds meshes that fit; --internal-max-instruction-limit in \
                     NEURON_CC_FLAGS raises the limit";
const REPORT: &str = "report it as a defect of traind, with the job file";
const NEWER: &str = "install a newer neuronx-cc";
const OTHER: &str = "try another version of neuronx-cc, or -O1 in NEURON_CC_FLAGS";
/// Another job may have taken the memory, so this is no refusal of the program, and a restart may help.
pub(super) const KILLED: CompilerCode = of(
    "F137",
    HostMemory,
    "the compiler was killed, most likely because the host's memory was full",
    "run fewer jobs at once, lower per_device_train_batch_size or max_length, add swap space, or take a larger instance",
);

const fn of(
    code: &'static str,
    cause: Cause,
    meaning: &'static str,
    remedy: &'static str,
) -> CompilerCode {
    CompilerCode { code, cause, meaning, remedy }
}

/// Whole codes before the prefixes that they share.
pub const COMPILER: &[CompilerCode] = &[
    of(
        "EARG001",
        Setup,
        "the logical configuration of cores does not fit the target",
        "set NEURON_LOGICAL_NC_CONFIG and --lnc to the same number, which is 1 on trn1 and inf2",
    ),
    of("EARG", Setup, "neuronx-cc refuses a flag", "check NEURON_CC_FLAGS"),
    of("EBIR023", Size, "an MLP kernel is larger than 4096", REPORT),
    of("EBVF030", Size, "the program has too many instructions", FEWER),
    of("EBVF", Size, "the program is too large", SHORTER),
    of("EXTP004", Size, "the program has more than 5,000,000 instructions", FEWER),
    of("EXTP", Size, "the program is too large", SHORTER),
    of("EVRF007", Size, "the program has too many instructions", FEWER),
    of("EHCA005", Operation, "the program has an unknown custom call", REPORT),
    of("EVRF015", Operation, "the program has an unknown custom call", REPORT),
    of("EMOD025", Operation, "the program has a dynamic shape", REPORT),
    of("EOOM", Size, "the program needs more memory than a core has", SMALLER),
    of("EVRF009", Size, "the program needs more memory than a core has", SMALLER),
    of("EXSP001", Size, "the program needs more memory than a core has", SMALLER),
    of("EVRF024", Size, "a result of the program has more than 4 GB", SHORTER),
    of("ESFH002", Integers, "the program has a 64-bit unsigned constant", REPORT),
    of("EVRF016", Integers, "a scatter combines integers or booleans", REPORT),
    of("EVRF022", Integers, "an arithmetic shift is not of 32 bits", REPORT),
    of("EVRF035", Integers, "a dot has integers", REPORT),
    of("EVRF060", Integers, "a scatter computes with integers", REPORT),
    of("EVRF061", Integers, "an all-reduce sums integers", REPORT),
    of("EVRF063", Integers, "a reduce-scatter sums integers", REPORT),
    of("EVRF062", Integers, "a power of 64-bit integers", REPORT),
    of("ESMP002", Indices, "a constant index is outside of its tensor", REPORT),
    of("EVRF031", Indices, "a constant index of a scatter is outside of its tensor", REPORT),
    of("EVRF056", Indices, "a constant index of a gather is outside of its tensor", REPORT),
    of("ESPP004", Operation, "the target does not support a type of the program", REPORT),
    of("ESPP047", Operation, "the target does not support a type of 8 bits", REPORT),
    of("ESPP", Operation, "the target does not support a type of the program", REPORT),
    of("EUOC002", Operation, "the compiler does not support an operation", REPORT),
    of("EUOC", Operation, "the compiler does not support an operation", REPORT),
    of("EVRF001", Operation, "the compiler does not support an operation", REPORT),
    of("EVRF004", Operation, "the program has complex numbers", REPORT),
    of("EVRF005", Operation, "the program has a FNUZ type of 8 bits", REPORT),
    of("EVRF006", Operation, "a random generator other than the default one", REPORT),
    of("EVRF010", Operation, "a convolution has dilations that are not supported", REPORT),
    of("EVRF011", Operation, "a convolution has dilations that are not supported", REPORT),
    of("EVRF013", Operation, "a top-k of integers", REPORT),
    of("EVRF014", Operation, "a top-k of more than 16384 elements", REPORT),
    of("EVRF017", Operation, "a form of reduce-window is not supported", REPORT),
    of("EVRF018", Operation, "a form of reduce-window is not supported", REPORT),
    of("EVRF019", Operation, "a form of reduce-window is not supported", REPORT),
    of("EVRF029", Operation, "the target does not support sort", REPORT),
    of("EVRF051", Operation, "a type of 8 bits needs a newer target", REPORT),
    of("EVRF052", Operation, "a type of 8 bits needs a newer target", REPORT),
    of("EVRF059", Setup, "the file of an NKI kernel is missing", NEWER),
    of("EVRF065", Setup, "a kernel was built by an older NKI", NEWER),
    of("EVRF064", Operation, "the compiler takes the program for an invalid one", REPORT),
    of("EVRF", Operation, "the compiler refuses a form of an operation", REPORT),
    of("I", Defect, "a defect of the compiler", OTHER),
    of(
        "",
        Operation,
        "the compiler rejected the program, by a code that traind does not know",
        "look for the code in log-neuron-cc.txt in the run folder and in AWS's list of the compiler's error codes; try \
         another version of neuronx-cc, and report the code as a defect of traind, with the job file",
    ),
];

/// Codes of older compilers, which have no `NCC_`, and of compiler passes, with the text by which each is known.
pub(super) const WITHOUT_PREFIX: &[(&str, CompilerCode)] = &[
    (
        "VerifyAliasing",
        of(
            "VerifyAliasing",
            Defect,
            "the compiler cannot reuse the memory of a donated argument, which the program reads later",
            "set TRAIND_NEURON_DONATION=off in the daemon's environment",
        ),
    ),
    ("[TEN404]", of("TEN404", Defect, "a defect of the compiler", OTHER)),
    ("[XTP002]", of("XTP002", Size, "the program has more than 5,000,000 instructions", FEWER)),
    ("[NLA001]", of("NLA001", Defect, "a defect of the compiler", OTHER)),
    ("[F137]", KILLED),
    ("died with <Signals.SIGKILL", KILLED),
    // As Python and shells report the signal.
    ("exit status -9", KILLED),
    ("exit status 137", KILLED),
    ("neuronx-cc terminated abnormally", of("F134", Defect, "the compiler crashed", OTHER)),
    ("died with <Signals.", of("F134", Defect, "the compiler crashed", OTHER)),
    ("[LUR015]", of("LUR015", Defect, "a defect of the compiler", OTHER)),
];

/// The entry of a code without `NCC_`.
pub(super) fn of_code(code: &str) -> Option<&'static CompilerCode> {
    COMPILER.iter().find(|entry| code.starts_with(entry.code))
}
