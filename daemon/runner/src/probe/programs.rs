//! The programs of a probe, as StableHLO.

/// A program to be compiled.
pub(super) const SUM: &str = "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = stablehlo.add %x, %x : tensor<4xf32>
  return %y : tensor<4xf32>
}";

/// A program that reads its first argument, four numbers, at the index, or writes another number there. `None` for
/// other operations.
pub(super) fn indexed(operation: &str) -> Option<String> {
    const START: &str = "%s = stablehlo.reshape %arg1 : (tensor<1x1xi32>) -> tensor<i32>\n  ";
    const OTHER: &str = "%z = stablehlo.constant dense<-1.0> : tensor<1xf32>\n  ";
    const REGION: &str = "({\n  ^bb0(%a: tensor<f32>, %b: tensor<f32>):\n    \
                          %c = stablehlo.add %a, %b : tensor<f32>\n    stablehlo.return %c : tensor<f32>\n  })";
    let (body, result) = match operation {
        "gather" => (
            "%y = \"stablehlo.gather\"(%arg0, %arg1) <{dimension_numbers = \
             #stablehlo.gather<collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, \
             slice_sizes = array<i64: 1>}> : \
             (tensor<4xf32>, tensor<1x1xi32>) -> tensor<1xf32>"
                .to_owned(),
            "1",
        ),
        "dynamic_slice" => (
            format!(
                "{START}%y = stablehlo.dynamic_slice %arg0, %s, sizes = [1] : \
                 (tensor<4xf32>, tensor<i32>) -> tensor<1xf32>"
            ),
            "1",
        ),
        "dynamic_update_slice" => (
            format!(
                "{START}{OTHER}%y = stablehlo.dynamic_update_slice %arg0, %z, %s : \
                 (tensor<4xf32>, tensor<1xf32>, tensor<i32>) -> tensor<4xf32>"
            ),
            "4",
        ),
        "scatter" => (
            format!(
                "{OTHER}%y = \"stablehlo.scatter\"(%arg0, %arg1, %z) <{{scatter_dimension_numbers = \
                 #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], \
                 index_vector_dim = 1>}}> {REGION} : (tensor<4xf32>, tensor<1x1xi32>, tensor<1xf32>) -> tensor<4xf32>"
            ),
            "4",
        ),
        _ => return None,
    };
    Some(format!(
        "func.func @main(%arg0: tensor<4xf32>, %arg1: tensor<1x1xi32>) -> tensor<{result}xf32> {{\n  {body}\n  \
         return %y : tensor<{result}xf32>\n}}"
    ))
}

/// An operation of the dialect `chlo`, which not every compiler reads.
pub(super) const CHLO: &str = "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = chlo.erf %x : tensor<4xf32> -> tensor<4xf32>
  return %y : tensor<4xf32>
}";

/// A product of integers, which is [`ODD`] where it is exact, and another number in float32.
pub(super) const INTEGER_DOT: &str = "func.func @main(%x: tensor<1xi32>) -> tensor<1x1xi32> {
  %m = stablehlo.reshape %x : (tensor<1xi32>) -> tensor<1x1xi32>
  %y = stablehlo.dot_general %m, %m, contracting_dims = [1] x [0] : (tensor<1x1xi32>, tensor<1x1xi32>) -> tensor<1x1xi32>
  return %y : tensor<1x1xi32>
}";
/// The square of [`ROOT`], which is odd and larger than float32 counts.
pub(super) const ODD: i32 = ROOT * ROOT;
pub(super) const ROOT: i32 = 4097;

/// A sum over all of `cores`.
pub(super) fn collective(cores: usize) -> String {
    let all: Vec<String> = (0..cores).map(|core| core.to_string()).collect();
    format!(
        "module @collective attributes {{mhlo.num_replicas = {cores} : i32}} {{
  func.func public @main(%arg0: tensor<4xf32>) -> (tensor<4xf32>) {{
    %0 = \"stablehlo.all_reduce\"(%arg0) <{{replica_groups = dense<[[{}]]> : tensor<1x{cores}xi64>}}> ({{
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }}) : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }}
}}
",
        all.join(", ")
    )
}
