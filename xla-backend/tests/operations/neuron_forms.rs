//! Programs for NeuronCores compute the same as others, with indices that stay inside and without `chlo`.

use std::process::{Command, Stdio};

use traind_neuron::core_kind;
use traind_xla::kernels::GpuOptions;
use traind_xla::mesh::Mesh;
use traind_xla::runtime::Recorder;
use traind_xla::verify::neuron::{Limits, check};
use traind_xla::{DType, Error, Shape, Tensor, Trace};

use crate::evaluator::Compiled;

/// The findings in the program of `output`.
fn findings(compiled: &Compiled) -> Vec<String> {
    let limits = Limits::of_core(core_kind("NC_v2").unwrap());
    let report = check(&compiled.program.text, &limits, &compiled.program.origins);
    report.findings.iter().map(ToString::to_string).collect()
}

/// Runs `output` in both forms, and returns the values of both.
fn both(output: &Tensor, arguments: &[Vec<f64>]) -> [Vec<f64>; 2] {
    let neuron = Compiled::for_neuron(&[output]);
    assert_eq!(findings(&neuron), Vec::<String>::new());
    [Compiled::new(&[output], 1), neuron]
        .map(|it| it.run(&[arguments.to_vec()]).remove(0).remove(0))
}

fn parameter(trace: &Trace, name: &str, dtype: DType, dims: &[usize]) -> Tensor {
    trace.parameter(name, Shape::new(dtype, dims)).unwrap()
}

#[test]
fn indices_outside_are_clamped_by_the_program_itself() {
    let trace = Trace::new();
    let table = parameter(&trace, "table", DType::F32, &[3, 1]);
    let rows = parameter(&trace, "rows", DType::S32, &[4]);
    let taken = table.take(&rows).unwrap();
    let [xla, neuron] = both(&taken, &[vec![1.0, 2.0, 3.0], vec![-5.0, 1.0, 2.0, 7.0]]);
    assert_eq!((xla, neuron), (vec![1.0, 2.0, 3.0, 3.0], vec![1.0, 2.0, 3.0, 3.0]));
    let found = findings(&Compiled::new(&[&taken], 1));
    assert!(found.len() == 1 && found[0].starts_with("NRT_EXEC_OOB"), "{found:?}");
}

#[test]
fn parts_that_begin_behind_the_last_place_are_clamped() {
    let trace = Trace::new();
    let x = parameter(&trace, "x", DType::F32, &[4]);
    let start = parameter(&trace, "start", DType::U32, &[]);
    for (output, expect) in [
        (x.dynamic_slice(0, &start, 2).unwrap(), vec![3.0, 4.0]),
        (x.dynamic_place(0, &start, 6).unwrap(), vec![0.0, 0.0, 1.0, 2.0, 3.0, 4.0]),
    ] {
        let [xla, neuron] = both(&output, &[vec![1.0, 2.0, 3.0, 4.0], vec![9.0]]);
        assert_eq!((&xla, &neuron), (&expect, &expect));
    }
}

#[test]
fn the_error_function_needs_no_chlo() {
    let trace = Trace::new();
    let count = 201;
    let x = parameter(&trace, "x", DType::F32, &[count]);
    let places: Vec<f64> = (0..count).map(|at| (at as f64 - 100.0) / 20.0).collect();
    let [xla, neuron] = both(&x.erf().unwrap(), &[places]);
    for (xla, neuron) in xla.iter().zip(&neuron) {
        assert!((xla - neuron).abs() < 5e-7, "{xla} {neuron}");
    }
    assert_eq!((neuron[0], neuron[100]), (-1.0, 0.0));
}

/// One index of each row, clamped by the program itself; numbers of elements that float32 does not have are refused.
#[test]
fn elements_of_rows_are_numbered_exactly() {
    let trace = Trace::new();
    let rows = parameter(&trace, "rows", DType::F32, &[2, 3]);
    let indices = parameter(&trace, "indices", DType::S32, &[2, 1]);
    let taken = rows.take_along_axis(&indices, 1).unwrap();
    let arguments = [vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0], vec![-4.0, 9.0]];
    assert_eq!(both(&taken, &arguments), [vec![1.0, 6.0], vec![1.0, 6.0]]);

    let of_rows = |count: usize| {
        let rows = parameter(&trace, "many", DType::F32, &[count, 4096]);
        rows.take_along_axis(&parameter(&trace, "indices", DType::S32, &[count, 1]), 1)
    };
    assert!(of_rows(4096).is_ok());
    let refused = of_rows(4097).unwrap_err().to_string();
    assert!(refused.contains("take_along_axis") && refused.contains("2^24"), "{refused}");
}

/// No reduction over pairs, and the first of equals.
#[test]
fn the_place_of_the_largest_needs_no_reduction_over_pairs() {
    let trace = Trace::new();
    let x = parameter(&trace, "x", DType::F32, &[2, 4]);
    let numbers = [0.5, 2.0, 2.0, -1.0, 7.0, 1.0, 7.0, 7.0];
    let found = both(&x.argmax(1).unwrap(), &[numbers.to_vec()]);
    assert_eq!(found, [vec![1.0, 0.0], vec![1.0, 0.0]]);
    let program = Compiled::for_neuron(&[&x.argmax(1).unwrap()]).program.text;
    let operands = |line: &str| line.matches(" init: ").count();
    let reductions: Vec<usize> = program.lines().map(operands).filter(|count| *count > 0).collect();
    assert_eq!(reductions, [1, 1], "{program}");
}

/// Sums, products and comparisons by parts, which need no more than 24 bits.
#[test]
fn integers_by_parts_are_exact() {
    const NUMBERS: [u32; 9] =
        [0, 1, 0xffff, 0x1_0000, 0xff_ffff, 0x1234_5678, 0x9e37_79b9, 0xd35a_2d97, u32::MAX];
    let trace = Trace::new();
    let shape = Shape::new(DType::U32, [NUMBERS.len() * NUMBERS.len()]);
    let [a, b] = ["a", "b"].map(|name| trace.parameter(name, shape.clone()).unwrap());
    let comparisons = [a.lt(&b), a.le(&b), a.gt(&b), a.ge(&b), a.eq(&b), a.ne(&b)];
    let as_numbers = comparisons.map(|it| it.unwrap().convert(DType::U32).unwrap());
    let mut outputs = vec![a.add(&b).unwrap(), a.sub(&b).unwrap(), a.mul(&b).unwrap()];
    outputs.extend(as_numbers);
    let compiled = Compiled::by_parts(&outputs.iter().collect::<Vec<_>>());
    let pairs = || NUMBERS.into_iter().flat_map(|a| NUMBERS.map(|b| (a, b)));
    let arguments = [
        pairs().map(|(a, _)| f64::from(a)).collect::<Vec<_>>(),
        pairs().map(|(_, b)| f64::from(b)).collect(),
    ];
    let found = compiled.run(&[arguments.to_vec()]).remove(0);
    let expect = |compute: fn(u32, u32) -> u32| -> Vec<f64> {
        pairs().map(|(a, b)| f64::from(compute(a, b))).collect()
    };
    assert_eq!(found[0], expect(u32::wrapping_add));
    assert_eq!(found[1], expect(u32::wrapping_sub));
    assert_eq!(found[2], expect(u32::wrapping_mul));
    assert_eq!(found[3], expect(|a, b| u32::from(a < b)));
    assert_eq!(found[4], expect(|a, b| u32::from(a <= b)));
    assert_eq!(found[5], expect(|a, b| u32::from(a > b)));
    assert_eq!(found[6], expect(|a, b| u32::from(a >= b)));
    assert_eq!(found[7], expect(|a, b| u32::from(a == b)));
    assert_eq!(found[8], expect(|a, b| u32::from(a != b)));
}

/// Donation is switched off in the environment of a process, so the test runs itself in another one too.
#[test]
fn results_replace_arguments_unless_that_is_switched_off() {
    const SWITCH: &str = "TRAIND_NEURON_DONATION";
    let replaces = |platform: &str| {
        let mesh = Mesh::data_parallel(1).unwrap();
        let mut recorder = Recorder::expected(mesh, platform, GpuOptions::default());
        let count = recorder.declare("count", Shape::scalar(DType::F32));
        let step = recorder.record(&[], |recording| -> Result<(), Error> {
            let next = recording.read(count)?.add_scalar(1.0)?;
            recording.assign(count, &next)
        });
        recorder.lower(&step.unwrap()).text.contains("tf.aliasing_output")
    };
    let is_off = std::env::var_os(SWITCH).is_some();
    assert_eq!((replaces("neuron"), replaces("cpu")), (!is_off, true));
    if !is_off {
        let name = "neuron_forms::results_replace_arguments_unless_that_is_switched_off";
        let mut own = Command::new(std::env::current_exe().unwrap());
        own.args(["--exact", name]).env(SWITCH, "off").stdout(Stdio::null());
        assert!(own.status().unwrap().success());
    }
}
