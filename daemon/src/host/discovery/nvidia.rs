//! NVIDIA GPUs, through NVML: a library of the driver, loaded on first use.
//!
//! NVML numbers GPUs by their PCI slots, as runners do: see `CUDA_DEVICE_ORDER` in
//! `jobs/supervisor/environment`.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use nvml_wrapper::enum_wrappers::device::{EccCounter, MemoryError, TemperatureSensor};
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml};
use traind_proto::v1::DeviceFigures;

use super::xids::Xids;
use super::{Discovery, DiscoveryError, Faults, FoundCore};

pub(super) struct Nvidia {
    /// The library, loaded for as long as the process lives, as the thread that waits for events does.
    library: OnceLock<Result<&'static Nvml, NvmlError>>,
    xids: OnceLock<Xids>,
}

impl Nvidia {
    pub(super) fn new() -> Nvidia {
        Nvidia { library: OnceLock::new(), xids: OnceLock::new() }
    }

    fn library(&self) -> Result<&'static Nvml, &NvmlError> {
        let load = || Nvml::init().map(|library| &*Box::leak(Box::new(library)));
        self.library.get_or_init(load).as_ref().copied()
    }

    /// A GPU that has fallen off its bus keeps its number, but has no handle.
    fn device(&self, index: u32) -> Option<Device<'_>> {
        self.library().ok()?.device_by_index(index).ok()
    }
}

impl Discovery for Nvidia {
    fn cores(&self) -> Result<Vec<FoundCore>, DiscoveryError> {
        let no_nvidia = |error: &NvmlError| DiscoveryError::NoNvidia(error.to_string());
        let library = self.library().map_err(no_nvidia)?;
        let count = library.device_count().map_err(|error| no_nvidia(&error))?;
        if count == 0 {
            return Err(DiscoveryError::NoNvidia("the driver has no device".to_owned()));
        }
        let found = |index| {
            let device = self.device(index);
            let name = device.as_ref().and_then(|device| device.name().ok());
            FoundCore {
                device: name.unwrap_or_else(|| "cuda".to_owned()),
                device_index: index,
                uuid: device.and_then(|device| device.uuid().ok()).unwrap_or_default(),
            }
        };
        Ok((0..count).map(found).collect())
    }

    fn statistics(&self) -> BTreeMap<u32, DeviceFigures> {
        let count = self.library().ok().and_then(|library| library.device_count().ok());
        (0..count.unwrap_or(0))
            .filter_map(|index| Some((index, read(&self.device(index)?))))
            .collect()
    }

    fn counts_faults(&self) -> bool {
        true
    }

    /// Uncorrected errors of the memory since the driver was loaded, 1 for a GPU that is lost, as after it has
    /// fallen off its bus, and the XIDs of hardware since the first call.
    fn faults(&self) -> BTreeMap<u32, Faults> {
        let Ok(library) = self.library() else { return BTreeMap::new() };
        let xids = self.xids.get_or_init(|| Xids::watch(library));
        let faults = |index| -> (u32, Faults) {
            let device = library.device_by_index(index);
            let is_lost = match &device {
                Ok(device) => matches!(device.memory_info(), Err(NvmlError::GpuLost)),
                Err(error) => matches!(error, NvmlError::GpuLost),
            };
            let ecc = device.ok().and_then(|device| uncorrected_errors(&device));
            let ecc = ecc.map(|count| ("uncorrected ECC errors".to_owned(), count));
            let lost = ("lost".to_owned(), u64::from(is_lost));
            (index, ecc.into_iter().chain([lost]).chain(xids.of(index)).collect())
        };
        (0..library.device_count().unwrap_or(0)).map(faults).collect()
    }

    /// The energy since the driver was loaded. GPUs before Volta do not report it.
    fn energy_joules(&self, core_count: u32) -> BTreeMap<u32, f64> {
        let joules = |index| {
            let millijoules = self.device(index)?.total_energy_consumption().ok()?;
            Some((index, millijoules as f64 / 1e3))
        };
        (0..core_count).filter_map(joules).collect()
    }
}

fn uncorrected_errors(device: &Device<'_>) -> Option<u64> {
    let location = nvml_wrapper::enum_wrappers::device::MemoryLocation::Device;
    device.memory_error_counter(MemoryError::Uncorrected, EccCounter::Volatile, location).ok()
}

fn read(device: &Device<'_>) -> DeviceFigures {
    let memory = device.memory_info().ok();
    DeviceFigures {
        utilization_percent: device.utilization_rates().ok().map(|rates| f64::from(rates.gpu)),
        memory_used_bytes: memory.as_ref().map(|memory| memory.used),
        memory_total_bytes: memory.as_ref().map(|memory| memory.total),
        temperature_celsius: device.temperature(TemperatureSensor::Gpu).ok().map(f64::from),
        power_watts: device.power_usage().ok().map(|milliwatts| f64::from(milliwatts) / 1e3),
        errors: uncorrected_errors(device),
        ..DeviceFigures::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_without_the_driver_has_an_error_and_no_statistics() {
        let nvidia = Nvidia::new();
        match nvidia.cores() {
            Ok(found) => assert!(found.iter().all(|core| !core.device.is_empty())),
            Err(error) => {
                assert!(error.to_string().contains("install the driver"), "{error}");
                assert!(nvidia.statistics().is_empty());
            }
        }
    }
}
