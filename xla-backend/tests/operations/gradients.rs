//! Every operation's gradient against central finite differences in f64.

use std::collections::BTreeSet;

use traind_xla::autodiff::gradients;
use traind_xla::kernels::Kernels;
use traind_xla::verify::verify;
use traind_xla::{DType, Result, Shape, Tensor, Trace, ops};

use crate::evaluator::{Compiled, Numbers, spread_numbers};
use crate::gradient_table::{Row, TABLE};

const STEP: f64 = 1e-5;

/// A row's loss, a fixed weighting of its result's elements, and its inputs.
fn trace_row(row: &Row, kernels: bool) -> Result<(Tensor, Vec<Tensor>)> {
    let trace = Trace::with_kernels(Kernels::own_if(kernels));
    let parameter = |input: &crate::gradient_table::Input| {
        trace.parameter("", Shape::new(DType::F64, input.dims))
    };
    let inputs: Vec<Tensor> = row.inputs.iter().map(parameter).collect::<Result<_>>()?;
    let result = (row.build)(&trace, &inputs)?;
    let weights = spread_numbers(result.shape().element_count(), 7, 0.2, 1.8);
    let weights = trace.constant(DType::F64, result.dims(), &weights)?;
    let axes: Vec<usize> = (0..result.rank()).collect();
    Ok((result.convert(DType::F64)?.mul(&weights)?.sum(&axes)?, inputs))
}

fn arguments(row: &Row) -> Vec<Vec<Numbers>> {
    let numbers = |replica: usize, number: usize, input: &crate::gradient_table::Input| {
        let series = 1 + number + 10 * replica;
        spread_numbers(input.dims.iter().product(), series, input.low, input.high)
    };
    let replica = |replica| {
        row.inputs.iter().enumerate().map(|(n, input)| numbers(replica, n, input)).collect()
    };
    (0..row.replicas).map(replica).collect()
}

/// The sum of the replicas' losses.
fn objective(compiled: &Compiled, arguments: &[Vec<Numbers>]) -> f64 {
    compiled.run(arguments).iter().map(|outputs| outputs[0][0]).sum()
}

/// The names of the operations that a row and its gradients record.
fn operations(row: &Row, kernels: bool) -> BTreeSet<&'static str> {
    let (loss, inputs) = trace_row(row, kernels).unwrap_or_else(|e| panic!("{}: {e}", row.name));
    let wrt: Vec<&Tensor> = inputs.iter().collect();
    gradients(&loss, &wrt).unwrap_or_else(|e| panic!("{}: {e}", row.name));
    let graph = loss.trace().graph();
    verify(&graph).unwrap_or_else(|e| panic!("{}: {e}", row.name));
    graph.nodes().map(|(_, node)| node.op.name()).collect()
}

fn check(row: &Row, kernels: bool) {
    let (loss, inputs) = trace_row(row, kernels).unwrap_or_else(|e| panic!("{}: {e}", row.name));
    let wrt: Vec<&Tensor> = inputs.iter().collect();
    let gradients = gradients(&loss, &wrt).unwrap_or_else(|e| panic!("{}: {e}", row.name));
    let outputs: Vec<&Tensor> = std::iter::once(&loss).chain(&gradients).collect();
    let compiled = Compiled::new(&outputs, row.replicas);
    let mut at = arguments(row);
    let analytic = compiled.run(&at);
    for replica in 0..row.replicas {
        for input in 0..row.inputs.len() {
            for element in 0..at[replica][input].len() {
                let given = at[replica][input][element];
                at[replica][input][element] = given + STEP;
                let above = objective(&compiled, &at);
                at[replica][input][element] = given - STEP;
                let below = objective(&compiled, &at);
                at[replica][input][element] = given;
                let numeric = (above - below) / (2.0 * STEP);
                let claimed = analytic[replica][input + 1][element];
                let error = (numeric - claimed).abs() / numeric.abs().max(1.0);
                assert!(
                    error <= row.tolerance,
                    "{}: replica {replica}, input {input}, element {element}: \
                     the gradient is {claimed}, finite differences give {numeric}",
                    row.name
                );
            }
        }
    }
}

#[test]
fn gradients_equal_finite_differences() {
    let wanted = std::env::var("GRADIENT_ROW").unwrap_or_default();
    for row in TABLE.iter().filter(|row| row.name.contains(&wanted)) {
        check(row, true);
        if operations(row, true) != operations(row, false) {
            check(row, false);
        }
    }
}

#[test]
fn every_operation_has_a_row() {
    let mut seen = BTreeSet::new();
    for row in TABLE {
        seen.extend([true, false].iter().flat_map(|&kernels| operations(row, kernels)));
    }
    let listed: BTreeSet<&str> = ops::NAMES.iter().copied().collect();
    assert_eq!(listed.len(), ops::NAMES.len(), "a name is listed twice");
    let missing: Vec<&&str> = listed.difference(&seen).collect();
    assert!(missing.is_empty(), "no row of the gradient table uses {missing:?}");
}
