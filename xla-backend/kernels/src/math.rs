//! Functions of one float, written so that loops over them become vector instructions:
//! no branches, no tables, no calls.

/// Numbers to work on at once: a vector of AVX-512, two of AVX2, four of NEON.
pub(crate) const LANES: usize = 16;

/// Adding this to a small float rounds it to a whole number, which is then in the low bits.
const ROUNDER: f32 = 12_582_912.0;
/// Below this, exp is no normal number any more.
const EXP_MIN: f32 = -87.3;
/// Beyond this, exp counts as infinite: a little early, where its power of two is.
const EXP_MAX: f32 = 88.37;
/// The logarithm of 2 as a sum whose first part has few digits.
const LN_2: [f32; 2] = [0.693_359_4, -0.000_212_194_44];
/// A polynomial near exp on ±ln(2)/2, the highest power first. Chebyshev fit, relative
/// error 2e-9.
const EXP: [f32; 7] = [0.001_394_116_1, 0.008_375_168, 0.041_666_35, 0.166_664_15, 0.5, 1.0, 1.0];

/// e^x within 2 units of the last place; 0 where that is no normal number, NaN of NaN.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    let shifted = x.mul_add(std::f32::consts::LOG2_E, ROUNDER);
    let whole = shifted - ROUNDER;
    let rest = whole.mul_add(-LN_2[1], whole.mul_add(-LN_2[0], x));
    let power = f32::from_bits((shifted.to_bits() << 23).wrapping_add(1f32.to_bits()));
    let value = polynomial(&EXP, rest) * power;
    let value = if x < EXP_MIN { 0.0 } else { value };
    if x > EXP_MAX { f32::INFINITY } else { value }
}

/// The scale of the argument of [`TAIL`].
const TAIL_SCALE: f32 = 0.3;
/// With t = 1 / (1 + 0.3 z), t times this polynomial in t is Φ(-z) e^(z²/2) for z from 0 to
/// 14, the highest power first. Chebyshev fit, relative error 2e-8.
const TAIL: [f32; 10] = [
    -0.020_914_359,
    0.114_040_27,
    -0.232_038_48,
    0.196_940_68,
    -0.083_742_55,
    0.098_480_74,
    0.077_589_065,
    0.110_405_18,
    0.119_551_76,
    0.119_687_69,
];

/// Φ(x), the normal distribution's cumulative probability, and e^(-x²/2).
#[inline(always)]
pub(crate) fn normal(x: f32) -> (f32, f32) {
    let z = x.abs();
    let density = exp(-0.5 * z * z);
    let t = 1.0 / TAIL_SCALE.mul_add(z, 1.0);
    let tail = density * t * polynomial(&TAIL, t);
    (if x < 0.0 { tail } else { 1.0 - tail }, density)
}

/// 1 / (1 + e^-x).
#[inline(always)]
pub(crate) fn logistic(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

#[inline(always)]
fn polynomial<const N: usize>(coefficients: &[f32; N], x: f32) -> f32 {
    let mut sum = coefficients[0];
    let mut index = 1;
    while index < N {
        sum = sum.mul_add(x, coefficients[index]);
        index += 1;
    }
    sum
}

/// The sum of lanes, in a fixed order.
#[inline(always)]
pub(crate) fn sum_lanes(lanes: [f32; LANES]) -> f32 {
    let mut lanes = lanes;
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            lanes[lane] += lanes[lane + width];
        }
        width /= 2;
    }
    lanes[0]
}

/// The largest element, negative infinity if there is none. NaN is not compared.
#[inline(always)]
pub(crate) fn largest_of(row: &[f32]) -> f32 {
    let mut lanes = [f32::NEG_INFINITY; LANES];
    let (chunks, rest) = row.as_chunks::<LANES>();
    for chunk in chunks {
        for lane in 0..LANES {
            lanes[lane] = if chunk[lane] > lanes[lane] { chunk[lane] } else { lanes[lane] };
        }
    }
    lanes.into_iter().chain(rest.iter().copied()).fold(f32::NEG_INFINITY, f32::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples() -> impl Iterator<Item = f32> {
        (-100_000..100_000).map(|step| step as f32 * 1e-3)
    }

    #[test]
    fn exp_is_that_of_f64() {
        for x in samples().filter(|&x| x > EXP_MIN && x < EXP_MAX) {
            let expected = f64::from(x).exp();
            let off = (f64::from(exp(x)) / expected - 1.0).abs();
            assert!(off < 2.5e-7, "exp({x}) is off by {off:e}");
        }
        assert_eq!(exp(0.0), 1.0);
        assert_eq!(exp(f32::NEG_INFINITY), 0.0);
        assert_eq!(exp(f32::INFINITY), f32::INFINITY);
        assert_eq!(exp(-1e38), 0.0);
        assert_eq!(exp(1e38), f32::INFINITY);
        assert!(exp(f32::NAN).is_nan());
    }

    /// The trapezoid rule from x on, which is exact for such a function.
    fn upper_tail(x: f64) -> f64 {
        let step = 1e-2;
        let at = |n: i32| (-(x + f64::from(n) * step).powi(2) / 2.0).exp();
        let sum: f64 = (1..4000).map(at).sum::<f64>() + at(0) / 2.0;
        // The correction of Euler and Maclaurin for the end at x.
        let correction = step * step / 12.0 * x * at(0);
        (sum * step - correction) / (2.0 * std::f64::consts::PI).sqrt()
    }

    #[test]
    fn the_normal_distribution_has_the_right_tails() {
        for step in 0..120 {
            let z = f64::from(step) * 0.1;
            let expected = upper_tail(z);
            let (below, density) = normal(-z as f32);
            assert!(
                (f64::from(below) / expected - 1.0).abs() < 3e-6 * (1.0 + z),
                "{z} {below} {expected}"
            );
            let (above, _) = normal(z as f32);
            assert!((f64::from(above) - (1.0 - expected)).abs() < 2e-7, "{z}");
            assert!((f64::from(density) / (-z * z / 2.0).exp() - 1.0).abs() < 1e-5);
        }
        assert_eq!(normal(f32::INFINITY), (1.0, 0.0));
        assert_eq!(normal(f32::NEG_INFINITY), (0.0, 0.0));
        assert_eq!(normal(-1e30), (0.0, 0.0));
        assert!(normal(f32::NAN).1.is_nan());
    }
}
