//! `traind-runner probe`: what a plugin and its devices can do, as JSON, without a job. Reads a [`Request`] from standard
//! input.

use std::io;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::Context as _;
use serde::Deserialize;
use serde_json::{Value, json};
use traind_pjrt::{Client, CompileOptions, Plugin};
use traind_xla::runtime::{DeviceTraits, random_bits_are_exact};

use crate::session::client_options;

#[derive(Deserialize)]
struct Request {
    platform: String,
    plugin: PathBuf,
    /// Devices to open.
    cores: usize,
}

/// A program to be compiled.
const SUM: &str = "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = stablehlo.add %x, %x : tensor<4xf32>
  return %y : tensor<4xf32>
}";

/// An operation of the dialect `chlo`, which not every compiler reads.
const CHLO: &str = "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = chlo.erf %x : tensor<4xf32> -> tensor<4xf32>
  return %y : tensor<4xf32>
}";

/// Answers the request on standard input.
pub(crate) fn answer() -> anyhow::Result<()> {
    let out = crate::own_output::own_output().context("open the standard output")?;
    let request: Request =
        serde_json::from_reader(io::stdin().lock()).context("read the request")?;
    let report = report(&request)?;
    serde_json::to_writer(out, &report).context("write the answer")
}

fn report(request: &Request) -> anyhow::Result<Value> {
    let plugin = Plugin::load(&request.plugin)?;
    let start = Instant::now();
    let client = Client::new(plugin, &client_options(&request.platform, request.cores))?;
    let client_seconds = start.elapsed().as_secs_f64();
    let start = Instant::now();
    client.compile(SUM, &CompileOptions::default())?;
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
        "chlo": client.compile(CHLO, &CompileOptions::default()).is_ok(),
        "random_bits_are_exact": random_bits_are_exact(&client)?,
        "splits_integers": traits.splits_integers,
        "keeps_arguments": traits.keeps_arguments,
        "stablehlo": plugin.stablehlo_current_version()?,
        "client_seconds": client_seconds,
        "compile_seconds": compile_seconds,
    }))
}
