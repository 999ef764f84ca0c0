//! Steps that train, against the same steps on the devices of one host.

use traind_xla::autodiff::gradients;
use traind_xla::kernels::GpuOptions;
use traind_xla::mesh::{Axis, Mesh};
use traind_xla::ops::ReduceKind;
use traind_xla::runtime::{HostArray, LazyDevice, LocalCores, Recording, StepInput, Variable};
use traind_xla::{DType, Result, Shape};

use crate::support::{DEVICES, HOSTS, client, device};

const ROWS: usize = 4;
const FEATURES: usize = 96;
const HIDDEN: usize = 64;
const STEPS: usize = 5;

/// Rows of a core that stands for a share of the batch.
fn rows(shard: usize, step: usize) -> HostArray {
    let value = |index: usize| ((index * 37 + shard * 101 + step * 11) % 97) as f32 / 97.0 - 0.5;
    let values: Vec<f32> = (0..ROWS * FEATURES).map(value).collect();
    HostArray::from_f32(&[ROWS, FEATURES], &values).unwrap()
}

/// Records a step of descent on the mean over all cores; weights are stored whole.
fn record(at: &mut Recording<'_>, weights: Variable, mesh: &Mesh) -> Result<()> {
    let (x, w) = (at.input("x").unwrap().clone(), at.read(weights)?);
    let hidden = x.matmul(&w)?.tanh()?;
    let loss = hidden.mul(&hidden)?.sum(&[0, 1])?;
    let gradient = gradients(&loss, &[&w])?.remove(0);
    let total = gradient.all_reduce_over(ReduceKind::Sum, mesh, &[Axis::Data])?;
    let cores = (HOSTS * DEVICES) as f64;
    at.assign(weights, &w.sub(&total.mul_scalar(0.05 / cores)?)?)?;
    at.fetch("loss", &loss.all_reduce_over(ReduceKind::Sum, mesh, &[Axis::Data])?);
    Ok(())
}

/// The losses and the weights after a few steps; `first` is the first share of the batch.
fn train(mut device: LazyDevice, first: usize) -> (Vec<f32>, Vec<f32>) {
    let initial: Vec<f32> =
        (0..FEATURES * HIDDEN).map(|index| ((index * 29) % 83) as f32 / 830.0).collect();
    let initial = HostArray::from_f32(&[FEATURES, HIDDEN], &initial).unwrap();
    let weights = device.variable(&initial).unwrap();
    let mesh = device.cores().mesh().clone();
    let input = StepInput::new("x", Shape::new(DType::F32, [ROWS, FEATURES]));
    let step = device.compile(&[input], |at| record(at, weights, &mesh)).unwrap();
    device.install("step", step);
    let cores = device.cores().clone();
    let mut losses = Vec::new();
    for step in 0..STEPS {
        let inputs = (0..cores.len())
            .map(|core| vec![cores.upload(core, &rows(first + core, step)).unwrap()]);
        let fetched = device.mark_step("step", &inputs.collect()).unwrap().fetch().unwrap();
        losses.push(fetched.scalar_f32("loss").unwrap());
    }
    let values: Vec<Vec<f32>> = (0..cores.len())
        .map(|core| device.value(weights, core).unwrap().to_f32().unwrap())
        .collect();
    assert!(values.iter().all(|of_core| *of_core == values[0]), "cores differ");
    (losses, values[0].clone())
}

pub(crate) fn a_step_equals_that_of_one_host(rank: usize) {
    let (losses, weights) = train(device(rank), rank * DEVICES);
    let one = Mesh::data_parallel(HOSTS * DEVICES).unwrap();
    let one = LocalCores::of_host(client(HOSTS * DEVICES), one).unwrap();
    let (expected_losses, expected_weights) =
        train(LazyDevice::new(one, None, GpuOptions::default()), 0);
    let close =
        |found: f32, expected: f32| (found - expected).abs() <= 1e-6 * expected.abs().max(1.0);
    for (found, expected) in losses.iter().zip(&expected_losses) {
        assert!(close(*found, *expected), "{losses:?} {expected_losses:?}");
    }
    let largest = weights.iter().zip(&expected_weights).map(|(a, b)| (a - b).abs());
    let largest = largest.fold(0.0, f32::max);
    assert!(largest <= 1e-6, "weights differ by {largest}");
    assert!(losses[STEPS - 1] < losses[0], "{losses:?}");
}
