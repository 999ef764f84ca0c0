//! The kernels that work on rows, norms and losses, against their plain definitions in f64, over
//! random shapes and values.

mod support;

use support::{Numbers, check_close};
use traind_kernels::hash::{self, Dropout};
use traind_kernels::norm::{self, Cotangent, DropoutOfRows, Gradients, Norm, Operands, Results};
use traind_kernels::{cross_entropy, table};

const EPSILON: f32 = 1e-5;

/// A norm of rows, and what flows into and out of it.
struct NormCase {
    rows: usize,
    width: usize,
    is_centered: bool,
    adds: bool,
    dropout: Option<Dropout>,
    keys: Vec<u32>,
    x: Vec<f32>,
    residual: Vec<f32>,
    weight: Vec<f32>,
    bias: Vec<f32>,
    cotangent: Vec<f32>,
}

/// Output, sum, and the gradients of sum, weight, bias and what was dropped from.
type NormResults<T> = [Vec<T>; 6];

impl NormCase {
    fn random(numbers: &mut Numbers) -> NormCase {
        let blocks = 1 + numbers.below(4);
        let rows = blocks * (1 + numbers.below(60));
        let width = [1, 3, 16, 17, 64, 100][numbers.below(6)];
        let adds = numbers.below(2) == 0;
        NormCase {
            rows,
            width,
            is_centered: numbers.below(3) > 0,
            adds,
            dropout: (adds && numbers.below(2) == 0).then(|| Dropout::new(0.3)),
            keys: (0..2 * blocks).map(|_| numbers.next() as u32).collect(),
            x: numbers.floats(rows * width).into_iter().map(|x| 3.0 * x + 1.0).collect(),
            residual: numbers.floats(rows * width),
            weight: numbers.floats(width),
            bias: numbers.floats(width),
            cotangent: numbers.floats(rows * width),
        }
    }

    fn run(&self) -> NormResults<f32> {
        let elements = vec![f32::NAN; self.x.len()];
        let dropout = self.dropout.map(|dropout| DropoutOfRows { dropout, keys: &self.keys });
        let (weight, is_centered) = (&self.weight[..], self.is_centered);
        let norm = Norm { weight, epsilon: EPSILON, is_centered, dropout };
        let (mut output, mut sum) = (elements.clone(), elements.clone());
        let mut statistics = vec![f32::NAN; 2 * self.rows];
        let operands = Operands {
            x: &self.x,
            residual: self.adds.then_some(&self.residual[..]),
            bias: self.is_centered.then_some(&self.bias[..]),
        };
        let results = Results {
            output: &mut output,
            statistics: &mut statistics,
            sum: self.adds.then_some(&mut sum[..]),
        };
        norm::forward(&norm, &operands, results);
        let normalized = if self.adds { &sum } else { &self.x };
        let at = Cotangent { normalized, statistics: &statistics, cotangent: &self.cotangent };
        let (mut to_sum, mut to_dropped) = (elements.clone(), elements);
        let [mut to_weight, mut to_bias] = [vec![f32::NAN; self.width], vec![f32::NAN; self.width]];
        let gradients = Gradients {
            normalized: &mut to_sum,
            weight: &mut to_weight,
            bias: self.is_centered.then_some(&mut to_bias[..]),
            dropped: self.dropout.map(|_| &mut to_dropped[..]),
        };
        norm::backward(&norm, &at, gradients);
        [output, sum, to_sum, to_weight, to_bias, to_dropped]
    }

    /// Returns the factor of each element, applied before the residual is added.
    fn factors(&self) -> Vec<f64> {
        let Some(dropout) = self.dropout else { return vec![1.0; self.x.len()] };
        let blocks = self.keys.len() / 2;
        let mut bits = vec![0; self.x.len()];
        for (block, bits) in bits.chunks_exact_mut(self.x.len() / blocks).enumerate() {
            hash::fill_bits(bits, self.width, [self.keys[block], self.keys[blocks + block]]);
        }
        let scale = f64::from(dropout.scale);
        bits.iter().map(|&bits| if bits < dropout.threshold { scale } else { 0.0 }).collect()
    }

    fn expected(&self) -> NormResults<f64> {
        let NormCase { rows, width, .. } = *self;
        let wide = |x: &[f32]| x.iter().copied().map(f64::from).collect::<Vec<f64>>();
        let (factors, residual) = (self.factors(), wide(&self.residual));
        let sum: Vec<f64> = match self.adds {
            true => {
                (0..self.x.len()).map(|i| f64::from(self.x[i]) * factors[i] + residual[i]).collect()
            }
            false => wide(&self.x),
        };
        let (weight, cotangent) = (wide(&self.weight), wide(&self.cotangent));
        let [mut output, mut to_sum] = [vec![0.0; sum.len()], vec![0.0; sum.len()]];
        let [mut to_weight, mut to_bias] = [vec![0.0; width], vec![0.0; width]];
        let mean = |of: &dyn Fn(usize) -> f64| (0..width).map(of).sum::<f64>() / width as f64;
        for row in 0..rows {
            let x = &sum[row * width..][..width];
            let cotangent = &cotangent[row * width..][..width];
            let level = if self.is_centered { mean(&|i| x[i]) } else { 0.0 };
            let square = mean(&|i| (x[i] - level).powi(2));
            let factor = (square + f64::from(EPSILON)).sqrt().recip();
            let y: Vec<f64> = x.iter().map(|x| (x - level) * factor).collect();
            let slope = |i: usize| weight[i] * cotangent[i];
            let slopes_mean = if self.is_centered { mean(&slope) } else { 0.0 };
            let along = mean(&|i| slope(i) * y[i]);
            for i in 0..width {
                let bias = if self.is_centered { f64::from(self.bias[i]) } else { 0.0 };
                output[row * width + i] = y[i] * weight[i] + bias;
                to_sum[row * width + i] = factor * (slope(i) - slopes_mean - y[i] * along);
                to_weight[i] += cotangent[i] * y[i];
                to_bias[i] += cotangent[i];
            }
        }
        let to_dropped = to_sum.iter().zip(&factors).map(|(slope, factor)| slope * factor);
        let to_dropped = to_dropped.collect();
        [output, sum, to_sum, to_weight, to_bias, to_dropped]
    }
}

#[test]
fn norms_and_their_gradients_are_those_of_f64() {
    let mut numbers = Numbers(11);
    for round in 0..60 {
        let case = NormCase::random(&mut numbers);
        let written = [true, case.adds, true, true, case.is_centered, case.dropout.is_some()];
        let names = ["output", "sum", "to_sum", "to_weight", "to_bias", "to_dropped"];
        let pairs = case.run().into_iter().zip(case.expected());
        for (place, (got, expected)) in pairs.enumerate().filter(|(place, _)| written[*place]) {
            let what = format!("{} of round {round}, {} wide", names[place], case.width);
            check_close(&what, &got, &expected, 1e-5);
        }
    }
}

#[test]
fn a_row_with_nan_or_infinity_spoils_no_other() {
    for odd in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let mut case = NormCase::random(&mut Numbers(2));
        let width = case.width;
        (case.dropout, case.adds, case.is_centered) = (None, true, true);
        case.x[width] = odd;
        let [output, _, to_sum, to_weight, ..] = case.run();
        for values in [output, to_sum] {
            assert!(values[width..2 * width].iter().all(|x| x.is_nan()), "{odd}");
            assert!(values[..width].iter().chain(&values[2 * width..]).all(|x| x.is_finite()));
        }
        assert!(to_weight.iter().all(|x| x.is_nan()), "the sum over rows has the odd one");
    }
}

/// Dropped elements are replaced, not multiplied by zero.
#[test]
fn what_is_dropped_counts_nothing() {
    let mut case = NormCase::random(&mut Numbers(2));
    (case.dropout, case.adds) = (Some(Dropout::new(0.5)), true);
    let factors = case.factors();
    for (x, factor) in case.x.iter_mut().zip(factors) {
        *x = if factor == 0.0 { f32::NAN } else { *x };
    }
    let [output, ..] = case.run();
    assert!(output.iter().all(|x| x.is_finite()));
}

/// Loss and gradient of a row of logits in f64.
fn loss_of(logits: &[f32], label: i32, cotangent: f32) -> (f64, Vec<f64>) {
    let Some(label) = usize::try_from(label).ok().filter(|&label| label < logits.len()) else {
        return (0.0, vec![0.0; logits.len()]);
    };
    let wide: Vec<f64> = logits.iter().copied().map(f64::from).collect();
    let most = wide.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = wide.iter().map(|x| (x - most).exp()).sum();
    let share = |(class, x): (usize, &f64)| {
        let own = if class == label { 1.0 } else { 0.0 };
        ((x - most).exp() / sum - own) * f64::from(cotangent)
    };
    (sum.ln() - (wide[label] - most), wide.iter().enumerate().map(share).collect())
}

fn cross_entropy_of(logits: &[f32], labels: &[i32], cotangent: &[f32]) -> [Vec<f32>; 2] {
    let mut losses = vec![f32::NAN; labels.len()];
    let mut statistics = vec![f32::NAN; cross_entropy::statistics_len(labels.len())];
    cross_entropy::forward(logits, labels, &mut losses, &mut statistics);
    let mut gradient = logits.to_vec();
    cross_entropy::backward(&mut gradient, labels, &statistics, cotangent);
    [losses, gradient]
}

#[test]
fn cross_entropy_is_that_of_f64() {
    let mut numbers = Numbers(5);
    for classes in [1, 2, 15, 16, 33, 5000, 50_257] {
        let rows = 1 + numbers.below(5);
        let logits: Vec<f32> =
            numbers.floats(rows * classes).into_iter().map(|x| 12.0 * x - 3.0).collect();
        let label = |n: &mut Numbers| n.below(classes + 2) as i32 - 1;
        let labels: Vec<i32> = (0..rows).map(|_| label(&mut numbers)).collect();
        let cotangent = numbers.floats(rows);
        let [losses, gradient] = cross_entropy_of(&logits, &labels, &cotangent);
        for row in 0..rows {
            let of_row = row * classes..(row + 1) * classes;
            let (loss, slopes) = loss_of(&logits[of_row.clone()], labels[row], cotangent[row]);
            check_close("loss", &losses[row..=row], &[loss], 3e-7);
            check_close("gradient", &gradient[of_row], &slopes, 1e-6);
        }
    }
}

#[test]
fn cross_entropy_of_nan_and_infinity() {
    const CLASSES: usize = 19;
    let mut logits = vec![0.5; 5 * CLASSES];
    logits[3] = f32::NAN;
    logits[CLASSES + 3] = f32::INFINITY;
    logits[2 * CLASSES + 3] = f32::NEG_INFINITY;
    logits[3 * CLASSES..4 * CLASSES].fill(f32::NEG_INFINITY);
    logits[4 * CLASSES] = f32::NAN;
    let [losses, gradient] = cross_entropy_of(&logits, &[2, 2, 2, 2, -100], &[1.0; 5]);
    assert!([losses[0], losses[1], losses[3]].iter().all(|loss| loss.is_nan()), "{losses:?}");
    assert!((losses[2] - 18f32.ln()).abs() < 1e-6 && losses[4] == 0.0, "{losses:?}");
    assert!(gradient[..2 * CLASSES].iter().all(|x| x.is_nan()));
    assert_eq!(gradient[2 * CLASSES + 3], 0.0);
    assert_eq!(gradient[4 * CLASSES..], [0.0; CLASSES]);
}

/// A row that is added twice, the first and the last of a table, and some beside it.
#[test]
fn a_table_has_the_rows_between_its_first_and_last() {
    const WIDTH: usize = 19;
    let mut random = Numbers(7);
    let numbers = [12, 10, 14, 9, 15, 12, -1, i32::MIN, i32::MAX];
    let rows = random.floats(numbers.len() * WIDTH);
    let mut got = vec![f32::NAN; 5 * WIDTH];
    table::fill(&mut got, WIDTH, &rows, &numbers, 10);
    let row = |index: usize| &rows[index * WIDTH..(index + 1) * WIDTH];
    let twice: Vec<f32> = row(0).iter().zip(row(5)).map(|(a, b)| a + b).collect();
    let zeros = [0.0; WIDTH];
    assert_eq!(got, [row(1), &zeros, &twice, &zeros, row(2)].concat());
}
