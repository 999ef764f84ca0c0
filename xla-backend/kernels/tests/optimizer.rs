//! The optimizer's kernels against their plain definitions in f64, over random lengths and values.

use traind_kernels::adamw::{self, Scalars};
use traind_kernels::sum;
use traind_kernels::table::{self, FewRows};

/// Numbers between -1 and 1 that look random: SplitMix64.
fn floats(count: usize, seed: u64) -> Vec<f32> {
    let number = |index: u64| {
        let mut x = (seed << 32 | index).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((x ^ (x >> 31)) >> 40) as f32 / 8_388_608.0 - 1.0
    };
    (0..count as u64).map(number).collect()
}

const LENGTHS: [usize; 12] = [0, 1, 3, 8, 15, 16, 31, 33, 100, 1023, 2049, 5000];

const SCALARS: Scalars = Scalars {
    factor: 0.37,
    decay_factor: 0.9995,
    one_minus_beta1: 0.1,
    beta2: 0.999,
    one_minus_beta2: 0.001,
    step_size: 3e-3,
    bias_correction2_sqrt: 0.06,
    epsilon: 1e-8,
};

/// Parameter, first and second moment.
type State = [Vec<f32>; 3];

fn state(count: usize, seed: u64) -> State {
    let squares = floats(count, seed + 2).into_iter().map(|x| x * x);
    [floats(count, seed), floats(count, seed + 1), squares.collect()]
}

fn updated([mut parameter, mut exp_avg, mut exp_avg_sq]: State, gradient: &[f32]) -> State {
    adamw::update(&mut parameter, &mut exp_avg, &mut exp_avg_sq, gradient, SCALARS);
    [parameter, exp_avg, exp_avg_sq]
}

fn expected(state: [f32; 3], gradient: f32) -> [f64; 3] {
    let [parameter, exp_avg, exp_avg_sq] = state.map(f64::from);
    let at = SCALARS;
    let gradient = f64::from(gradient) * f64::from(at.factor);
    let exp_avg = exp_avg + (gradient - exp_avg) * f64::from(at.one_minus_beta1);
    let square = gradient * gradient * f64::from(at.one_minus_beta2);
    let exp_avg_sq = exp_avg_sq * f64::from(at.beta2) + square;
    let root = exp_avg_sq.sqrt() / f64::from(at.bias_correction2_sqrt);
    let movement = exp_avg / (root + f64::from(at.epsilon)) * f64::from(at.step_size);
    [parameter * f64::from(at.decay_factor) - movement, exp_avg, exp_avg_sq]
}

#[test]
fn copies_become_that_of_one_to_the_bit() {
    for (round, count) in LENGTHS.into_iter().enumerate() {
        let seed = 10 * round as u64;
        let (before, gradient) = (state(count, seed), floats(count, seed + 3));
        let [expected, moments @ ..] = updated(before.clone(), &gradient);
        for others in 0..3 {
            let [first, mut exp_avg, mut exp_avg_sq] = before.clone();
            let mut copies = vec![first; 1 + others];
            let mut slices: Vec<&mut [f32]> = copies.iter_mut().map(Vec::as_mut_slice).collect();
            let slots = (&mut exp_avg, &mut exp_avg_sq);
            adamw::update_copies(&mut slices, slots.0, slots.1, &gradient, SCALARS);
            assert!(copies.iter().all(|copy| *copy == expected), "{count} {others}");
            assert_eq!([exp_avg, exp_avg_sq], moments);
        }
    }
}

#[test]
fn adamw_is_that_of_f64() {
    for (round, count) in LENGTHS.into_iter().enumerate() {
        let seed = 10 * round as u64;
        let (before, gradient) = (state(count, seed), floats(count, seed + 3));
        let after = updated(before.clone(), &gradient);
        for index in 0..count {
            let expected =
                expected([0, 1, 2].map(|slot: usize| before[slot][index]), gradient[index]);
            for (slot, expected) in expected.into_iter().enumerate() {
                let off = (f64::from(after[slot][index]) - expected).abs();
                assert!(off <= 3e-7 * (expected.abs() + 0.1), "{slot} {index}: off by {off:e}");
            }
        }
    }
}

#[test]
fn adamw_in_parts_is_that_of_the_whole_to_the_bit() {
    let (before, gradient) = (state(1000, 5), floats(1000, 9));
    let whole = updated(before.clone(), &gradient);
    for cut in [1, 7, 500, 993] {
        let part = |range: std::ops::Range<usize>| {
            let state = before.clone().map(|slot| slot[range.clone()].to_vec());
            updated(state, &gradient[range])
        };
        let (mut first, second) = (part(0..cut), part(cut..1000));
        first.iter_mut().zip(second).for_each(|(first, second)| first.extend(second));
        assert_eq!(first, whole, "cut at {cut}");
    }
}

/// Rows of an embedding that no batch had: their moments stay zero, and nothing else is left out.
#[test]
fn elements_without_gradient_and_moments_are_those_of_a_plain_loop_to_the_bit() {
    let count = 5000;
    let is_idle = |index: usize| (600..4100).contains(&index) && index != 2000;
    let idle = |mut x: Vec<f32>| {
        x.iter_mut().enumerate().filter(|(index, _)| is_idle(*index)).for_each(|(_, x)| *x = 0.0);
        x
    };
    let [mut parameter, exp_avg, exp_avg_sq] = state(count, 3);
    parameter[700] = -0.0;
    let (before, gradient) = ([parameter, idle(exp_avg), idle(exp_avg_sq)], idle(floats(count, 8)));
    let odd = [f32::INFINITY, f32::NAN];
    let settings = [(1.0, 1e-8), (0.9995, 1e-8), (1.0, 0.0)]
        .map(|(decay_factor, epsilon)| Scalars { decay_factor, epsilon, ..SCALARS });
    let odd = odd.map(|factor| Scalars { factor, ..SCALARS });
    for at in settings.into_iter().chain(odd) {
        let [mut parameter, mut exp_avg, mut exp_avg_sq] = before.clone();
        let mut copy = parameter.clone();
        let copies = &mut [parameter.as_mut_slice(), copy.as_mut_slice()];
        adamw::update_copies(copies, &mut exp_avg, &mut exp_avg_sq, &gradient, at);
        assert_eq!(bits(&parameter), bits(&copy));
        for index in 0..count {
            let expected = [0, 1, 2].map(|slot: usize| before[slot][index]);
            let expected = plain(expected, gradient[index], at);
            let got = [parameter[index], exp_avg[index], exp_avg_sq[index]];
            assert_eq!(bits(&got), bits(&expected), "{index} {at:?}");
        }
    }
}

/// Tables by rows, of which some are equal, some lie outside, and some have had gradients before.
#[test]
fn a_gradient_of_few_rows_is_that_of_a_whole_table_to_the_bit() {
    const FIRST: i32 = 10;
    for (length, width) in [(1, 1), (7, 3), (40, 64), (33, 300), (9, 1500)] {
        let count = length * width;
        let numbers = [3, 3, 12, 10, 5, 41, 12, 9 + length as i32, 10 + length as i32, 12];
        let mut rows = floats(numbers.len() * width, 6);
        rows[width..2 * width].fill(-0.0);
        let few = FewRows::of(length, width, &rows, &numbers, FIRST);
        let mut table = vec![f32::NAN; count];
        table::fill(&mut table, width, &rows, &numbers, FIRST);
        let square_sums = [few.square_sum(), sum::square_sum(&table)];
        assert_eq!(square_sums[0].to_bits(), square_sums[1].to_bits(), "{length} {width}");
        let [parameter, mut exp_avg, mut exp_avg_sq] = state(count, 4);
        exp_avg[count / 3..].fill(0.0);
        exp_avg_sq[count / 3..].fill(0.0);
        for at in [SCALARS, Scalars { decay_factor: 1.0, ..SCALARS }] {
            let update = |by_rows: bool| {
                let mut slots = [exp_avg.clone(), exp_avg_sq.clone()];
                let (mut first, mut second) = (parameter.clone(), parameter.clone());
                let copies = &mut [first.as_mut_slice(), second.as_mut_slice()];
                let [exp_avg, exp_avg_sq] = &mut slots;
                match by_rows {
                    true => adamw::update_copies_by_rows(copies, exp_avg, exp_avg_sq, &few, at),
                    false => adamw::update_copies(copies, exp_avg, exp_avg_sq, &table, at),
                }
                let [exp_avg, exp_avg_sq] = slots;
                [first, second, exp_avg, exp_avg_sq].map(|x| bits(&x))
            };
            assert_eq!(update(true), update(false), "{length} {width}");
        }
    }
}

/// The bits of numbers, with the same ones for every NaN.
fn bits(x: &[f32]) -> Vec<u32> {
    x.iter().map(|x| if x.is_nan() { u32::MAX } else { x.to_bits() }).collect()
}

fn plain([parameter, exp_avg, exp_avg_sq]: [f32; 3], gradient: f32, at: Scalars) -> [f32; 3] {
    let gradient = gradient * at.factor;
    let exp_avg = exp_avg + (gradient - exp_avg) * at.one_minus_beta1;
    let exp_avg_sq = exp_avg_sq * at.beta2 + gradient * gradient * at.one_minus_beta2;
    let denominator = exp_avg_sq.sqrt() / at.bias_correction2_sqrt + at.epsilon;
    [parameter * at.decay_factor - exp_avg / denominator * at.step_size, exp_avg, exp_avg_sq]
}

#[test]
fn odd_gradients_spoil_their_own_elements_and_no_others() {
    let before = state(40, 1);
    let mut gradient = floats(40, 4);
    let expected = updated(before.clone(), &gradient);
    gradient[3] = f32::NAN;
    gradient[20] = f32::INFINITY;
    gradient[39] = f32::MAX;
    let after = updated(before, &gradient);
    for slot in &after {
        assert!(slot[3].is_nan(), "{slot:?}");
    }
    // Infinity over infinity, as in PyTorch.
    assert!(
        after[0][20].is_nan() && after[1][20] == f32::INFINITY && after[2][20] == f32::INFINITY
    );
    assert!(after[0][39].is_finite() && after[2][39] == f32::INFINITY);
    let others = (0..40).filter(|index| ![3, 20, 39].contains(index));
    for index in others {
        assert_eq!(
            [0, 1, 2].map(|slot: usize| after[slot][index]),
            [0, 1, 2].map(|slot: usize| expected[slot][index])
        );
    }
}

#[test]
fn column_sums_are_those_of_f64() {
    for (rows, columns) in [(1, 1), (3, 7), (130, 33), (0, 5), (4, 0)] {
        let x = floats(rows * columns, 3);
        let mut sums = vec![f32::NAN; columns];
        sum::column_sums(&x, &mut sums);
        for (column, sum) in sums.into_iter().enumerate() {
            let expected: f64 = (0..rows).map(|row| f64::from(x[row * columns + column])).sum();
            assert!((f64::from(sum) - expected).abs() <= 1e-5, "{sum}, expected {expected}");
        }
    }
}

#[test]
fn square_sums_are_those_of_f64() {
    for count in LENGTHS.into_iter().chain([300_000]) {
        let x = floats(count, 2);
        let expected: f64 = x.iter().map(|x| f64::from(*x) * f64::from(*x)).sum();
        let got = f64::from(sum::square_sum(&x));
        assert!((got - expected).abs() <= 4e-7 * expected, "{got}, expected {expected}");
    }
    assert!(sum::square_sum(&[1.0, f32::NAN, 2.0]).is_nan());
    assert_eq!(sum::square_sum(&[1.0, f32::NEG_INFINITY]), f32::INFINITY);
    assert_eq!(sum::square_sum(&[1e30; 20]), f32::INFINITY);
}
