//! Whether a device computes what dropout, masking and initialization depend on: products, sums and comparisons of
//! 32-bit integers, exactly. Some devices compute integers in float32, exact up to 2²⁴ alone.

mod cores;
mod traits;

use traind_pjrt::{Client, ExecuteOptions};

use super::Compiler;
use super::platform::forms;
use crate::error::Result;
use crate::graph::{DType, Shape};
use crate::ops::Random;
use crate::ops::random::{Place, reference_bits};
use crate::stablehlo::{Lowering, Output, lower};
use crate::tensor::{Tensor, Trace};

pub use cores::{CoreAnswer, test_cores};

const SEED: u32 = 0xdead_beef;
const STEP: u32 = 123_456_789;
const ROW_OFFSET: u32 = 1 << 30;
/// Batch rows, and places of each.
const DIMS: [usize; 3] = [2, 4, 8];
/// Above what float32 counts exactly.
const THRESHOLD: u32 = 0xe666_6666;

/// Compares random bits, and which of them are below a threshold, with what this processor computes.
pub fn random_bits_are_exact(client: &Client) -> Result<bool> {
    bits_are_exact(&Compiler::for_first_device(client, None)?, false)
}

/// Compares random bits in programs that compute integers by parts, if `splits_integers`.
fn bits_are_exact(compiler: &Compiler, splits_integers: bool) -> Result<bool> {
    let client = compiler.cores().client();
    let trace = Trace::new();
    let bits = random_bits(&trace, &DIMS)?;
    let is_below = bits.lt_scalar(THRESHOLD.into())?.convert(DType::U32)?;
    let outputs = [&bits, &is_below].map(|it| Output::new(it.node()));
    let forms = forms(client.platform_name());
    let lowering = Lowering { forms, splits_integers, ..Lowering::default() };
    let program = lower(&trace.graph(), "known_answers", &outputs, 1, lowering);
    let (executable, _) = compiler.compile(&program)?;
    let device = compiler.cores().device(0);
    let argument = |value: u32| client.buffer_from_slice(&[value], &[], device);
    let [seed, step, row] = [argument(SEED)?, argument(STEP)?, argument(ROW_OFFSET)?];
    let results = executable.execute(&[[&seed, &step, &row]], &ExecuteOptions::default())?;
    let buffers = results.first().map(|of_device| &of_device.buffers[..]);
    let Some([bits, is_below]) = buffers else { return Ok(false) };
    let expected = expected(DIMS, ROW_OFFSET);
    let below: Vec<u32> = expected.iter().map(|bits| u32::from(*bits < THRESHOLD)).collect();
    Ok(bits.to_vec::<u32>()? == expected && is_below.to_vec::<u32>()? == below)
}

/// Random bits by the seed, the step and the first batch row, which the program is given in this order.
fn random_bits(trace: &Trace, dims: &[usize]) -> Result<Tensor> {
    let scalar = |name: &str| trace.parameter(name, Shape::scalar(DType::U32));
    Random::new(&scalar("seed")?, &scalar("step")?, &scalar("row_offset")?)?.bits(dims)
}

/// The bits of a program of dropout, for batch rows from `row_offset` on, as this processor computes them.
fn expected(dims: [usize; 3], row_offset: u32) -> Vec<u32> {
    let [rows, firsts, seconds] = dims.map(|dim| dim as u32);
    let places = (0..rows).flat_map(|row| {
        (0..firsts).flat_map(move |first| (0..seconds).map(move |second| (row, first, second)))
    });
    let bits = places.map(|(row, first, second)| {
        let at = Place { site: 0, row: row_offset + row, block: None, first, second };
        reference_bits(SEED, STEP, at)
    });
    bits.collect()
}
