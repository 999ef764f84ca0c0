//! Cost and memory analysis of compiled programs.

use crate::support::{SUM_OF_TWO, compile, cpu_client, doubling};
use traind_pjrt::{DType, Shape, Value};

const DOT: &str = "module @product {
  func.func @main(%a: tensor<8x16xf32>, %b: tensor<16x4xf32>) -> (tensor<8x4xf32>, tensor<i32>) {
    %c = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
      : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
    %n = stablehlo.constant dense<7> : tensor<i32>
    return %c, %n : tensor<8x4xf32>, tensor<i32>
  }
}";

#[test]
fn cost_and_memory_figures_are_right() {
    let executable = compile(&cpu_client(1), DOT, 1);
    let cost = executable.program().cost_analysis().unwrap().unwrap();
    assert_eq!(cost["flops"], Value::Float((2 * 8 * 16 * 4) as f32));
    assert!(matches!(cost["bytes accessed"], Value::Float(bytes) if bytes > 0.0));
    let memory = executable.program().compiled_memory_stats().unwrap().unwrap();
    assert_eq!(memory.argument_bytes, 4 * (8 * 16 + 16 * 4));
    assert!(memory.output_bytes >= 4 * (8 * 4 + 1));
    assert_eq!(memory.alias_bytes, 0);
}

#[test]
fn donated_bytes_are_counted() {
    let program = doubling("{tf.aliasing_output = 0 : i32}");
    let memory =
        compile(&cpu_client(1), &program, 1).program().compiled_memory_stats().unwrap().unwrap();
    assert_eq!(memory.alias_bytes, 16);
}

#[test]
fn an_executable_describes_its_outputs() {
    let executable = compile(&cpu_client(1), DOT, 1);
    assert!(executable.program().name().unwrap().contains("product"));
    assert_eq!(executable.program().num_outputs(), 2);
    let expected =
        [Shape { dtype: DType::F32, dims: vec![8, 4] }, Shape { dtype: DType::S32, dims: vec![] }];
    assert_eq!(executable.program().output_shapes().unwrap(), expected);
}

#[test]
fn fingerprints_tell_programs_apart() {
    let client = cpu_client(1);
    let fingerprint = |program: &str| compile(&client, program, 1).program().fingerprint().unwrap();
    let dot = fingerprint(DOT);
    assert_eq!(dot, fingerprint(DOT));
    assert!(dot.is_none() || dot != fingerprint(&doubling("")));
}

#[test]
fn the_optimized_program_lists_its_instructions() {
    let optimized = compile(&cpu_client(2), SUM_OF_TWO, 2).program().optimized_program().unwrap();
    let instructions = optimized.instructions().unwrap();
    let all_reduces = instructions.iter().filter(|i| i.opcode == "all-reduce").count();
    assert_eq!(all_reduces, 1, "{instructions:?}");
    assert!(instructions.iter().all(|i| !i.name.is_empty() && !i.computation.is_empty()));
}
