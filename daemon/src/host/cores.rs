//! The cores that this daemon schedules.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;

use traind_neuron::{CoreKind, Generation, VISIBLE_CORES, is_core_range, parse_core_ranges};
use traind_proto::v1::DeviceFigures;

use crate::host::discovery::{self, DevicePaths, Discovery, DiscoveryError, Faults, FoundCore};

/// The number of physical cores of a logical one.
const LOGICAL_CONFIG: &str = "NEURON_LOGICAL_NC_CONFIG";

/// A platform's cores on this host.
#[derive(Clone)]
pub(crate) struct Host {
    /// `cpu`, `cuda` or `neuron`.
    pub platform: String,
    pub cores: Vec<u32>,
    found: Vec<FoundCore>,
    /// The driver's number of the first core.
    first: u32,
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
        let mut found = match (source.cores(), core_count) {
            (Ok(found), _) => found,
            (Err(_), Some(_)) => Vec::new(),
            (Err(error), None) => return Err(error),
        };
        let (mut first, mut count) = (0, core_count.map_or(found.len() as u32, NonZeroU32::get));
        if platform == "neuron" {
            check_config(found.first(), logical_config().as_deref())?;
            let given = std::env::var(VISIBLE_CORES).unwrap_or_default();
            let visible = visible(&given, found.len() as u32, core_count)?;
            if !visible.is_empty() {
                (first, count) =
                    (visible[0], core_count.map_or(visible.len() as u32, NonZeroU32::get));
                found.drain(..found.len().min(first as usize));
            }
        }
        let cores = (0..count).collect();
        Ok(Host { platform: platform.to_owned(), cores, found, first, source })
    }

    /// The number of a core for the host's driver and tools.
    pub(crate) fn host_core(&self, core: u32) -> u32 {
        self.first + core
    }

    pub(crate) fn core_count(&self) -> u32 {
        self.cores.len() as u32
    }

    /// The numbers of cores that a job may have; `None` if any number is allowed. For NeuronCores, those
    /// for which AWS documents collectives, or with [`traind_choices::NEURON_ANY_CORE_COUNT`] all powers
    /// of two: groups of other sizes may work, but nobody says so.
    pub(crate) fn core_counts(&self) -> Option<Vec<u32>> {
        if self.platform != "neuron" {
            return None;
        }
        Some(neuron_core_counts(self.device(0), self.core_count(), admits_any_count()))
    }

    /// The kind of a job's core, if they are NeuronCores that are known.
    pub(crate) fn neuron_core(&self) -> Option<&'static CoreKind> {
        if self.platform != "neuron" {
            return None;
        }
        neuron_core(self.device(0), logical_config().as_deref())
    }

    /// The device name of a core. Cores beyond those discovered are taken to be like the last one.
    pub(crate) fn device(&self, core: u32) -> &str {
        let found = self.found.get(core as usize).or(self.found.last());
        found.map_or(self.platform.as_str(), |core| core.device.as_str())
    }

    /// Reads the devices' current statistics, by core. Blocks on files and drivers.
    pub(crate) fn device_statistics(&self) -> BTreeMap<u32, DeviceFigures> {
        self.own(self.source.statistics())
    }

    /// Whether the platform's devices count hardware errors.
    pub(crate) fn counts_faults(&self) -> bool {
        self.source.counts_faults()
    }

    /// Reads the cores' counters of hardware errors. Blocks on files and drivers.
    pub(crate) fn faults(&self) -> BTreeMap<u32, Faults> {
        self.own(self.source.faults())
    }

    /// Reads the energy that some cores have used since some time, in joules; `None` if the host does not
    /// report it for all of them. Blocks on files and drivers.
    pub(crate) fn energy_joules(&self, cores: &[u32]) -> Option<f64> {
        let read = self.own(self.source.energy_joules(self.first + self.core_count()));
        cores.iter().map(|core| read.get(core).copied()).sum()
    }
}

impl Host {
    /// Values by the driver's numbers of cores, by those of this host.
    fn own<T>(&self, values: BTreeMap<u32, T>) -> BTreeMap<u32, T> {
        let of_host = |(core, value): (u32, T)| Some((core.checked_sub(self.first)?, value));
        values.into_iter().filter_map(of_host).collect()
    }
}

/// Whether this daemon admits numbers of NeuronCores for which AWS documents no collectives.
pub(crate) fn admits_any_count() -> bool {
    traind_choices::NEURON_ANY_CORE_COUNT.is_on()
}

/// The numbers of NeuronCores that a job may have on a cluster's hosts, whose devices are not known.
pub(crate) fn neuron_counts_of_clusters() -> Vec<u32> {
    neuron_core_counts("", u32::MAX, admits_any_count())
}

fn logical_config() -> Option<String> {
    std::env::var(LOGICAL_CONFIG).ok()
}

/// Refuses a logical configuration that the host's device does not have.
fn check_config(first: Option<&FoundCore>, config: Option<&str>) -> Result<(), DiscoveryError> {
    let (Some(first), Some(config)) = (first, config) else { return Ok(()) };
    let is_known = Generation::of_device(&first.device).is_some();
    match is_known && neuron_core(&first.device, Some(config)).is_none() {
        true => Err(DiscoveryError::LogicalConfig {
            config: config.to_owned(),
            device: first.device.clone(),
        }),
        false => Ok(()),
    }
}

/// The cores to which the operator restricts the daemon; none if `given` is empty. `found`: the number of cores that
/// the host has, or 0 if it is not known. `count`: the number that the daemon is to schedule.
fn visible(given: &str, found: u32, count: Option<NonZeroU32>) -> Result<Vec<u32>, DiscoveryError> {
    if given.trim().is_empty() {
        return Ok(Vec::new());
    }
    let error = |problem: String| DiscoveryError::VisibleCores { given: given.to_owned(), problem };
    let cores = visible_range(given, found).map_err(error)?;
    match count.map(NonZeroU32::get).filter(|count| *count as usize > cores.len()) {
        Some(count) => Err(error(format!("--cores is {count}"))),
        None => Ok(cores),
    }
}

fn visible_range(given: &str, found: u32) -> Result<Vec<u32>, String> {
    let cores = parse_core_ranges(given).filter(|cores| is_core_range(cores));
    let cores = cores.ok_or("Neuron's runtime takes a range, such as 0-31")?;
    match found > 0 && cores.iter().any(|core| *core >= found) {
        true => Err(format!("the host has the cores 0 to {}", found - 1)),
        false => Ok(cores),
    }
}

/// Why a daemon could not be restricted to these cores of a host that has `found`, or 0 if it is not known.
pub(super) fn visible_problem(given: &str, found: u32) -> Option<String> {
    visible_range(given, found).err()
}

/// `config`: `NEURON_LOGICAL_NC_CONFIG`, if it is set.
fn neuron_core(device: &str, config: Option<&str>) -> Option<&'static CoreKind> {
    let generation = Generation::of_device(device)?;
    let config = match config {
        Some(config) => config.trim().parse().ok()?,
        None => generation.default_logical_config(),
    };
    generation.core_kind(config)
}

/// The numbers of cores that a job may have on a host with so many of a device. A device that is not
/// known has all numbers that any generation documents.
fn neuron_core_counts(device: &str, cores: u32, any: bool) -> Vec<u32> {
    let mut counts: Vec<u32> = match Generation::of_device(device) {
        _ if any => (0..u32::BITS).map(|power| 1 << power).collect(),
        Some(generation) => generation.documented_core_counts().to_vec(),
        None => {
            Generation::ALL.iter().flat_map(|it| it.documented_core_counts()).copied().collect()
        }
    };
    counts.retain(|count| *count <= cores);
    counts.sort_unstable();
    counts.dedup();
    counts
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
    fn a_core_is_of_the_kind_of_its_device_and_configuration() {
        let kind = |device, config| neuron_core(device, config).map(|core| core.kind);
        assert_eq!(kind("Trainium1", None), Some("NC_v2"));
        assert_eq!(kind("Inferentia2", None), Some("NC_v2"));
        assert_eq!(
            [None, Some("1")].map(|it| kind("Trainium2", it)),
            [Some("NC_v3d"), Some("NC_v3")]
        );
        assert_eq!(
            [None, Some("1")].map(|it| kind("Trainium3", it)),
            [Some("NC_v4d"), Some("NC_v4")]
        );
        assert_eq!((kind("Trainium1", Some("2")), kind("neuron", None)), (None, None));
        assert_eq!(Host::new("cpu", None, &DevicePaths::default()).unwrap().neuron_core(), None);
    }

    #[test]
    fn a_configuration_that_the_device_lacks_is_refused() {
        let check = |device: &str, config| {
            let first = FoundCore { device: device.to_owned(), ..FoundCore::default() };
            check_config(Some(&first), config).map_err(|error| error.to_string())
        };
        for (device, config) in [("Trainium1", "1"), ("Trainium2", "2"), ("Trainium3", "1")] {
            assert_eq!(check(device, Some(config)), Ok(()), "{device} {config}");
            assert_eq!(check(device, None), Ok(()));
        }
        for (device, config) in [("Trainium1", "2"), ("Inferentia2", "2"), ("Trainium2", "4")] {
            let error = check(device, Some(config)).unwrap_err();
            assert!(error.contains(device) && error.contains(config), "{error}");
        }
        assert!(check("Trainium2", Some("two")).is_err());
        assert_eq!(check("neuron", Some("4")), Ok(()), "a device that nobody knows");
    }

    #[test]
    fn a_daemon_is_restricted_to_a_range_of_the_cores_that_the_host_has() {
        let check = |given: &str, found, count| {
            let visible = visible(given, found, NonZeroU32::new(count));
            visible.map_err(|error| error.to_string())
        };
        assert_eq!(check("", 32, 0), Ok(Vec::new()));
        assert_eq!(check("8-11", 32, 0), Ok(vec![8, 9, 10, 11]));
        assert_eq!(
            check("8-11", 0, 2),
            Ok(vec![8, 9, 10, 11]),
            "a host that does not say its cores"
        );
        for (given, found, count, part) in [
            ("0,2", 32, 0, "takes a range"),
            ("5-3", 32, 0, "takes a range"),
            ("all", 32, 0, "takes a range"),
            ("30-33", 32, 0, "the cores 0 to 31"),
            ("8-11", 32, 8, "--cores is 8"),
        ] {
            let error = check(given, found, count).unwrap_err();
            assert!(error.contains(given) && error.contains(part), "{error}");
        }
    }

    #[test]
    fn statistics_are_those_of_the_cores_that_the_daemon_has() {
        let mut host = Host::new("cpu", NonZeroU32::new(2), &DevicePaths::default()).unwrap();
        host.first = 8;
        let of_all = (6..=9).map(|core| (core, core)).collect();
        assert_eq!(host.own(of_all), BTreeMap::from([(0, 8), (1, 9)]));
        assert_eq!(host.host_core(1), 9);
    }

    #[test]
    fn neuron_allows_only_some_numbers_of_cores() {
        check("Trainium1\n", 32, &[1, 2, 4, 8, 32]);
        check("Trainium1\n", 2, &[1, 2]);
        check("Inferentia2\n", 24, &[1, 2, 4, 8]);
        check("Trainium2\n", 64, &[1, 4, 16, 64]);
        check("Trainium3\n", 16, &[1, 4, 16]);
        check("NeuronDevice\n", 16, &[1, 2, 4, 8, 16]);
        assert_eq!(neuron_core_counts("Trainium2", 8, true), [1, 2, 4, 8]);
        assert_eq!(neuron_counts_of_clusters(), [1, 2, 4, 8, 16, 32, 64]);
        assert_eq!(Host::new("cpu", None, &DevicePaths::default()).unwrap().core_counts(), None);
    }
}
