//! The constant properties of devices and memories, read once when a client starts.
//!
//! Imports handles and the C API; the client holds these records.

mod device;
mod memory;

pub use device::JobDevice;
pub(crate) use device::{DeviceRecord, read, read_job_device};
pub(crate) use memory::MemoryRecord;
