//! The energy of CPUs, as the kernel's powercap interface reports it (RAPL). Only root can read it.
//!
//! Each package (socket) has a counter in microjoules, which returns to 0 after some minutes or hours. Its
//! parts (cores, memory) have counters of their own, which are left out.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

const POWERCAP: &str = "/sys/class/powercap";
/// A zone of the top level is `intel-rapl:0`; the kernel calls AMD's so too.
const ZONE: &str = "intel-rapl:";
/// A zone may also be the whole machine, `psys`, which contains the packages.
const PACKAGE: &str = "package-";
const MICRO: f64 = 1e-6;

/// The counters of all packages.
#[derive(Debug)]
pub(super) struct Rapl {
    folder: PathBuf,
    counters: Mutex<BTreeMap<PathBuf, Counter>>,
}

/// A counter in microjoules.
#[derive(Clone, Copy, Debug)]
struct Counter {
    last: u64,
    /// The sum since the first reading.
    total: u64,
}

impl Rapl {
    pub(super) fn new(folder: Option<&Path>) -> Rapl {
        let folder = folder.unwrap_or(Path::new(POWERCAP)).to_owned();
        Rapl { folder, counters: Mutex::default() }
    }

    /// Energy of all packages since the first call, in joules; `None` if no counter can be read. Callers
    /// compare readings less than the time apart in which a counter returns to 0.
    pub(super) fn joules(&self) -> Option<f64> {
        let mut counters = self.counters.lock().unwrap_or_else(PoisonError::into_inner);
        let mut sum = None;
        for package in self.packages() {
            let Some(now) = number(&package.join("energy_uj")) else { continue };
            let range = number(&package.join("max_energy_range_uj")).unwrap_or_default();
            let counter = counters.entry(package).or_insert(Counter { last: now, total: 0 });
            counter.advance(now, range);
            sum = Some(sum.unwrap_or(0) + counter.total);
        }
        sum.map(|microjoules: u64| microjoules as f64 * MICRO)
    }

    fn packages(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let zones = entries.filter(|entry| {
            let name = entry.file_name().into_string().unwrap_or_default();
            name.strip_prefix(ZONE).is_some_and(|rest| rest.parse::<u32>().is_ok())
        });
        let is_package = |zone: &PathBuf| {
            fs::read_to_string(zone.join("name")).is_ok_and(|name| name.starts_with(PACKAGE))
        };
        zones.map(|zone| zone.path()).filter(is_package).collect()
    }
}

impl Counter {
    /// Adds the energy until a reading. After `range`, the counter begins with 0 again.
    fn advance(&mut self, now: u64, range: u64) {
        let wrapped = || range.saturating_sub(self.last).saturating_add(now);
        let used = now.checked_sub(self.last).unwrap_or_else(wrapped);
        *self = Counter { last: now, total: self.total.saturating_add(used) };
    }
}

fn number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(folder: &Path, zone: &str, name: &str, microjoules: u64) {
        let zone = folder.join(zone);
        fs::create_dir_all(&zone).unwrap();
        fs::write(zone.join("name"), format!("{name}\n")).unwrap();
        fs::write(zone.join("max_energy_range_uj"), "262143328850\n").unwrap();
        fs::write(zone.join("energy_uj"), format!("{microjoules}\n")).unwrap();
    }

    #[test]
    fn packages_are_added_up_and_counters_wrap() {
        let folder = tempfile::tempdir().unwrap();
        let set = |zone: &str, name: &str, value| set(folder.path(), zone, name, value);
        let rapl = Rapl::new(Some(folder.path()));
        assert_eq!(rapl.joules(), None);
        set("intel-rapl:0", "package-0", 262_143_000_000);
        set("intel-rapl:1", "package-1", 7_000_000);
        // The kernel lists parts beside the packages.
        set("intel-rapl:0:0", "core", 1);
        set("intel-rapl:2", "psys", 1);
        assert_eq!(rapl.joules(), Some(0.0));
        set("intel-rapl:0", "package-0", 1_671_150);
        set("intel-rapl:1", "package-1", 9_000_000);
        set("intel-rapl:0:0", "core", 500_000_000);
        set("intel-rapl:2", "psys", 500_000_000);
        assert_eq!(rapl.joules(), Some(2.0 + 2.0));
    }
}
