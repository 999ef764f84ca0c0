//! The least and the greatest value of each tensor of integers, as far as the program alone says it.

use std::collections::HashMap;

use super::program::{Form, Instruction, Module, Type};

/// The numbers between two, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub least: i128,
    pub greatest: i128,
    /// Whether the program alone decides the values.
    pub is_constant: bool,
}

impl Range {
    fn new(least: i128, greatest: i128) -> Range {
        Range { least, greatest, is_constant: false }
    }

    /// All values of a type; `None` for other types than integers.
    fn of_type(found: &Type) -> Option<Range> {
        let bits = match found.element.as_str() {
            "i1" => return Some(Range::new(0, 1)),
            element => {
                element.trim_start_matches("ui").trim_start_matches('i').parse::<u32>().ok()?
            }
        };
        let bits = bits.min(64);
        match found.element.starts_with("ui") {
            true => Some(Range::new(0, (1 << bits) - 1)),
            false => Some(Range::new(-(1 << (bits - 1)), (1 << (bits - 1)) - 1)),
        }
    }

    fn join(self, other: Range) -> Range {
        Range {
            least: self.least.min(other.least),
            greatest: self.greatest.max(other.greatest),
            is_constant: self.is_constant && other.is_constant,
        }
    }

    /// The range within `whole`, the values of a type: arithmetic wraps around.
    fn wrapped(self, whole: Range) -> Range {
        if whole.least <= self.least && self.greatest <= whole.greatest { self } else { whole }
    }
}

/// The range of each value that has one, by name.
pub(super) type Ranges = HashMap<String, Range>;

/// The ranges of all values of a module.
pub(super) fn ranges(module: &Module) -> Ranges {
    let mut ranges = Ranges::new();
    for (name, argument) in &module.parameters {
        if let Some(range) = Range::of_type(argument) {
            ranges.insert(name.clone(), range);
        }
    }
    let of_types: Vec<Option<Range>> =
        module.forms.iter().map(|form| form.results.first().and_then(Range::of_type)).collect();
    for instruction in module.instructions.iter().filter(|it| !it.name.is_empty()) {
        let (form, name) = (&module.forms[instruction.form], &instruction.name);
        let Some(whole) = of_types[instruction.form] else { continue };
        let range =
            of_instruction(instruction, form, &ranges).map_or(whole, |it| it.wrapped(whole));
        ranges.insert(name.clone(), range);
        if form.results.len() > 1 {
            ranges.insert(format!("{name}#0"), range);
        }
    }
    ranges
}

fn of_instruction(instruction: &Instruction, form: &Form, ranges: &Ranges) -> Option<Range> {
    let operand = |index: usize| ranges.get(instruction.operands.get(index)?).copied();
    let both = || Some((operand(0)?, operand(1)?));
    match form.name() {
        "constant" => constant(&form.attributes),
        "iota" => {
            let axis = form.integers("dim")?.first()?.first().copied()?;
            let length = *form.result().dims.get(usize::try_from(axis).ok()?)?;
            Some(Range { is_constant: true, ..Range::new(0, i128::from(length.max(1)) - 1) })
        }
        "broadcast_in_dim"
        | "reshape"
        | "transpose"
        | "slice"
        | "reverse"
        | "convert"
        | "optimization_barrier"
        | "all_gather"
        | "all_to_all"
        | "gather"
        | "dynamic_slice" => operand(0),
        // With the start.
        "reduce" if has_region(form, "maximum") => of_two("maximum", both()?),
        "reduce" if has_region(form, "minimum") => of_two("minimum", both()?),
        "concatenate" => {
            let all = (0..instruction.operands.len()).map(operand);
            all.collect::<Option<Vec<_>>>()?.into_iter().reduce(Range::join)
        }
        "pad" => both().map(|(x, value)| x.join(value)),
        "select" => Some(operand(1)?.join(operand(2)?)),
        "clamp" => {
            let (low, x, high) = (operand(0)?, operand(1)?, operand(2)?);
            let clamp = |end: i128, low: i128, high: i128| end.max(low).min(high);
            Some(Range::new(
                clamp(x.least, low.least, high.least),
                clamp(x.greatest, low.greatest, high.greatest),
            ))
        }
        name => of_two(name, both()?),
    }
}

fn of_two(name: &str, (a, b): (Range, Range)) -> Option<Range> {
    let is_constant = a.is_constant && b.is_constant;
    let of = |least: i128, greatest: i128| Some(Range { least, greatest, is_constant });
    match name {
        "add" => of(a.least + b.least, a.greatest + b.greatest),
        "subtract" => of(a.least - b.greatest, a.greatest - b.least),
        "maximum" => of(a.least.max(b.least), a.greatest.max(b.greatest)),
        "minimum" => of(a.least.min(b.least), a.greatest.min(b.greatest)),
        "multiply" => {
            let ends =
                [a.least, a.greatest].map(|x| [b.least, b.greatest].map(|y| x.checked_mul(y)));
            let ends = ends.concat().into_iter().collect::<Option<Vec<i128>>>()?;
            of(*ends.iter().min()?, *ends.iter().max()?)
        }
        "divide" if b.least > 0 && a.least >= 0 => of(a.least / b.greatest, a.greatest / b.least),
        "remainder" if b.least > 0 && a.least >= 0 => of(0, a.greatest.min(b.greatest - 1)),
        "and" if a.least >= 0 && b.least >= 0 => of(0, a.greatest.min(b.greatest)),
        "shift_right_logical" if a.least >= 0 && (0..64).contains(&b.least) => {
            of(0, a.greatest >> b.least)
        }
        _ => None,
    }
}

/// Whether a reduction combines by this operation alone.
fn has_region(form: &Form, op: &str) -> bool {
    let mut ops = form.attributes.match_indices("stablehlo.").map(|(at, dialect)| {
        let behind = &form.attributes[at + dialect.len()..];
        behind.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).next().unwrap_or_default()
    });
    form.attributes.contains(&format!("stablehlo.{op}"))
        && ops.all(|found| [op, "reduce", "return"].contains(&found))
}

/// The least and the greatest number of `dense<[1, -2]>`.
fn constant(attributes: &str) -> Option<Range> {
    let inside = attributes.split_once("dense<")?.1;
    let inside = &inside[..inside.find('>')?];
    let mut numbers = Vec::new();
    for word in inside.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-')) {
        match word {
            "" => {}
            "true" => numbers.push(1),
            "false" => numbers.push(0),
            word => numbers.push(word.parse::<i128>().ok()?),
        }
    }
    let (least, greatest) = (numbers.iter().min()?, numbers.iter().max()?);
    Some(Range { least: *least, greatest: *greatest, is_constant: true })
}
