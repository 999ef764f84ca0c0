//! An estimate of the compiler's instructions, and of the operation that most of them are of.

use std::collections::BTreeMap;

use super::Finding;
use super::program::{Form, Type};

/// Rows of the tensor engine's tiles, which are the partitions of its memory, and their columns.
const TILE: [u64; 2] = [128, 512];
/// The compiler's code of programs with too many.
const TOO_MANY: &str = "NCC_EXTP004";

/// The instructions of a program, within a factor of a few.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Instructions {
    by_place: BTreeMap<Place, u64>,
}

/// An operation in a layer, or the same one in all layers that differ by their numbers alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    scope: String,
    recorded: String,
    operation: String,
    is_backward: bool,
}

impl Instructions {
    /// Adds so many at the place of `finding`.
    pub(super) fn add(&mut self, count: u64, finding: Finding) {
        if count > 0 {
            let Finding { scope, recorded, operation, is_backward, .. } = finding;
            let scope = without_numbers(&scope);
            let place = Place { scope, recorded, operation, is_backward };
            let known = self.by_place.entry(place).or_default();
            *known = known.saturating_add(count);
        }
    }

    /// All of them.
    pub fn total(&self) -> u64 {
        self.by_place.values().copied().fold(0, u64::saturating_add)
    }

    /// These and so many times what a program that is `longer` by a layer has besides `shortest`.
    pub fn plus_growth(mut self, shortest: &Self, longer: &Self, times: u64) -> Self {
        for (place, count) in &longer.by_place {
            let growth = count.saturating_sub(shortest.by_place.get(place).copied().unwrap_or(0));
            let known = self.by_place.entry(place.clone()).or_default();
            *known = known.saturating_add(growth.saturating_mul(times));
        }
        self
    }

    /// The fault of a program with more instructions than `most`.
    pub fn check(&self, most: u64) -> Option<Finding> {
        let total = self.total();
        if total <= most {
            return None;
        }
        let (place, count) = self.by_place.iter().max_by_key(|(_, count)| **count)?;
        let share = (100.0 * *count as f64 / total as f64).round();
        let problem = format!(
            "about {total} instructions, of at most {most}; {share} % are of the largest part"
        );
        let Place { scope, recorded, operation, is_backward } = place.clone();
        Some(Finding { code: TOO_MANY, problem, operation, scope, recorded, is_backward })
    }
}

/// "decoder.layers.*.mlp" for the seventh layer's "decoder.layers.6.mlp", and "layer*" for "layer6".
fn without_numbers(scope: &str) -> String {
    let of_part = |part: &str| {
        let name = part.trim_end_matches(|it: char| it.is_ascii_digit());
        if name.len() == part.len() { part.to_owned() } else { format!("{name}*") }
    };
    scope.split('.').map(of_part).collect::<Vec<_>>().join(".")
}

/// One for each tile of a dot, and one for each tile of the result of another operation that is not a view.
pub(super) fn of_form(form: &Form) -> u64 {
    let tiles =
        |rows: u64, columns: u64| rows.div_ceil(TILE[0]).saturating_mul(columns.div_ceil(TILE[1]));
    let result = form.result();
    match form.name() {
        "constant" | "reshape" | "iota" | "broadcast_in_dim" | "optimization_barrier" => 0,
        "dot_general" | "dot" | "convolution" => {
            let depth = depth(form);
            tiles(1, result.elements() / TILE[0].min(result.elements()).max(1))
                .saturating_mul(depth.div_ceil(TILE[0]))
        }
        _ => {
            let operands = form.operand_types.iter().map(Type::elements);
            let elements = operands.max().unwrap_or(0).max(result.elements());
            tiles(1, elements / TILE[0].min(elements).max(1)).max(1)
        }
    }
}

/// The number of products of an element of a dot's result.
fn depth(form: &Form) -> u64 {
    let axes = form.integers("contracting_dims").unwrap_or_default();
    let Some(lhs) = form.operand_types.first() else { return 1 };
    let dim = |axis: &i64| lhs.dims.get(usize::try_from(*axis).ok()?);
    axes.iter().take(1).flatten().filter_map(dim).product()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(places: &[(&str, u64)]) -> Instructions {
        let place = |scope: &str| Place {
            scope: scope.to_owned(),
            recorded: "dot_general".to_owned(),
            operation: "dot_general".to_owned(),
            is_backward: false,
        };
        let by_place = places.iter().map(|(scope, count)| (place(scope), *count)).collect();
        Instructions { by_place }
    }

    #[test]
    fn layers_that_are_left_out_are_counted() {
        let shortest = of(&[("layers.*.mlp", 20), ("head", 7)]);
        let longer = of(&[("layers.*.mlp", 30), ("head", 7), ("layers.*.norm", 1)]);
        let all = shortest.clone().plus_growth(&shortest, &longer, 78);
        assert_eq!(all, of(&[("layers.*.mlp", 800), ("head", 7), ("layers.*.norm", 78)]));
        assert_eq!(all.total(), 885);
    }

    #[test]
    fn too_many_are_those_of_an_operation_in_its_layers() {
        let many = of(&[("layers.*.mlp", 800), ("head", 200)]);
        assert_eq!(many.check(1000), None);
        let found = many.check(999).unwrap().to_string();
        let expect = "NCC_EXTP004: about 1000 instructions, of at most 999; 80 % are of the largest part (the \
                      matrix product in the mlp of all layers, dot_general)";
        assert_eq!(found, expect);
        assert_eq!(without_numbers("model.layers.12.mlp"), "model.layers.*.mlp");
        assert_eq!(without_numbers("layer12.mlp"), "layer*.mlp");
        assert_eq!(without_numbers(""), "");
    }
}
