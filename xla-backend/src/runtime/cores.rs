//! The cores of a job, on all its hosts, and those of them that this process
//! drives.

use std::sync::Arc;

use traind_pjrt::{Buffer, BufferPlacement, Client, DType as PjrtDType, Device};

use super::HostArray;
use crate::error::{Error, Result};
use crate::graph::DType;
use crate::kernels::enable_hosts;
use crate::mesh::{Coordinates, Mesh};

/// One run's inputs: `[local core][input]`, in the order of the step's inputs.
pub type CoreInputs = Vec<Vec<Buffer>>;

/// All cores of a job, on every host that takes part: each runs one replica of
/// a program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JobCores {
    mesh: Mesh,
    device_ids: Vec<i32>,
}

impl JobCores {
    /// `device_ids` has the platform's device of each replica of the mesh.
    pub fn new(mesh: Mesh, device_ids: Vec<i32>) -> Result<JobCores> {
        check_count("devices of the job", mesh.replica_count(), device_ids.len())?;
        Ok(JobCores { mesh, device_ids })
    }

    pub fn mesh(&self) -> &Mesh {
        &self.mesh
    }

    pub fn device_ids(&self) -> &[i32] {
        &self.device_ids
    }
}

/// The cores that this process drives: one PJRT client and the devices that take
/// part. A cloneable handle, so that loader threads can upload.
#[derive(Clone, Debug)]
pub struct LocalCores {
    client: Client,
    job: Arc<JobCores>,
    cores: Arc<[LocalCore]>,
}

#[derive(Debug)]
struct LocalCore {
    device: Device,
    /// The replica that it runs.
    replica: usize,
}

impl LocalCores {
    /// Selects the job's cores that are devices of `client`, by ascending replica. A mesh of several
    /// hosts needs [`World::start`](traind_mpi::World::start) before.
    pub fn new(client: Client, job: JobCores) -> Result<LocalCores> {
        enable_hosts(&client, &job.mesh)?;
        let replicas = job.device_ids.iter().enumerate();
        let cores: Vec<LocalCore> = replicas
            .filter_map(|(replica, &id)| {
                let device = client.devices().find(|device| device.id() == id)?;
                Some(LocalCore { device, replica })
            })
            .collect();
        if cores.is_empty() {
            let what = "cores of the job on this host".to_owned();
            return Err(Error::Count { what, expected: job.device_ids.len(), got: 0 });
        }
        Ok(LocalCores { client, job: job.into(), cores: cores.into() })
    }

    /// Takes the first devices of the client as all cores of the job.
    pub fn of_host(client: Client, mesh: Mesh) -> Result<LocalCores> {
        let ids = client.devices().map(|device| device.id()).take(mesh.replica_count()).collect();
        LocalCores::new(client, JobCores::new(mesh, ids)?)
    }

    /// The cores of one pipeline stage, a mesh of their own.
    pub fn of_stage(&self, pipeline: usize) -> Result<LocalCores> {
        let (mesh, stage) = (self.mesh(), self.mesh().of_stage());
        let device_id = |replica| {
            let place = Coordinates { pipeline, ..stage.coordinates(replica) };
            self.job.device_ids[mesh.replica(place)]
        };
        let device_ids = (0..stage.replica_count()).map(device_id).collect();
        LocalCores::new(self.client.clone(), JobCores::new(stage, device_ids)?)
    }

    /// The number of cores that this process drives.
    pub fn len(&self) -> usize {
        self.cores.len()
    }

    pub fn is_empty(&self) -> bool {
        self.cores.is_empty()
    }

    pub fn job(&self) -> &JobCores {
        &self.job
    }

    /// The mesh of all cores of the job.
    pub fn mesh(&self) -> &Mesh {
        &self.job.mesh
    }

    pub fn client(&self) -> &Client {
        &self.client
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

    /// The same to a memory that the core reaches.
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
