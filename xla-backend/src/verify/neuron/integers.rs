//! Operations that compute in float32 whatever their type: integers above 2^24 would be rounded.

use traind_neuron::ELEMENT_INDEX_EXACT_MAX;

use super::Problem;
use super::program::{Form, Instruction, Type};
use super::range::Ranges;

/// The codes of operations that the compiler computes in float32 as long as `--implicit-integer-downcast=all` is set,
/// as traind does.
pub const DOWNCAST: [&str; 4] = ["NCC_EVRF035", "NCC_EVRF060", "NCC_EVRF061", "NCC_EVRF063"];

pub(super) fn check(form: &Form) -> Option<Problem> {
    let has_integers = form.operand_types.first().is_some_and(Type::is_integer);
    // Some collectives combine several tensors.
    let combined = form.operand_types.iter().find(|it| it.is_integer());
    let element = &form.result().element;
    let combines = form.attributes.contains("stablehlo.add")
        || ["maximum", "minimum", "multiply", "or", "and", "xor"]
            .iter()
            .any(|op| form.attributes.contains(&format!("= stablehlo.{op} ")));
    match form.name() {
        "dot_general" | "dot" if has_integers => {
            Some(("NCC_EVRF035", format!("a dot of {element}")))
        }
        "scatter" if has_integers && combines && element == "i1" => {
            Some(("NCC_EVRF016", "a scatter that combines booleans".to_owned()))
        }
        "scatter" if has_integers && combines => {
            Some(("NCC_EVRF060", format!("a scatter that computes with {element}")))
        }
        "all_reduce" => {
            combined.map(|it| ("NCC_EVRF061", format!("an all-reduce of {}", it.element)))
        }
        "reduce_scatter" => {
            combined.map(|it| ("NCC_EVRF063", format!("a reduce-scatter of {}", it.element)))
        }
        "power" if matches!(element.as_str(), "i64" | "ui64") => {
            Some(("NCC_EVRF062", format!("a power of {element}")))
        }
        "shift_right_arithmetic" if !matches!(element.as_str(), "i32" | "ui32") => {
            Some(("NCC_EVRF022", format!("an arithmetic shift of {element}")))
        }
        "constant" if element == "ui64" => Some(("NCC_ESFH002", "a constant of ui64".to_owned())),
        _ => None,
    }
}

/// Whether a problem changes no result: the program's own ranges say that float32 holds all integers that the operation
/// computes on its way.
pub(super) fn are_exact(
    (code, _): &Problem,
    instruction: &Instruction,
    form: &Form,
    ranges: &Ranges,
    replicas: usize,
) -> bool {
    let exact = i128::from(ELEMENT_INDEX_EXACT_MAX);
    DOWNCAST.contains(code)
        && magnitude(instruction, form, ranges, replicas).is_some_and(|most| most <= exact)
}

/// The largest magnitude that an operation can compute; `None` where its operands do not say it.
fn magnitude(
    instruction: &Instruction,
    form: &Form,
    ranges: &Ranges,
    replicas: usize,
) -> Option<i128> {
    let operand = |index: usize| {
        let range = ranges.get(instruction.operands.get(index)?)?;
        Some(range.least.abs().max(range.greatest.abs()))
    };
    let times = |most: i128, count: u64| most.checked_mul(i128::from(count));
    let adds = form.attributes.contains("stablehlo.add");
    let selects = ["maximum", "minimum"]
        .iter()
        .any(|op| form.attributes.contains(&format!("stablehlo.{op} ")));
    match form.name() {
        "dot_general" => times(operand(0)?.checked_mul(operand(1)?)?, contracted(form)?),
        "all_reduce" | "reduce_scatter" if instruction.operands.len() > 1 => None,
        "all_reduce" | "reduce_scatter" if adds => times(operand(0)?, replicas as u64),
        "all_reduce" | "reduce_scatter" if selects => operand(0),
        "scatter" if adds => {
            let updates = form.operand_types.get(2)?.elements();
            operand(0)?.checked_add(times(operand(2)?, updates)?)
        }
        "scatter" if selects => Some(operand(0)?.max(operand(2)?)),
        _ => None,
    }
}

/// The number of products that an element of a dot is the sum of.
fn contracted(form: &Form) -> Option<u64> {
    let axes = form.integers("contracting_dims")?;
    let dims = &form.operand_types.first()?.dims;
    axes.first()?.iter().map(|axis| dims.get(usize::try_from(*axis).ok()?).copied()).product()
}
