//! The text of programs, and the printed graph.

use traind_xla::autodiff::gradients;
use traind_xla::graph::print::print;
use traind_xla::kernels::Kernels;
use traind_xla::ops::ReduceKind;
use traind_xla::stablehlo::{DotPrecision, Lowering, Output, lower};
use traind_xla::{DType, Result, Shape, Tensor, Trace};

/// The lowered body of what `build` makes of a parameter.
fn body(shape: Shape, build: impl FnOnce(&Trace, &Tensor) -> Result<Tensor>) -> String {
    let trace = Trace::new();
    let x = trace.parameter("x", shape).unwrap();
    let result = build(&trace, &x).unwrap();
    let graph = trace.graph();
    traind_xla::verify::verify(&graph).unwrap();
    lower(&graph, "test", &[Output::new(result.node())], 1, DotPrecision::Platform).text
}

fn f32(dims: &[usize]) -> Shape {
    Shape::new(DType::F32, dims)
}

#[test]
fn a_program_has_arguments_results_and_aliases() {
    let trace = Trace::new();
    let weight = trace.parameter("weight", f32(&[2])).unwrap();
    let unused = trace.parameter("unused", Shape::scalar(DType::S32)).unwrap();
    let next = weight.mul_scalar(0.5).unwrap();
    let output = Output { node: next.node(), aliases_parameter: Some(0) };
    let program = lower(
        &trace.graph(),
        "step",
        &[Output::new(unused.node()), output],
        2,
        DotPrecision::Platform,
    );
    insta::assert_snapshot!(program.text, @r#"
    module @step attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 2 : i32} {
      func.func public @main(%arg0: tensor<2xf32> {tf.aliasing_output = 1 : i32}, %arg1: tensor<i32>) -> (tensor<i32>, tensor<2xf32>) {
        %0 = stablehlo.constant dense<0x3F000000> : tensor<2xf32>
        %1 = stablehlo.multiply %arg0, %0 : tensor<2xf32>
        return %arg1, %1 : tensor<i32>, tensor<2xf32>
      }
    }
    "#);
}

#[test]
fn what_no_output_needs_is_not_lowered() {
    let text = body(f32(&[2]), |_, x| {
        x.exp()?;
        x.neg()
    });
    insta::assert_snapshot!(text, @r#"
    module @test attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
      func.func public @main(%arg0: tensor<2xf32>) -> (tensor<2xf32>) {
        %0 = stablehlo.negate %arg0 : tensor<2xf32>
        return %0 : tensor<2xf32>
      }
    }
    "#);
}

#[test]
fn linear() {
    let text = body(f32(&[2, 4, 3]), |t, x| {
        x.linear(&t.full(1.0, f32(&[5, 3]))?, Some(&t.full(0.0, f32(&[5]))?))
    });
    insta::assert_snapshot!(text, @r#"
    module @test attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
      func.func public @main(%arg0: tensor<2x4x3xf32>) -> (tensor<2x4x5xf32>) {
        %0 = stablehlo.constant dense<0x3F800000> : tensor<5x3xf32>
        %1 = stablehlo.constant dense<0x00000000> : tensor<5xf32>
        %2 = stablehlo.dot_general %arg0, %0, batching_dims = [] x [], contracting_dims = [2] x [1] : (tensor<2x4x3xf32>, tensor<5x3xf32>) -> tensor<2x4x5xf32>
        %3 = stablehlo.broadcast_in_dim %1, dims = [2] : (tensor<5xf32>) -> tensor<2x4x5xf32>
        %4 = stablehlo.add %2, %3 : tensor<2x4x5xf32>
        return %4 : tensor<2x4x5xf32>
      }
    }
    "#);
}

#[test]
fn softmax() {
    let text = body(Shape::new(DType::BF16, [2, 3]), |_, x| x.softmax(1));
    insta::assert_snapshot!(text, @r#"
    module @test attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
      func.func public @main(%arg0: tensor<2x3xbf16>) -> (tensor<2x3xbf16>) {
        %0 = stablehlo.convert %arg0 : (tensor<2x3xbf16>) -> tensor<2x3xf32>
        %1 = stablehlo.constant dense<0xFF800000> : tensor<f32>
        %2 = stablehlo.reduce(%0 init: %1) applies stablehlo.maximum across dimensions = [1] : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
        %3 = stablehlo.reshape %2 : (tensor<2xf32>) -> tensor<2x1xf32>
        %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1] : (tensor<2x1xf32>) -> tensor<2x3xf32>
        %5 = stablehlo.subtract %0, %4 : tensor<2x3xf32>
        %6 = stablehlo.exponential %5 : tensor<2x3xf32>
        %7 = stablehlo.constant dense<0x00000000> : tensor<f32>
        %8 = stablehlo.reduce(%6 init: %7) applies stablehlo.add across dimensions = [1] : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
        %9 = stablehlo.reshape %8 : (tensor<2xf32>) -> tensor<2x1xf32>
        %10 = stablehlo.broadcast_in_dim %9, dims = [0, 1] : (tensor<2x1xf32>) -> tensor<2x3xf32>
        %11 = stablehlo.divide %6, %10 : tensor<2x3xf32>
        %12 = stablehlo.convert %11 : (tensor<2x3xf32>) -> tensor<2x3xbf16>
        return %12 : tensor<2x3xbf16>
      }
    }
    "#);
}

#[test]
fn take() {
    let text = body(f32(&[7, 3]), |t, x| x.take(&t.iota(DType::S32, &[2, 4], 1)?));
    insta::assert_snapshot!(text, @r#"
    module @test attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
      func.func public @main(%arg0: tensor<7x3xf32>) -> (tensor<2x4x3xf32>) {
        %0 = stablehlo.iota dim = 1 : tensor<2x4xi32>
        %1 = "stablehlo.gather"(%arg0, %0) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>, slice_sizes = array<i64: 1, 3>}> : (tensor<7x3xf32>, tensor<2x4xi32>) -> tensor<2x4x3xf32>
        return %1 : tensor<2x4x3xf32>
      }
    }
    "#);
}

#[test]
fn scatter_add() {
    let text = body(f32(&[7, 3]), |t, x| {
        x.scatter_add(&t.iota(DType::S32, &[2], 0)?, &t.full(1.0, f32(&[2, 3]))?)
    });
    insta::assert_snapshot!(text, @r#"
    module @test attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
      func.func public @main(%arg0: tensor<7x3xf32>) -> (tensor<7x3xf32>) {
        %0 = stablehlo.iota dim = 0 : tensor<2xi32>
        %1 = stablehlo.constant dense<0x3F800000> : tensor<2x3xf32>
        %2 = stablehlo.constant dense<0> : tensor<2xi32>
        %3 = stablehlo.constant dense<6> : tensor<2xi32>
        %4 = stablehlo.maximum %0, %2 : tensor<2xi32>
        %5 = stablehlo.minimum %4, %3 : tensor<2xi32>
        %6 = "stablehlo.scatter"(%arg0, %5, %1) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
        ^bb0(%a: tensor<f32>, %b: tensor<f32>):
          %c = stablehlo.add %a, %b : tensor<f32>
          stablehlo.return %c : tensor<f32>
        }) : (tensor<7x3xf32>, tensor<2xi32>, tensor<2x3xf32>) -> tensor<7x3xf32>
        return %6 : tensor<7x3xf32>
      }
    }
    "#);
}

#[test]
fn reduce_scatter() {
    let text = body(f32(&[4]), |_, x| x.reduce_scatter(ReduceKind::Sum, 0, &[vec![0, 1]]));
    insta::assert_snapshot!(text, @r#"
    module @test attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
      func.func public @main(%arg0: tensor<4xf32>) -> (tensor<2xf32>) {
        %0 = "stablehlo.reduce_scatter"(%arg0) <{scatter_dimension = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
        ^bb0(%a: tensor<f32>, %b: tensor<f32>):
          %c = stablehlo.add %a, %b : tensor<f32>
          stablehlo.return %c : tensor<f32>
        }) : (tensor<4xf32>) -> tensor<2xf32>
        return %0 : tensor<2xf32>
      }
    }
    "#);
}

#[test]
fn programs_are_straight_lines() {
    let text = body(f32(&[4, 6]), |t, x| {
        let labels = t.full(1.0, Shape::new(DType::S32, [4]))?;
        let loss = x.gelu()?.cross_entropy(&labels)?.sum(&[0])?;
        gradients(&loss, &[x])?.remove(0).argmax(1)
    });
    for refused in ["case", "while", "sort", "rng", "custom_call", "stablehlo.if"] {
        assert!(!text.contains(refused), "{refused} in\n{text}");
    }
}

#[test]
fn calls_of_kernels_are_numbered_and_located() {
    let trace = Trace::new();
    let x = trace.parameter("x", f32(&[4, 6])).unwrap();
    let y = trace.scope("layer.3", || x.gelu()).unwrap();
    let gradient = gradients(&y.sum(&[0, 1]).unwrap(), &[&x]).unwrap().remove(0);
    let outputs = [&y, &gradient].map(|tensor| Output::new(tensor.node()));
    let lowering = Lowering { kernels: Kernels::Own, ..Lowering::default() };
    let program = lower(&trace.graph(), "step", &outputs, 1, lowering);
    let sites = &program.kernel_sites;
    let found: Vec<_> = sites.iter().map(|site| (site.scope.as_str(), site.is_backward)).collect();
    assert_eq!(found, [("layer.3", false), ("layer.3", true)]);
    for site in sites {
        assert!(program.text.contains(&format!("call = {} : i64", site.call)), "{site:?}");
        assert!(site.operands.starts_with("f32[4,6]"), "{site:?}");
    }
    assert_ne!(sites[0].call, sites[1].call);
}

#[test]
fn the_printer_names_scopes() {
    let trace = Trace::new();
    let x = trace.parameter("x", f32(&[2, 3])).unwrap();
    let y =
        trace.scope("encoder", || trace.scope("layer.0", || x.transpose(&[1, 0])?.tanh())).unwrap();
    y.sum(&[0]).unwrap();
    insta::assert_snapshot!(print(&trace.graph()), @r#"
    %0 = f32[2,3] Parameter { index: 0, shape: f32[2,3] }()
    %1 = f32[3,2] Transpose { permutation: [1, 0] }(%0) // encoder.layer.0
    %2 = f32[3,2] Tanh(%1) // encoder.layer.0
    %3 = f32[2] Reduce { fold: Sum, axes: [0] }(%2)
    "#);
}

#[test]
fn dots_of_float32_are_exact_where_asked() {
    let trace = Trace::new();
    let dot = |dtype| {
        let x = trace.parameter("x", Shape::new(dtype, [2, 2])).unwrap();
        Output::new(x.matmul(&x).unwrap().node())
    };
    let outputs = [dot(DType::F32), dot(DType::BF16)];
    let text = |dots| lower(&trace.graph(), "dots", &outputs, 1, dots).text;
    assert_eq!(text(DotPrecision::Highest).matches("precision = [HIGHEST, HIGHEST]").count(), 1);
    assert!(!text(DotPrecision::Platform).contains("precision"));
}
