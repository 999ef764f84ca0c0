//! Values against plain Rust and against numbers computed elsewhere.

use traind_xla::autodiff::gradients;
use traind_xla::{DType, Error, Result, Shape, Tensor, Trace};

use crate::evaluator::{Numbers, evaluate, spread_numbers};

/// Evaluates the result of `build` in a program of its own.
fn values(build: impl FnOnce(&Trace) -> Result<Tensor>) -> Numbers {
    let trace = Trace::new();
    let result = build(&trace).unwrap();
    evaluate(&[&result]).remove(0)
}

fn vector(trace: &Trace, dtype: DType, numbers: &[f64]) -> Tensor {
    trace.constant(dtype, &[numbers.len()], numbers).unwrap()
}

fn assert_near(got: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(got.len(), expected.len());
    for (place, (g, e)) in got.iter().zip(expected).enumerate() {
        let near = (g - e).abs() <= tolerance * e.abs().max(1.0) || (g.is_nan() && e.is_nan());
        assert!(near, "at {place}: got {g}, expected {e}");
    }
}

type UnaryCase = (fn(&Tensor) -> Result<Tensor>, fn(f64) -> f64);

#[test]
fn unary_operations_equal_the_standard_library() {
    let cases: &[UnaryCase] = &[
        (Tensor::neg, |x| -x),
        (Tensor::abs, f64::abs),
        (Tensor::exp, f64::exp),
        (Tensor::log, f64::ln),
        (Tensor::log1p, f64::ln_1p),
        (Tensor::sqrt, f64::sqrt),
        (Tensor::rsqrt, |x| 1.0 / x.sqrt()),
        (Tensor::tanh, f64::tanh),
        (Tensor::logistic, |x| 1.0 / (1.0 + (-x).exp())),
        (Tensor::floor, f64::floor),
        (Tensor::sin, f64::sin),
        (Tensor::cos, f64::cos),
        (Tensor::relu, |x| x.max(0.0)),
        (Tensor::silu, |x| x / (1.0 + (-x).exp())),
    ];
    let inputs = spread_numbers(50, 0, 0.01, 9.0);
    for (operation, reference) in cases {
        let got = values(|t| operation(&vector(t, DType::F64, &inputs)));
        let expected: Numbers = inputs.iter().map(|&x| reference(x)).collect();
        assert_near(&got, &expected, 1e-12);
    }
}

#[test]
fn cleared_values_are_zeros_that_no_two_values_share() {
    let numbers = [1.5, -2.0, 0.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
    assert_eq!(values(|t| vector(t, DType::F32, &numbers).cleared()), [0.0; 6]);
    let trace = Trace::new();
    let cleared = ["a", "b"].map(|name| {
        let value = trace.parameter(name, Shape::new(DType::F32, [4])).unwrap();
        value.cleared().unwrap()
    });
    assert!(cleared.iter().all(|it| it.trace().graph().node(it.node()).op.name() == "select"));
}

/// The values of `erf` are those of tables of the error function.
#[test]
fn erf_is_accurate_in_both_precisions() {
    let inputs = [-3.0, -0.5, 0.0, 0.1, 1.0, 2.0, 6.0];
    let expected = [
        -0.999_977_909_503_001_4,
        -0.520_499_877_813_046_5,
        0.0,
        0.112_462_916_018_284_9,
        0.842_700_792_949_714_9,
        0.995_322_265_018_952_7,
        1.0,
    ];
    assert_near(&values(|t| vector(t, DType::F64, &inputs).erf()), &expected, 1e-15);
    assert_near(&values(|t| vector(t, DType::F32, &inputs).erf()), &expected, 2e-7);
}

/// The values of `gelu` and `gelu(approximate="tanh")` are those of PyTorch 2.9 in float64.
#[test]
fn gelu_equals_pytorch() {
    let inputs = [-2.0, -0.3, 0.0, 0.7, 3.0];
    let erf = [-0.045500263896358, -0.114626573343314, 0.0, 0.530625443443849, 2.99595030590511];
    assert_near(&values(|t| vector(t, DType::F64, &inputs).gelu()), &erf, 1e-12);
    let tanh = [-0.045402305912225, -0.114629076457241, 0.0, 0.530570134705117, 2.996362607918227];
    assert_near(&values(|t| vector(t, DType::F64, &inputs).gelu_tanh()), &tanh, 1e-12);
}

#[test]
fn operands_broadcast() {
    let got = values(|t| {
        let column = t.constant(DType::S32, &[2, 1], &[10.0, 20.0])?;
        column.add(&vector(t, DType::S32, &[1.0, 2.0, 3.0]))
    });
    assert_eq!(got, [11.0, 12.0, 13.0, 21.0, 22.0, 23.0]);
}

#[test]
fn bits_and_integers_wrap() {
    let bits = |t: &Trace| vector(t, DType::U32, &[0x8000_0001u32.into(), 7.0]);
    assert_eq!(values(|t| bits(t).mul_scalar(2.0)), [2.0, 14.0]);
    assert_eq!(values(|t| bits(t).shift_left_scalar(31.0)), [2f64.powi(31), 2f64.powi(31)]);
    assert_eq!(values(|t| bits(t).shift_right_logical_scalar(1.0)), [2f64.powi(30), 3.0]);
    assert_eq!(values(|t| bits(t).xor_scalar(1.0)), [2f64.powi(31), 6.0]);
    assert_eq!(values(|t| bits(t).bitcast_convert(DType::S32)), [-2_147_483_647.0, 7.0]);
    assert_eq!(values(|t| vector(t, DType::S32, &[-7.0]).remainder_scalar(4.0)), [-3.0]);
}

#[test]
fn constants_keep_their_bits_in_every_dtype() {
    for dtype in DType::ALL {
        let numbers = [0.0, 1.0, 1.0];
        assert_eq!(values(|t| Ok(vector(t, dtype, &numbers))), numbers, "{dtype}");
    }
    for dtype in [DType::BF16, DType::F16, DType::F32, DType::F64] {
        let numbers = [f64::NEG_INFINITY, -0.375, f64::INFINITY];
        assert_eq!(values(|t| Ok(vector(t, dtype, &numbers))), numbers, "{dtype}");
        assert!(values(|t| t.scalar(f64::NAN, dtype))[0].is_nan(), "{dtype}");
    }
    assert_eq!(values(|t| t.scalar(-5e9, DType::S64)), [-5e9]);
    assert_eq!(values(|t| t.scalar(u32::MAX.into(), DType::U32)), [f64::from(u32::MAX)]);
}

#[test]
fn comparisons_and_finiteness() {
    let numbers = [1.0, f64::NAN, f64::INFINITY, -1.0];
    let x = |t: &Trace| vector(t, DType::F32, &numbers);
    assert_eq!(values(|t| x(t).lt_scalar(1.5)), [1.0, 0.0, 0.0, 1.0]);
    assert_eq!(values(|t| x(t).ne(&x(t))), [0.0, 1.0, 0.0, 0.0]);
    assert_eq!(values(|t| x(t).is_finite()), [1.0, 0.0, 0.0, 1.0]);
    assert_eq!(values(|t| vector(t, DType::U32, &[3e9]).gt_scalar(1.0)), [1.0]);
    assert_eq!(values(|t| vector(t, DType::S32, &[-1.0]).gt_scalar(1.0)), [0.0]);
    assert!(values(|t| x(t).relu())[1].is_nan());
}

#[test]
fn shapes_move_elements() {
    let grid =
        |t: &Trace| t.constant(DType::S32, &[2, 3], &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
    assert_eq!(values(|t| grid(t).transpose(&[1, 0])), [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
    assert_eq!(values(|t| grid(t).slice(1, 1, 3)), [1.0, 2.0, 4.0, 5.0]);
    assert_eq!(values(|t| grid(t).slice_strided(&[0, 0], &[2, 3], &[1, 2])), [0.0, 2.0, 3.0, 5.0]);
    assert_eq!(
        values(|t| grid(t).pad(0, 1, 0, 9.0)),
        [9.0, 9.0, 9.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    );
    assert_eq!(values(|t| grid(t).reverse(&[0])), [3.0, 4.0, 5.0, 0.0, 1.0, 2.0]);
    let joined = values(|t| t.concatenate(&[&grid(t), &t.iota(DType::S32, &[2, 1], 0)?], 1));
    assert_eq!(joined, [0.0, 1.0, 2.0, 0.0, 3.0, 4.0, 5.0, 1.0]);
}

#[test]
fn reductions_fold_axes() {
    let grid =
        |t: &Trace| t.constant(DType::S32, &[2, 3], &[5.0, 1.0, 2.0, -3.0, 4.0, 4.0]).unwrap();
    assert_eq!(values(|t| grid(t).sum(&[0])), [2.0, 5.0, 6.0]);
    assert_eq!(values(|t| grid(t).sum(&[1, 0])), [13.0]);
    assert_eq!(values(|t| grid(t).max(&[1])), [5.0, 4.0]);
    assert_eq!(values(|t| grid(t).min(&[1])), [1.0, -3.0]);
    assert_eq!(values(|t| grid(t).argmax(1)), [0.0, 1.0]);
    assert_eq!(values(|t| grid(t).argmax(0)), [0.0, 1.0, 1.0]);
    assert_eq!(values(|t| grid(t).convert(DType::F32)?.mean(&[0])), [1.0, 2.5, 3.0]);
}

/// Long vectors are summed in rows.
#[test]
fn sums_of_squares_are_those_of_any_size() {
    for dims in [&[8, 12][..], &[3, 5, 7], &[100], &[2048], &[5000]] {
        let numbers = spread_numbers(dims.iter().product(), 3, -2.0, 2.0);
        let got = values(|t| t.constant(DType::F64, dims, &numbers)?.sum_of_squares());
        assert_near(&got, &[numbers.iter().map(|x| x * x).sum()], 1e-12);
    }
}

/// In bf16 itself the sum would stop at 256, where adding 1 changes nothing.
#[test]
fn half_precision_is_summed_in_f32() {
    let ones = |t: &Trace| t.full(1.0, Shape::new(DType::BF16, [4096])).unwrap();
    assert_eq!(values(|t| ones(t).sum(&[0])), [4096.0]);
    let mean = values(|t| {
        let weight = t.full(1.0, Shape::new(DType::BF16, [4096]))?;
        ones(t).unsqueeze(0)?.layer_norm(&weight, &weight, 1e-5)
    });
    assert!(mean.iter().all(|&x| x == 1.0), "a constant row has deviation 0");
}

#[test]
fn linear_multiplies_by_the_transposed_weight() {
    let got = values(|t| {
        let x = t.constant(DType::F32, &[1, 2, 2], &[1.0, 2.0, 3.0, 4.0])?;
        let weight = t.constant(DType::F32, &[3, 2], &[1.0, 0.0, 0.0, 1.0, 1.0, 1.0])?;
        x.linear(&weight, Some(&vector(t, DType::F32, &[10.0, 20.0, 30.0])))
    });
    assert_eq!(got, [11.0, 22.0, 33.0, 13.0, 24.0, 37.0]);
}

#[test]
fn indices_are_clamped() {
    let table =
        |t: &Trace| t.constant(DType::F32, &[3, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap();
    let indices = |t: &Trace| vector(t, DType::S32, &[2.0, -1.0, 7.0]);
    assert_eq!(values(|t| table(t).take(&indices(t))), [5.0, 6.0, 1.0, 2.0, 5.0, 6.0]);
    let added = values(|t| table(t).scatter_add(&indices(t), &table(t)));
    assert_eq!(added, [4.0, 6.0, 3.0, 4.0, 11.0, 14.0]);
    let along = values(|t| {
        let indices = t.constant(DType::S32, &[3, 1], &[1.0, 0.0, 5.0])?;
        table(t).take_along_axis(&indices, 1)
    });
    assert_eq!(along, [2.0, 3.0, 6.0]);
    let hot = values(|t| vector(t, DType::S32, &[1.0, -1.0]).one_hot(3, DType::U8));
    assert_eq!(hot, [0.0, 1.0, 0.0, 0.0, 0.0, 0.0]);
}

#[test]
fn rows_move_to_their_places_and_zeros_to_others() {
    let x = |t: &Trace| t.constant(DType::F32, &[3, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap();
    let row_of_place = |t: &Trace| vector(t, DType::S32, &[2.0, 3.0, 0.0, 9.0]);
    let place_of_row = |t: &Trace| vector(t, DType::S32, &[2.0, 4.0, 0.0]);
    let placed = |t: &Trace| x(t).place_rows(&row_of_place(t), &place_of_row(t));
    assert_eq!(values(placed), [5.0, 6.0, 0.0, 0.0, 1.0, 2.0, 0.0, 0.0]);
    let back = |t: &Trace| placed(t)?.place_rows(&place_of_row(t), &row_of_place(t));
    assert_eq!(values(back), [1.0, 2.0, 0.0, 0.0, 5.0, 6.0]);
    let trace = Trace::new();
    let refused = x(&trace).place_rows(&place_of_row(&trace), &row_of_place(&trace)).unwrap_err();
    assert!(refused.to_string().contains("the place of each of them"), "{refused}");
}

#[test]
fn softmax_survives_large_numbers() {
    let x = |t: &Trace| vector(t, DType::F32, &[1e4, 1e4, -1e4]);
    assert_eq!(values(|t| x(t).softmax(0)), [0.5, 0.5, 0.0]);
    let log = 0.5f64.ln();
    assert_near(&values(|t| x(t).log_softmax(0)), &[log, log, -2e4 + log], 1e-6);
    assert_near(&values(|t| x(t).logsumexp(0)), &[1e4 - log], 1e-6);
}

/// The values are PyTorch 2.9's of `layer_norm([1, 2, 4], weight [1, 2, 3], bias [0, 1, 2])`.
#[test]
fn layer_norm_equals_pytorch() {
    let got = values(|t| {
        let x = vector(t, DType::F64, &[1.0, 2.0, 4.0]);
        x.layer_norm(
            &vector(t, DType::F64, &[1.0, 2.0, 3.0]),
            &vector(t, DType::F64, &[0.0, 1.0, 2.0]),
            1e-5,
        )
    });
    assert_near(
        &got,
        &[-1.069_041_531_450_298, 0.465_479_234_274_851, 6.008_905_742_938_616],
        1e-12,
    );
}

#[test]
fn cross_entropy_skips_rows_without_a_class() {
    let trace = Trace::new();
    let logits = trace.constant(DType::F64, &[2, 2], &[0.0, 0.0, 3.0, 1.0]).unwrap();
    let losses = logits.cross_entropy(&vector(&trace, DType::S32, &[1.0, -100.0])).unwrap();
    let gradient = gradients(&losses.sum(&[0]).unwrap(), &[&logits]).unwrap().remove(0);
    let values = evaluate(&[&losses, &gradient]);
    assert_near(&values[0], &[2f64.ln(), 0.0], 1e-15);
    assert_near(&values[1], &[0.5, -0.5, 0.0, 0.0], 1e-15);
}

#[test]
fn gradients_of_what_the_loss_does_not_read_are_zero() {
    let trace = Trace::new();
    let x = vector(&trace, DType::F32, &[2.0, 3.0]);
    let unread = vector(&trace, DType::F32, &[1.0, 1.0]);
    let loss = x.stop_gradient().unwrap().mul(&x).unwrap().sum(&[0]).unwrap();
    let found = gradients(&loss, &[&x, &unread]).unwrap();
    assert_eq!(evaluate(&[&found[0], &found[1]]), [vec![2.0, 3.0], vec![0.0, 0.0]]);
}

#[test]
fn refused_operands_are_named() {
    let trace = Trace::new();
    let a = trace.full(0.0, Shape::new(DType::F32, [2, 3])).unwrap();
    let b = trace.full(0.0, Shape::new(DType::F32, [4])).unwrap();
    let message = |result: Result<Tensor>| result.unwrap_err().to_string();
    assert_eq!(
        message(a.add(&b)),
        "add: dimensions do not broadcast together (inputs: f32[2,3], f32[4])"
    );
    assert_eq!(
        message(a.matmul(&a)),
        "dot_general: contracting axes 1 and 0 do not match (inputs: f32[2,3], f32[2,3])"
    );
    assert_eq!(message(a.softmax(2)), "softmax: f32[2,3] has no axis 2 (inputs: f32[2,3])");
    assert_eq!(
        message(a.slice(3, 0, 1)),
        "slice: takes 2 ranges, got [4, 4, 4] (inputs: f32[2,3])"
    );
    assert_eq!(
        message(a.reshape(&[7])),
        "reshape: 6 elements cannot fill f32[7] (inputs: f32[2,3])"
    );
    let other = Trace::new().full(0.0, Shape::new(DType::F32, [2, 3])).unwrap();
    assert!(matches!(a.add(&other), Err(Error::ForeignTensor { .. })));
    assert!(matches!(gradients(&a, &[&b]), Err(Error::NotAScalarLoss { .. })));
}
