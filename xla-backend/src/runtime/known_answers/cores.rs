//! Tests the cores of a host by programs whose results are known to the bit: integers, a matrix product of whole
//! numbers, and a collective where there are several cores.

use std::sync::Arc;
use std::time::Instant;

use traind_pjrt::{Buffer, Client, Device, Element, Executable, ExecuteOptions};

use super::{SEED, STEP, expected, random_bits};
use crate::error::Result;
use crate::graph::{DType, Shape};
use crate::mesh::Mesh;
use crate::runtime::platform::forms;
use crate::runtime::{Compiler, DeviceTraits, ExecutableCache, LocalCores};
use crate::stablehlo::{Lowering, Output, lower};
use crate::tensor::{Tensor, Trace};

/// Rows and places of the integers.
const INTEGERS: [usize; 3] = [4, 64, 64];
/// The factors are `[M, K]` and `[K, N]`.
const M: usize = 128;
const K: usize = 512;
const N: usize = 256;
/// Factors are whole numbers up to this, which all types of products hold. Their sums are below 2²⁴, so that float32
/// holds them in whatever order they are added.
const FACTOR_MAX: i32 = 8;
/// Launches of a product, since a fault need not show in each.
const LAUNCHES: usize = 16;
/// Numbers that each core sends in the collective.
const SENT: usize = 1024;

/// How a core answered.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CoreAnswer {
    /// The results that were wrong, in words.
    pub problem: Option<String>,
    /// The median time of a matrix product, from its launch until the core has finished.
    pub seconds: f64,
}

/// Tests the first `count` cores of a client, all of them at once, by programs that are read from `cache` where it has
/// them. `spoilt`: the place of a core that gets a wrong factor, for tests of this test.
pub fn test_cores(
    client: &Client,
    count: usize,
    cache: Option<&ExecutableCache>,
    spoilt: Option<usize>,
) -> Result<Vec<CoreAnswer>> {
    let DeviceTraits { splits_integers, .. } = DeviceTraits::of(client, cache)?;
    let cores = LocalCores::of_host(client.clone(), Mesh::data_parallel(count)?)?;
    let compiler = Compiler::new(cores, cache.cloned());
    let cores = Cores { compiler, splits_integers, spoilt };
    let mut answers = vec![CoreAnswer::default(); count];
    cores.test_integers(&mut answers)?;
    cores.test_product(&mut answers)?;
    if count > 1 {
        cores.test_collective(&mut answers)?;
    }
    Ok(answers)
}

struct Cores {
    compiler: Compiler,
    splits_integers: bool,
    spoilt: Option<usize>,
}

/// The results of one launch on one device.
struct Launched {
    buffers: Vec<Buffer>,
    seconds: f64,
}

impl Cores {
    /// Sums, products, shifts and comparisons of integers, as random numbers are made of them.
    fn test_integers(&self, answers: &mut [CoreAnswer]) -> Result<()> {
        let trace = Trace::new();
        let program = self.compile(&trace, "integers", &random_bits(&trace, &INTEGERS)?)?;
        let arguments = self.arguments(|_, device| {
            let argument = |value: u32| self.client().buffer_from_slice(&[value], &[], device);
            Ok(vec![argument(SEED)?, argument(STEP)?, argument(0)?])
        })?;
        let expected = expected(INTEGERS, 0);
        for (answer, launched) in answers.iter_mut().zip(launch(&program, &arguments)?) {
            answer.note(compare("integers", &launched.buffers, &expected)?);
        }
        Ok(())
    }

    fn test_product(&self, answers: &mut [CoreAnswer]) -> Result<()> {
        let trace = Trace::new();
        let left = trace.parameter("left", Shape::new(DType::F32, [M, K]))?;
        let right = trace.parameter("right", Shape::new(DType::F32, [K, N]))?;
        let program = self.compile(&trace, "product", &left.matmul(&right)?)?;
        let (left, right) = (factor(M * K, 1), factor(K * N, 2));
        let expected = product(&left, &right);
        let arguments = self.arguments(|number, device| {
            let mut left = left.clone();
            if self.spoilt == Some(number) {
                left[0] += 1.0;
            }
            let left = self.client().buffer_from_slice(&left, &[M, K], device)?;
            Ok(vec![left, self.client().buffer_from_slice(&right, &[K, N], device)?])
        })?;
        let mut seconds = vec![Vec::with_capacity(LAUNCHES); answers.len()];
        for _ in 0..LAUNCHES {
            for (number, launched) in launch(&program, &arguments)?.iter().enumerate() {
                seconds[number].push(launched.seconds);
                answers[number].note(compare("matrix product", &launched.buffers, &expected)?);
            }
        }
        for (answer, mut seconds) in answers.iter_mut().zip(seconds) {
            seconds.sort_by(f64::total_cmp);
            answer.seconds = seconds[LAUNCHES / 2];
        }
        Ok(())
    }

    /// Each core sends numbers to all. Where several receive a core's numbers wrongly, that core is to blame, and
    /// otherwise both ends are.
    fn test_collective(&self, answers: &mut [CoreAnswer]) -> Result<()> {
        let count = self.compiler.cores().len();
        let trace = Trace::new();
        let sent = trace.parameter("sent", Shape::new(DType::F32, [SENT]))?;
        let gathered = sent.all_gather(0, &[(0..count).collect()])?;
        let program = self.compile(&trace, "collective", &gathered)?;
        let sent: Vec<Vec<f32>> = (0..count).map(|core| factor(SENT, core as u32 + 3)).collect();
        let arguments = self.arguments(|core, device| {
            Ok(vec![self.client().buffer_from_slice(&sent[core], &[SENT], device)?])
        })?;
        let mut wrong = Vec::new();
        for (receiver, launched) in launch(&program, &arguments)?.iter().enumerate() {
            let received = values::<f32>(&launched.buffers)?;
            let parts = received.chunks(SENT).zip(&sent).enumerate();
            let differs = parts.filter(|(_, (part, sent))| *part != sent.as_slice());
            wrong.extend(differs.map(|(sender, _)| (sender, receiver)));
        }
        for core in blamed(&wrong) {
            answers[core].note(Some("collective: others received wrong numbers".to_owned()));
        }
        Ok(())
    }

    fn client(&self) -> &Client {
        self.compiler.cores().client()
    }

    /// A program that each of the cores runs.
    fn compile(&self, trace: &Trace, name: &str, result: &Tensor) -> Result<Arc<Executable>> {
        let (forms, splits_integers) = (forms(self.client().platform_name()), self.splits_integers);
        let lowering = Lowering { forms, splits_integers, ..Lowering::default() };
        let outputs = [Output::new(result.node())];
        let program = lower(&trace.graph(), name, &outputs, self.compiler.cores().len(), lowering);
        Ok(self.compiler.compile(&program)?.0)
    }

    fn arguments(
        &self,
        of_device: impl Fn(usize, &Device) -> Result<Vec<Buffer>>,
    ) -> Result<Vec<Vec<Buffer>>> {
        let cores = self.compiler.cores();
        (0..cores.len()).map(|place| of_device(place, cores.device(place))).collect()
    }
}

impl CoreAnswer {
    /// Keeps the first problem.
    fn note(&mut self, problem: Option<String>) {
        if self.problem.is_none() {
            self.problem = problem;
        }
    }
}

/// Runs a program on all cores, and measures the time of each.
fn launch(program: &Executable, arguments: &[Vec<Buffer>]) -> Result<Vec<Launched>> {
    let start = Instant::now();
    let outputs = program.execute(arguments, &ExecuteOptions::default())?;
    let wait = |outputs: traind_pjrt::DeviceOutputs| {
        outputs.done.wait()?;
        Ok(Launched { buffers: outputs.buffers, seconds: start.elapsed().as_secs_f64() })
    };
    std::thread::scope(|scope| {
        let waiting: Vec<_> =
            outputs.into_iter().map(|outputs| scope.spawn(move || wait(outputs))).collect();
        let joined = waiting.into_iter().map(|thread| match thread.join() {
            Ok(launched) => launched,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        joined.collect()
    })
}

fn values<T: Element>(buffers: &[Buffer]) -> Result<Vec<T>> {
    Ok(buffers.first().map(Buffer::to_vec).transpose()?.unwrap_or_default())
}

/// Describes the difference from the expected result, if there is any.
fn compare<T>(what: &str, buffers: &[Buffer], expected: &[T]) -> Result<Option<String>>
where
    T: Element + PartialEq + std::fmt::Display,
{
    let found = values::<T>(buffers)?;
    let wrong: Vec<usize> = (0..expected.len())
        .filter(|place| found.get(*place).is_none_or(|found| *found != expected[*place]))
        .collect();
    let Some(first) = wrong.first().copied() else { return Ok(None) };
    let is = found.get(first).map_or_else(|| "missing".to_owned(), |found| found.to_string());
    Ok(Some(format!(
        "{what}: {} of {} values are wrong; number {first} is {is} and should be {}",
        wrong.len(),
        expected.len(),
        expected[first]
    )))
}

/// The cores to blame, given senders and receivers of wrong numbers.
fn blamed(wrong: &[(usize, usize)]) -> Vec<usize> {
    let count = |of: fn(&(usize, usize)) -> usize, core: usize| {
        wrong.iter().filter(|pair| of(pair) == core).count()
    };
    let (sends, receives) = (|core| count(|pair| pair.0, core), |core| count(|pair| pair.1, core));
    let mut blamed: Vec<usize> = Vec::new();
    for (sender, receiver) in wrong.iter().copied() {
        let (from, to) = (sends(sender), receives(receiver));
        if from >= to {
            blamed.push(sender);
        }
        if to >= from {
            blamed.push(receiver);
        }
    }
    blamed.sort_unstable();
    blamed.dedup();
    blamed
}

/// Whole numbers from `-FACTOR_MAX` to `FACTOR_MAX` that look random.
fn factor(length: usize, seed: u32) -> Vec<f32> {
    let number = |place: usize| {
        let mixed = (place as u32 ^ seed.wrapping_mul(0x9e37_79b9)).wrapping_mul(0x85eb_ca6b);
        let span = 2 * FACTOR_MAX as u32 + 1;
        (((mixed >> 16) ^ mixed) % span) as f32 - FACTOR_MAX as f32
    };
    (0..length).map(number).collect()
}

fn product(left: &[f32], right: &[f32]) -> Vec<f32> {
    let mut product = vec![0.0; M * N];
    for (row, sums) in product.chunks_mut(N).enumerate() {
        for (factor, others) in left[row * K..(row + 1) * K].iter().zip(right.chunks(N)) {
            for (sum, other) in sums.iter_mut().zip(others) {
                *sum += factor * other;
            }
        }
    }
    product
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_are_whole_numbers_that_float32_holds() {
        assert!((FACTOR_MAX * FACTOR_MAX) as usize * K < 1 << 24);
        let (left, right) = (factor(M * K, 1), factor(K * N, 2));
        let number = |value: &f32| *value as i64;
        let last: i64 =
            (0..K).map(|at| number(&left[(M - 1) * K + at]) * number(&right[at * N])).sum();
        assert_eq!(product(&left, &right)[(M - 1) * N] as i64, last);
        let distinct: std::collections::BTreeSet<i64> = left.iter().map(number).collect();
        assert_eq!(distinct.len(), 2 * FACTOR_MAX as usize + 1);
    }

    #[test]
    fn the_core_that_most_wrong_numbers_have_in_common_is_to_blame() {
        assert_eq!(blamed(&[]), [0; 0]);
        assert_eq!(blamed(&[(2, 0), (2, 1), (2, 3)]), [2], "a sender");
        assert_eq!(blamed(&[(0, 1), (2, 1), (3, 1)]), [1], "a receiver");
        assert_eq!(blamed(&[(0, 1)]), [0, 1], "either");
    }
}
