//! Random bits: the device's equal the reference's, and the reference's are
//! good enough for dropout and for drawing weights.

use traind_xla::ops::Random;
use traind_xla::ops::random::{Place, reference_bits};
use traind_xla::{DType, Shape, Tensor, Trace};

use crate::evaluator::{Compiled, Numbers};

const COUNT: u32 = 1 << 16;

/// A trace whose random numbers take seed, step and row offset at run time.
fn random() -> (Trace, Random) {
    let trace = Trace::new();
    let scalar = |name| trace.parameter(name, Shape::scalar(DType::U32)).unwrap();
    let [seed, step, row_offset] = ["seed", "step", "row_offset"].map(scalar);
    let random = Random::new(&seed, &step, &row_offset).unwrap();
    (trace, random)
}

fn draw(compiled: &Compiled, seed: u32, step: u32, row_offset: u32) -> Vec<Numbers> {
    let arguments = [seed, step, row_offset].map(|number| vec![f64::from(number)]).to_vec();
    compiled.run(&[arguments]).remove(0)
}

#[test]
fn device_bits_equal_the_reference() {
    let (_, random) = random();
    let sites: Vec<Tensor> = (0..3).map(|_| random.bits(&[4, 3, 5]).unwrap()).collect();
    let compiled = Compiled::new(&sites.iter().collect::<Vec<_>>(), 1);
    for (seed, step, row_offset) in [(42, 0, 0), (u32::MAX, 1_000_000, 12), (0, 7, u32::MAX)] {
        for (site, got) in (0..).zip(draw(&compiled, seed, step, row_offset)) {
            let reference = |index: u32| {
                let row = row_offset.wrapping_add(index / 15);
                let place =
                    Place { site, row, block: None, first: index / 5 % 3, second: index % 5 };
                reference_bits(seed, step, place)
            };
            let expected: Numbers = (0..60).map(|index| reference(index).into()).collect();
            assert_eq!(got, expected, "seed {seed}, step {step}, site {site}");
        }
    }
}

#[test]
fn heads_of_a_row_draw_by_their_number() {
    let (_, random) = random();
    let compiled = Compiled::new(&[&random.bits(&[2, 3, 4, 5]).unwrap()], 1);
    let got = draw(&compiled, 42, 1, 6).remove(0);
    let reference = |index: u32| {
        let (row, block) = (6 + index / 60, Some(index / 20 % 3));
        let place = Place { site: 0, row, block, first: index / 5 % 4, second: index % 5 };
        f64::from(reference_bits(42, 1, place))
    };
    assert_eq!(got, (0..120).map(reference).collect::<Numbers>());
}

#[test]
fn some_heads_of_a_row_draw_what_they_draw_among_all() {
    let (trace, random) = random();
    let first = trace.scalar(2.0, DType::U32).unwrap();
    let before = random.bits(&[2, 4]).unwrap();
    let some = random.in_blocks(&first, 6).bits(&[2, 3, 4, 5]).unwrap();
    let after = random.bits(&[2, 4]).unwrap();
    let got = draw(&Compiled::new(&[&before, &some, &after], 1), 42, 1, 6);
    let reference = |site: u32, row: u32, block: Option<u32>, first: u32, second: u32| {
        f64::from(reference_bits(42, 1, Place { site, row: 6 + row, block, first, second }))
    };
    let head = |i: u32| reference(1, i / 60, Some(2 + i / 20 % 3), i / 5 % 4, i % 5);
    assert_eq!(got[1], (0..120).map(head).collect::<Numbers>());
    for (site, got) in [(0, &got[0]), (2, &got[2])] {
        let whole = |i: u32| reference(site, i / 4, None, 0, i % 4);
        assert_eq!(*got, (0..8).map(whole).collect::<Numbers>(), "site {site}");
    }
}

#[test]
fn a_core_draws_the_bits_of_its_places() {
    let (trace, random) = random();
    let first = trace.scalar(3.0, DType::U32).unwrap();
    let positions = random.from_place(0, &first).with_rows(2).bits(&[2 * 4, 5]).unwrap();
    let features = random.from_place(1, &first).bits(&[2, 4, 5]).unwrap();
    let got = draw(&Compiled::new(&[&positions, &features], 1), 42, 1, 6);
    for (site, place) in [(0, [3, 0]), (1, [0, 3])] {
        let reference = |i: u32| {
            let (row, first, second) = (6 + i / 20, place[0] + i / 5 % 4, place[1] + i % 5);
            let place = Place { site, row, block: None, first, second };
            f64::from(reference_bits(42, 1, place))
        };
        assert_eq!(got[site as usize], (0..40).map(reference).collect::<Numbers>());
    }
}

/// The bits of a place depend on no axis but that of the features.
#[test]
fn padded_rows_draw_what_they_draw_without_padding() {
    let draws = |dims: &[usize]| {
        let (_, random) = random();
        let random = random.with_rows(2);
        draw(&Compiled::new(&[&random.bits(dims).unwrap()], 1), 42, 1, 6).remove(0)
    };
    let (short, long) = (draws(&[2 * 3, 5]), draws(&[2 * 4, 5]));
    assert_eq!(short[..15], long[..15]);
    assert_eq!(short[15..], long[20..35]);
    let (short, long) = (draws(&[2, 2, 3, 3]), draws(&[2, 2, 4, 4]));
    for (index, bits) in short.into_iter().enumerate() {
        let (head, query, key) = (index / 9, index / 3 % 3, index % 3);
        assert_eq!(bits, long[head * 16 + query * 4 + key]);
    }
}

#[test]
fn packed_tokens_draw_the_bits_of_their_places() {
    let (trace, random) = random();
    let numbers = |values: &[f64]| trace.constant(DType::U32, &[values.len()], values).unwrap();
    let tokens = random.of_tokens(&numbers(&[0.0, 0.0, 2.0]), &numbers(&[1.0, 3.0, 0.0]));
    let packed = tokens.bits(&[3, 5]).unwrap();
    let whole = random.with_rows(3).bits(&[3 * 4, 5]).unwrap();
    let got = draw(&Compiled::new(&[&packed, &whole], 1), 42, 1, 6);
    for (token, place) in [1, 3, 8].into_iter().enumerate() {
        let reference = |second: u32| {
            let (row, first) = (6 + place / 4, place % 4);
            let place = Place { site: 0, row, block: None, first, second };
            f64::from(reference_bits(42, 1, place))
        };
        assert_eq!(got[0][token * 5..][..5], (0..5).map(reference).collect::<Numbers>());
    }
    assert_ne!(got[0][..5], got[1][5..10], "another site draws other bits");
}

#[test]
fn a_core_draws_its_rows_of_the_global_batch() {
    let (_, whole) = random();
    let whole = draw(&Compiled::new(&[&whole.bits(&[6, 7]).unwrap()], 1), 3, 5, 0).remove(0);
    let (_, part) = random();
    let part = Compiled::new(&[&part.bits(&[2, 7]).unwrap()], 1);
    for core in 0..3u32 {
        let rows = draw(&part, 3, 5, core * 2).remove(0);
        assert_eq!(rows, whole[core as usize * 14..][..14]);
    }
}

#[test]
fn flattened_rows_draw_what_rows_draw() {
    let (_, rows) = random();
    let rows = draw(&Compiled::new(&[&rows.bits(&[2, 3, 5]).unwrap()], 1), 42, 1, 6);
    let (_, flat) = random();
    let flat = flat.with_rows(2).bits(&[6, 5]).unwrap();
    assert_eq!(draw(&Compiled::new(&[&flat], 1), 42, 1, 6), rows);
}

#[test]
fn dropout_keeps_and_scales() {
    let (trace, random) = random();
    let ones = trace.full(1.0, Shape::new(DType::F32, [100, 100])).unwrap();
    let compiled = Compiled::new(&[&ones.dropout(0.1, &random).unwrap()], 1);
    let values = draw(&compiled, 42, 0, 0).remove(0);
    let kept = values.iter().filter(|&&value| value != 0.0).count();
    assert!(values.iter().all(|&v| v == 0.0 || (v - 1.0 / 0.9).abs() < 1e-6));
    assert!((kept as f64 - 9000.0).abs() < 4.0 * 30.0, "{kept} of 10000 kept at rate 0.1");
    assert!(ones.dropout(1.0, &random).is_err());
    assert!(ones.dropout(-0.1, &random).is_err());
}

/// Each row of its own seed: a place is the largest with the probability that softmax gives it.
#[test]
fn noise_draws_by_the_shares_of_logits() {
    const TOKENS: usize = 4000;
    const SHARES: [f64; 4] = [0.5, 0.25, 0.2, 0.05];
    let trace = Trace::new();
    let tokens = trace.iota(DType::U32, &[TOKENS], 0).unwrap();
    let random = Random::of_seeds(&tokens, &tokens.mul_scalar(3.0).unwrap()).unwrap();
    let logits = trace.constant(DType::F32, &[1, 4], &SHARES.map(f64::ln)).unwrap();
    let noisy = random.gumbel(&[TOKENS, 4]).unwrap().add(&logits).unwrap();
    let drawn = noisy.argmax(1).unwrap().convert(DType::F32).unwrap();
    let drawn = Compiled::new(&[&drawn], 1).run(&[Vec::new()]).remove(0).remove(0);
    for (place, share) in SHARES.into_iter().enumerate() {
        let count = drawn.iter().filter(|&&it| it == place as f64).count() as f64;
        let (mean, deviation) = (share * 4000.0, (4000.0 * share * (1.0 - share)).sqrt());
        assert!((count - mean).abs() < 4.0 * deviation, "{count} of {TOKENS} with share {share}");
    }
}

#[test]
fn bits_are_balanced_and_uniform() {
    for (seed, step, site) in [(0, 0, 0), (42, 1, 0), (42, 0, 1), (43, 0, 0), (u32::MAX, 9, 25)] {
        let draws: Vec<u32> = (0..COUNT).map(stream(seed, step, site, 0)).collect();
        let mean =
            draws.iter().map(|&x| f64::from(x)).sum::<f64>() / f64::from(COUNT) / 2f64.powi(32);
        assert!((mean - 0.5).abs() < 5.0 * 0.289 / 256.0, "mean {mean}");
        for bit in 0..32 {
            let ones = draws.iter().filter(|&&x| x >> bit & 1 == 1).count() as f64;
            let deviation = (ones - f64::from(COUNT / 2)) / 128.0;
            assert!(deviation.abs() < 5.0, "bit {bit} is set {ones} times of {COUNT}");
        }
        let chi_square = chi_square_of_top_byte(&draws);
        assert!((150.0..380.0).contains(&chi_square), "chi square {chi_square} of 255 degrees");
    }
}

fn chi_square_of_top_byte(draws: &[u32]) -> f64 {
    let mut counts = [0.0; 256];
    for draw in draws {
        counts[(draw >> 24) as usize] += 1.0;
    }
    let expected = draws.len() as f64 / 256.0;
    counts.iter().map(|count| (count - expected).powi(2) / expected).sum()
}

/// The bits of one row: places of 256 features each.
fn stream(seed: u32, step: u32, site: u32, row: u32) -> impl Fn(u32) -> u32 {
    move |index| {
        let (first, second) = (index / 256, index % 256);
        reference_bits(seed, step, Place { site, row, block: None, first, second })
    }
}

/// Neighbouring elements, rows, sites, steps and seeds: the difference in each bit
/// is a fair coin, and so is it against every small shift of the other.
#[test]
fn streams_are_independent() {
    let base = stream(42, 10, 3, 0);
    let others = [
        stream(42, 10, 4, 0),
        stream(42, 11, 3, 0),
        stream(43, 10, 3, 0),
        stream(42, 3, 10, 0),
        stream(42, 10, 3, 1),
        stream(42, 10, 0, 3),
    ];
    for (number, other) in others.iter().enumerate() {
        for shift in 0..4 {
            check_coins(|i| base(i) ^ other(i + shift), &format!("stream {number}, shift {shift}"));
        }
    }
    for distance in [1, 2, 384, 1536] {
        check_coins(|i| base(i) ^ base(i + distance), &format!("distance {distance}"));
    }
}

fn check_coins(difference: impl Fn(u32) -> u32, what: &str) {
    let mut ones = [0u32; 32];
    for index in 0..COUNT {
        let bits = difference(index);
        for (bit, count) in ones.iter_mut().enumerate() {
            *count += bits >> bit & 1;
        }
    }
    for (bit, count) in ones.iter().enumerate() {
        let deviation = (f64::from(*count) - f64::from(COUNT / 2)) / 128.0;
        assert!(deviation.abs() < 5.5, "{what}: bit {bit} differs {count} times of {COUNT}");
    }
}

#[test]
fn known_answers_are_found_on_the_device() {
    assert!(traind_xla::runtime::random_bits_are_exact(&crate::evaluator::CLIENT).unwrap());
}
