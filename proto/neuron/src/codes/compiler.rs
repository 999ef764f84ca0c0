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

const SMALLER: &str = "lower per_device_train_batch_size or max_length, set gradient_checkpointing, or divide the model \
                       by parallel.tensor or parallel.fsdp: `traind plan --auto` finds meshes that fit";
const SHORTER: &str = "lower per_device_train_batch_size or max_length, or raise parallel.tensor, by which cores divide \
                       each layer: `traind plan --auto` finds meshes that fit";
const FEWER: &str = "lower per_device_train_batch_size or max_length, or raise parallel.tensor, by which cores divide each \
                     layer: `traind plan --auto` finds meshes that fit; --internal-max-instruction-limit in \
                     NEURON_CC_FLAGS raises the limit";
const REPORT: &str = "report it as a defect of traind, with the job file";
const LIST: &str = "see whether a newer neuronx-cc has the operation, which `neuronx-cc list-operators --framework XLA` \
                    prints; report it as a defect of traind, with the job file";
const STATIC: &str = "traind's programs have static shapes alone, so libneuronxla or neuronx-cc is of another SDK: \
                      install those of one; else report it as a defect of traind, with the job file";
const TYPES: &str = "traind's programs have float32, bfloat16, float16 and integers alone: set train.bf16 in place of \
                     train.fp16 if this type is float16; else report it as a defect of traind, with the job file";
const GENERATOR: &str = "traind's programs compute random bits by arithmetic, so a flag or the plugin adds this \
                         operation: unset NEURON_CC_FLAGS; else report it as a defect of traind";
const DOWNCAST: &str = "add --implicit-integer-downcast=all to NEURON_CC_FLAGS, which traind sets where that variable is \
                        not: traind itself refuses programs with integers that float32 does not hold";
const POSITIONS: &str = "see that data.max_length is no more than max_position_embeddings, and vocab_size no less than \
                         the tokenizer's, in the model's config.json; else report it as a defect of traind, with the \
                         job file";
const NO_CALLS: &str = "traind's programs for NeuronCores have no custom calls, so a flag or the plugin adds this one: \
                        unset NEURON_CC_FLAGS, and install libneuronxla and neuronx-cc of one SDK";
const ONE_SDK: &str = "install nki, libneuronxla and neuronx-cc of one SDK, and remove the files that older ones cached";
const INVALID: &str = "read log-neuron-cc.txt in the run folder, which names the instruction; install libneuronxla and \
                       neuronx-cc of one SDK; else report it as a defect of traind, with the job file";
const ONE_LNC: &str =
    "set NEURON_LOGICAL_NC_CONFIG and --lnc to the same number, which is 1 on trn1 and inf2";
const OTHER: &str = "try another version of neuronx-cc, or -O1 in NEURON_CC_FLAGS";
const QUANTIZED: &str = "a custom call that quantizes to an MX format is malformed";
const SCALED: &str = "a custom call that multiplies matrices in an MX format is malformed";
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
    of("EARG001", Setup, "the logical configuration of cores does not fit the target", ONE_LNC),
    of("EARG", Setup, "neuronx-cc refuses a flag", "check NEURON_CC_FLAGS"),
    of(
        "EBIR023",
        Size,
        "the inner dimension of an MLP is larger than the 4096 that a kernel of the compiler takes",
        "raise parallel.tensor, by which cores divide the inner dimension, or set --model-type=generic in NEURON_CC_FLAGS",
    ),
    of("EBVF030", Size, "the program has too many instructions", FEWER),
    of("EBVF", Size, "the program is too large", SHORTER),
    of("EXTP004", Size, "the program has more than 5,000,000 instructions", FEWER),
    of("EXTP", Size, "the program is too large", SHORTER),
    of("EVRF007", Size, "the program has too many instructions", FEWER),
    of("EHCA005", Operation, "the program has an unknown custom call", NO_CALLS),
    of("EVRF015", Operation, "the program has an unknown custom call", NO_CALLS),
    of("EMOD025", Operation, "the program has a dynamic shape", STATIC),
    of("EOOM001", Size, "the program needs more memory than a core has", SMALLER),
    of("EOOM002", Size, "the program needs more memory than a core has", SMALLER),
    of("EOOM", Size, "the program needs more memory than a core has", SMALLER),
    of("EVRF009", Size, "the program needs more memory than a core has", SMALLER),
    of("EXSP001", Size, "the program needs more memory than a core has", SMALLER),
    of("EVRF024", Size, "a result of the program has more than 4 GB", SHORTER),
    of(
        "ESFH002",
        Integers,
        "the program has a 64-bit unsigned constant that 32 bits do not hold",
        REPORT,
    ),
    of("EVRF016", Integers, "a scatter combines integers or booleans", REPORT),
    of("EVRF022", Integers, "an arithmetic shift is not of 32 bits", REPORT),
    of("EVRF035", Integers, "a dot has integers", DOWNCAST),
    of("EVRF060", Integers, "a scatter computes with integers", DOWNCAST),
    of("EVRF061", Integers, "an all-reduce sums integers", DOWNCAST),
    of("EVRF063", Integers, "a reduce-scatter sums integers", DOWNCAST),
    of("EVRF062", Integers, "an operation such as a power has 64-bit integers", DOWNCAST),
    of("ESMP002", Indices, "a constant index is outside of its tensor", POSITIONS),
    of("EVRF031", Indices, "a constant index of a scatter is outside of its tensor", POSITIONS),
    of("EVRF056", Indices, "a constant index of a gather is outside of its tensor", POSITIONS),
    of("ESPP004", Operation, "the target does not support a type of the program", TYPES),
    of("ESPP047", Operation, "the target does not support a type of 8 bits", TYPES),
    of("ESPP", Operation, "the target does not support a type of the program", TYPES),
    of("EUOC002", Operation, "the compiler does not support an operation", LIST),
    of("EUOC", Operation, "the compiler does not support an operation", LIST),
    of("EVRF001", Operation, "the compiler does not support an operation", LIST),
    of("EVRF004", Operation, "the program has complex numbers", TYPES),
    of("EVRF005", Operation, "the program has a FNUZ type of 8 bits", TYPES),
    of("EVRF006", Operation, "a random generator other than the default one", GENERATOR),
    of("EVRF010", Operation, "a convolution dilates both its input and its kernel", REPORT),
    of("EVRF011", Operation, "a convolution has strides and a dilated input", REPORT),
    of("EVRF013", Operation, "a top-k of integers", REPORT),
    of("EVRF014", Operation, "a top-k of more than 16384 elements", REPORT),
    of("EVRF017", Operation, "a reduce-window has a dilated input", REPORT),
    of("EVRF018", Operation, "a reduce-window has dilated windows", REPORT),
    of("EVRF019", Operation, "a reduce-window combines several tensors", REPORT),
    of("EVRF029", Operation, "the target does not support sort", REPORT),
    of("EVRF036", Operation, QUANTIZED, NO_CALLS),
    of("EVRF037", Operation, QUANTIZED, NO_CALLS),
    of("EVRF038", Operation, QUANTIZED, NO_CALLS),
    of("EVRF039", Operation, QUANTIZED, NO_CALLS),
    of("EVRF040", Operation, QUANTIZED, NO_CALLS),
    of("EVRF041", Operation, QUANTIZED, NO_CALLS),
    of("EVRF042", Operation, QUANTIZED, NO_CALLS),
    of("EVRF057", Operation, QUANTIZED, NO_CALLS),
    of("EVRF058", Operation, QUANTIZED, NO_CALLS),
    of("EVRF043", Operation, SCALED, NO_CALLS),
    of("EVRF044", Operation, SCALED, NO_CALLS),
    of("EVRF045", Operation, SCALED, NO_CALLS),
    of("EVRF046", Operation, SCALED, NO_CALLS),
    of("EVRF047", Operation, SCALED, NO_CALLS),
    of("EVRF048", Operation, SCALED, NO_CALLS),
    of("EVRF049", Operation, SCALED, NO_CALLS),
    of("EVRF050", Operation, SCALED, NO_CALLS),
    of("EVRF053", Operation, SCALED, NO_CALLS),
    of("EVRF054", Operation, SCALED, NO_CALLS),
    of("EVRF055", Operation, SCALED, NO_CALLS),
    of("EVRF051", Operation, "the type f8E4M3FN needs a newer target than trn2", TYPES),
    of("EVRF052", Operation, "targets after trn3 have no type f8E4M3", TYPES),
    of("EVRF059", Setup, "the file of an NKI kernel is missing", ONE_SDK),
    of("EVRF065", Setup, "a kernel was built by an older NKI", ONE_SDK),
    of(
        "EVRF066",
        Setup,
        "an NKI kernel is for another logical configuration of cores than the program",
        ONE_LNC,
    ),
    of("EVRF064", Operation, "the compiler takes the program for an invalid one", INVALID),
    of("EVRF", Operation, "the compiler refuses a form of an operation", INVALID),
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
pub const WITHOUT_PREFIX: &[(&str, CompilerCode)] = &[
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
