//! The kernels of decoders' layers, rotary positions and gated activations, against f64, over random
//! shapes and values.

mod support;

use support::{Numbers, check_close};
use traind_kernels::gated::{self, Activation};
use traind_kernels::rotary::{Angles, rotate};

const ACTIVATIONS: [Activation; 3] = [Activation::Silu, Activation::Gelu, Activation::GeluTanh];

/// Φ(x) of the standard normal distribution, by the trapezoid rule.
fn normal(x: f64) -> f64 {
    let step = 1e-3;
    let density = |y: f64| (-y * y / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
    let count = (x.abs() / step).ceil();
    let step = if count > 0.0 { x / count } else { 0.0 };
    let inner: f64 = (1..count as u32).map(|n| density(f64::from(n) * step)).sum();
    0.5 + step * (inner + (density(0.0) + density(x)) / 2.0)
}

fn value(activation: Activation, x: f64) -> f64 {
    match activation {
        Activation::Silu => x / (1.0 + (-x).exp()),
        Activation::Gelu => x * normal(x),
        Activation::GeluTanh => {
            let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3));
            0.5 * x * (1.0 + inner.tanh())
        }
    }
}

/// The slope of the activation at `x` by central differences.
fn slope(activation: Activation, x: f64) -> f64 {
    const STEP: f64 = 1e-4;
    (value(activation, x + STEP) - value(activation, x - STEP)) / (2.0 * STEP)
}

#[test]
fn gated_activations_and_their_gradients_are_those_of_f64() {
    let mut numbers = Numbers(11);
    for activation in ACTIVATIONS {
        for count in [1, 15, 16, 100, 333] {
            let scaled = |numbers: &mut Numbers, by: f32| {
                numbers.floats(count).into_iter().map(|x| by * x).collect::<Vec<f32>>()
            };
            let (gate, up) = (scaled(&mut numbers, 8.0), scaled(&mut numbers, 2.0));
            let cotangent = scaled(&mut numbers, 1.0);
            let mut got = vec![f32::NAN; count];
            gated::forward(activation, &gate, &up, &mut got);
            let (mut to_gate, mut to_up) = (gate.clone(), up.clone());
            gated::backward(activation, &mut to_gate, &mut to_up, &cotangent);
            let of = |function: &dyn Fn(f64, f64, f64) -> f64| -> Vec<f64> {
                let all = gate.iter().zip(&up).zip(&cotangent);
                all.map(|((&g, &u), &c)| function(g.into(), u.into(), c.into())).collect()
            };
            let what = format!("{activation:?} of {count}");
            check_close(&what, &got, &of(&|g, u, _| value(activation, g) * u), 1e-6);
            let expected = of(&|g, u, c| c * u * slope(activation, g));
            check_close(&format!("{what}, gate"), &to_gate, &expected, 2e-6);
            check_close(
                &format!("{what}, factor"),
                &to_up,
                &of(&|g, _, c| c * value(activation, g)),
                1e-6,
            );
        }
    }
}

#[test]
fn extreme_gates_are_closed_open_or_nan() {
    let gate = [-200.0, 200.0, f32::NAN, f32::INFINITY, 0.0];
    for activation in ACTIVATIONS {
        let mut got = [0.0; 5];
        gated::forward(activation, &gate, &[2.0; 5], &mut got);
        assert!(got[0].abs() < 1e-30, "{activation:?} {got:?}");
        assert_eq!(got[1], 400.0, "{activation:?}");
        assert!(got[2].is_nan(), "{activation:?}");
        assert_eq!([got[3], got[4]], [f32::INFINITY, 0.0], "{activation:?}");
        let (mut to_gate, mut to_up) = (gate, [2.0; 5]);
        gated::backward(activation, &mut to_gate, &mut to_up, &[1.0; 5]);
        assert_eq!([to_gate[0], to_gate[1], to_gate[4]], [0.0, 2.0, 1.0], "{activation:?}");
        assert!(to_gate[2].is_nan() && to_up[2].is_nan(), "{activation:?}");
        assert_eq!(to_up[1], 200.0, "{activation:?}");
    }
}

#[test]
fn heads_are_turned_by_the_angles_of_their_tokens() {
    let mut numbers = Numbers(12);
    for _ in 0..40 {
        let (positions, repeats) = (1 + numbers.below(9), 1 + numbers.below(3));
        let (heads, pairs) = (1 + numbers.below(4), 1 + numbers.below(20));
        let (size, tokens) = (2 * pairs + numbers.below(4), positions * repeats);
        let angles: Vec<f32> = numbers.floats(positions * pairs).iter().map(|x| 3.0 * x).collect();
        let table = |function: fn(f32) -> f32| angles.iter().map(|&x| function(x)).collect();
        let (cos, sin): (Vec<f32>, Vec<f32>) = (table(f32::cos), table(f32::sin));
        let table = Angles { cos: &cos, sin: &sin, pairs };
        let x = numbers.floats(tokens * heads * size);
        let mut got = x.clone();
        rotate(&mut got, &table, [heads, size], false);
        let expected = (0..x.len()).map(|index| {
            let (token, element) = (index / (heads * size), index % size);
            if element >= 2 * pairs {
                return f64::from(x[index]);
            }
            let angle = f64::from(angles[token % positions * pairs + element % pairs]);
            let at = |element: usize| f64::from(x[index - index % size + element]);
            match element < pairs {
                true => at(element) * angle.cos() - at(element + pairs) * angle.sin(),
                false => at(element) * angle.cos() + at(element - pairs) * angle.sin(),
            }
        });
        check_close("turned", &got, &expected.collect::<Vec<f64>>(), 5e-7);
        rotate(&mut got, &table, [heads, size], true);
        let before: Vec<f64> = x.iter().copied().map(f64::from).collect();
        check_close("turned back", &got, &before, 5e-7);
    }
}

#[test]
fn nan_and_infinities_stay_in_their_pair() {
    let (cos, sin) = ([0.6; 3], [0.8; 3]);
    for odd in [f32::NAN, f32::INFINITY] {
        let mut x = [1.0; 14];
        x[8] = odd;
        rotate(&mut x, &Angles { cos: &cos, sin: &sin, pairs: 3 }, [2, 7], false);
        let spoilt: Vec<usize> = (0..14).filter(|&index| !x[index].is_finite()).collect();
        assert_eq!(spoilt, [8, 11]);
    }
}
