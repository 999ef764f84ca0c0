//! The control group below which the daemon creates groups for its jobs.
//!
//! systemd delegates one to a service with `Delegate=yes`. The kernel allows memory limits only below
//! a group without processes of its own, so the unit puts the daemon into a subgroup
//! (`DelegateSubgroup=`, systemd 254).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

/// Name of the daemon's own group in the unit.
const SUBGROUP: &str = "daemon";

/// Returns the group below which each job gets its own, if one was delegated to the daemon.
pub(crate) fn delegated_cgroup() -> Option<PathBuf> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    // The root group belongs to the system's service manager.
    if own.is_empty() {
        return None;
    }
    let own = unified_mount(&fs::read_to_string("/proc/self/mountinfo").ok()?)?.join(own);
    Some(group_of_jobs(&own).to_owned()).filter(|group| is_delegated(group))
}

/// Enables memory limits for the groups below `cgroup`.
pub(crate) fn enable_memory_limits(cgroup: &Path) -> io::Result<()> {
    fs::write(cgroup.join("cgroup.subtree_control"), "+memory")
}

fn group_of_jobs(own: &Path) -> &Path {
    match own.parent() {
        Some(parent) if own.ends_with(SUBGROUP) && is_delegated(parent) => parent,
        _ => own,
    }
}

fn is_delegated(cgroup: &Path) -> bool {
    access(cgroup.join("cgroup.procs"), Access::WRITE_OK).is_ok()
}

/// The mount point in a line such as `30 24 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw`.
fn unified_mount(mountinfo: &str) -> Option<PathBuf> {
    let line = mountinfo.lines().find(|line| line.contains(" - cgroup2 "))?;
    line.split(' ').nth(4).map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unified_hierarchy_is_found_in_mountinfo() {
        let text = "24 1 0:22 / /proc rw - proc proc rw\n\
                    30 24 0:26 / /sys/fs/cgroup/unified rw,nosuid shared:9 - cgroup2 cgroup2 rw\n";
        assert_eq!(unified_mount(text), Some("/sys/fs/cgroup/unified".into()));
        assert_eq!(unified_mount("24 1 0:22 / /proc rw - proc proc rw\n"), None);
    }

    #[test]
    fn a_daemon_in_its_subgroup_uses_the_group_above() {
        let service = tempfile::tempdir().unwrap();
        let own = service.path().join(SUBGROUP);
        assert_eq!(group_of_jobs(&own), own, "the group above is not delegated");
        fs::write(service.path().join("cgroup.procs"), "").unwrap();
        assert_eq!(group_of_jobs(&own), service.path());
        // A service of an older systemd, without a subgroup.
        let service = service.path().join("traind.service");
        assert_eq!(group_of_jobs(&service), service);
    }
}
