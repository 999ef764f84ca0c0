//! The known PJRT plugins, and the library by which CPU hosts exchange data: where they are installed
//! and how to obtain them.
//!
//! The daemon passes a path to the runner and never opens the library itself.

pub(crate) mod error;
pub(crate) mod install;
mod wheel;
mod wheels;

use std::path::{Path, PathBuf};

pub(crate) use error::PluginError;

/// A platform's plugin and the ways to obtain it.
#[derive(Debug)]
pub(crate) struct Plugin {
    /// `resources.platform` of a job file, except in [`MPI`].
    pub platform: &'static str,
    /// The plugin's shared library.
    pub library: &'static str,
    pub origin: Origin,
}

/// The source of a plugin.
#[derive(Debug)]
pub(crate) enum Origin {
    /// Pinned Python wheels that `traind plugins install` fetches, the plugin's own first.
    Wheels(&'static [Wheel]),
    /// Installed by the user: patterns to search, newest last, and installation instructions.
    Own { patterns: &'static [&'static str], instructions: &'static str },
}

/// A pinned wheel: one build for each architecture.
#[derive(Debug)]
pub(crate) struct Wheel {
    pub package: &'static str,
    pub version: &'static str,
    pub builds: &'static [Build],
    pub contents: Contents,
}

/// The files that are unpacked of a wheel.
#[derive(Debug)]
pub(crate) enum Contents {
    /// These members, by their path in the wheel, without their folders.
    Members(&'static [&'static str]),
    /// All members, in their folders.
    All,
    /// The members whose paths begin with this prefix, without it.
    Below(&'static str),
}

/// The architecture of a wheel that fits all of them.
pub(crate) const ANY_ARCH: &str = "any";

/// The wheel of one architecture.
#[derive(Debug)]
pub(crate) struct Build {
    /// The architecture, as in [`std::env::consts::ARCH`], or [`ANY_ARCH`].
    pub arch: &'static str,
    /// The platform tags in the wheel's file name.
    pub tag: &'static str,
    pub sha256: &'static str,
}

/// Every platform that a job file may name.
pub(crate) const PLUGINS: &[Plugin] = &[
    Plugin { platform: "cpu", library: "xla_cpu_pjrt.so", origin: Origin::Wheels(wheels::CPU) },
    Plugin {
        platform: "cuda",
        library: "jax_plugins/xla_cuda13/xla_cuda_plugin.so",
        origin: Origin::Wheels(wheels::CUDA),
    },
    Plugin {
        platform: "neuron",
        library: "libneuronpjrt.so",
        origin: Origin::Own {
            patterns: &[
                "/opt/aws_neuronx_venv*/lib/python3*/site-packages/libneuronxla/libneuronpjrt.so",
                "/opt/aws/neuron/lib/libneuronpjrt.so",
            ],
            instructions: "install libneuronxla from the AWS Neuron pip repository and set \
                           TRAIND_PLUGIN_NEURON to the path of its libneuronpjrt.so \
                           (its licence does not let traind fetch it)",
        },
    },
];

/// A library of the MPI ABI, which jobs on several CPU hosts need; a cluster may have its own.
pub(crate) const MPI: Plugin =
    Plugin { platform: "mpi", library: "lib/libmpi_abi.so.1", origin: Origin::Wheels(wheels::MPI) };

/// The entry of a platform, or [`MPI`] by its name.
pub(crate) fn installable(name: &str) -> Result<&'static Plugin, PluginError> {
    if name == MPI.platform { Ok(&MPI) } else { plugin(name) }
}

/// The entry of `platform`.
pub(crate) fn plugin(platform: &str) -> Result<&'static Plugin, PluginError> {
    let found = PLUGINS.iter().find(|plugin| plugin.platform == platform);
    found.ok_or_else(|| PluginError::UnknownPlatform { platform: platform.to_owned() })
}

impl Plugin {
    /// Returns the library's path if it is installed: `$TRAIND_PLUGIN_<PLATFORM>` takes precedence
    /// over the cache folder, and that over the user's own installation.
    pub(crate) fn find(&self, cache_dir: &Path) -> Option<PathBuf> {
        if let Some(path) = std::env::var_os(self.variable()) {
            return Some(PathBuf::from(path)).filter(|path| path.is_file());
        }
        let installed = self.folder(cache_dir).map(|folder| folder.join(self.library));
        installed.filter(|path| path.is_file()).or_else(|| self.find_own())
    }

    /// The folder into which `traind plugins install` unpacks the plugin, if it can fetch it.
    pub(crate) fn folder(&self, cache_dir: &Path) -> Option<PathBuf> {
        let version = self.version()?;
        Some(cache_dir.join("plugins").join(format!("{}-{version}", self.platform)))
    }

    /// The pinned version, if there is one.
    pub(crate) fn version(&self) -> Option<&'static str> {
        match &self.origin {
            Origin::Wheels(wheels) => wheels.first().map(|wheel| wheel.version),
            Origin::Own { .. } => None,
        }
    }

    /// The environment variable that overrides the search.
    pub(crate) fn variable(&self) -> String {
        format!("TRAIND_PLUGIN_{}", self.platform.to_uppercase())
    }

    /// How to install the plugin.
    pub(crate) fn instructions(&self) -> String {
        let variable = self.variable();
        if let Some(path) = std::env::var_os(&variable) {
            return format!("{variable} names {}, which is not a file", path.to_string_lossy());
        }
        match &self.origin {
            Origin::Wheels(_) => format!("run `traind plugins install {}`", self.platform),
            Origin::Own { instructions, .. } => (*instructions).to_owned(),
        }
    }

    fn find_own(&self) -> Option<PathBuf> {
        let Origin::Own { patterns, .. } = &self.origin else { return None };
        let matches = patterns.iter().filter_map(|pattern| glob::glob(pattern).ok()).flatten();
        matches.filter_map(Result::ok).filter(|path| path.is_file()).last()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn platforms_are_unique() {
        let mut names: Vec<_> = PLUGINS.iter().map(|plugin| plugin.platform).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), PLUGINS.len());
    }

    #[test]
    fn an_installed_plugin_is_found_where_install_puts_it() {
        let cache = tempfile::tempdir().unwrap();
        let cpu = plugin("cpu").unwrap();
        assert_eq!(cpu.find(cache.path()), None);
        let folder = cpu.folder(cache.path()).unwrap();
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(cpu.library), "").unwrap();
        assert_eq!(
            cpu.find(cache.path()),
            Some(cache.path().join("plugins/cpu-0.0.1/xla_cpu_pjrt.so"))
        );
    }

    #[test]
    fn mpi_can_be_installed_and_is_no_platform() {
        assert_eq!(installable("mpi").unwrap().library, "lib/libmpi_abi.so.1");
        assert_eq!(installable("cpu").unwrap().platform, "cpu");
        assert!(plugin("mpi").is_err() && installable("tpu").is_err());
    }

    #[test]
    fn an_unknown_platform_names_the_known_ones() {
        let text = plugin("tpu").unwrap_err().to_string();
        assert_eq!(text, "unknown platform \"tpu\"; known: cpu, cuda, neuron");
    }
}
