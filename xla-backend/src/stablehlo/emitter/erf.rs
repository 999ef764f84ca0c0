//! The error function in plain StableHLO, for compilers that do not read `chlo`.

use super::Emitter;
use crate::graph::DType;
use crate::stablehlo::Value;

/// Coefficients of the rational approximation x·P(x²)/Q(x²) on [-4, 4] in float32, the highest power first.
/// Source: Eigen's `erf` for floats, which XLA used before.
const NUMERATOR: [f64; 7] = [
    -2.726_142_258_013_06e-10,
    2.770_681_424_959_02e-8,
    -2.101_024_020_825_08e-6,
    -5.692_506_394_623_46e-5,
    -7.349_906_303_268_55e-4,
    -2.954_599_808_540_25e-3,
    -1.609_603_332_624_15e-2,
];
const DENOMINATOR: [f64; 5] = [
    -1.456_607_184_649_96e-5,
    -2.133_740_552_789_05e-4,
    -1.682_826_974_382_03e-3,
    -7.373_329_167_204_68e-3,
    -1.426_473_905_141_89e-2,
];
/// Beyond, the function is 1 in float32.
const END: f64 = 4.0;

/// The error function of `input`, computed in float32.
pub(super) fn expanded(emitter: &mut Emitter, input: &Value) -> Value {
    let x = emitter.convert(input, DType::F32);
    let (low, high) = (emitter.splat(-END, &x.shape), emitter.splat(END, &x.shape));
    let raised = emitter.same_type("maximum", &[&x, &low]);
    let x = emitter.same_type("minimum", &[&raised, &high]);
    let square = emitter.same_type("multiply", &[&x, &x]);
    let numerator = polynomial(emitter, &square, &NUMERATOR);
    let denominator = polynomial(emitter, &square, &DENOMINATOR);
    let product = emitter.same_type("multiply", &[&x, &numerator]);
    let quotient = emitter.same_type("divide", &[&product, &denominator]);
    emitter.convert(&quotient, input.shape.dtype)
}

/// Evaluates a polynomial by Horner's rule.
fn polynomial(emitter: &mut Emitter, x: &Value, coefficients: &[f64]) -> Value {
    let mut sum = emitter.splat(coefficients[0], &x.shape);
    for coefficient in &coefficients[1..] {
        let product = emitter.same_type("multiply", &[&sum, x]);
        let next = emitter.splat(*coefficient, &x.shape);
        sum = emitter.same_type("add", &[&product, &next]);
    }
    sum
}
