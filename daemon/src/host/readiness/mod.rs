//! Whether this host has what a platform needs, in the order in which it is set up: devices, driver,
//! libraries, compiler, plugin, limits. Nothing is loaded or opened; only names and versions are read.

mod cpu;
mod cuda;
mod files;
mod limits;
mod neuron;

use std::path::Path;

use super::plugins::{Plugin, PluginError, plugin};

pub(crate) use files::HostFiles;
pub(crate) use limits::OPEN_FILES_MIN;

/// One requirement of a platform.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Check {
    pub name: &'static str,
    pub finding: Finding,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Finding {
    /// The version or path that was found.
    Present(String),
    /// The platform works without it, but not all that it could.
    Advice { found: String, remedy: String },
    /// Jobs cannot run without it.
    Missing { found: String, remedy: String },
}

impl Check {
    fn present(name: &'static str, found: impl Into<String>) -> Check {
        Check { name, finding: Finding::Present(found.into()) }
    }

    fn advice(name: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Check {
        Check { name, finding: Finding::Advice { found: found.into(), remedy: remedy.into() } }
    }

    fn missing(name: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Check {
        Check { name, finding: Finding::Missing { found: found.into(), remedy: remedy.into() } }
    }

    pub(crate) fn is_missing(&self) -> bool {
        matches!(self.finding, Finding::Missing { .. })
    }
}

/// Checks the host for a platform whose plugin may be installed in `cache_dir`.
pub(crate) fn of_platform(
    platform: &str,
    files: &HostFiles,
    cache_dir: &Path,
) -> Result<Vec<Check>, PluginError> {
    let entry = plugin(platform)?;
    let installed = of_plugin(entry, cache_dir);
    let mut checks = match platform {
        "cuda" => cuda::checks(files, installed, entry.find(cache_dir).as_deref()),
        "neuron" => neuron::checks(files, installed, entry.find(cache_dir).as_deref()),
        _ => cpu::checks(files, installed),
    };
    checks.push(limits::open_files());
    Ok(checks)
}

fn of_plugin(plugin: &Plugin, cache_dir: &Path) -> Check {
    const NAME: &str = "PJRT plugin";
    match plugin.find(cache_dir) {
        Some(path) => Check::present(NAME, path.display().to_string()),
        None => Check::missing(NAME, "not found", plugin.instructions()),
    }
}
