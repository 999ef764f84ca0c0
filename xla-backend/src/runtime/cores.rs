//! The cores of a job: one PJRT client and the devices that take part, one
//! replica each. A cloneable handle, so that loader threads can upload.

use std::sync::Arc;

use traind_pjrt::{Buffer, Client, DType as PjrtDType, Device};

use super::HostArray;
use crate::error::{Error, Result};
use crate::graph::DType;

/// One run's inputs: `[core][input]`, in the order of the step's inputs.
pub type CoreInputs = Vec<Vec<Buffer>>;

#[derive(Clone, Debug)]
pub struct Cores {
    client: Client,
    devices: Arc<[Device]>,
}

impl Cores {
    /// The first `count` devices of the client.
    pub fn new(client: Client, count: usize) -> Result<Cores> {
        let devices: Vec<Device> = client.devices().take(count).collect();
        if devices.len() < count || count == 0 {
            let what = "devices of the plugin".to_owned();
            return Err(Error::Count { what, expected: count, got: devices.len() });
        }
        Ok(Cores { client, devices: devices.into() })
    }

    pub fn len(&self) -> usize {
        self.devices.len()
    }

    pub fn is_empty(&self) -> bool {
        self.devices.is_empty()
    }

    pub fn client(&self) -> &Client {
        &self.client
    }

    pub fn devices(&self) -> &[Device] {
        &self.devices
    }

    /// Copies an array to one core; returns when the array may be dropped.
    pub fn upload(&self, core: usize, array: &HostArray) -> Result<Buffer> {
        let shape = array.shape();
        let (dtype, device) = (pjrt_dtype(shape.dtype), &self.devices[core]);
        Ok(self.client.buffer_from_bytes(array.bytes(), dtype, &shape.dims, device)?)
    }
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
