//! The cores that this daemon schedules.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;

use traind_proto::v1::DeviceFigures;

use crate::discovery::{self, Discovery, DiscoveryError, FoundCore, Places};

/// A platform's cores on this host.
#[derive(Clone)]
pub(crate) struct Host {
    /// "cpu", "cuda" or "neuron".
    pub platform: String,
    pub cores: Vec<u32>,
    found: Vec<FoundCore>,
    source: Arc<dyn Discovery>,
}

impl Host {
    /// The platform's cores: those that are found, or `core_count` if that is given, since a
    /// platform may be used whose driver tells nothing.
    pub(crate) fn new(
        platform: &str,
        core_count: Option<NonZeroU32>,
        places: &Places,
    ) -> Result<Host, DiscoveryError> {
        let source = discovery::of_platform(platform, places);
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

    /// What a core is, in words. Cores beyond those that were found are like the last one.
    pub(crate) fn device(&self, core: u32) -> &str {
        let found = self.found.get(core as usize).or(self.found.last());
        found.map_or(self.platform.as_str(), |core| core.device.as_str())
    }

    /// What the devices tell of themselves now, by core. Waits for files and drivers.
    pub(crate) fn figures(&self) -> BTreeMap<u32, DeviceFigures> {
        self.source.figures()
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
