//! Each kernel against its plain definition in f64, over random shapes and values.

mod support;

use support::{Numbers, check_close};
use traind_kernels::attention::{self, Cotangent, Dims, Operands};
use traind_kernels::gelu;
use traind_kernels::hash::{self, Dropout};
use traind_kernels::matrix::{Matrix, MatrixMut, multiply, multiply_with_bias};

#[test]
fn products_in_all_layouts() {
    let mut numbers = Numbers(1);
    for round in 0..60 {
        let sizes = [1 + numbers.below(70), 1 + numbers.below(70), 1 + numbers.below(90)];
        check_product(&mut numbers, round, sizes);
    }
}

/// Rows and columns that fill no tile, and several blocks of the depth, in all layouts, with a sum, a bias or neither.
#[test]
fn products_with_weights() {
    let mut numbers = Numbers(2);
    for round in 0..24 {
        let rows = [16, 31, 32, 100, 255, 300][round % 6];
        let [columns, depth] = [[130, 140], [29, 600], [15, 1100], [300, 65]][round / 6];
        check_product(&mut numbers, round / 2, [rows, columns, depth]);
        check_product(&mut numbers, 2, [rows, columns, depth]);
    }
}

fn check_product(numbers: &mut Numbers, round: usize, sizes: [usize; 3]) {
    let gap = numbers.below(3);
    check_product_with_gap(numbers, round, sizes, gap);
}

/// `gap`: the numbers between the end of a row and the next one.
fn check_product_with_gap(
    numbers: &mut Numbers,
    round: usize,
    [rows, columns, depth]: [usize; 3],
    gap: usize,
) {
    let a = numbers.floats(rows.max(depth) * (rows.max(depth) + gap));
    let b = numbers.floats(columns.max(depth) * (columns.max(depth) + gap));
    let before = numbers.floats(rows * (columns + gap));
    let (lhs_transposed, rhs_transposed) = (round % 2 == 1, round / 2 % 2 == 1);
    let accumulate = round.is_multiple_of(3);
    let (lhs, lhs_at): (_, Box<dyn Fn(usize, usize) -> f32>) = match lhs_transposed {
        false => {
            (Matrix::new(&a, [rows, depth], depth + gap), Box::new(|i, k| a[i * (depth + gap) + k]))
        }
        true => (
            Matrix::new(&a, [depth, rows], rows + gap).transposed(),
            Box::new(|i, k| a[k * (rows + gap) + i]),
        ),
    };
    let (rhs, rhs_at): (_, Box<dyn Fn(usize, usize) -> f32>) = match rhs_transposed {
        false => (
            Matrix::new(&b, [depth, columns], columns + gap),
            Box::new(|k, j| b[k * (columns + gap) + j]),
        ),
        true => (
            Matrix::new(&b, [columns, depth], depth + gap).transposed(),
            Box::new(|k, j| b[j * (depth + gap) + k]),
        ),
    };
    let bias = numbers.floats(columns);
    let adds_bias = !accumulate && round % 3 == 1;
    let mut got = before.clone();
    let to = MatrixMut::new(&mut got, [rows, columns], columns + gap);
    match adds_bias {
        true => multiply_with_bias(to, lhs, rhs, &bias),
        false => multiply(to, lhs, rhs, accumulate),
    }
    let mut expected: Vec<f64> = before.iter().copied().map(f64::from).collect();
    for i in 0..rows {
        for j in 0..columns {
            let product = |k| f64::from(lhs_at(i, k)) * f64::from(rhs_at(k, j));
            let start = match (accumulate, adds_bias) {
                (true, _) => expected[i * (columns + gap) + j],
                (false, true) => f64::from(bias[j]),
                (false, false) => 0.0,
            };
            expected[i * (columns + gap) + j] = start + (0..depth).map(product).sum::<f64>();
        }
    }
    check_close("product", &got, &expected, 1e-6);
}

/// Lines that are a multiple of 4 KiB apart, so that they share sets of the caches.
#[test]
fn products_with_far_lines() {
    let mut numbers = Numbers(3);
    for round in [0, 2, 4] {
        check_product_with_gap(&mut numbers, round, [100, 130, 1024], 0);
        check_product_with_gap(&mut numbers, round, [61, 1024, 100], 0);
    }
}

#[test]
#[should_panic(expected = "does not fit")]
fn a_matrix_beyond_its_slice_is_refused() {
    Matrix::new(&[0.0; 5], [2, 3], 3);
}

#[test]
fn the_bits_of_a_block() {
    let mut bits = vec![0; 3 * 20];
    hash::fill_bits(&mut bits, 20, [11, 12]);
    let reference = |first: u32, second: u32| {
        let mut x = first.wrapping_mul(1 << 16).wrapping_add(second).wrapping_add(11);
        x = (x ^ (x >> 16)).wrapping_mul(0x21f0_aaad).wrapping_add(12);
        x = (x ^ (x >> 15)).wrapping_mul(0xd35a_2d97);
        x ^ (x >> 15)
    };
    for (index, bits) in bits.into_iter().enumerate() {
        assert_eq!(bits, reference(index as u32 / 20, index as u32 % 20));
    }
}

#[test]
fn gelu_is_that_of_f64() {
    let x: Vec<f32> = (-4000..4000).map(|step| step as f32 * 2.5e-3).collect();
    let dy: Vec<f32> = x.iter().map(|x| x.sin()).collect();
    let (mut y, mut dx) = (vec![0.0; x.len()], vec![0.0; x.len()]);
    gelu::forward(&x, &mut y);
    gelu::backward(&x, &dy, &mut dx);
    let step = 1e-4;
    for (index, &x) in x.iter().enumerate() {
        let x = f64::from(x);
        let expected = x * cdf(x);
        assert!((f64::from(y[index]) - expected).abs() <= 2e-7 * (expected.abs() + 0.1), "{x}");
        let slope = ((x + step) * cdf(x + step) - (x - step) * cdf(x - step)) / (2.0 * step);
        let off = (f64::from(dx[index]) - f64::from(dy[index]) * slope).abs();
        assert!(off < 5e-7, "slope at {x} is off by {off:e}");
    }
    let odd = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, f32::MIN];
    let mut y = [0.0; 5];
    gelu::forward(&odd, &mut y);
    assert!(y[0].is_nan());
    assert_eq!([y[1], y[3], y[4]], [f32::INFINITY, f32::MAX, 0.0]);
    gelu::backward(&odd, &[1.0; 5], &mut y);
    assert!(y[0].is_nan());
    assert_eq!(y[3..], [1.0, 0.0]);
}

/// Φ(x) by the series of its integral, and beyond 3 by the continued fraction of its tail.
fn cdf(x: f64) -> f64 {
    let density = (-x * x / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
    if x.abs() < 3.0 {
        let mut term = x;
        let mut sum = x;
        for n in 1..100 {
            term *= x * x / f64::from(2 * n + 1);
            sum += term;
        }
        return 0.5 + density * sum;
    }
    let fraction = (1..200).rev().fold(0.0, |below, n| f64::from(n) / (x.abs() + below));
    let tail = density / (x.abs() + fraction);
    if x < 0.0 { tail } else { 1.0 - tail }
}

struct Case {
    dims: Dims,
    /// Query, key, value, and the cotangent of the output.
    tensors: [Vec<f32>; 4],
    mask: Vec<f32>,
    starts: Option<Vec<i32>>,
    keys: Vec<u32>,
    dropout: Option<Dropout>,
}

const SCALE: f32 = 0.3;

impl Case {
    fn random(numbers: &mut Numbers) -> Case {
        let positions = [1, 2, 5, 16, 17, 48, 70, 130][numbers.below(8)];
        let key_heads = 1 + numbers.below(3);
        let dims = Dims {
            rows: 1 + numbers.below(3),
            positions,
            heads: key_heads * (1 + numbers.below(2)),
            key_heads,
            head_size: [1, 4, 8, 21, 32][numbers.below(5)],
            mask_queries: [1, positions][numbers.below(2)],
        };
        let tokens = dims.rows * positions;
        let [of_queries, of_keys] = [dims.heads, key_heads].map(|it| tokens * it * dims.head_size);
        // Before the first key, on it, after it, and behind the query.
        let start = |numbers: &mut Numbers| numbers.below(positions + 3) as i32 - 2;
        let starts = (0..tokens).map(|_| start(numbers)).collect();
        let starts = (numbers.below(2) == 0).then_some(starts);
        let count = dims.rows * dims.mask_queries * positions;
        let hidden = (0..count).map(|_| numbers.below(4) == 0).collect::<Vec<_>>();
        let keys = (0..2 * dims.rows * dims.heads).map(|_| numbers.next() as u32).collect();
        Case {
            tensors: [of_queries, of_keys, of_keys, of_queries]
                .map(|count| numbers.floats(count).into_iter().map(|x| 3.0 * x).collect()),
            mask: hidden.into_iter().map(|hidden| if hidden { f32::MIN } else { 0.0 }).collect(),
            dropout: (numbers.below(2) == 0).then(|| Dropout::new(0.3)),
            keys,
            starts,
            dims,
        }
    }

    fn operands(&self) -> Operands<'_> {
        let [query, key, value, _] = &self.tensors;
        Operands {
            dims: self.dims,
            query,
            key,
            value,
            mask: &self.mask,
            starts: self.starts.as_deref(),
            tokens: None,
            scale: SCALE,
            dropout: self.dropout.map(|dropout| (dropout, &self.keys[..])),
        }
    }

    /// Output and gradients.
    fn run(&self) -> [Vec<f32>; 4] {
        let operands = self.operands();
        let zeros = |of: usize| vec![f32::NAN; self.tensors[of].len()];
        let mut statistics = vec![f32::NAN; attention::statistics_len(&self.dims)];
        let [mut output, mut query, mut key, mut value] = [0, 0, 1, 2].map(zeros);
        attention::forward(&operands, &mut output, &mut statistics);
        let at =
            Cotangent { output: &output, statistics: &statistics, cotangent: &self.tensors[3] };
        attention::backward(&operands, &at, [&mut query, &mut key, &mut value]);
        [output, query, key, value]
    }

    fn expected(&self) -> [Vec<f64>; 4] {
        let Dims { rows, positions, heads, key_heads, head_size, mask_queries } = self.dims;
        let mut results = [0, 0, 1, 2].map(|of: usize| vec![0.0; self.tensors[of].len()]);
        for (row, head) in (0..rows).flat_map(|row| (0..heads).map(move |head| (row, head))) {
            let place = move |s: usize, d: usize, head: usize, heads: usize| {
                ((row * positions + s) * heads + head) * head_size + d
            };
            let at = move |s, d| place(s, d, head, heads);
            let at_key = move |t, d| place(t, d, head / (heads / key_heads), key_heads);
            let [query, cotangent] =
                [0, 3].map(|i: usize| move |s, d| f64::from(self.tensors[i][at(s, d)]));
            let [key, value] =
                [1, 2].map(|i: usize| move |t, d| f64::from(self.tensors[i][at_key(t, d)]));
            let keys = [row * heads + head, (rows + row) * heads + head].map(|i| self.keys[i]);
            let mut bits = vec![0; positions * positions];
            hash::fill_bits(&mut bits, positions, keys);
            for s in 0..positions {
                let mask =
                    |t| self.mask[(row * mask_queries + s.min(mask_queries - 1)) * positions + t];
                let first = self.starts.as_ref().map(|it| it[row * positions + s].min(s as i32));
                let score = |t| {
                    if first.is_some_and(|first| t > s || (t as i32) < first) {
                        return f64::NEG_INFINITY;
                    }
                    let dot: f64 = (0..head_size).map(|d| query(s, d) * key(t, d)).sum();
                    // Where nothing counts, all scores are the same float.
                    f64::from((dot * f64::from(SCALE)) as f32 + mask(t))
                };
                let scores: Vec<f64> = (0..positions).map(score).collect();
                let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let sum: f64 = scores.iter().map(|x| (x - most).exp()).sum();
                let factor = |t: usize| match self.dropout {
                    Some(dropout) if bits[s * positions + t] >= dropout.threshold => 0.0,
                    Some(dropout) => f64::from(dropout.scale),
                    None => 1.0,
                };
                let share = |t: usize| (scores[t] - most).exp() / sum;
                let slope = |t: usize| {
                    let dot: f64 = (0..head_size).map(|d| cotangent(s, d) * value(t, d)).sum();
                    dot * factor(t)
                };
                let along: f64 = (0..positions).map(|t| share(t) * slope(t)).sum();
                for t in 0..positions {
                    let to_score = share(t) * (slope(t) - along) * f64::from(SCALE);
                    for d in 0..head_size {
                        results[0][at(s, d)] += share(t) * factor(t) * value(t, d);
                        results[1][at(s, d)] += to_score * key(t, d);
                        results[2][at_key(t, d)] += to_score * query(s, d);
                        results[3][at_key(t, d)] += share(t) * factor(t) * cotangent(s, d);
                    }
                }
            }
        }
        results
    }
}

#[test]
fn attention_and_its_gradients_are_those_of_f64() {
    let mut numbers = Numbers(7);
    for _ in 0..60 {
        let case = Case::random(&mut numbers);
        let names = ["output", "query", "key", "value"];
        for ((name, got), expected) in names.into_iter().zip(case.run()).zip(case.expected()) {
            check_close(&format!("{name} of {:?}", case.dims), &got, &expected, 2e-5);
        }
    }
}

#[test]
fn a_nan_spoils_its_own_row_and_no_other() {
    let dims =
        Dims { rows: 2, positions: 20, heads: 2, key_heads: 2, head_size: 8, mask_queries: 1 };
    let mut case = Case { dims, ..Case::random(&mut Numbers(3)) };
    case.tensors = std::array::from_fn(|_| Numbers(5).floats(2 * 20 * 16));
    case.mask = vec![0.0; 2 * 20];
    case.keys = vec![1; 8];
    (case.dropout, case.starts) = (None, None);
    case.tensors[0][3] = f32::NAN;
    let [output, ..] = case.run();
    assert!(output[..8].iter().all(|x| x.is_nan()));
    assert!(output[8..].iter().all(|x| x.is_finite()));
}
