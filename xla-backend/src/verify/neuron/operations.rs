//! Operations, their forms, and types that the compiler refuses.

use traind_neuron::{Generation, TOP_K_MAX};

use super::program::{Form, Type};
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

pub(super) fn check(form: &Form, limits: &Limits) -> Vec<Problem> {
    let mut problems: Vec<Problem> = of_operation(form, limits).into_iter().collect();
    let types = form.operand_types.iter().chain(&form.results);
    problems.extend(types.filter_map(|it| of_type(it, limits.core.generation)).take(1));
    problems
}

fn of_operation(form: &Form, limits: &Limits) -> Option<Problem> {
    let name = form.name();
    if let Some((_, what)) = REFUSED.iter().find(|(refused, _)| *refused == name) {
        return Some(("NCC_EUOC002", format!("the compiler supports no {what}")));
    }
    let has = |text: &str| form.attributes.contains(text);
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
        "reduce" if form.results.len() > 1 => {
            Some(("NCC_EVRF001", "a reduction of several tensors at once".to_owned()))
        }
        "rng_bit_generator" if !has("DEFAULT") => {
            Some(("NCC_EVRF006", "a random generator other than the default one".to_owned()))
        }
        "reduce_window" => reduce_window(form),
        "convolution" => convolution(form),
        "custom_call" => custom_call(form),
        "chlo.top_k" => top_k(form),
        name if name.starts_with("chlo.") && !limits.accepts_chlo => {
            Some(("NCC_EVRF001", format!("{name} is not of the dialect stablehlo")))
        }
        _ => None,
    }
}

fn reduce_window(form: &Form) -> Option<Problem> {
    match () {
        () if exceeds_one(form, &["base_dilations"]) => {
            Some(("NCC_EVRF017", "a reduce_window whose input is dilated".to_owned()))
        }
        () if exceeds_one(form, &["window_dilations"]) => {
            Some(("NCC_EVRF018", "a reduce_window whose windows are dilated".to_owned()))
        }
        () if form.results.len() > 1 => {
            Some(("NCC_EVRF019", "a reduce_window of several tensors at once".to_owned()))
        }
        () => None,
    }
}

fn convolution(form: &Form) -> Option<Problem> {
    let is_input_dilated = exceeds_one(form, &["lhs_dilation", "lhs_dilate"]);
    match () {
        () if is_input_dilated && exceeds_one(form, &["rhs_dilation", "rhs_dilate"]) => {
            Some(("NCC_EVRF010", "a convolution whose input and kernel are dilated".to_owned()))
        }
        () if is_input_dilated && exceeds_one(form, &["window_strides", "stride"]) => {
            Some(("NCC_EVRF011", "a convolution with strides and a dilated input".to_owned()))
        }
        () => None,
    }
}

/// Whether an attribute has a number above 1 under one of its names.
fn exceeds_one(form: &Form, names: &[&str]) -> bool {
    let numbers = names.iter().filter_map(|name| form.integers(name));
    numbers.flatten().flatten().any(|number| number > 1)
}

fn custom_call(form: &Form) -> Option<Problem> {
    let target = form.attributes.split('@').nth(1).unwrap_or_default();
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

fn top_k(form: &Form) -> Option<Problem> {
    if form.operand_types.first().is_some_and(Type::is_integer) {
        return Some(("NCC_EVRF013", "top_k of integers".to_owned()));
    }
    let k = form.result().dims.last().copied().unwrap_or(0);
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
        "f8E4M3FN" if target != Generation::Trainium3 => {
            Some(("NCC_EVRF051", format!("{element} needs trn3 or newer")))
        }
        _ if element.starts_with("f8") && is_old(target) => {
            Some(("NCC_ESPP047", format!("{element} needs trn2 or newer")))
        }
        _ if element.starts_with("f8") || is_integer || TYPES.contains(&element) => None,
        _ => Some(("NCC_ESPP004", format!("the type {element}"))),
    }
}

fn is_old(target: Generation) -> bool {
    matches!(target, Generation::Trainium1 | Generation::Inferentia2)
}
