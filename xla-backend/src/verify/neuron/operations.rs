//! Operations, their forms, and types that the compiler refuses.

use traind_neuron::{Generation, TOP_K_MAX};

use super::program::{Instruction, Type};
use super::{Limits, Problem};

/// Custom calls that the compiler knows, of which those of `AWS` begin with it.
const CUSTOM_CALLS: &[&str] = &[
    "NeuronBoundaryMarker-Start",
    "NeuronBoundaryMarker-End",
    "QuantizeMX",
    "__op$block_scaled_dot",
];
const AWS: &str = "AwsNeuron";
const AWS_CALLS: &[&str] = &[
    "Erf",
    "Gelu",
    "GeluApprxTanh",
    "GeluBackward",
    "Silu",
    "SiluBackward",
    "RmsNorm",
    "Softmax",
    "SoftmaxBackward",
    "CollectiveMatmul",
    "IntMatmult",
    "ArgMax",
    "ArgMin",
    "TopK",
    "DropoutMaskV1",
    "CustomNativeKernel",
    "CustomOp",
    "DevicePrint",
    "LNCShardingConstraint",
    "TransferWithStaticRing",
];
/// Beginnings of names of several calls.
const AWS_KINDS: &[&str] = &["Resize", "ModuleMarker"];
/// Operations of this beginning whose shapes are known.
const STATIC: &[&str] = &["dynamic_slice", "dynamic_update_slice"];
/// Comparisons by which the older targets sort.
const ORDERS: &[&str] = &["compare LT", "compare LE", "compare GT", "compare GE"];
/// Types of elements besides integers and numbers of 8 bits.
const TYPES: &[&str] = &["f32", "tf32", "f16", "bf16", "i1"];
/// Operations that no target has.
const REFUSED: &[(&str, &str)] = &[
    ("while", "loops whose length the compiler does not know"),
    ("case", "branches"),
    ("if", "branches"),
    ("infeed", "callbacks of the host"),
    ("outfeed", "callbacks of the host"),
    ("send", "callbacks of the host"),
    ("recv", "callbacks of the host"),
    ("reduce_precision", "reduce_precision"),
    ("triangular_solve", "triangular_solve"),
    ("cholesky", "cholesky"),
    ("fft", "fft"),
];

pub(super) fn check(instruction: &Instruction, limits: &Limits) -> Vec<Problem> {
    let mut problems: Vec<Problem> = of_operation(instruction, limits).into_iter().collect();
    let types = instruction.operand_types.iter().chain(&instruction.results);
    problems.extend(types.filter_map(|it| of_type(it, limits.core.generation)).take(1));
    problems
}

fn of_operation(instruction: &Instruction, limits: &Limits) -> Option<Problem> {
    let name = instruction.name();
    if let Some((_, what)) = REFUSED.iter().find(|(refused, _)| *refused == name) {
        return Some(("NCC_EUOC002", format!("the compiler supports no {what}")));
    }
    let has = |text: &str| instruction.attributes.contains(text);
    match name {
        name if name.starts_with("dynamic_") && !STATIC.contains(&name) => {
            Some(("NCC_EMOD025", format!("{name}, whose shape depends on values")))
        }
        "real_dynamic_slice" | "get_dimension_size" | "set_dimension_size" => {
            Some(("NCC_EMOD025", format!("{name}, whose shape depends on values")))
        }
        "sort" if is_old(limits.core.generation) && ORDERS.iter().any(|it| has(it)) => None,
        "sort" => {
            let target = limits.core.generation.target();
            Some(("NCC_EVRF029", format!("{target} does not support this sort")))
        }
        "reduce" if instruction.results.len() > 1 => {
            Some(("NCC_EVRF001", "a reduction of several tensors at once".to_owned()))
        }
        "rng_bit_generator" if !has("DEFAULT") => {
            Some(("NCC_EVRF006", "a random generator other than the default one".to_owned()))
        }
        "reduce_window" if is_dilated(instruction, "base_dilations", "window_dilations") => {
            Some(("NCC_EVRF017", "a dilated reduce_window".to_owned()))
        }
        "convolution" if is_dilated(instruction, "lhs_dilation", "lhs_dilate") => {
            Some(("NCC_EVRF010", "a convolution whose input is dilated".to_owned()))
        }
        "convolution" if is_dilated(instruction, "rhs_dilation", "rhs_dilate") => {
            Some(("NCC_EVRF011", "a convolution whose kernel is dilated".to_owned()))
        }
        "custom_call" => custom_call(instruction),
        "chlo.top_k" => top_k(instruction),
        name if name.starts_with("chlo.") && !limits.accepts_chlo => {
            Some(("NCC_EVRF001", format!("{name} is not of the dialect stablehlo")))
        }
        _ => None,
    }
}

fn is_dilated(instruction: &Instruction, name: &str, short: &str) -> bool {
    [name, short].iter().any(|name| {
        let found = instruction.integers(name).unwrap_or_default();
        found.iter().flatten().any(|dilation| *dilation > 1)
    })
}

fn custom_call(instruction: &Instruction) -> Option<Problem> {
    let target = instruction.attributes.split('@').nth(1).unwrap_or_default();
    let target = target.trim_start_matches('"');
    let end = target.find(['(', '"']).unwrap_or(target.len());
    let target = &target[..end];
    let is_known = match target.strip_prefix(AWS) {
        Some(name) => {
            AWS_CALLS.contains(&name) || AWS_KINDS.iter().any(|kind| name.starts_with(kind))
        }
        None => CUSTOM_CALLS.contains(&target),
    };
    (!is_known).then(|| ("NCC_EHCA005", format!("the custom call {target} is unknown")))
}

fn top_k(instruction: &Instruction) -> Option<Problem> {
    if instruction.operand_types.first().is_some_and(Type::is_integer) {
        return Some(("NCC_EVRF013", "top_k of integers".to_owned()));
    }
    let k = instruction.result().dims.last().copied().unwrap_or(0);
    (k > TOP_K_MAX).then(|| ("NCC_EVRF014", format!("top_k of {k} elements")))
}

fn of_type(found: &Type, target: Generation) -> Option<Problem> {
    let element = found.element.as_str();
    let is_integer = found.is_integer() && !["i2", "i4"].iter().any(|it| element.ends_with(it));
    if found.is_dynamic {
        return Some(("NCC_EMOD025", "a dynamic shape".to_owned()));
    }
    match element {
        _ if element.starts_with("complex") => Some(("NCC_EVRF004", "complex numbers".to_owned())),
        _ if element.ends_with("FNUZ") => Some(("NCC_EVRF005", format!("the type {element}"))),
        _ if element.starts_with("f4") || element.starts_with("f6") || element == "f64" => {
            Some(("NCC_ESPP004", format!("the type {element}")))
        }
        _ if element.starts_with("f8") && is_old(target) => {
            Some(("NCC_EVRF051", format!("{element} needs trn2 or newer")))
        }
        _ if element.starts_with("f8") || is_integer || TYPES.contains(&element) => None,
        _ => Some(("NCC_ESPP004", format!("the type {element}"))),
    }
}

fn is_old(target: Generation) -> bool {
    matches!(target, Generation::Trainium1 | Generation::Inferentia2)
}
