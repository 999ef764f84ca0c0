//! `traind-runner probe`: what a plugin and its devices can do, as JSON, without a job. Reads a [`Request`] from
//! standard input.

use std::fs::File;
use std::io::{self, BufRead, Read, Write};
use std::path::PathBuf;
use std::time::Instant;

use anyhow::Context as _;
use serde::Deserialize;
use serde_json::{Value, json};
use traind_pjrt::{Client, CompileOptions, DeviceOutputs, Executable, ExecuteOptions, Plugin};
use traind_xla::runtime::{DeviceTraits, donation_outcome, random_bits_are_exact};

use crate::session::client_options;

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
}

/// A program to be compiled.
const SUM: &str = "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = stablehlo.add %x, %x : tensor<4xf32>
  return %y : tensor<4xf32>
}";

/// A program that reads the tensor of [`VALUES`] at the index, or writes another number there. `None` for other
/// operations.
fn indexed(operation: &str) -> Option<String> {
    const START: &str = "%s = stablehlo.reshape %arg1 : (tensor<1x1xi32>) -> tensor<i32>\n  ";
    const OTHER: &str = "%z = stablehlo.constant dense<-1.0> : tensor<1xf32>\n  ";
    const REGION: &str = "({\n  ^bb0(%a: tensor<f32>, %b: tensor<f32>):\n    \
                          %c = stablehlo.add %a, %b : tensor<f32>\n    stablehlo.return %c : tensor<f32>\n  })";
    let (body, result) = match operation {
        "gather" => (
            "%y = \"stablehlo.gather\"(%arg0, %arg1) <{dimension_numbers = \
             #stablehlo.gather<collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, \
             slice_sizes = array<i64: 1>}> : \
             (tensor<4xf32>, tensor<1x1xi32>) -> tensor<1xf32>"
                .to_owned(),
            "1",
        ),
        "dynamic_slice" => (
            format!(
                "{START}%y = stablehlo.dynamic_slice %arg0, %s, sizes = [1] : \
                 (tensor<4xf32>, tensor<i32>) -> tensor<1xf32>"
            ),
            "1",
        ),
        "dynamic_update_slice" => (
            format!(
                "{START}{OTHER}%y = stablehlo.dynamic_update_slice %arg0, %z, %s : \
                 (tensor<4xf32>, tensor<1xf32>, tensor<i32>) -> tensor<4xf32>"
            ),
            "4",
        ),
        "scatter" => (
            format!(
                "{OTHER}%y = \"stablehlo.scatter\"(%arg0, %arg1, %z) <{{scatter_dimension_numbers = \
                 #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], \
                 index_vector_dim = 1>}}> {REGION} : (tensor<4xf32>, tensor<1x1xi32>, tensor<1xf32>) -> tensor<4xf32>"
            ),
            "4",
        ),
        _ => return None,
    };
    Some(format!(
        "func.func @main(%arg0: tensor<4xf32>, %arg1: tensor<1x1xi32>) -> tensor<{result}xf32> {{\n  {body}\n  \
         return %y : tensor<{result}xf32>\n}}"
    ))
}

const VALUES: [f32; 4] = [1.0, 2.0, 3.0, 4.0];
/// Executions of which the median is taken.
const EXECUTIONS: usize = 21;

/// An operation of the dialect `chlo`, which not every compiler reads.
const CHLO: &str = "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = chlo.erf %x : tensor<4xf32> -> tensor<4xf32>
  return %y : tensor<4xf32>
}";

/// A sum over all of `cores`.
fn collective(cores: usize) -> String {
    let all: Vec<String> = (0..cores).map(|core| core.to_string()).collect();
    format!(
        "module @collective attributes {{mhlo.num_replicas = {cores} : i32}} {{
  func.func public @main(%arg0: tensor<4xf32>) -> (tensor<4xf32>) {{
    %0 = \"stablehlo.all_reduce\"(%arg0) <{{replica_groups = dense<[[{}]]> : tensor<1x{cores}xi64>}}> ({{
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }}) : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }}
}}
",
        all.join(", ")
    )
}

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
    let start = Instant::now();
    let sum = client.compile(SUM, &CompileOptions::default())?;
    let compile_seconds = start.elapsed().as_secs_f64();
    let traits = DeviceTraits::of(&client)?;
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
        "chlo": client.compile(CHLO, &CompileOptions::default()).is_ok(),
        "random_bits_are_exact": random_bits_are_exact(&client)?,
        "splits_integers": traits.splits_integers,
        "keeps_arguments": traits.keeps_arguments,
        "stablehlo": plugin.stablehlo_current_version()?,
        "extensions": plugin.extension_kinds(),
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
