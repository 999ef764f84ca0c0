//! The cores that this daemon schedules.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;

use traind_proto::v1::DeviceFigures;

use crate::host::discovery::{self, DevicePaths, Discovery, DiscoveryError, FoundCore};

/// A platform's cores on this host.
#[derive(Clone)]
pub(crate) struct Host {
    /// `cpu`, `cuda` or `neuron`.
    pub platform: String,
    pub cores: Vec<u32>,
    found: Vec<FoundCore>,
    source: Arc<dyn Discovery>,
}

impl Host {
    /// Discovers the platform's cores. `core_count` overrides how many there are, for platforms
    /// whose driver does not report them.
    pub(crate) fn new(
        platform: &str,
        core_count: Option<NonZeroU32>,
        paths: &DevicePaths,
    ) -> Result<Host, DiscoveryError> {
        let source = discovery::of_platform(platform, paths);
        let found = match (source.cores(), core_count) {
            (Ok(found), _) => found,
            (Err(_), Some(_)) => Vec::new(),
            (Err(error), None) => return Err(error),
        };
        let count = core_count.map_or(found.len() as u32, NonZeroU32::get);
        Ok(Host { platform: platform.to_owned(), cores: (0..count).collect(), found, source })
    }

    pub(crate) fn core_count(&self) -> u32 {
        self.cores.len() as u32
    }

    /// The numbers of cores that a job may have; `None` if any number is allowed. Neuron's
    /// collectives support only these.
    pub(crate) fn core_counts(&self) -> Option<Vec<u32>> {
        if self.platform != "neuron" {
            return None;
        }
        let device = self.device(0).to_lowercase();
        let first = ["trainium1", "trn1"].iter().any(|name| device.contains(name));
        let counts: &[u32] = if first { &[1, 2, 8, 16, 32] } else { &[1, 2, 4, 8, 16, 32, 64] };
        Some(counts.iter().copied().filter(|count| *count <= self.core_count()).collect())
    }

    /// The device name of a core. Cores beyond those discovered are taken to be like the last one.
    pub(crate) fn device(&self, core: u32) -> &str {
        let found = self.found.get(core as usize).or(self.found.last());
        found.map_or(self.platform.as_str(), |core| core.device.as_str())
    }

    /// Reads the devices' current statistics, by core. Blocks on files and drivers.
    pub(crate) fn device_statistics(&self) -> BTreeMap<u32, DeviceFigures> {
        self.source.statistics()
    }

    /// Reads the energy that some cores have used since some time, in joules; `None` if the host does not
    /// report it for all of them. Blocks on files and drivers.
    pub(crate) fn energy_joules(&self, cores: &[u32]) -> Option<f64> {
        let read = self.source.energy_joules(self.core_count());
        cores.iter().map(|core| read.get(core).copied()).sum()
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host")
            .field("platform", &self.platform)
            .field("cores", &self.cores)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::host::discovery::NeuronPaths;

    fn check(device: &str, cores: u32, expect: &[u32]) {
        let folder = tempfile::tempdir().unwrap();
        let first = folder.path().join("neuron0");
        fs::create_dir_all(first.join("info/architecture")).unwrap();
        fs::write(first.join("core_count"), "2\n").unwrap();
        fs::write(first.join("info/architecture/device_name"), device).unwrap();
        let neuron = NeuronPaths { sysfs: folder.path().to_owned(), ..NeuronPaths::default() };
        let paths = DevicePaths { neuron, ..DevicePaths::default() };
        let host = Host::new("neuron", NonZeroU32::new(cores), &paths).unwrap();
        assert_eq!(host.core_counts().as_deref(), Some(expect), "{device}");
    }

    #[test]
    fn neuron_allows_only_some_numbers_of_cores() {
        check("Trainium1\n", 32, &[1, 2, 8, 16, 32]);
        check("Trainium1\n", 2, &[1, 2]);
        check("Trainium2\n", 64, &[1, 2, 4, 8, 16, 32, 64]);
        assert_eq!(Host::new("cpu", None, &DevicePaths::default()).unwrap().core_counts(), None);
    }
}
