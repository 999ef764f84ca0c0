//! The kernel's fence around a runner: Landlock, entered by the launcher before it becomes
//! the runner, kept by all that the runner starts, and blind to how a path is spelt.
//!
//! Inside are the operator's roots, the job's run folder, the cache and what programs need
//! of a Linux system. Not inside: the store, other jobs' run folders, `/tmp`.

use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetError, RulesetStatus, path_beneath_rules,
};

const NEWEST: ABI = ABI::V5;

/// Programs, libraries and what they look up. Of `/etc` no more than that: an operator's
/// keys are there too.
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
/// Devices are guarded by their own permissions and the service's device policy.
const DEVICES: &str = "/dev";

#[derive(Debug, thiserror::Error)]
pub(crate) enum FenceError {
    #[error(
        "this kernel has no Landlock, which --allow-root takes: Linux 5.13 or newer with `landlock` among its lsm= modules"
    )]
    Missing,
    #[error("set up Landlock: {0}")]
    Landlock(#[from] RulesetError),
}

/// What a runner may touch beside the system.
#[derive(Debug)]
pub(crate) struct Fence {
    pub written: Vec<PathBuf>,
    pub read: Vec<PathBuf>,
}

impl Fence {
    /// Puts this process and all its children inside, for good.
    pub(crate) fn enter(&self) -> Result<(), FenceError> {
        let all = AccessFs::from_all(NEWEST);
        let read = AccessFs::from_read(NEWEST);
        // Paths that are not there are passed over.
        let status = supported()?
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(all)?
            .create()?
            .add_rules(path_beneath_rules(SYSTEM.iter().map(Path::new), read))?
            .add_rules(path_beneath_rules(&self.read, read))?
            .add_rules(path_beneath_rules(&self.written, all))?
            .add_rules(path_beneath_rules([Path::new(DEVICES)], all))?
            .restrict_self()?;
        match status.ruleset {
            RulesetStatus::NotEnforced => Err(FenceError::Missing),
            _ => Ok(()),
        }
    }
}

/// Refuses a kernel that would leave runners without a fence.
pub(crate) fn check() -> Result<(), FenceError> {
    supported().map(drop)
}

fn supported() -> Result<Ruleset, FenceError> {
    let ruleset = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    ruleset.handle_access(AccessFs::from_all(ABI::V1)).map_err(|_| FenceError::Missing)
}
