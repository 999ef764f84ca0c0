//! The outcome of an execution that asks for no events of completion: a plugin refuses it, forgets to free the events,
//! or simply works.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use traind_pjrt::{Buffer, Client, CompileOptions, Executable, ExecuteOptions};

use super::{SUM, VALUES};

/// How long executions are repeated, with events and without.
const PERIOD: Duration = Duration::from_millis(500);
/// The fewest executions, however long they take.
const EXECUTIONS_MIN: usize = 32;
/// Executions before memory is compared, in which the process reaches its size.
const FIRST: usize = 16;
/// Memory that an execution leaves behind, as an event at least needs, in bytes.
const LEAK_BYTES: f64 = 96.0;
/// Less than this may be the allocator's, in bytes.
const GROWTH_BYTES: u64 = 1 << 20;

/// Says whether such an execution `works` or `leaks`, or else its error.
pub(super) fn answer(client: &Client) -> anyhow::Result<String> {
    let sum = client.compile(SUM, &CompileOptions::default())?;
    let device = sum.devices().next().context("find the program's device")?;
    let argument = client.buffer_from_slice(&VALUES, &[VALUES.len()], &device)?;
    let watched = |sum: &Executable| -> anyhow::Result<Vec<Buffer>> {
        let outputs = sum.execute(&[[&argument]], &ExecuteOptions::default())?;
        Ok(outputs.into_iter().flat_map(|outputs| outputs.buffers).collect())
    };
    let unwatched = |sum: &Executable| -> anyhow::Result<Vec<Buffer>> {
        Ok(sum.execute_without_events(&[[&argument]])?.into_iter().flatten().collect())
    };
    if let Err(error) = unwatched(&sum) {
        return Ok(error.to_string());
    }
    let usual = growth(&sum, watched)?;
    let found = growth(&sum, unwatched)?;
    Ok(if found > usual + LEAK_BYTES { "leaks" } else { "works" }.to_owned())
}

/// The bytes by which this process grows with an execution.
fn growth(
    sum: &Executable,
    execute: impl Fn(&Executable) -> anyhow::Result<Vec<Buffer>>,
) -> anyhow::Result<f64> {
    let run = || -> anyhow::Result<()> {
        for buffer in execute(sum)? {
            buffer.to_vec::<f32>()?;
        }
        Ok(())
    };
    for _ in 0..FIRST {
        run()?;
    }
    let (before, start, mut executions) = (memory_bytes()?, Instant::now(), 0);
    while executions < EXECUTIONS_MIN || start.elapsed() < PERIOD {
        run()?;
        executions += 1;
    }
    let grown = memory_bytes()?.saturating_sub(before);
    Ok(if grown < GROWTH_BYTES { 0.0 } else { grown as f64 / executions as f64 })
}

/// The memory of this process that is in use.
fn memory_bytes() -> anyhow::Result<u64> {
    let text = fs::read_to_string("/proc/self/status").context("read the size of the process")?;
    let line = text.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    Ok(kib.context("find the size of the process")? * 1024)
}
