//! Times the collectives of programs on CPU devices, beside a program without one.
//!
//! `cargo run --release -p traind-xla --example collectives [DEVICES [FLOATS]]`
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::time::Instant;

use traind_pjrt::{Client, CreateOptions, Plugin};
use traind_xla::kernels::GpuOptions;
use traind_xla::mesh::{Axis, Mesh, Placement};
use traind_xla::ops::ReduceKind;
use traind_xla::runtime::{HostArray, LazyDevice, LocalCores};
use traind_xla::{DType, Shape, Tensor};

type AnyResult<T> = Result<T, Box<dyn Error>>;
type Record = fn(&Tensor, &[Vec<usize>]) -> traind_xla::Result<Tensor>;

const OPERATIONS: [(&str, Record); 4] = [
    ("none", |x, _| Ok(x.clone())),
    ("all_reduce", |x, groups| x.all_reduce(ReduceKind::Sum, groups)),
    ("reduce_scatter", |x, groups| x.reduce_scatter(ReduceKind::Sum, 0, groups)),
    ("all_gather", |x, groups| x.all_gather(0, groups)),
];
const ROUNDS: usize = 15;

fn main() -> AnyResult<()> {
    let arguments: Vec<usize> =
        std::env::args().skip(1).map(|it| it.parse()).collect::<Result<_, _>>()?;
    let devices = arguments.first().copied().unwrap_or(2);
    let floats = arguments.get(1).copied().unwrap_or(1 << 23);
    println!("{devices} devices, {floats} floats each; milliseconds, the least of {ROUNDS}");
    for (name, record) in OPERATIONS {
        println!("{name:>15} {:8.3}", 1e3 * measured(devices, floats, record)?);
    }
    Ok(())
}

/// Seconds of a program with one operation, the least of several.
fn measured(devices: usize, floats: usize, record: Record) -> AnyResult<f64> {
    let plugin = Plugin::load(traind_pjrt::installed_plugin("cpu").ok_or("no CPU plugin")?)?;
    let options = CreateOptions::new().with("cpu_device_count", devices as i64);
    let mesh = Mesh::new(devices, 1, 1, Placement::Cluster)?;
    let groups = mesh.groups(&[Axis::Data]);
    let cores = LocalCores::of_host(Client::new(plugin, &options)?, mesh)?;
    let mut device = LazyDevice::new(cores, None, GpuOptions::default());
    let x = device.variable(&HostArray::zeros(Shape::new(DType::F32, [floats])))?;
    let step = device.compile(&[], |at| -> traind_xla::Result<()> {
        let x = at.read(x)?;
        let y = record(&x, &groups)?;
        at.fetch("last", &y.slice(0, 0, 1)?);
        Ok(())
    })?;
    device.install("step", step);
    let mut least = f64::INFINITY;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        device.mark_step_with("step", &vec![Vec::new(); devices])?.fetch()?;
        least = least.min(start.elapsed().as_secs_f64());
    }
    Ok(least)
}
