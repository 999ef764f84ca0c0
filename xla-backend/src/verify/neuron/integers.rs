//! Operations that compute in float32 whatever their type: integers above 2^24 would be rounded, and newer compilers
//! refuse them.

use super::Problem;
use super::program::{Instruction, Type};

pub(super) fn check(instruction: &Instruction) -> Option<Problem> {
    let has_integers = instruction.operand_types.first().is_some_and(Type::is_integer);
    let element = &instruction.result().element;
    let combines = instruction.attributes.contains("stablehlo.add")
        || ["maximum", "minimum", "multiply", "or", "and", "xor"]
            .iter()
            .any(|op| instruction.attributes.contains(&format!("= stablehlo.{op} ")));
    match instruction.name() {
        "dot_general" | "dot" if has_integers => {
            Some(("NCC_EVRF035", format!("a dot of {element}")))
        }
        "scatter" if has_integers && combines && element == "i1" => {
            Some(("NCC_EVRF016", "a scatter that combines booleans".to_owned()))
        }
        "scatter" if has_integers && combines => {
            Some(("NCC_EVRF060", format!("a scatter that computes with {element}")))
        }
        "all_reduce" if has_integers => {
            Some(("NCC_EVRF061", format!("an all-reduce of {element}")))
        }
        "reduce_scatter" if has_integers => {
            Some(("NCC_EVRF063", format!("a reduce-scatter of {element}")))
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
