//! The cores of a job, on all its hosts, and those of them that this process
//! drives.

use std::collections::BTreeSet;
use std::sync::Arc;

use traind_pjrt::{Buffer, BufferPlacement, Client, DType as PjrtDType, Device, JobDevice};

use super::platform::reach;
use super::{DeviceTraits, HostArray};
use crate::error::{Error, Result};
use crate::graph::DType;
use crate::kernels::enable_hosts;
use crate::mesh::{Coordinates, Mesh};
use crate::stablehlo::Reach;

/// One run's inputs: `[local core][input]`, in the order of the step's inputs.
pub type CoreInputs = Vec<Vec<Buffer>>;

/// All cores that run a program together, each one replica of it: those of this host and, where
/// programs span hosts, those of the others.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JobCores {
    mesh: Mesh,
    device_ids: Vec<i32>,
}

impl JobCores {
    /// `device_ids` has the platform's device of each replica of the mesh, and where programs span
    /// hosts, of each host in turn.
    pub fn new(mesh: Mesh, device_ids: Vec<i32>) -> JobCores {
        JobCores { mesh, device_ids }
    }

    /// Returns the mesh of the cores of all hosts.
    pub fn mesh(&self) -> &Mesh {
        &self.mesh
    }

    /// Returns the plugin's numbers of the devices of all hosts, in the order of the mesh.
    pub fn device_ids(&self) -> &[i32] {
        &self.device_ids
    }

    /// The cores of one pipeline stage, a mesh of their own.
    fn of_stage(&self, pipeline: usize) -> JobCores {
        let stage = self.mesh.of_stage();
        let replicas: Vec<usize> = (0..stage.replica_count())
            .map(|it| self.mesh.replica(Coordinates { pipeline, ..stage.coordinates(it) }))
            .collect();
        let hosts = self.device_ids.chunks(self.mesh.replica_count());
        let device_ids = hosts.flat_map(|ids| replicas.iter().map(|&replica| ids[replica]));
        JobCores::new(stage, device_ids.collect())
    }
}

/// The cores that this process drives: one PJRT client and the devices that take
/// part. A cloneable handle, so that loader threads can upload.
#[derive(Clone, Debug)]
pub struct LocalCores {
    client: Client,
    job: Arc<JobCores>,
    cores: Arc<[LocalCore]>,
    traits: DeviceTraits,
}

#[derive(Debug)]
struct LocalCore {
    device: Device,
    /// The replica that it runs.
    replica: usize,
}

impl LocalCores {
    /// Selects the job's cores that are devices of `client`, by ascending replica. A mesh of several hosts needs
    /// [`World::start`](traind_mpi::World::start) before, unless one program spans all of them.
    pub fn new(client: Client, job: JobCores) -> Result<LocalCores> {
        let replicas = job.mesh.replica_count();
        let reach = reach(client.platform_name(), &job.mesh);
        check_count("devices of the job", reach.hosts() * replicas, job.device_ids.len())?;
        enable_hosts(&client, &job.mesh)?;
        let places = job.device_ids.iter().enumerate();
        let cores: Vec<LocalCore> = places
            .filter_map(|(place, &id)| {
                let device = client.devices().find(|device| device.id() == id)?;
                Some(LocalCore { device, replica: place % replicas })
            })
            .collect();
        if cores.is_empty() {
            let what = "cores of the job on this host".to_owned();
            return Err(Error::Count { what, expected: job.device_ids.len(), got: 0 });
        }
        let traits = DeviceTraits::default();
        Ok(LocalCores { client, job: job.into(), cores: cores.into(), traits })
    }

    /// Takes the first devices of the client, and where programs span hosts those of each other process with the same
    /// stages, as all cores that run them.
    pub fn of_host(client: Client, mesh: Mesh) -> Result<LocalCores> {
        let count = mesh.replica_count();
        let ids = match reach(client.platform_name(), &mesh) {
            Reach::Host => {
                let devices = client.devices().map(|it| (it.id(), it.local_hardware_id()));
                first_of_this_process(client.platform_name(), devices.collect(), count)
            }
            Reach::Hosts(_) => {
                let devices = client.job_devices();
                first_of_each_process(devices, &processes_with_own_stages(devices, &mesh), count)?
            }
        };
        LocalCores::new(client, JobCores::new(mesh, ids))
    }

    /// The cores of one pipeline stage, a mesh of their own.
    pub fn of_stage(&self, pipeline: usize) -> Result<LocalCores> {
        let cores = LocalCores::new(self.client.clone(), self.job.of_stage(pipeline))?;
        Ok(cores.with_traits(self.traits))
    }

    /// The same cores, found to have these traits.
    pub fn with_traits(self, traits: DeviceTraits) -> LocalCores {
        LocalCores { traits, ..self }
    }

    /// Returns the properties of the devices that programs depend on.
    pub fn traits(&self) -> DeviceTraits {
        self.traits
    }

    /// The number of cores that this process drives.
    pub fn len(&self) -> usize {
        self.cores.len()
    }

    /// Returns whether this process drives no core.
    pub fn is_empty(&self) -> bool {
        self.cores.is_empty()
    }

    /// Returns the cores of all hosts.
    pub fn job(&self) -> &JobCores {
        &self.job
    }

    /// The mesh of all cores of the job.
    pub fn mesh(&self) -> &Mesh {
        &self.job.mesh
    }

    /// Returns the client of the plugin.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The number by which all hosts know a launch of a program that spans them, other than those of
    /// launches on other cores of this process; `None` where programs end at their host. `count`
    /// counts from 1 on these cores.
    pub(super) fn launch_id(&self, count: usize) -> Option<i32> {
        if reach(self.client.platform_name(), self.mesh()) == Reach::Host {
            return None;
        }
        let first = self.job.device_ids.iter().min().copied().unwrap_or(0);
        let all = self.client.job_devices().len();
        let number = count.wrapping_mul(all).wrapping_add(usize::try_from(first).unwrap_or(0));
        Some((number & i32::MAX as usize) as i32)
    }

    /// The device of a local core.
    pub fn device(&self, core: usize) -> &Device {
        &self.cores[core].device
    }

    /// The place of each local core in the job's mesh.
    pub fn coordinates(&self) -> impl ExactSizeIterator<Item = Coordinates> {
        self.cores.iter().map(|core| self.mesh().coordinates(core.replica))
    }

    /// The local core at a place of the mesh.
    pub fn core_at(&self, coordinates: Coordinates) -> Result<usize> {
        let replica = self.mesh().replica(coordinates);
        let core = self.cores.iter().position(|core| core.replica == replica);
        core.ok_or(Error::NotLocal { replica })
    }

    /// Copies an array to one local core; returns when the array may be dropped.
    pub fn upload(&self, core: usize, array: &HostArray) -> Result<Buffer> {
        self.upload_to(self.device(core).into(), array)
    }

    /// Copies an array to a memory that a local core reaches; returns when the array may be dropped.
    pub(super) fn upload_to(&self, to: BufferPlacement<'_>, array: &HostArray) -> Result<Buffer> {
        let shape = array.shape();
        let dtype = pjrt_dtype(shape.dtype);
        Ok(self.client.buffer_from_bytes(array.bytes(), dtype, &shape.dims, to)?)
    }

    /// Copies a buffer of another core to a local one, through the host where the plugin does not copy
    /// between devices.
    pub fn receive(&self, core: usize, buffer: &Buffer) -> Result<Buffer> {
        let device = self.device(core);
        match buffer.copy_to_device(device) {
            Ok(copy) => Ok(copy),
            Err(error) if error.is_unimplemented() => {
                let (bytes, shape) = (buffer.to_bytes()?, buffer.shape());
                Ok(self.client.buffer_from_bytes(&bytes, shape.dtype, &shape.dims, device)?)
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// The ids of the first `count` devices, each of which is given with its number on the host. A plugin may list
/// NeuronCores in any order; by number, those that share a chip follow each other.
fn first_of_this_process(
    platform: &str,
    mut devices: Vec<(i32, Option<i32>)>,
    count: usize,
) -> Vec<i32> {
    if platform == "neuron" {
        devices.sort_by_key(|&(id, number)| (number.unwrap_or(id), id));
    }
    devices.into_iter().map(|(id, _)| id).take(count).collect()
}

/// The processes of a client with the same stages as this one. The client has those of all hosts, or these alone.
fn processes_with_own_stages(devices: &[JobDevice], mesh: &Mesh) -> Vec<usize> {
    let processes: BTreeSet<i32> = devices.iter().map(|device| device.process_index).collect();
    match processes.len() == mesh.hosts() {
        true => (0..mesh.hosts()).collect(),
        false => mesh.hosts_with_own_stages(),
    }
}

/// The ids of the first `count` devices of each of `processes`, in the order of ids, since the numbers of other hosts'
/// devices are not known: ids need not ascend with processes.
fn first_of_each_process(
    devices: &[JobDevice],
    processes: &[usize],
    count: usize,
) -> Result<Vec<i32>> {
    let of_process = |process: &usize| {
        let own =
            devices.iter().filter(|device| usize::try_from(device.process_index) == Ok(*process));
        let mut ids: Vec<i32> = own.map(|device| device.id).collect();
        ids.sort_unstable();
        ids.truncate(count);
        check_count(&format!("devices of process {process}"), count, ids.len())?;
        Ok(ids)
    };
    Ok(processes.iter().map(of_process).collect::<Result<Vec<_>>>()?.concat())
}

/// Refuses a number of things other than the expected one.
pub(super) fn check_count(what: &str, expected: usize, got: usize) -> Result<()> {
    if expected == got {
        return Ok(());
    }
    Err(Error::Count { what: what.to_owned(), expected, got })
}

/// Reads a buffer back to the host.
pub(super) fn download(buffer: &Buffer, shape: &crate::Shape) -> Result<HostArray> {
    HostArray::from_bytes(shape.clone(), buffer.to_bytes()?)
}

fn pjrt_dtype(dtype: DType) -> PjrtDType {
    match dtype {
        DType::Pred => PjrtDType::Pred,
        DType::U8 => PjrtDType::U8,
        DType::U32 => PjrtDType::U32,
        DType::S32 => PjrtDType::S32,
        DType::S64 => PjrtDType::S64,
        DType::F16 => PjrtDType::F16,
        DType::BF16 => PjrtDType::Bf16,
        DType::F32 => PjrtDType::F32,
        DType::F64 => PjrtDType::F64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mesh::{HostGrid, Placement};

    fn devices(of_processes: &[(i32, i32)]) -> Vec<JobDevice> {
        let device = |&(id, process_index)| JobDevice { id, process_index };
        of_processes.iter().map(device).collect()
    }

    #[test]
    fn neuron_cores_are_in_the_order_of_their_chips() {
        let devices = || vec![(3, Some(0)), (1, Some(2)), (0, Some(3)), (2, Some(1))];
        assert_eq!(first_of_this_process("neuron", devices(), 3), [3, 2, 1]);
        assert_eq!(first_of_this_process("cuda", devices(), 3), [3, 1, 0]);
        assert_eq!(first_of_this_process("neuron", vec![(1, None), (0, None)], 2), [0, 1]);
    }

    #[test]
    fn the_devices_of_all_hosts_are_in_the_order_of_hosts() {
        let devices = devices(&[(4, 0), (0, 1), (5, 0), (1, 1), (2, 1), (3, 0)]);
        assert_eq!(first_of_each_process(&devices, &[0, 1], 2).unwrap(), [3, 4, 0, 1]);
        let error = first_of_each_process(&devices, &[0, 1, 2], 2).unwrap_err().to_string();
        assert!(error.contains("devices of process 2"), "{error}");
    }

    /// Four hosts with two stages: the programs of a stage are those of the two hosts that have it, whether a client
    /// has all hosts or these alone.
    #[test]
    fn the_devices_of_a_stage_are_those_of_its_hosts() {
        let all: Vec<_> = (0..8).map(|id| (id, id / 2)).collect();
        let (all, of_stage) = (devices(&all), devices(&all[..4]));
        for (pipeline_is_slower, expected) in
            [(true, [[0, 1, 2, 3], [4, 5, 6, 7]]), (false, [[0, 1, 4, 5], [2, 3, 6, 7]])]
        {
            let grid = HostGrid { data: 2, pipeline: 2, pipeline_is_slower };
            for host in 0..4 {
                let mesh = Mesh::data_parallel(2).unwrap().on_grid(grid, host).unwrap();
                let ids = |devices: &[JobDevice]| {
                    first_of_each_process(devices, &processes_with_own_stages(devices, &mesh), 2)
                };
                let expected = expected[mesh.pipeline_place()];
                assert_eq!(ids(&all).unwrap(), expected, "host {host} of {grid:?}");
                assert_eq!(ids(&of_stage).unwrap(), [0, 1, 2, 3], "host {host} of {grid:?}");
            }
        }
    }

    #[test]
    fn a_stage_has_its_cores_of_every_host() {
        let mesh = Mesh::new(1, 2, 2, Placement::Cluster).unwrap().on_hosts(2, 1).unwrap();
        let job = JobCores::new(mesh, vec![10, 11, 12, 13, 20, 21, 22, 23]);
        assert_eq!(job.of_stage(0).device_ids(), [10, 11, 20, 21]);
        assert_eq!(job.of_stage(1).device_ids(), [12, 13, 22, 23]);
        assert_eq!(job.of_stage(1).mesh().hosts(), 2);
    }
}
