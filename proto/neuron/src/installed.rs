//! Versions of the SDK's parts on this host, by the files of their packages. Nothing is loaded.

use std::fs;
use std::path::Path;

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
        fs::write(root.0.join(DRIVER), "2.30.2.0\n").unwrap();
        assert_eq!(driver_version(&root.0), Some(Version::new(2, 30)));
    }
}
