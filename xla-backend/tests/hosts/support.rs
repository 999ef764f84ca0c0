//! Clients, meshes and runs of the checks.

use traind_pjrt::{Client, CreateOptions, Plugin};
use traind_xla::kernels::GpuOptions;
use traind_xla::mesh::{HostGrid, Mesh};
use traind_xla::runtime::{HostArray, LazyDevice, LocalCores, StepInput};
use traind_xla::{Result, Shape, Tensor};

pub(crate) const HOSTS: usize = 2;
pub(crate) const DEVICES: usize = 2;
/// The grid of another test, in which two hosts have the same stages.
pub(crate) const GRID: HostGrid = HostGrid { data: 2, pipeline: 2, pipeline_is_slower: false };

pub(crate) fn client(devices: usize) -> Client {
    let plugin = Plugin::load(traind_pjrt::installed_plugin("cpu").unwrap()).unwrap();
    let options = CreateOptions::new().with("cpu_device_count", devices as i64);
    Client::new(plugin, &options).unwrap()
}

/// This host's devices, on the `data` axis alone.
pub(crate) fn device(rank: usize) -> LazyDevice {
    device_in(HostGrid::of_data(HOSTS), rank)
}

/// This host's devices in a grid of hosts.
pub(crate) fn device_in(grid: HostGrid, rank: usize) -> LazyDevice {
    let mesh = Mesh::data_parallel(DEVICES).unwrap().on_grid(grid, rank).unwrap();
    LazyDevice::new(
        LocalCores::of_host(client(DEVICES), mesh).unwrap(),
        None,
        GpuOptions::default(),
    )
}

/// The result of `build` on each device, from an input of each.
pub(crate) fn run(
    device: &mut LazyDevice,
    inputs: &[HostArray],
    build: impl FnOnce(&Tensor) -> Result<Tensor>,
) -> Vec<HostArray> {
    let shape: Shape = inputs[0].shape().clone();
    let step = device.compile(&[StepInput::new("x", shape)], |at| -> Result<()> {
        let x = at.input("x").unwrap().clone();
        at.fetch("y", &build(&x)?);
        Ok(())
    });
    device.install("check", step.unwrap());
    let cores = device.cores().clone();
    let inputs = inputs.iter().enumerate();
    let inputs = inputs.map(|(core, array)| vec![cores.upload(core, array).unwrap()]).collect();
    let fetched = device.mark_step("check", &inputs).unwrap().fetch().unwrap();
    fetched.per_core("y").unwrap().to_vec()
}
