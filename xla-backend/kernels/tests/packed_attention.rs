//! Attention of packed rows against that of padded ones, whose padding a mask hides.

mod support;

use std::ops::Range;

use support::{Numbers, check_close};
use traind_kernels::attention::{self, Cotangent, Dims, Operands};
use traind_kernels::hash::Dropout;

/// Rows of tokens at `spans` of their positions.
struct Case {
    dims: Dims,
    spans: Vec<Range<usize>>,
    /// The tokens of packed rows: some more than there are.
    count: usize,
    mask: Vec<f32>,
    starts: Option<Vec<i32>>,
    keys: Vec<u32>,
    dropout: Option<Dropout>,
    /// Query, key, value, and the cotangent of the output, padded.
    tensors: [Vec<f32>; 4],
}

impl Case {
    fn random(numbers: &mut Numbers) -> Case {
        let positions = [1, 5, 17, 48, 130, 200][numbers.below(6)];
        let key_heads = 1 + numbers.below(2);
        let dims = Dims {
            rows: 1 + numbers.below(4),
            positions,
            heads: key_heads * (1 + numbers.below(2)),
            key_heads,
            head_size: [4, 8, 21][numbers.below(3)],
            mask_queries: [1, positions][numbers.below(2)],
        };
        let places = dims.rows * positions;
        let spans = (0..dims.rows).map(|_| {
            let start = [0, numbers.below(positions + 1)][numbers.below(2)];
            start..start + numbers.below(positions + 1 - start)
        });
        let spans: Vec<Range<usize>> = spans.collect();
        let start = |numbers: &mut Numbers| numbers.below(positions + 3) as i32 - 2;
        let starts = (0..places).map(|_| start(numbers)).collect();
        let [of_queries, of_keys] = [dims.heads, key_heads].map(|it| places * it * dims.head_size);
        let keys = (0..2 * dims.rows * dims.heads).map(|_| numbers.next() as u32).collect();
        Case {
            mask: mask(&dims, &spans, numbers),
            count: spans.iter().map(Range::len).sum::<usize>() + numbers.below(3),
            starts: (numbers.below(2) == 0).then_some(starts),
            keys,
            dropout: (numbers.below(2) == 0).then(|| Dropout::new(0.3)),
            tensors: [of_queries, of_keys, of_keys, of_queries].map(|count| numbers.floats(count)),
            dims,
            spans,
        }
    }

    /// The padded place of each token.
    fn places(&self) -> impl Iterator<Item = usize> {
        let places = |(row, span): (usize, &Range<usize>)| {
            let first = row * self.dims.positions;
            first + span.start..first + span.end
        };
        self.spans.iter().enumerate().flat_map(places)
    }

    /// The rows of the tokens in `padded`, and then `count` rows in all.
    fn packed(&self, padded: &[f32], behind: f32) -> Vec<f32> {
        let width = padded.len() / (self.dims.rows * self.dims.positions);
        let rows = self.places().flat_map(|place| &padded[place * width..][..width]);
        let mut packed: Vec<f32> = rows.copied().collect();
        packed.resize(self.count * width, behind);
        packed
    }

    fn tokens(&self) -> Vec<i32> {
        let mut tokens = vec![self.count as i32; self.dims.rows * self.dims.positions];
        for (token, place) in self.places().enumerate() {
            tokens[place] = token as i32;
        }
        tokens
    }

    /// Output and gradients of these queries, keys, values and cotangent.
    fn run(&self, tensors: &[Vec<f32>; 4], tokens: Option<&[i32]>) -> [Vec<f32>; 4] {
        let [query, key, value, cotangent] = tensors;
        let operands = Operands {
            dims: self.dims,
            query,
            key,
            value,
            mask: &self.mask,
            starts: self.starts.as_deref(),
            tokens,
            scale: 0.6,
            dropout: self.dropout.map(|dropout| (dropout, &self.keys[..])),
        };
        let empty = |of: usize| vec![f32::NAN; tensors[of].len()];
        let mut statistics = vec![f32::NAN; attention::statistics_len(&self.dims)];
        let [mut output, mut to_query, mut to_key, mut to_value] = [0, 0, 1, 2].map(empty);
        attention::forward(&operands, &mut output, &mut statistics);
        assert!(statistics.iter().all(|x| x.is_finite()));
        let at = Cotangent { output: &output, statistics: &statistics, cotangent };
        attention::backward(&operands, &at, [&mut to_query, &mut to_key, &mut to_value]);
        [output, to_query, to_key, to_value]
    }

    fn check(&self) {
        let mut padded = self.tensors.clone();
        // Nothing flows into padding.
        let width = self.dims.heads * self.dims.head_size;
        let tokens = self.tokens();
        for (row, token) in padded[3].chunks_mut(width).zip(&tokens) {
            if *token == self.count as i32 {
                row.fill(0.0);
            }
        }
        let packed = self.tensors.each_ref().map(|x| self.packed(x, 7.0));
        let [expected, got] = [self.run(&padded, None), self.run(&packed, Some(&tokens))];
        let names = ["output", "query", "key", "value"];
        for ((name, expected), got) in names.into_iter().zip(expected).zip(got) {
            let expected = self.packed(&expected, 0.0).into_iter().map(f64::from);
            let expected: Vec<f64> = expected.collect();
            let what = format!("{name} of {:?} in {:?}", self.spans, self.dims);
            check_close(&what, &got, &expected, 2e-6);
        }
    }
}

/// Hides padding and, where each query has a mask of its own, some keys, but none from the query at its position.
fn mask(dims: &Dims, spans: &[Range<usize>], numbers: &mut Numbers) -> Vec<f32> {
    let mut mask = numbers.floats(dims.rows * dims.mask_queries * dims.positions);
    for (index, mask) in mask.iter_mut().enumerate() {
        let (query, key) = (index / dims.positions % dims.mask_queries, index % dims.positions);
        let span = &spans[index / dims.positions / dims.mask_queries];
        let may_hide = dims.mask_queries > 1 && query != key;
        if !span.contains(&key) || may_hide && numbers.below(4) == 0 {
            *mask = f32::MIN;
        }
    }
    mask
}

#[test]
fn packed_rows_have_the_results_of_padded_ones() {
    let mut numbers = Numbers(11);
    for _ in 0..60 {
        Case::random(&mut numbers).check();
    }
}

#[test]
fn keys_at_the_ends_of_packed_rows_may_be_hidden() {
    let mut numbers = Numbers(12);
    let dims =
        Dims { rows: 2, positions: 9, heads: 2, key_heads: 2, head_size: 4, mask_queries: 1 };
    let mut case =
        Case { dims, starts: None, spans: vec![0..7, 1..6], ..Case::random(&mut numbers) };
    case.mask = mask(&dims, &case.spans, &mut numbers);
    [case.mask[0], case.mask[6], case.mask[14]] = [f32::MIN; 3];
    case.count = 13;
    case.keys = (0..8).collect();
    case.tensors = std::array::from_fn(|_| numbers.floats(2 * 9 * 8));
    case.check();
}

#[test]
#[should_panic(expected = "the tokens of row 1 stand apart or before others")]
fn tokens_of_a_row_stand_one_behind_the_other() {
    let mut numbers = Numbers(13);
    let dims =
        Dims { rows: 2, positions: 3, heads: 1, key_heads: 1, head_size: 4, mask_queries: 1 };
    let tensors = std::array::from_fn(|_| numbers.floats(6 * 4));
    let (spans, mask) = (vec![0..3, 0..3], vec![0.0; 6]);
    let case =
        Case { dims, spans, mask, starts: None, dropout: None, ..Case::random(&mut numbers) };
    case.run(&tensors, Some(&[0, 1, 2, 3, 5, 4]));
}
