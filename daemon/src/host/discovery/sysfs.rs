//! Neuron's tree in sysfs, one folder a device. Files may be missing, closed to this user, or
//! fail when read because their device does.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Instant;

use traind_proto::v1::DeviceFigures;

use super::FoundCore;
use super::neuron::CORES_MAX;

/// Two readings closer than this say nothing about a share of time.
const SHORTEST_SECONDS: f64 = 0.05;

/// Kinds of status that mean an error of the device or its runtime.
const ERRORS: [&str; 4] = ["hw_error", "timeout", "exec_bad_status", "resource"];

pub(super) struct Sysfs {
    root: PathBuf,
    /// The devices of the first look that found any: one that disappears takes no other's number.
    devices: OnceLock<Vec<Device>>,
    /// By core: when its time in use was read, that, and the share that came of it.
    uses: Mutex<BTreeMap<u32, Use>>,
}

#[derive(Clone, Copy)]
struct Use {
    read: Instant,
    microseconds: u64,
    percent: Option<f64>,
}

/// A device's folder and how many cores it has.
struct Device {
    index: u32,
    path: PathBuf,
    name: String,
    physical_cores: u32,
    /// As the runtime counts them.
    cores: u32,
}

impl Sysfs {
    pub(super) fn new(root: PathBuf) -> Sysfs {
        Sysfs { root, devices: OnceLock::new(), uses: Mutex::default() }
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

    pub(super) fn figures(&self) -> BTreeMap<u32, DeviceFigures> {
        let mut figures = BTreeMap::new();
        let mut number = 0;
        for device in self.devices() {
            for core in 0..device.cores {
                // A logical core is a pair of neighbours, whose first one stands for both.
                let physical = core * device.physical_cores / device.cores;
                let path = device.path.join(format!("neuron_core{physical}"));
                figures.insert(number, self.of_core(number, &device.path, &path));
                number += 1;
            }
        }
        figures
    }

    /// In the order of their numbers.
    fn devices(&self) -> &[Device] {
        if let Some(known) = self.devices.get() {
            return known;
        }
        match self.look() {
            found if found.is_empty() => &[],
            found => self.devices.get_or_init(|| found),
        }
    }

    /// The order of their numbers is not that of their names.
    fn look(&self) -> Vec<Device> {
        let entries = fs::read_dir(&self.root).into_iter().flatten().flatten();
        let index = |name: &str| name.strip_prefix("neuron")?.parse().ok();
        let mut found: Vec<(u32, PathBuf)> = entries
            .filter_map(|entry| Some((index(entry.file_name().to_str()?)?, entry.path())))
            .collect();
        found.sort();
        found.into_iter().map(|(index, path)| Device::read(index, path)).collect()
    }

    fn of_core(&self, number: u32, device: &Path, core: &Path) -> DeviceFigures {
        let memory = core.join("stats/memory_usage/device_mem");
        let status = core.join("stats/status");
        let counted = ERRORS.iter().filter_map(|kind| count(&status.join(kind).join("total")));
        let hardware = ["mem_ecc_uncorrected", "sram_ecc_uncorrected"];
        let hardware =
            hardware.iter().filter_map(|kind| count(&device.join("stats/hardware").join(kind)));
        let errors: Vec<u64> = counted.chain(hardware).collect();
        DeviceFigures {
            utilization_percent: self.share(number, core),
            // The driver calls what is held at the moment `total`.
            memory_used_bytes: count(&memory.join("total")),
            power_watts: None,
            errors: errors.into_iter().reduce(u64::saturating_add),
            memory_by_category: categories(&memory),
            ..DeviceFigures::default()
        }
    }

    /// Time in use since the reading before, as a share. A counter that went back began anew.
    fn share(&self, number: u32, core: &Path) -> Option<f64> {
        let microseconds = count(&core.join("stats/other_info/nc_time_in_use/total"))?;
        let now = Instant::now();
        let mut uses = self.uses.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(before) = uses.get(&number).copied() else {
            uses.insert(number, Use { read: now, microseconds, percent: None });
            return None;
        };
        let seconds = now.duration_since(before.read).as_secs_f64();
        if seconds < SHORTEST_SECONDS {
            return before.percent;
        }
        let percent = share_of(before.microseconds, microseconds, seconds);
        uses.insert(number, Use { read: now, microseconds, percent });
        percent
    }
}

fn share_of(before: u64, after: u64, seconds: f64) -> Option<f64> {
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
        let cores = physical_cores / logical_cores_of(&name);
        Device { index, path, name, physical_cores, cores }
    }
}

/// As the device tells, or as its folders tell where that is no number of cores.
fn physical_cores(device: &Path) -> u32 {
    let told = count(&device.join("core_count")).and_then(|count| u32::try_from(count).ok());
    told.filter(|count| (1..=CORES_MAX).contains(count)).unwrap_or_else(|| {
        let entries = fs::read_dir(device).into_iter().flatten().flatten();
        let is_core = |name: &str| name.starts_with("neuron_core");
        entries.filter(|entry| entry.file_name().to_str().is_some_and(is_core)).count() as u32
    })
}

/// Physical cores that the runtime makes one of: two on trn2, unless it is told otherwise.
fn logical_cores_of(device_name: &str) -> u32 {
    let told = std::env::var("NEURON_LOGICAL_NC_CONFIG").ok().and_then(|text| text.parse().ok());
    let usual = if device_name.to_lowercase().contains("trainium2") { 2 } else { 1 };
    told.filter(|count| (1..=2).contains(count)).unwrap_or(usual)
}

/// Folders beside `total` are categories: constants, model_code, tensors ...
fn categories(memory: &Path) -> BTreeMap<String, u64> {
    let entries = fs::read_dir(memory).into_iter().flatten().flatten();
    let read = |entry: fs::DirEntry| {
        let bytes = count(&entry.path().join("total"))?;
        Some((entry.file_name().into_string().ok()?, bytes))
    };
    entries.filter_map(read).collect()
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

    /// A tree of the shape that the driver makes.
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

    fn put(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{text}\n")).unwrap();
    }

    fn check(devices: u32, cores: u32, name: &str, expect: usize) {
        let folder = tempfile::tempdir().unwrap();
        tree(folder.path(), devices, cores, name);
        let sysfs = Sysfs::new(folder.path().to_owned());
        let found = sysfs.cores();
        assert_eq!(found.len(), expect, "{name}");
        let figures = sysfs.figures();
        assert_eq!(figures.len(), expect);
        let last = found.last().unwrap();
        assert_eq!((last.device.as_str(), last.device_index), (name, devices - 1));
        assert_eq!(last.uuid, format!("serial-{}", devices - 1));
        let told = &figures[&0];
        assert_eq!((told.memory_used_bytes, told.errors), (Some(1000), Some(0)));
        assert_eq!(told.memory_by_category["tensors"], 600);
        assert_eq!(told.utilization_percent, None, "one reading is no share");
    }

    #[test]
    fn instances_have_their_cores() {
        check(1, 2, "Trainium1", 2); // trn1.2xlarge
        check(16, 2, "Trainium1", 32); // trn1.32xlarge: neuron10 comes after neuron9
        check(16, 8, "Trainium2", 64); // trn2.48xlarge, two physical cores a logical one
    }

    #[test]
    fn what_is_missing_or_broken_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        tree(folder.path(), 2, 2, "Trainium1");
        let broken = folder.path().join("neuron1");
        fs::remove_file(broken.join("core_count")).unwrap();
        fs::remove_dir_all(broken.join("info")).unwrap();
        fs::remove_dir_all(broken.join("stats")).unwrap();
        put(&broken.join("neuron_core0/stats/memory_usage/device_mem/total"), "EIO");
        fs::remove_dir_all(broken.join("neuron_core0/stats/status")).unwrap();
        put(&folder.path().join("power/control"), "auto");
        let sysfs = Sysfs::new(folder.path().to_owned());
        assert_eq!(sysfs.cores().len(), 4, "cores are counted by their folders then");
        let figures = sysfs.figures();
        assert_eq!((figures[&2].memory_used_bytes, figures[&2].errors), (None, None));
        assert_eq!(figures[&3].memory_used_bytes, Some(1000));
    }

    #[test]
    fn a_device_that_disappears_takes_no_other_ones_number() {
        let folder = tempfile::tempdir().unwrap();
        tree(folder.path(), 3, 2, "Trainium1");
        put(&folder.path().join("neuron2/neuron_core0/stats/memory_usage/device_mem/total"), "77");
        let sysfs = Sysfs::new(folder.path().to_owned());
        assert_eq!(sysfs.cores().len(), 6);
        fs::remove_dir_all(folder.path().join("neuron1")).unwrap();
        let figures = sysfs.figures();
        assert_eq!(figures.len(), 6);
        assert_eq!(
            (figures[&2].memory_used_bytes, figures[&4].memory_used_bytes),
            (None, Some(77))
        );
    }

    #[test]
    fn figures_that_cannot_be_are_no_figures() {
        let folder = tempfile::tempdir().unwrap();
        tree(folder.path(), 4, 2, "Trainium1");
        for (device, told) in ["4294967295", "18446744073709551616", "-2", "two"].iter().enumerate()
        {
            put(&folder.path().join(format!("neuron{device}/core_count")), told);
        }
        let status = folder.path().join("neuron0/neuron_core0/stats/status");
        put(&status.join("hw_error/total"), &u64::MAX.to_string());
        put(&status.join("timeout/total"), "1");
        let sysfs = Sysfs::new(folder.path().to_owned());
        assert_eq!(sysfs.cores().len(), 8, "cores are counted by their folders then");
        assert_eq!(sysfs.figures()[&0].errors, Some(u64::MAX));
    }

    #[test]
    fn utilization_is_the_time_in_use_and_a_counter_that_wraps_is_left_out() {
        assert_eq!(share_of(5_000_000, 5_500_000, 1.0), Some(50.0));
        assert_eq!(share_of(0, 9_000_000, 1.0), Some(100.0), "never more than all");
        assert_eq!(share_of(u64::MAX, 10, 1.0), None);
        let folder = tempfile::tempdir().unwrap();
        tree(folder.path(), 1, 2, "Trainium1");
        let sysfs = Sysfs::new(folder.path().to_owned());
        let core = folder.path().join("neuron0/neuron_core1/stats/other_info/nc_time_in_use/total");
        let read = || sysfs.figures()[&1].utilization_percent;
        assert_eq!(read(), None);
        std::thread::sleep(std::time::Duration::from_millis(80));
        put(&core, "5040000");
        let busy = read().unwrap();
        assert!(busy > 1.0 && busy <= 50.0, "{busy}");
        assert_eq!(read(), Some(busy), "too soon for another");
        std::thread::sleep(std::time::Duration::from_millis(80));
        put(&core, "7");
        assert_eq!(read(), None);
    }

    #[test]
    fn without_the_driver_there_is_nothing() {
        let sysfs = Sysfs::new("/nowhere/neuron_device".into());
        assert!(sysfs.cores().is_empty() && sysfs.figures().is_empty());
    }
}
