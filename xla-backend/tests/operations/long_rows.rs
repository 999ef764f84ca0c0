//! Attention over long rows without kernels, in blocks of queries, against the same without blocks.

use traind_xla::autodiff::gradients;
use traind_xla::ops::{AttentionSpec, DotDims, LONG_ROW, Random, VisibleKeys};
use traind_xla::{DType, Result, Shape, Tensor, Trace};

use crate::evaluator::{Compiled, Numbers, spread_numbers};

const ROWS: usize = 2;
const HEADS: usize = 4;
const HEAD_SIZE: usize = 4;
const SCALE: f64 = 0.4;

/// Attention of one kind over rows of so many positions.
#[derive(Clone, Copy)]
struct Case {
    positions: usize,
    key_heads: usize,
    is_causal: bool,
    dropout: f64,
    dtype: DType,
}

impl Case {
    fn of(positions: usize) -> Case {
        Case { positions, key_heads: HEADS, is_causal: true, dropout: 0.0, dtype: DType::F32 }
    }

    fn sizes(self) -> [usize; 3] {
        [HEADS, self.key_heads, self.key_heads]
            .map(|heads| ROWS * self.positions * heads * HEAD_SIZE)
    }

    /// The sum of the squares of the output, the output, and the gradients of queries, keys and values.
    fn compile(self, attention: impl Fn(Case, &Trace, &[Tensor]) -> Result<Tensor>) -> Compiled {
        let trace = Trace::new();
        let parameter = |heads: usize| {
            let shape = Shape::new(self.wide(), [ROWS * self.positions, heads * HEAD_SIZE]);
            trace.parameter("", shape).unwrap()
        };
        let inputs = [HEADS, self.key_heads, self.key_heads].map(parameter);
        let operands = inputs.each_ref().map(|input| input.convert(self.dtype).unwrap());
        let output = attention(self, &trace, &operands).unwrap().convert(self.wide()).unwrap();
        let loss = output.mul(&output).unwrap().sum(&[0, 1]).unwrap();
        let gradients = gradients(&loss, &inputs.each_ref()).unwrap();
        let outputs = [&loss, &output].into_iter().chain(&gradients);
        Compiled::new(&outputs.collect::<Vec<_>>(), 1)
    }

    fn random(self, trace: &Trace) -> Result<Random> {
        let scalar = |n: f64| trace.scalar(n, DType::U32);
        let random = Random::new(&scalar(5.0)?, &scalar(9.0)?, &scalar(3.0)?)?.with_rows(ROWS);
        // The site is not the first one.
        random.bits(&[ROWS, 2])?;
        Ok(random)
    }

    /// The type of arguments and results.
    fn wide(self) -> DType {
        if self.dtype == DType::F64 { DType::F64 } else { DType::F32 }
    }

    fn arguments(self) -> Vec<Numbers> {
        let numbers = |(seed, &size): (usize, &usize)| spread_numbers(size, seed, -1.9, 2.1);
        self.sizes().iter().enumerate().map(numbers).collect()
    }

    /// Hides the last three keys of the second row: f32[B, 1, 1, S].
    fn padding(self, trace: &Trace) -> Result<Tensor> {
        let place = trace.iota(DType::S32, &[ROWS * self.positions], 0)?;
        let hidden = place.gt_scalar((ROWS * self.positions - 4) as f64)?;
        let mask = hidden.select(&hidden_score(trace)?, &trace.scalar(0.0, DType::F32)?)?;
        mask.reshape(&[ROWS, 1, 1, self.positions])
    }

    /// The first key of each query: of a window of 600 keys, and of the text that begins at token 700.
    fn starts(self, trace: &Trace) -> Result<Tensor> {
        let query = trace.iota(DType::S32, &[ROWS, self.positions], 1)?;
        let of_text = query.gt_scalar(699.0)?;
        let of_text =
            of_text.select(&trace.scalar(700.0, DType::S32)?, &trace.scalar(0.0, DType::S32)?)?;
        query.sub_scalar(599.0)?.maximum(&of_text)
    }

    /// Limits of differences relative to the largest number.
    fn tolerance(self) -> f64 {
        // Sums of up to 1,100 terms in another order, and products rounded to eight bits.
        if self.dtype == DType::F32 { 5e-6 } else { 2e-2 }
    }
}

fn in_blocks(case: Case, trace: &Trace, x: &[Tensor]) -> Result<Tensor> {
    let mask = case.padding(trace)?;
    let starts = case.starts(trace)?;
    let visible =
        VisibleKeys { mask: &mask, starts: case.is_causal.then_some(&starts), packed: None };
    let spec = AttentionSpec { num_heads: HEADS, scale: SCALE, dropout: case.dropout };
    x[0].attention(&x[1], &x[2], visible, spec, Some(&case.random(trace)?))
}

/// Computes attention in one piece, as layers compute short rows.
fn at_once(case: Case, trace: &Trace, x: &[Tensor]) -> Result<Tensor> {
    let positions = case.positions;
    let split = |x: &Tensor, heads: usize| {
        let apart = x.reshape(&[ROWS, positions, heads, 1, HEAD_SIZE])?;
        apart
            .broadcast_to(&[ROWS, positions, heads, HEADS / heads, HEAD_SIZE])?
            .reshape(&[ROWS, positions, HEADS, HEAD_SIZE])
    };
    let (query, key) = (split(&x[0], HEADS)?, split(&x[1], case.key_heads)?);
    let value = split(&x[2], case.key_heads)?;
    let dims = |rhs_axis: usize, lhs_batch: [usize; 2]| DotDims {
        lhs_batch: lhs_batch.to_vec(),
        rhs_batch: vec![0, 2],
        lhs_contracting: vec![3],
        rhs_contracting: vec![rhs_axis],
    };
    let scores = query.dot_general(&key, dims(3, [0, 2]))?.convert(DType::F32)?;
    let mut scores = scores.mul_scalar(SCALE)?.add(&case.padding(trace)?)?;
    if case.is_causal {
        let square = [ROWS, 1, positions, positions];
        let (query, key) =
            (trace.iota(DType::S32, &square, 2)?, trace.iota(DType::S32, &square, 3)?);
        let start = case.starts(trace)?.reshape(&[ROWS, 1, positions, 1])?.broadcast_to(&square)?;
        let visible = key.le(&query)?.and(&start.le(&key)?)?.broadcast_to(scores.dims())?;
        scores = visible.select(&scores, &hidden_score(trace)?)?;
    }
    let shares = scores.softmax(3)?.dropout(case.dropout, &case.random(trace)?)?;
    let output = shares.convert(case.dtype)?.dot_general(&value, dims(1, [0, 1]))?;
    output.swap_axes(1, 2)?.reshape(&[ROWS * positions, HEADS * HEAD_SIZE])
}

/// A score whose share is zero.
fn hidden_score(trace: &Trace) -> Result<Tensor> {
    trace.scalar(f64::from(f32::MIN), DType::F32)
}

fn check(case: Case) {
    let arguments = case.arguments();
    let blocks = case.compile(in_blocks).run(std::slice::from_ref(&arguments)).remove(0);
    let whole = case.compile(at_once).run(&[arguments]).remove(0);
    for (place, (got, expected)) in blocks.iter().zip(&whole).enumerate() {
        let largest = expected.iter().fold(1.0, |most: f64, x| most.max(x.abs()));
        for (got, expected) in got.iter().zip(expected) {
            let off = (got - expected).abs();
            assert!(off <= case.tolerance() * largest, "output {place}: {got}, at once {expected}");
        }
    }
}

#[test]
fn blocks_give_what_the_whole_row_gives() {
    const { assert!(LONG_ROW <= 1100) };
    // The last block is not full.
    check(Case { is_causal: false, dropout: 0.1, ..Case::of(1100) });
    check(Case { key_heads: 2, dropout: 0.2, ..Case::of(1100) });
    check(Case { key_heads: 1, dtype: DType::BF16, ..Case::of(1100) });
}

/// Along one direction of all operands.
#[test]
fn gradients_of_blocks_are_those_of_finite_differences() {
    const STEP: f64 = 1e-5;
    let case = Case { key_heads: 2, dropout: 0.1, dtype: DType::F64, ..Case::of(1100) };
    let program = case.compile(in_blocks);
    let at = case.arguments();
    let direction: Vec<Numbers> =
        case.sizes().map(|size| spread_numbers(size, 11, -1.0, 1.0)).into();
    let loss = |step: f64| {
        let moved = |(at, along): (&Numbers, &Numbers)| {
            at.iter().zip(along).map(|(at, along)| at + step * along).collect::<Numbers>()
        };
        program.run(&[at.iter().zip(&direction).map(moved).collect()])[0][0][0]
    };
    let expected = (loss(STEP) - loss(-STEP)) / (2.0 * STEP);
    let gradients = program.run(std::slice::from_ref(&at)).remove(0).split_off(2);
    let products = gradients.iter().flatten().zip(direction.iter().flatten());
    let found: f64 = products.map(|(gradient, along)| gradient * along).sum();
    assert!((found - expected).abs() <= 1e-6 * expected.abs(), "{found} for {expected}");
}

/// The compiler's allocations grow with the length, and not with its square.
#[test]
fn memory_grows_with_the_length() {
    let bytes = |positions| {
        let case = Case { key_heads: 2, ..Case::of(positions) };
        case.compile(in_blocks).memory().temp_bytes
    };
    let [short, long] = [1024, 4096].map(bytes);
    assert!(long < 5 * short, "{short} bytes became {long} for rows four times as long");
}
