//! Compares the indices of a program while it runs: one outside of its tensor is an error of the runtime, where other
//! devices clamp or drop it.

use std::collections::HashMap;

use traind_xla::verify::neuron::index_bounds;

/// The custom call that compares indices with the greatest one that is inside.
pub(crate) const INDICES: &str = "traind.twin.indices";
/// The attribute that has the greatest index.
pub(crate) const GREATEST: &str = "greatest";

/// The program with a comparison before each operation that has indices. `None` if there is none.
pub(crate) fn with_compared_indices(program: &str) -> Option<String> {
    let mut calls: HashMap<String, String> = HashMap::new();
    for (number, bound) in index_bounds(program).into_iter().enumerate() {
        let (index, kind, greatest) = (bound.index, bound.kind, bound.greatest);
        calls.entry(bound.user).or_default().push_str(&format!(
            "%inside.{number} = stablehlo.custom_call @{INDICES}({index}) {{api_version = 4 : i32, \
             has_side_effect = true, backend_config = {{{GREATEST} = {greatest} : i64}}}} : ({kind}) -> tensor<i32>\n"
        ));
    }
    if calls.is_empty() {
        return None;
    }
    let mut text = String::with_capacity(program.len());
    for line in program.lines() {
        let name = line.trim().split([' ', ':']).next().unwrap_or_default();
        text.extend(calls.remove(name));
        text.push_str(line);
        text.push('\n');
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROGRAM: &str = "func.func public @main(%arg0: tensor<8xf32>, %arg1: tensor<i32>) -> (tensor<2xf32>) {\n    \
        %0 = stablehlo.dynamic_slice %arg0, %arg1, sizes = [2] : (tensor<8xf32>, tensor<i32>) -> tensor<2xf32>\n    \
        return %0 : tensor<2xf32>\n}\n";

    #[test]
    fn indices_are_compared_before_their_operation() {
        let text = with_compared_indices(PROGRAM).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[1],
            "%inside.0 = stablehlo.custom_call @traind.twin.indices(%arg1) {api_version = 4 : i32, \
             has_side_effect = true, backend_config = {greatest = 6 : i64}} : (tensor<i32>) -> tensor<i32>"
        );
        assert!(lines[2].contains("%0 = stablehlo.dynamic_slice"), "{text}");
        assert_eq!(with_compared_indices(&PROGRAM.replace("dynamic_slice", "negate")), None);
    }
}
