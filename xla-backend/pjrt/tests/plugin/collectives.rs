//! The five collectives over four replicas, in groups.

use crate::support::{arguments, compile, cpu_client, first_outputs};

/// Runs one operation from `input` values a replica to `output`: replica `r`
/// starts with `10 r, 10 r + 1, ...`.
fn run(input: usize, output: usize, operation: &str) -> Vec<Vec<f32>> {
    let client = cpu_client(4);
    let operation = operation
        .replace("IN", &format!("tensor<{input}xf32>"))
        .replace("OUT", &format!("tensor<{output}xf32>"));
    let program = format!(
        "func.func @main(%x: tensor<{input}xf32>) -> tensor<{output}xf32> {{
           {operation}
           return %y : tensor<{output}xf32>
         }}"
    );
    let executable = compile(&client, &program, 4);
    assert_eq!(executable.num_devices(), 4);
    let values: Vec<Vec<f32>> =
        (0..4).map(|r| (0..input).map(|i| (10 * r + i) as f32).collect()).collect();
    first_outputs(&executable, &arguments(&client, &values))
}

const SUM: &str = "({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    })";
const ALL: &str = "replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>";
const PAIRS: &str = "replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>";

#[test]
fn all_reduce() {
    let sums =
        run(2, 2, &format!("%y = \"stablehlo.all_reduce\"(%x) {SUM} {{{ALL}}} : (IN) -> OUT"));
    assert_eq!(sums, vec![vec![60.0, 64.0]; 4]);
    let pairs =
        run(2, 2, &format!("%y = \"stablehlo.all_reduce\"(%x) {SUM} {{{PAIRS}}} : (IN) -> OUT"));
    assert_eq!(pairs, [[10.0, 12.0], [10.0, 12.0], [50.0, 52.0], [50.0, 52.0]]);
}

#[test]
fn all_gather() {
    let gathered = run(
        1,
        4,
        &format!(
            "%y = \"stablehlo.all_gather\"(%x) {{all_gather_dim = 0 : i64, {ALL}}} : (IN) -> OUT"
        ),
    );
    assert_eq!(gathered, vec![vec![0.0, 10.0, 20.0, 30.0]; 4]);
}

#[test]
fn reduce_scatter() {
    let scattered = run(
        4,
        1,
        &format!(
            "%y = \"stablehlo.reduce_scatter\"(%x) {SUM} {{scatter_dimension = 0 : i64, {ALL}}} : (IN) -> OUT"
        ),
    );
    assert_eq!(scattered, [[60.0], [64.0], [68.0], [72.0]]);
}

#[test]
fn all_to_all() {
    let exchanged = run(
        4,
        4,
        &format!(
            "%y = \"stablehlo.all_to_all\"(%x) {{split_dimension = 0 : i64,
               concat_dimension = 0 : i64, split_count = 4 : i64, {ALL}}} : (IN) -> OUT"
        ),
    );
    assert_eq!(exchanged[1], [1.0, 11.0, 21.0, 31.0]);
    assert_eq!(exchanged[3], [3.0, 13.0, 23.0, 33.0]);
}

#[test]
fn collective_permute() {
    let moved = run(
        1,
        1,
        "%y = \"stablehlo.collective_permute\"(%x) {
           source_target_pairs = dense<[[0, 1], [1, 2], [2, 3], [3, 0]]> : tensor<4x2xi64>
         } : (IN) -> OUT",
    );
    assert_eq!(moved, [[30.0], [0.0], [10.0], [20.0]]);
}
