//! A checkpointed scope: the same numbers from less memory.

use traind_xla::autodiff::gradients;
use traind_xla::graph::print::print;
use traind_xla::{DType, Result, Shape, Tensor, Trace};

use crate::evaluator::{Compiled, spread_numbers};

const LAYERS: usize = 8;
const TOKENS: usize = 128;
const HIDDEN: usize = 32;
const INNER: usize = 128;

/// Feed-forward layers with residuals: loss and gradients of every weight.
fn stack(checkpoint: bool) -> Compiled {
    let trace = Trace::new();
    let parameter = |dims: &[usize]| trace.parameter("", Shape::new(DType::F32, dims)).unwrap();
    let input = parameter(&[TOKENS, HIDDEN]);
    let weights: Vec<[Tensor; 2]> =
        (0..LAYERS).map(|_| [parameter(&[INNER, HIDDEN]), parameter(&[HIDDEN, INNER])]).collect();
    let mut x = input;
    for [up, down] in &weights {
        let layer = || -> Result<Tensor> {
            x.linear(up, None)?.gelu()?.linear(down, None)?.add(&x)?.tanh()
        };
        let recorded =
            if checkpoint { trace.checkpoint("layer", layer) } else { trace.scope("layer", layer) };
        x = recorded.unwrap();
    }
    let loss = x.mul(&x).unwrap().mean(&[0, 1]).unwrap();
    let wrt: Vec<&Tensor> = weights.iter().flatten().collect();
    let gradients = gradients(&loss, &wrt).unwrap();
    Compiled::new(&std::iter::once(&loss).chain(&gradients).collect::<Vec<_>>(), 1)
}

#[test]
fn checkpointing_keeps_values_and_saves_memory() {
    let (kept, recomputed) = (stack(false), stack(true));
    let shapes = kept.program.parameters.iter().enumerate();
    let arguments =
        vec![shapes.map(|(n, s)| spread_numbers(s.element_count(), n, -0.2, 0.2)).collect()];
    assert_eq!(kept.run(&arguments), recomputed.run(&arguments));
    let (before, after) = (kept.memory().temp_bytes, recomputed.memory().temp_bytes);
    assert!(after * 2 < before, "temporary memory fell from {before} to {after} bytes only");
}

#[test]
fn the_second_computation_waits_behind_a_barrier() {
    let trace = Trace::new();
    let x = trace.parameter("x", Shape::new(DType::F32, [2])).unwrap();
    let y = trace.checkpoint("layer", || x.exp()?.sin()).unwrap();
    gradients(&y.sum(&[0]).unwrap(), &[&x]).unwrap();
    insta::assert_snapshot!(print(&trace.graph()), @r#"
    %0 = f32[2] Parameter { index: 0, shape: f32[2] }()
    %1 = f32[2] Exp(%0) // layer
    %2 = f32[2] Sin(%1) // layer
    %3 = f32[] Reduce { fold: Sum, axes: [0] }(%2)
    %4 = f32[] Splat { value: 1.0, shape: f32[] }()
    %5 = f32[2] BroadcastInDim { axes: [], dims: [2] }(%4)
    %6 = f32[1] Slice { starts: [0], limits: [1], strides: [1] }(%5)
    %7 = f32[] Reshape { dims: [] }(%6)
    %8 = f32[] Splat { value: 0.0, shape: f32[] }()
    %9 = pred[] Gt(%7, %8)
    %10 = f32[] Splat { value: 0.0, shape: f32[] }()
    %11 = pred[] Lt(%7, %10)
    %12 = pred[] And(%9, %11)
    %13 = f32[2] OptimizationBarrier(%0, %12)
    %14 = f32[2] Exp(%13)
    %15 = f32[2] Sin(%14)
    %16 = f32[2] Cos(%14)
    %17 = f32[2] Mul(%5, %16)
    %18 = f32[2] Mul(%17, %14)
    "#);
}

/// Nothing but the scope's input is kept for the backward pass, though the reader is outside.
#[test]
fn a_transient_result_is_computed_again_where_the_backward_pass_reads_it() {
    let trace = Trace::new();
    let parameter = |name| trace.parameter(name, Shape::new(DType::F32, [2])).unwrap();
    let (x, held) = (parameter("x"), parameter("held"));
    let never = trace.never(std::slice::from_ref(&x)).unwrap();
    let factor = trace.transient("gather", || held.withheld(&never)?.exp()).unwrap();
    let loss = x.mul(&factor).unwrap().sum(&[0]).unwrap();
    let forward = trace.graph().len();
    let results = gradients(&loss, &[&x, &held]).unwrap();
    let text = print(&trace.graph());
    assert_eq!(text.matches(" Exp(").count(), 2, "{text}");
    assert_eq!(text.matches(" Withhold(%1, ").count(), 1, "{text}");
    // Behind a barrier, and held back by what the backward pass knows, not by what the forward pass did.
    assert_eq!(text.matches(" Withhold(").count(), 2, "{text}");
    let choice = format!(", {})", never.node());
    assert_eq!(text.matches(&choice).count(), 1, "{text}");
    let graph = trace.graph();
    for result in &results {
        let inputs = &graph.node(result.node()).inputs;
        assert!(inputs.iter().all(|input| input.index() >= forward), "{text}");
    }
}
