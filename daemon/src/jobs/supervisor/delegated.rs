//! The control group whose inside the daemon may divide among its jobs.
//!
//! systemd gives a service one with `Delegate=yes`. The kernel lets memory be divided only in a group
//! that has no process of its own, so that the unit puts the daemon into a group below it
//! (`DelegateSubgroup=`, systemd 254).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

/// What the unit calls the daemon's own group.
const SUBGROUP: &str = "daemon";

/// The group below which each job gets its own, if the daemon was given one.
pub(crate) fn delegated_cgroup() -> Option<PathBuf> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    // The root belongs to the system's own manager.
    if own.is_empty() {
        return None;
    }
    let own = unified_mount(&fs::read_to_string("/proc/self/mountinfo").ok()?)?.join(own);
    Some(divided(&own).to_owned()).filter(|group| is_ours(group))
}

/// Has the memory of a group divided among those below it.
pub(crate) fn divide_memory(cgroup: &Path) -> io::Result<()> {
    fs::write(cgroup.join("cgroup.subtree_control"), "+memory")
}

fn divided(own: &Path) -> &Path {
    match own.parent() {
        Some(parent) if own.ends_with(SUBGROUP) && is_ours(parent) => parent,
        _ => own,
    }
}

fn is_ours(cgroup: &Path) -> bool {
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
    fn the_unified_hierarchy_is_found_among_the_mounts() {
        let text = "24 1 0:22 / /proc rw - proc proc rw\n\
                    30 24 0:26 / /sys/fs/cgroup/unified rw,nosuid shared:9 - cgroup2 cgroup2 rw\n";
        assert_eq!(unified_mount(text), Some("/sys/fs/cgroup/unified".into()));
        assert_eq!(unified_mount("24 1 0:22 / /proc rw - proc proc rw\n"), None);
    }

    #[test]
    fn a_daemon_in_its_own_subgroup_divides_the_group_above() {
        let service = tempfile::tempdir().unwrap();
        let own = service.path().join(SUBGROUP);
        assert_eq!(divided(&own), own, "nothing above was given to the daemon");
        fs::write(service.path().join("cgroup.procs"), "").unwrap();
        assert_eq!(divided(&own), service.path());
        // A service of an older systemd: what is above it belongs to others.
        let service = service.path().join("traind.service");
        assert_eq!(divided(&service), service);
    }
}
