//! Neuron's tree in sysfs, with a folder per device. Files may be missing, not readable for this
//! user, or fail to read because their device fails.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Instant;

use traind_neuron::{Generation, Version};
use traind_proto::v1::DeviceFigures;

use super::{Faults, FoundCore};

/// A device that reports more is broken: the largest have eight.
pub(super) const CORES_PER_DEVICE_MAX: u32 = 64;
/// The shortest interval between two readings from which utilization is computed.
const INTERVAL_SECONDS_MIN: f64 = 0.05;

/// Status counters of errors of the device or its runtime, by the driver's sources.
const ERRORS: &[&str] = &[
    "timeout",
    "hw_error",
    "generic_error",
    "resource_error",
    "resource_nc_error",
    "execute_completed_with_error",
    "oob_error",
    "hw_collectives_error",
    "hw_hbm_ue_error",
    "hw_nc_ue_error",
    "hw_dma_abort_error",
    "hw_repairable_hbm_ue_error",
    "execute_sw_nq_overflow",
    "execute_sw_semaphore_error",
    "execute_sw_event_error",
    "execute_sw_psum_collision",
    "execute_sw_sequencer_fatal",
];
/// Counters of errors of a device.
const HARDWARE_ERRORS: &[&str] =
    &["mem_ecc_uncorrected", "sram_ecc_uncorrected", "mem_ecc_repairable_uncorrected"];
/// Status counters of errors that no program can cause.
const FAULTS: &[&str] =
    &["hw_error", "hw_hbm_ue_error", "hw_nc_ue_error", "hw_repairable_hbm_ue_error"];
/// The first driver that counts the time of a core while a process uses it. Earlier ones add it up
/// when the process ends, so that a busy core would seem idle.
const LIVE_TIMES: Version = Version::new(2, 30);

pub(super) struct Sysfs {
    root: PathBuf,
    /// The devices of the first scan that found any, so that numbers stay when one disappears.
    devices: OnceLock<Vec<Device>>,
    /// The newest reading of busy time, by core.
    busy: Mutex<BTreeMap<u32, BusyTime>>,
    /// Whether busy times change while a core is busy.
    has_live_times: bool,
}

#[derive(Clone, Copy)]
struct BusyTime {
    read: Instant,
    microseconds: u64,
    /// Utilization since the reading before.
    percent: Option<f64>,
}

/// A device's folder and how many cores it has.
struct Device {
    index: u32,
    path: PathBuf,
    name: String,
    physical_cores: u32,
    /// Logical cores, as the runtime counts them.
    cores: u32,
}

impl Sysfs {
    /// `driver`: the file with the version of the driver that is loaded.
    pub(super) fn new(root: PathBuf, driver: &Path) -> Sysfs {
        let version = text(driver).and_then(|version| Version::parse(&version));
        let has_live_times = version.is_some_and(|version| version >= LIVE_TIMES);
        Sysfs { root, devices: OnceLock::new(), busy: Mutex::default(), has_live_times }
    }

    pub(super) fn root(&self) -> String {
        self.root.display().to_string()
    }

    pub(super) fn cores(&self) -> Vec<FoundCore> {
        let mut found = Vec::new();
        for device in self.devices() {
            let core = FoundCore {
                device: device.name.clone(),
                device_index: device.index,
                uuid: text(&device.path.join("info/serial_number")).unwrap_or_default(),
            };
            found.extend(std::iter::repeat_n(core, device.cores as usize));
        }
        found
    }

    pub(super) fn statistics(&self) -> BTreeMap<u32, DeviceFigures> {
        self.by_core(|number, device, physical| self.core_statistics(number, device, physical))
    }

    /// Hardware errors by core: those of its physical cores, and those of its device.
    pub(super) fn faults(&self) -> BTreeMap<u32, Faults> {
        self.by_core(|_, device, physical| faults_of(device, physical))
    }

    /// Reads each logical core, given its number and the folders of its device and of its physical cores.
    fn by_core<T>(&self, read: impl Fn(u32, &Path, &[PathBuf]) -> T) -> BTreeMap<u32, T> {
        let cores = self.devices().iter().flat_map(|it| (0..it.cores).map(move |core| (it, core)));
        let read = |(number, (device, core)): (u32, (&Device, u32))| {
            (number, read(number, &device.path, &device.physical_cores_of(core)))
        };
        (0..).zip(cores).map(read).collect()
    }

    /// All devices, in the order of their numbers.
    fn devices(&self) -> &[Device] {
        if let Some(known) = self.devices.get() {
            return known;
        }
        match self.scan() {
            found if found.is_empty() => &[],
            found => self.devices.get_or_init(|| found),
        }
    }

    /// Finds the devices, sorted by number: `neuron10` comes after `neuron9`.
    fn scan(&self) -> Vec<Device> {
        let entries = fs::read_dir(&self.root).into_iter().flatten().flatten();
        let index = |name: &str| name.strip_prefix("neuron")?.parse().ok();
        let mut found: Vec<(u32, PathBuf)> = entries
            .filter_map(|entry| Some((index(entry.file_name().to_str()?)?, entry.path())))
            .collect();
        found.sort();
        found.into_iter().map(|(index, path)| Device::read(index, path)).collect()
    }

    /// The statistics of a logical core: those of its physical ones together.
    fn core_statistics(&self, number: u32, device: &Path, physical: &[PathBuf]) -> DeviceFigures {
        let memory = |core: &PathBuf| core.join("stats/memory_usage/device_mem");
        let errors = physical.iter().flat_map(|core| errors_of_core(core));
        let errors = errors.chain(errors_of_device(device));
        let mut by_category = BTreeMap::new();
        for (category, bytes) in physical.iter().flat_map(|core| categories(&memory(core))) {
            let sum: &mut u64 = by_category.entry(category).or_default();
            *sum = sum.saturating_add(bytes);
        }
        // The driver calls the current value `total`.
        let used = physical.iter().filter_map(|core| count(&memory(core).join("total")));
        DeviceFigures {
            utilization_percent: self.utilization(number, physical),
            memory_used_bytes: used.reduce(u64::saturating_add),
            power_watts: None,
            errors: errors.reduce(u64::saturating_add),
            memory_by_category: by_category,
            ..DeviceFigures::default()
        }
    }

    /// Busy time since the reading before, in percent. `None` if the counter was reset, or if the driver
    /// does not count the time of processes that run.
    fn utilization(&self, number: u32, physical: &[PathBuf]) -> Option<f64> {
        if !self.has_live_times {
            return None;
        }
        let time = |core: &PathBuf| count(&core.join("stats/other_info/nc_time_in_use/total"));
        let times: Vec<u64> = physical.iter().filter_map(time).collect();
        let sum = times.iter().copied().reduce(u64::saturating_add)?;
        let microseconds = sum / times.len() as u64;
        let now = Instant::now();
        let mut busy = self.busy.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(before) = busy.get(&number).copied() else {
            busy.insert(number, BusyTime { read: now, microseconds, percent: None });
            return None;
        };
        let seconds = now.duration_since(before.read).as_secs_f64();
        if seconds < INTERVAL_SECONDS_MIN {
            return before.percent;
        }
        let percent = percent_busy(before.microseconds, microseconds, seconds);
        busy.insert(number, BusyTime { read: now, microseconds, percent });
        percent
    }
}

fn percent_busy(before: u64, after: u64, seconds: f64) -> Option<f64> {
    let used = after.checked_sub(before)? as f64 / 1e6;
    Some((100.0 * used / seconds).clamp(0.0, 100.0))
}

impl Device {
    fn read(index: u32, path: PathBuf) -> Device {
        let architecture = path.join("info/architecture");
        let name = text(&architecture.join("device_name"))
            .or_else(|| text(&architecture.join("arch_type")))
            .unwrap_or_else(|| "neuron".to_owned());
        let physical_cores = physical_cores(&path);
        let cores = physical_cores / physical_per_logical(&name);
        Device { index, path, name, physical_cores, cores }
    }

    /// The folders of the physical cores of a logical one.
    fn physical_cores_of(&self, core: u32) -> Vec<PathBuf> {
        let each = self.physical_cores / self.cores.max(1);
        let numbers = core * each..(core + 1) * each;
        numbers.map(|number| self.path.join(format!("neuron_core{number}"))).collect()
    }
}

fn errors_of_core(core: &Path) -> impl Iterator<Item = u64> {
    let status = core.join("stats/status");
    ERRORS.iter().filter_map(move |kind| count(&status.join(kind).join("total")))
}

fn errors_of_device(device: &Path) -> impl Iterator<Item = u64> {
    let hardware = device.join("stats/hardware");
    let unhealthy = text(&hardware.join("health_status/unhealthy_components"));
    // A number, or names of components.
    let unhealthy = unhealthy.map(|found| found.parse().unwrap_or(1));
    let counters = HARDWARE_ERRORS.iter();
    counters.filter_map(move |kind| count(&hardware.join(kind))).chain(unhealthy)
}

fn faults_of(device: &Path, physical: &[PathBuf]) -> Faults {
    let status = |kind: &str| {
        let counters =
            physical.iter().map(|core| core.join("stats/status").join(kind).join("total"));
        counters.filter_map(|counter| count(&counter)).reduce(u64::saturating_add)
    };
    let of_cores = FAULTS.iter().map(|kind| (*kind, status(kind)));
    let hardware = device.join("stats/hardware");
    let of_device = HARDWARE_ERRORS.iter().map(|kind| (*kind, count(&hardware.join(kind))));
    let named = of_cores.chain(of_device);
    named.filter_map(|(kind, count)| Some((kind.to_owned(), count?))).collect()
}

/// The number in `core_count`, which only root can read, or the number of core folders if the file is missing or
/// invalid.
fn physical_cores(device: &Path) -> u32 {
    let reported = count(&device.join("core_count")).and_then(|count| u32::try_from(count).ok());
    reported.filter(|count| (1..=CORES_PER_DEVICE_MAX).contains(count)).unwrap_or_else(|| {
        let entries = fs::read_dir(device).into_iter().flatten().flatten();
        entries
            .filter_map(|entry| entry.file_name().into_string().ok())
            .filter(|name| name.starts_with("neuron_core"))
            .count() as u32
    })
}

/// Physical cores per logical core: two on trn2 and trn3, unless the environment sets another number.
fn physical_per_logical(device_name: &str) -> u32 {
    let configured =
        std::env::var("NEURON_LOGICAL_NC_CONFIG").ok().and_then(|text| text.parse().ok());
    let generation = Generation::of_device(device_name);
    let default = generation.map_or(1, Generation::default_logical_config);
    configured.filter(|count| (1..=2).contains(count)).unwrap_or(default)
}

/// Memory by category. The folders beside `total` are categories: constants, model_code, tensors ...
fn categories(memory: &Path) -> BTreeMap<String, u64> {
    let entries = fs::read_dir(memory).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            let bytes = count(&entry.path().join("total"))?;
            Some((entry.file_name().into_string().ok()?, bytes))
        })
        .collect()
}

fn count(path: &Path) -> Option<u64> {
    text(path)?.parse().ok()
}

fn text(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates a tree like the driver's.
    fn tree(root: &Path, devices: u32, cores: u32, name: &str) {
        for device in 0..devices {
            let path = root.join(format!("neuron{device}"));
            put(&path.join("core_count"), &cores.to_string());
            put(&path.join("info/architecture/device_name"), name);
            put(&path.join("info/serial_number"), &format!("serial-{device}"));
            put(&path.join("stats/hardware/mem_ecc_uncorrected"), "0");
            for core in 0..cores {
                let core = path.join(format!("neuron_core{core}/stats"));
                put(&core.join("memory_usage/device_mem/total"), "1000");
                put(&core.join("memory_usage/device_mem/tensors/total"), "600");
                put(&core.join("status/hw_error/total"), "0");
                put(&core.join("other_info/nc_time_in_use/total"), "5000000");
            }
        }
    }

    /// The tree's statistics with a driver that counts while cores are busy.
    fn sysfs(root: &Path) -> Sysfs {
        let driver = root.join("version");
        put(&driver, "2.30.2.0");
        Sysfs::new(root.to_owned(), &driver)
    }

    fn put(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{text}\n")).unwrap();
    }

    fn check(devices: u32, cores: u32, name: &str, expect: usize) {
        let folder = tempfile::tempdir().unwrap();
        tree(folder.path(), devices, cores, name);
        let sysfs = sysfs(folder.path());
        let found = sysfs.cores();
        assert_eq!(found.len(), expect, "{name}");
        let statistics = sysfs.statistics();
        assert_eq!(statistics.len(), expect);
        let last = found.last().unwrap();
        assert_eq!((last.device.as_str(), last.device_index), (name, devices - 1));
        assert_eq!(last.uuid, format!("serial-{}", devices - 1));
        let first = &statistics[&0];
        let each = u64::from(devices * cores) / expect as u64;
        assert_eq!((first.memory_used_bytes, first.errors), (Some(each * 1000), Some(0)));
        assert_eq!(first.memory_by_category["tensors"], each * 600);
        assert_eq!(first.utilization_percent, None, "one reading is not enough");
    }

    #[test]
    fn instances_have_their_cores() {
        check(1, 2, "Trainium1", 2); // trn1.2xlarge
        check(16, 2, "Trainium1", 32); // trn1.32xlarge: neuron10 comes after neuron9
        check(16, 8, "Trainium2", 64); // trn2.48xlarge, two physical cores a logical one
        check(4, 8, "Trainium3", 16);
    }

    #[test]
    fn errors_of_both_physical_cores_and_of_the_device_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        tree(folder.path(), 1, 8, "Trainium2");
        let device = folder.path().join("neuron0");
        for (kind, core) in [("oob_error", 0), ("execute_sw_nq_overflow", 1), ("oob_error", 2)] {
            put(&device.join(format!("neuron_core{core}/stats/status/{kind}/total")), "1");
        }
        put(&device.join("neuron_core0/stats/status/success/total"), "90");
        let errors = |core: u32| sysfs(folder.path()).statistics()[&core].errors;
        assert_eq!([0, 1, 2].map(errors), [Some(2), Some(1), Some(0)]);
        let hardware = device.join("stats/hardware");
        put(&hardware.join("mem_ecc_repairable_uncorrected"), "4");
        put(&hardware.join("health_status/unhealthy_components"), "hbm0");
        assert_eq!(errors(2), Some(5));
    }

    #[test]
    fn errors_that_programs_cause_are_no_faults() {
        let folder = tempfile::tempdir().unwrap();
        tree(folder.path(), 2, 2, "Trainium1");
        let status = folder.path().join("neuron0/neuron_core1/stats/status");
        put(&status.join("oob_error/total"), "7");
        put(&status.join("timeout/total"), "7");
        put(&status.join("hw_nc_ue_error/total"), "2");
        put(&folder.path().join("neuron1/stats/hardware/mem_ecc_uncorrected"), "3");
        let faults = sysfs(folder.path()).faults();
        let of = |core: u32| faults[&core].values().sum::<u64>();
        assert_eq!([0, 1, 2, 3].map(of), [0, 2, 3, 3]);
        assert_eq!(faults[&1]["hw_nc_ue_error"], 2);
    }

    #[test]
    fn utilization_is_unknown_where_the_driver_counts_at_the_end() {
        let folder = tempfile::tempdir().unwrap();
        tree(folder.path(), 1, 2, "Trainium1");
        let times = |version| {
            let driver = folder.path().join("version");
            put(&driver, version);
            Sysfs::new(folder.path().to_owned(), &driver).has_live_times
        };
        assert_eq!(["2.29.9.0", "2.30.2.0", "unknown"].map(times), [false, true, false]);
        let old = Sysfs::new(folder.path().to_owned(), Path::new("/nowhere"));
        let core = folder.path().join("neuron0/neuron_core0");
        assert_eq!(old.utilization(0, std::slice::from_ref(&core)), None);
        let reading = old.busy.lock().unwrap();
        assert!(reading.is_empty(), "nothing is taken for a time of 0");
    }

    #[test]
    fn missing_and_broken_files_are_left_out() {
        let folder = tempfile::tempdir().unwrap();
        tree(folder.path(), 2, 2, "Trainium1");
        let broken = folder.path().join("neuron1");
        fs::remove_file(broken.join("core_count")).unwrap();
        fs::remove_dir_all(broken.join("info")).unwrap();
        fs::remove_dir_all(broken.join("stats")).unwrap();
        put(&broken.join("neuron_core0/stats/memory_usage/device_mem/total"), "EIO");
        fs::remove_dir_all(broken.join("neuron_core0/stats/status")).unwrap();
        put(&folder.path().join("power/control"), "auto");
        let sysfs = sysfs(folder.path());
        assert_eq!(sysfs.cores().len(), 4, "counted by the folders");
        let statistics = sysfs.statistics();
        assert_eq!((statistics[&2].memory_used_bytes, statistics[&2].errors), (None, None));
        assert_eq!(statistics[&3].memory_used_bytes, Some(1000));
    }

    #[test]
    fn numbers_stay_when_a_device_disappears() {
        let folder = tempfile::tempdir().unwrap();
        tree(folder.path(), 3, 2, "Trainium1");
        put(&folder.path().join("neuron2/neuron_core0/stats/memory_usage/device_mem/total"), "77");
        let sysfs = sysfs(folder.path());
        assert_eq!(sysfs.cores().len(), 6);
        fs::remove_dir_all(folder.path().join("neuron1")).unwrap();
        let statistics = sysfs.statistics();
        assert_eq!(statistics.len(), 6);
        assert_eq!(
            (statistics[&2].memory_used_bytes, statistics[&4].memory_used_bytes),
            (None, Some(77))
        );
    }

    #[test]
    fn impossible_values_are_left_out() {
        let folder = tempfile::tempdir().unwrap();
        tree(folder.path(), 4, 2, "Trainium1");
        for (device, count) in
            ["4294967295", "18446744073709551616", "-2", "two"].iter().enumerate()
        {
            put(&folder.path().join(format!("neuron{device}/core_count")), count);
        }
        let status = folder.path().join("neuron0/neuron_core0/stats/status");
        put(&status.join("hw_error/total"), &u64::MAX.to_string());
        put(&status.join("timeout/total"), "1");
        let sysfs = sysfs(folder.path());
        assert_eq!(sysfs.cores().len(), 8, "counted by the folders");
        assert_eq!(sysfs.statistics()[&0].errors, Some(u64::MAX));
    }

    /// Reads until there is a value: readings in close succession repeat the one before.
    fn first<T>(mut read: impl FnMut() -> Option<T>) -> T {
        let deadline = Instant::now() + std::time::Duration::from_secs(180);
        loop {
            if let Some(value) = read() {
                return value;
            }
            assert!(Instant::now() < deadline, "no new value");
            std::thread::yield_now();
        }
    }

    #[test]
    fn utilization_is_busy_time_and_a_counter_that_was_reset_is_left_out() {
        assert_eq!(percent_busy(5_000_000, 5_500_000, 1.0), Some(50.0));
        assert_eq!(percent_busy(0, 9_000_000, 1.0), Some(100.0), "capped");
        assert_eq!(percent_busy(u64::MAX, 10, 1.0), None);
        let folder = tempfile::tempdir().unwrap();
        tree(folder.path(), 1, 2, "Trainium1");
        let sysfs = sysfs(folder.path());
        let core = folder.path().join("neuron0/neuron_core1/stats/other_info/nc_time_in_use/total");
        let read = || sysfs.statistics()[&1].utilization_percent;
        assert_eq!(read(), None);
        put(&core, "5040000");
        let busy = first(read);
        assert!(busy > 0.0 && busy <= 80.0, "{busy}");
        put(&core, "7");
        first(|| read().is_none().then_some(()));
    }

    #[test]
    fn without_the_driver_there_are_no_cores() {
        let sysfs = Sysfs::new("/nowhere/neuron_device".into(), Path::new("/nowhere"));
        assert!(sysfs.cores().is_empty() && sysfs.statistics().is_empty());
    }
}
