//! A Landlock sandbox around a runner. The launcher enters it before it executes the runner, and
//! child processes inherit it.
//!
//! The runner may access the operator's roots, its run folder, the cache and the system files
//! that programs need, but neither the store, nor other jobs' run folders, nor `/tmp`.

use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetError, RulesetStatus, path_beneath_rules,
};

const NEWEST: ABI = ABI::V5;

/// Programs, libraries and the files that they look up. Not all of `/etc`, which also has the
/// operator's keys.
const SYSTEM: &[&str] = &[
    "/bin",
    "/etc/OpenCL",
    "/etc/alternatives",
    "/etc/group",
    "/etc/hosts",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/nsswitch.conf",
    "/etc/passwd",
    "/etc/pki",
    "/etc/resolv.conf",
    "/etc/ssl/certs",
    "/lib",
    "/lib64",
    "/opt",
    "/proc",
    "/sbin",
    "/sys",
    "/usr",
];
/// Access to devices is limited by their permissions and the service's device policy.
const DEVICES: &str = "/dev";

#[derive(Debug, thiserror::Error)]
pub(crate) enum FenceError {
    #[error(
        "this kernel has no Landlock, which --allow-root requires: Linux 5.13 or newer with `landlock` among its lsm= modules"
    )]
    Missing,
    #[error("set up Landlock: {0}")]
    Landlock(#[from] RulesetError),
}

/// The paths that a runner may access besides the system's.
#[derive(Debug)]
pub(crate) struct Fence {
    pub writable: Vec<PathBuf>,
    pub readable: Vec<PathBuf>,
}

impl Fence {
    /// Restricts this process and all its children, irrevocably.
    pub(crate) fn enter(&self) -> Result<(), FenceError> {
        let all = AccessFs::from_all(NEWEST);
        let read = AccessFs::from_read(NEWEST);
        // Missing paths are skipped.
        let status = supported()?
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(all)?
            .create()?
            .add_rules(path_beneath_rules(SYSTEM.iter().map(Path::new), read))?
            .add_rules(path_beneath_rules(&self.readable, read))?
            .add_rules(path_beneath_rules(&self.writable, all))?
            .add_rules(path_beneath_rules([Path::new(DEVICES)], all))?
            .restrict_self()?;
        match status.ruleset {
            RulesetStatus::NotEnforced => Err(FenceError::Missing),
            _ => Ok(()),
        }
    }
}

/// Checks that the kernel supports Landlock.
pub(crate) fn check() -> Result<(), FenceError> {
    supported().map(drop)
}

fn supported() -> Result<Ruleset, FenceError> {
    let ruleset = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    ruleset.handle_access(AccessFs::from_all(ABI::V1)).map_err(|_| FenceError::Missing)
}
