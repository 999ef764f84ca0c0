//! Clipping against `torch.nn.utils.clip_grad_norm_`.

use traind_models::clip::{coefficient, square_sum};
use traind_xla::runtime::HostArray;
use traind_xla::{DType, Shape, Trace};

use crate::support::{Program, check_close};

/// Clips [3, 4] and [12] times `scale`, of norm 13 times `scale`.
fn check(scale: f32, max_norm: f32, expected: f32) {
    let values = [vec![3.0 * scale, 4.0 * scale], vec![12.0 * scale]];
    let trace = Trace::new();
    let parameter = |dims: &[usize]| trace.parameter("p", Shape::new(DType::F32, dims)).unwrap();
    let bound = parameter(&[]);
    let gradients = [parameter(&[2]), parameter(&[1])];
    let norm =
        square_sum(&trace, std::iter::once(gradients.iter().collect())).unwrap().sqrt().unwrap();
    let factor = coefficient(&norm, &bound).unwrap();
    let clipped = gradients.map(|gradient| gradient.mul(&factor).unwrap());
    let outputs = [&norm, &clipped[0], &clipped[1]];
    let results = Program::compile(&trace, &outputs).run(&[
        HostArray::from_f32(&[], &[max_norm]).unwrap(),
        HostArray::from_f32(&[2], &values[0]).unwrap(),
        HostArray::from_f32(&[1], &values[1]).unwrap(),
    ]);
    let got = |index: usize| results[index].to_f32().unwrap();
    let tolerance = 1e-6 * f64::from(scale) * 13.0;
    check_close("norm", &got(0), &[13.0 * scale], tolerance);
    for (index, values) in values.iter().enumerate() {
        let expect: Vec<f32> = values.iter().map(|value| value * expected).collect();
        check_close("gradient", &got(index + 1), &expect, tolerance);
    }
}

#[test]
fn a_larger_norm_is_scaled_down_to_the_bound() {
    check(1.0, 6.5, 0.5);
}

#[test]
fn a_smaller_norm_is_left_alone() {
    check(1.0, 14.0, 1.0);
    check(1.0, f32::INFINITY, 1.0);
    check(0.0, 1.0, 1.0);
}

/// 1e-6 is added to the norm before dividing by it.
#[test]
fn a_tiny_norm_feels_the_epsilon() {
    check(1e-6, 7e-6, 0.5);
}
