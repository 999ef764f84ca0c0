//! `traind-runner probe`: what a plugin and its devices can do, as JSON, without a job. Reads a [`Request`] from
//! standard input.

mod programs;
mod without_events;

use std::fs::File;
use std::io::{self, BufRead, Read, Write};
use std::path::PathBuf;
use std::time::Instant;

use anyhow::Context as _;
use serde::Deserialize;
use serde_json::{Value, json};
use traind_pjrt::{
    Client, CompileOptions, CreateOptions, DeviceOutputs, Executable, ExecuteOptions, Plugin,
    Topology,
};
use traind_wording::counted;
use traind_xla::runtime::{DeviceTraits, donation_outcome, random_bits_are_exact};

use crate::session::client_options;
use programs::{CHLO, INTEGER_DOT, ODD, ROOT, SUM, collective, indexed};

#[derive(Deserialize)]
struct Request {
    platform: String,
    plugin: PathBuf,
    /// Devices to open.
    cores: usize,
    /// Compile a collective over the devices, and try nothing else.
    #[serde(default)]
    only_collective: bool,
    /// Keep the devices until standard input ends, and try nothing.
    #[serde(default)]
    hold: bool,
    /// Execute [this operation](indexed) with an index outside of its tensor, and try nothing else: a core may be
    /// of no use afterwards.
    #[serde(default)]
    index_outside: Option<String>,
    /// Execute a program without asking for events of completion, and try nothing else: not every plugin may survive
    /// that.
    #[serde(default)]
    without_events: bool,
}

/// The numbers that programs read.
const VALUES: [f32; 4] = [1.0, 2.0, 3.0, 4.0];
/// Executions of which the median is taken.
const EXECUTIONS: usize = 21;

/// Answers the request on standard input.
pub(crate) fn answer() -> anyhow::Result<()> {
    let out = crate::own_output::own_output().context("open the standard output")?;
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line).context("read the request")?;
    let request: Request = serde_json::from_str(&line).context("parse the request")?;
    if request.hold {
        return hold(&request, out);
    }
    let report = report(&request)?;
    serde_json::to_writer(out, &report).context("write the answer")
}

fn open(request: &Request) -> anyhow::Result<Client> {
    let plugin = Plugin::load(&request.plugin)?;
    Ok(Client::new(plugin, &client_options(&request.platform, request.cores))?)
}

/// Opens the devices, says so, and keeps them until standard input ends.
fn hold(request: &Request, mut out: File) -> anyhow::Result<()> {
    let _client = open(request)?;
    writeln!(out, "{}", json!({"holds": request.cores})).context("write the answer")?;
    let _ = io::stdin().lock().read(&mut [0]);
    Ok(())
}

fn report(request: &Request) -> anyhow::Result<Value> {
    let start = Instant::now();
    let client = open(request)?;
    let plugin = client.plugin();
    let client_seconds = start.elapsed().as_secs_f64();
    if request.only_collective {
        return Ok(json!({"collective": collective_problem(&client, request.cores)}));
    }
    if let Some(operation) = &request.index_outside {
        let words = index_words(&client, operation).unwrap_or_else(|error| error.to_string());
        return Ok(json!({"index_outside": words}));
    }
    if request.without_events {
        return Ok(json!({"without_events": without_events::answer(&client)?}));
    }
    let start = Instant::now();
    let sum = client.compile(SUM, &CompileOptions::default())?;
    let compile_seconds = start.elapsed().as_secs_f64();
    let traits = DeviceTraits::of(&client, None)?;
    let devices = client.devices().map(|device| {
        json!({
            "id": device.id(),
            "local_hardware_id": device.local_hardware_id(),
            "kind": device.kind(),
            "memories": device.memories().map(|it| it.kind().to_owned()).collect::<Vec<_>>(),
            "bytes_limit": device.memory_stats().ok().flatten().and_then(|stats| stats.bytes_limit),
        })
    });
    let found = client.capabilities()?;
    Ok(json!({
        "platform_name": client.platform_name(),
        "platform_version": client.platform_version(),
        "api_version": plugin.api_version().to_string(),
        "devices": devices.collect::<Vec<_>>(),
        "donation": found.donation,
        "serialization": found.executable_serialization,
        "cost_analysis": found.cost_analysis,
        "compiled_memory_stats": found.compiled_memory_stats,
        "optimized_program": found.optimized_program,
        "device_memory_stats": found.device_memory_stats,
        "custom_calls": found.custom_calls,
        "donation_of_reports": donation_words(&client),
        "integer_dot": integer_dot_words(&client),
        "chlo": client.compile(CHLO, &CompileOptions::default()).is_ok(),
        "random_bits_are_exact": random_bits_are_exact(&client)?,
        "splits_integers": traits.splits_integers,
        "keeps_arguments": traits.keeps_arguments,
        "stablehlo": plugin.stablehlo_current_version()?,
        "extensions": plugin.extension_kinds(),
        "topology": topology_words(plugin),
        "execute_seconds": execute_seconds(&client, &sum)?,
        "client_seconds": client_seconds,
        "compile_seconds": compile_seconds,
    }))
}

/// The median time of an execution.
fn execute_seconds(client: &Client, sum: &Executable) -> anyhow::Result<f64> {
    let device = sum.devices().next().context("find the program's device")?;
    let argument = client.buffer_from_slice(&VALUES, &[VALUES.len()], &device)?;
    let mut seconds = Vec::new();
    for _ in 0..EXECUTIONS {
        let start = Instant::now();
        first_result(&sum.execute(&[[&argument]], &ExecuteOptions::default())?)?;
        seconds.push(start.elapsed().as_secs_f64());
    }
    seconds.sort_by(f64::total_cmp);
    Ok(seconds[EXECUTIONS / 2])
}

/// The number of devices that the plugin could compile for without a client, or its error.
fn topology_words(plugin: Plugin) -> String {
    match Topology::new(plugin, &CreateOptions::new()) {
        Ok(topology) => counted(topology.devices().len(), "device").to_string(),
        Err(error) => error.to_string(),
    }
}

/// Says whether a dot of integers is `exact` or `rounded`, or else its error.
fn integer_dot_words(client: &Client) -> String {
    let result = || -> anyhow::Result<Vec<i32>> {
        let dot = client.compile(INTEGER_DOT, &CompileOptions::default())?;
        let device = dot.devices().next().context("find the program's device")?;
        let argument = client.buffer_from_slice(&[ROOT], &[1], &device)?;
        let outputs = dot.execute(&[[&argument]], &ExecuteOptions::default())?;
        let buffer = outputs.first().and_then(|outputs| outputs.buffers.first());
        Ok(buffer.context("find the result")?.to_vec()?)
    };
    match result() {
        Ok(found) if found == [ODD] => "exact".to_owned(),
        Ok(_) => "rounded".to_owned(),
        Err(error) => error.to_string(),
    }
}

/// Says whether an operation behind the end of a tensor is `clamped` to it or `dropped`, or else its result.
fn index_words(client: &Client, operation: &str) -> anyhow::Result<String> {
    let program = indexed(operation).context("find the operation")?;
    let executable = client.compile(program, &CompileOptions::default())?;
    let device = executable.devices().next().context("find the program's device")?;
    let values = client.buffer_from_slice(&VALUES, &[VALUES.len()], &device)?;
    let index = client.buffer_from_slice(&[VALUES.len() as i32 + 3], &[1, 1], &device)?;
    let outputs = executable.execute(&[[&values, &index]], &ExecuteOptions::default())?;
    let found = first_result(&outputs)?;
    let last = VALUES.len() - 1;
    let is_clamped = match found.len() {
        1 => found == VALUES[last..],
        _ => found[..last] == VALUES[..last] && found[last] != VALUES[last],
    };
    Ok(match () {
        () if is_clamped => "clamped".to_owned(),
        () if found == VALUES => "dropped".to_owned(),
        () => format!("results in {found:?}"),
    })
}

fn first_result(outputs: &[DeviceOutputs]) -> anyhow::Result<Vec<f32>> {
    let buffer = outputs.first().and_then(|outputs| outputs.buffers.first());
    Ok(buffer.context("find the result")?.to_vec::<f32>()?)
}

/// The outcome of donation with the shapes of users' reports: `right`, `wrong`, or the error.
fn donation_words(client: &Client) -> String {
    match donation_outcome(client) {
        Ok(true) => "right".to_owned(),
        Ok(false) => "wrong".to_owned(),
        Err(error) => error.to_string(),
    }
}

/// The error of a collective over all devices; `None` if it compiles.
fn collective_problem(client: &Client, cores: usize) -> Option<String> {
    let options = CompileOptions::replicas(cores);
    client.compile(collective(cores), &options).err().map(|error| error.to_string())
}
