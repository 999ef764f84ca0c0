//! Runs steps of overlapping reductions on several hosts, each a process of `mpiexec`, and prints the
//! time of a step and the share of it in which a reduction across hosts was under way.
//!
//! `mpiexec -n 2 hosts DEVICES STEPS`, which `scripts/soak/hosts` runs.
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::time::{Duration, Instant};

use traind_mpi::{Process, Statistics, World};
use traind_pjrt::{Client, CreateOptions, Plugin};
use traind_xla::DType;
use traind_xla::autodiff::gradients;
use traind_xla::kernels::GpuOptions;
use traind_xla::mesh::{Axis, Mesh, Placement};
use traind_xla::ops::ReduceKind;
use traind_xla::runtime::{HostArray, LazyDevice, LocalCores, Recording, Variable};

const LAYERS: usize = 12;
/// Odd, so that shards are padded.
const WIDTH: usize = 97;
const ROWS: usize = 32;
const REPORTED_STEPS: usize = 1000;

type AnyResult<T> = Result<T, Box<dyn Error>>;

fn main() -> AnyResult<()> {
    let arguments: Vec<usize> =
        std::env::args().skip(1).map(|it| it.parse()).collect::<Result<_, _>>()?;
    let [devices, steps] = arguments[..] else { return Err("usage: hosts DEVICES STEPS".into()) };
    let variable = |name| -> AnyResult<usize> { Ok(std::env::var(name)?.parse()?) };
    let (rank, size) = (variable("PMI_RANK")?, variable("PMI_SIZE")?);
    let process = Process { rank, size, group: 0, pmi: None };
    let world = World::start(&traind_mpi::installed_library(), process, devices)?;
    let (mut device, weights) = prepare(world, devices)?;
    let (mut since, mut before) = (Instant::now(), world.statistics());
    for step in 1..=steps {
        let fetched = device.mark_step_with("step", &vec![Vec::new(); devices])?.fetch()?;
        check(
            step,
            fetched.scalar_f32("loss")?,
            fetched.scalar_f32("shares")?,
            device.cores().mesh(),
        )?;
        if step % REPORTED_STEPS == 0 || step == steps {
            let now = world.statistics();
            if world.rank() == 0 {
                println!("{}", report(step, since.elapsed(), before, now));
            }
            (since, before) = (Instant::now(), now);
        }
    }
    check_alike(&mut device, &weights)?;
    world.finish()?;
    println!("host {} is done", world.rank());
    Ok(())
}

/// A device with weights, and a step on them that is ready to run.
fn prepare(world: &World, devices: usize) -> AnyResult<(LazyDevice, Vec<Variable>)> {
    let plugin = Plugin::load(traind_pjrt::installed_plugin("cpu").ok_or("no CPU plugin")?)?;
    let options = CreateOptions::new().with("cpu_device_count", devices as i64);
    let tensor = if devices.is_multiple_of(2) { 2 } else { 1 };
    let mesh = Mesh::new(devices / tensor, tensor, 1, Placement::Cluster)?;
    let mesh = mesh.on_hosts(world.size(), world.rank())?;
    let cores = LocalCores::of_host(Client::new(plugin, &options)?, mesh.clone())?;
    let mut device = LazyDevice::new(cores, None, GpuOptions::default());
    let weight = matrix(WIDTH, 0)?;
    let weights = (0..LAYERS).map(|_| device.variable(&weight)).collect::<Result<Vec<_>, _>>()?;
    let rows = device.variable(&matrix(ROWS, 0)?)?;
    let shares = device.cores().coordinates().map(|at| matrix(ROWS, mesh.data_shard(at)));
    let shares = shares.collect::<AnyResult<Vec<_>>>()?;
    device.set_per_core(rows, &shares.iter().collect::<Vec<_>>())?;
    let step = device.compile(&[], |at| record(at, &weights, rows, &mesh))?;
    device.install("step", step);
    Ok((device, weights))
}

/// Numbers that depend on a share of the batch.
fn matrix(rows: usize, share: usize) -> AnyResult<HostArray> {
    let value = |index: usize| ((index * 31 + share * 7) % 89) as f32 / 890.0 - 0.05;
    let values: Vec<f32> = (0..rows * WIDTH).map(value).collect();
    Ok(HostArray::from_f32(&[rows, WIDTH], &values)?)
}

/// Layers that the cores of the `tensor` axis share, and gradients that are reduced over all cores
/// as the backward pass computes them.
fn record(
    at: &mut Recording<'_>,
    weights: &[Variable],
    rows: Variable,
    mesh: &Mesh,
) -> traind_xla::Result<()> {
    let values = weights.iter().map(|it| at.read(*it)).collect::<Result<Vec<_>, _>>()?;
    let (groups, scale) = (mesh.groups(&[Axis::Tensor]), 1.0 / mesh.size(Axis::Tensor) as f64);
    let mut hidden = at.read(rows)?;
    for weight in &values {
        let share = hidden.fan_out(&groups)?.matmul(weight)?.tanh()?;
        hidden = share.fan_in(&groups)?.mul_scalar(scale)?.add(&hidden)?;
    }
    let loss = hidden.mul(&hidden)?.sum(&[0, 1])?.mul_scalar(1e-3)?;
    let gradients = gradients(&loss, &values.iter().collect::<Vec<_>>())?;
    // The last layer's is known first.
    for ((variable, value), gradient) in weights.iter().zip(&values).zip(gradients).rev() {
        let total = gradient.all_reduce_over(ReduceKind::Sum, mesh, &[Axis::Data, Axis::Tensor])?;
        at.assign(*variable, &value.sub(&total.mul_scalar(1e-4)?)?)?;
    }
    let one = at.trace().scalar(1.0, DType::F32)?;
    at.fetch("loss", &loss.all_reduce_over(ReduceKind::Sum, mesh, &[Axis::Data])?);
    at.fetch("shares", &one.all_reduce_over(ReduceKind::Sum, mesh, &[Axis::Data])?);
    Ok(())
}

fn check(step: usize, loss: f32, shares: f32, mesh: &Mesh) -> AnyResult<()> {
    if loss.is_finite() && shares == mesh.data_shards() as f32 {
        return Ok(());
    }
    Err(format!("step {step}: the loss is {loss} and {shares} cores have added theirs").into())
}

/// Checks that all cores of all hosts have the same bits.
fn check_alike(device: &mut LazyDevice, weights: &[Variable]) -> AnyResult<()> {
    let mesh = device.cores().mesh().clone();
    let axes = [Axis::Data, Axis::Tensor];
    let step = device.compile(&[], |at| -> traind_xla::Result<()> {
        let mut most = at.trace().scalar(0.0, DType::F32)?;
        for weight in weights {
            let value = at.read(*weight)?;
            let largest = value.all_reduce_over(ReduceKind::Max, &mesh, &axes)?;
            let smallest = value.all_reduce_over(ReduceKind::Min, &mesh, &axes)?;
            most = most.add(&largest.sub(&smallest)?.sum(&[0, 1])?)?;
        }
        at.fetch("difference", &most);
        Ok(())
    })?;
    device.install("compare", step);
    let inputs = vec![Vec::new(); device.cores().len()];
    let difference =
        device.mark_step_with("compare", &inputs)?.fetch()?.scalar_f32("difference")?;
    if difference == 0.0 { Ok(()) } else { Err("the weights of cores differ".into()) }
}

fn report(step: usize, took: Duration, before: Statistics, now: Statistics) -> String {
    let steps = ((step - 1) % REPORTED_STEPS + 1) as f64;
    let per_step = |count: u64| count as f64 / steps;
    let busy = (now.busy - before.busy).as_secs_f64();
    format!(
        "step {step}: {:.2} ms a step, {:.0} % of it with MPI, {:.0} reductions, {:.0} KiB",
        took.as_secs_f64() * 1e3 / steps,
        100.0 * busy / took.as_secs_f64(),
        per_step(now.calls - before.calls),
        per_step(now.bytes - before.bytes) / 1024.0,
    )
}
