//! The time that reductions take between processes, for predictions.
#![allow(unsafe_code)]

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use crate::abi::{COMM_WORLD, Call, Functions, Handle, Operands};
use crate::collective::{Reduction, datatype};
use crate::error::{Error, Result};
use crate::process::Process;
use crate::world::claim;

/// Reductions of one number, and how many of them are timed together.
const SMALL_RUNS: usize = 40;
const SMALL_RUN: usize = 50;
/// Numbers of a large reduction: as many as compilers combine into one.
const LARGE_NUMBERS: usize = 8 << 20;
const LARGE_RUNS: usize = 6;
/// The time for the runs of one size on a busy host, where a reduction may wait for its processes' turns.
const TIME: Duration = Duration::from_secs(2);

/// The time of a reduction between two processes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// Seconds of a reduction of one number.
    pub latency_seconds: f64,
    /// Bytes that each process sends in a second while large reductions run.
    pub bytes_per_second: f64,
}

impl Cost {
    /// Joins the other processes, as [`World::start`](crate::World::start) does, and measures for about a second, or a
    /// few on a busy host. All of them call this, and none can start a world.
    pub fn measure(library: &Path, mut process: Process) -> Result<Cost> {
        let functions = claim(library)?;
        process.announce();
        functions.start()?;
        let communicator = functions.communicator(COMM_WORLD)?;
        let mut reductions = Reductions { functions: &functions, communicator };
        let small = reductions.shortest(1, SMALL_RUN, SMALL_RUNS)?;
        let large = reductions.shortest(LARGE_NUMBERS, 1, LARGE_RUNS)?;
        functions.finish()?;
        let others = (process.size.max(2) - 1) as f64 / process.size.max(2) as f64;
        let sent = 2.0 * others * (LARGE_NUMBERS * size_of::<f32>()) as f64;
        let bytes_per_second = sent / large.saturating_sub(small).as_secs_f64().max(f64::EPSILON);
        Ok(Cost { latency_seconds: small.as_secs_f64(), bytes_per_second })
    }
}

struct Reductions<'a> {
    functions: &'a Functions,
    communicator: Handle,
}

impl Reductions<'_> {
    /// The time of a reduction of so many numbers: the shortest of at most `runs`, each of `run` reductions, since
    /// other processes of the host can only lengthen them.
    fn shortest(&mut self, numbers: usize, run: usize, runs: usize) -> Result<Duration> {
        let (from, mut to) = (vec![1.0_f32; numbers], vec![0.0_f32; numbers]);
        let (begun, mut shortest) = (Instant::now(), Duration::MAX);
        for _ in 0..runs {
            let start = Instant::now();
            for _ in 0..run {
                self.reduce(&from, &mut to)?;
            }
            shortest = shortest.min(start.elapsed() / run as u32);
            if self.any(begun.elapsed() > TIME)? {
                break;
            }
        }
        Ok(shortest)
    }

    /// Whether the condition holds in any of the processes, which all call this.
    fn any(&mut self, condition: bool) -> Result<bool> {
        let mut count = [0.0];
        self.reduce(&[f32::from(u8::from(condition))], &mut count)?;
        Ok(count[0] > 0.0)
    }

    /// Reduces as the engine does.
    fn reduce(&mut self, from: &[f32], to: &mut [f32]) -> Result<()> {
        let datatype = datatype(traind_pjrt::DType::F32)
            .ok_or_else(|| Error::Call { call: "MPI_Iallreduce", message: String::new() })?;
        let operands = Operands {
            from: from.as_ptr().cast(),
            to: to.as_mut_ptr().cast(),
            count: from.len(),
            datatype,
        };
        let call = Call::AllReduce { operation: Reduction::Sum.handle() };
        // SAFETY: both slices hold `count` numbers, are apart, and are borrowed until the request is complete: an
        // error too ends its use of the memory.
        let mut request = unsafe { self.functions.begin(call, &operands, self.communicator) }?;
        while !self.functions.is_complete(&mut request)? {
            thread::yield_now();
        }
        Ok(())
    }
}
