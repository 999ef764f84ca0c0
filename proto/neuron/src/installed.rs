//! Versions of the SDK's parts on this host, by the files of their packages. Nothing is loaded.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use crate::Version;

const LIBRARY: &str = "opt/aws/neuron/lib/libnrt.so.1";
const LIBRARY_PREFIX: &str = "libnrt.so.";
const PACKAGES: &str = "var/lib/dpkg/status";
const PACKAGE: &str = "Package: aws-neuronx-runtime-lib";
const DRIVER: &str = "sys/module/neuron/version";

/// The version of the runtime below `root`: that in the name of the file to which its library links, or of the package.
pub fn runtime_version(root: &Path) -> Option<Version> {
    linked(&root.join(LIBRARY)).or_else(|| packaged(&root.join(PACKAGES)))
}

/// The version of the driver that is loaded. `modinfo` may show another one.
pub fn driver_version(root: &Path) -> Option<Version> {
    Version::parse(&fs::read_to_string(root.join(DRIVER)).ok()?)
}

/// The compiler's program on a search path such as that of `PATH`, and the version of its package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstalledCompiler {
    pub program: PathBuf,
    /// The version as the package has it, such as `2.27.5334.0+a1b2`; `None` if the program is not in a folder of
    /// Python packages.
    pub version: Option<String>,
}

impl InstalledCompiler {
    pub fn find(search_path: &OsStr) -> Option<InstalledCompiler> {
        let folders = std::env::split_paths(search_path);
        let program = folders.map(|it| it.join("neuronx-cc")).find(|it| it.is_file())?;
        let real = program.canonicalize().unwrap_or_else(|_| program.clone());
        let version = [&program, &real].into_iter().find_map(|program| {
            let environment = program.parent()?.parent()?;
            package_folders(environment).iter().find_map(|it| package_version(it, "neuronx_cc"))
        });
        Some(InstalledCompiler { program, version })
    }
}

/// The folders of Python packages of a virtual environment, or of a prefix such as `/usr/local`.
fn package_folders(environment: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(environment.join("lib")).into_iter().flatten().flatten();
    let of_python = entries.filter(|it| it.file_name().to_string_lossy().starts_with("python3"));
    let mut folders = of_python
        .flat_map(|it| ["site-packages", "dist-packages"].map(|name| it.path().join(name)));
    let mut found: Vec<PathBuf> = folders.by_ref().filter(|it| it.is_dir()).collect();
    found.sort();
    found
}

/// The version of a Python package in `folder`, by the name of its metadata. `name`: as a folder has it,
/// with underscores.
pub fn package_version(folder: &Path, name: &str) -> Option<String> {
    let entries = fs::read_dir(folder).ok()?.flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let versions = names.filter_map(|entry| {
        let version = entry.strip_suffix(".dist-info")?.strip_prefix(name)?.strip_prefix('-')?;
        Some(version.to_owned())
    });
    versions.max()
}

fn linked(library: &Path) -> Option<Version> {
    let target = fs::read_link(library).ok()?;
    Version::parse(target.file_name()?.to_str()?.strip_prefix(LIBRARY_PREFIX)?)
}

fn packaged(status: &Path) -> Option<Version> {
    let text = fs::read_to_string(status).ok()?;
    let paragraph = text.split("\n\n").find(|it| it.lines().any(|line| line == PACKAGE))?;
    Version::parse(paragraph.lines().find_map(|line| line.strip_prefix("Version:"))?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// A folder of its own, removed at the end.
    struct Root(std::path::PathBuf);

    impl Root {
        fn new(name: &str) -> Root {
            let path =
                std::env::temp_dir().join(format!("traind-neuron-{name}-{}", std::process::id()));
            fs::create_dir_all(path.join("opt/aws/neuron/lib")).unwrap();
            fs::create_dir_all(path.join("var/lib/dpkg")).unwrap();
            fs::create_dir_all(path.join("sys/module/neuron")).unwrap();
            Root(path)
        }
    }

    impl Drop for Root {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn versions_are_those_of_links_packages_and_the_loaded_module() {
        let root = Root::new("installed");
        assert_eq!((runtime_version(&root.0), driver_version(&root.0)), (None, None));
        let packages =
            "Package: a\nVersion: 1.2\n\nPackage: aws-neuronx-runtime-lib\nVersion: 2.33.10.0-ab\n";
        fs::write(root.0.join(PACKAGES), packages).unwrap();
        assert_eq!(runtime_version(&root.0), Some(Version::new(2, 33)));
        symlink("libnrt.so.2.34.10.0", root.0.join(LIBRARY)).unwrap();
        assert_eq!(runtime_version(&root.0), Some(Version::new(2, 34)));
        let packages = root.0.join("venv/lib/python3.11/site-packages");
        fs::create_dir_all(packages.join("neuronx_cc-2.27.5334.0+ab.dist-info")).unwrap();
        fs::create_dir_all(packages.join("libneuronxla-3.0.5356.0.dist-info")).unwrap();
        fs::create_dir_all(root.0.join("venv/bin")).unwrap();
        let path = std::env::join_paths(["/nowhere".into(), root.0.join("venv/bin")]).unwrap();
        assert_eq!(InstalledCompiler::find(&path), None);
        fs::write(root.0.join("venv/bin/neuronx-cc"), "#!/bin/sh\n").unwrap();
        let found = InstalledCompiler::find(&path).unwrap();
        assert_eq!(found.version.as_deref(), Some("2.27.5334.0+ab"));
        assert_eq!(package_version(&packages, "libneuronxla").as_deref(), Some("3.0.5356.0"));
        assert_eq!(package_version(&packages, "neuronx"), None);
        fs::write(root.0.join(DRIVER), "2.30.2.0\n").unwrap();
        assert_eq!(driver_version(&root.0), Some(Version::new(2, 30)));
    }
}
