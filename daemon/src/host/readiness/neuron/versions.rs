//! Whether the versions of driver, runtime and plugin fit together.

use std::path::Path;

use traind_neuron::{
    CLIENT_API, Generation, Version, api_problem, compiler_problem, device_problem, driver_problem,
    driver_version, package_version, runtime_version,
};

use crate::host::readiness::{Check, HostFiles};

const DEVICE: &str = "/sys/devices/virtual/neuron_device/neuron0/info/architecture/device_name";

pub(super) fn driver_and_runtime(files: &HostFiles) -> Check {
    const NAME: &str = "driver and runtime";
    let versions = (driver_version(files.root()), runtime_version(files.root()));
    let (Some(driver), Some(runtime)) = versions else {
        return Check::advice(
            NAME,
            "a version is not known",
            "the driver 2.29 needs the runtime 2.33 or newer, and the runtime 2.32 a driver above 2.26",
        );
    };
    let device = Generation::of_device(&files.read(DEVICE).unwrap_or_default());
    let of_device = || device.and_then(|device| device_problem(device, driver));
    match driver_problem(driver, runtime).or_else(of_device) {
        Some(problem) => Check::missing(NAME, format!("{driver} and {runtime}"), problem),
        None => Check::present(NAME, format!("{driver} and {runtime}")),
    }
}

/// Whether compiler and runtime are of one SDK. `None` where one of their versions is not known. `compiler`: what it
/// says of itself.
pub(super) fn compiler_and_runtime(files: &HostFiles, compiler: &str) -> Option<Check> {
    const NAME: &str = "compiler and runtime";
    let (compiler, runtime) = (Version::parse(compiler)?, runtime_version(files.root())?);
    let found = format!("{compiler} and {runtime}");
    Some(match compiler_problem(compiler, runtime) {
        Some(problem) => Check::advice(NAME, found, problem),
        None => Check::present(NAME, found),
    })
}

/// Whether the plugin serves the version of the PJRT C API that traind uses. `None` without a plugin.
pub(super) fn plugin(library: Option<&Path>) -> Option<Check> {
    const NAME: &str = "libneuronxla";
    let packages = library?.parent()?.parent()?;
    let Some(found) = package_version(packages, "libneuronxla") else {
        let found = format!("no metadata of the package in {}", packages.display());
        return Some(Check::advice(NAME, found, "libneuronxla 3.0 or newer is required"));
    };
    let version = Version::parse(&found);
    Some(match version.and_then(|version| api_problem(version, CLIENT_API)) {
        Some(problem) => Check::missing(NAME, found, problem),
        None => Check::present(NAME, found),
    })
}

/// Whether the logical configuration in the environment exists on the device. `None` if it is not set.
pub(super) fn logical_cores(files: &HostFiles) -> Option<Check> {
    let config = std::env::var("NEURON_LOGICAL_NC_CONFIG").ok()?;
    Some(logical_cores_of(&config, &files.read(DEVICE).unwrap_or_default()))
}

fn logical_cores_of(config: &str, device: &str) -> Check {
    const NAME: &str = "NEURON_LOGICAL_NC_CONFIG";
    let number = config.trim().parse().ok();
    let known = match Generation::of_device(device) {
        Some(generation) => number.is_some_and(|it| generation.core_kind(it).is_some()),
        None => matches!(number, Some(1 | 2)),
    };
    match known {
        true => Check::present(NAME, config),
        false => Check::missing(
            NAME,
            format!("{config}, which {device} does not have"),
            "it is 1 on trn1 and inf2, and 1 or 2 on trn2 and trn3",
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::host::readiness::Finding;

    #[test]
    fn a_plugin_of_version_2_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let library = root.path().join("libneuronxla/libneuronpjrt.so");
        let check = |version: &str| {
            let info = root.path().join(format!("libneuronxla-{version}.dist-info"));
            fs::create_dir_all(&info).unwrap();
            let check = plugin(Some(&library)).unwrap();
            fs::remove_dir(info).unwrap();
            check
        };
        let old = check("2.2.17544.0+ab");
        let Finding::Missing { remedy, .. } = &old.finding else { panic!("{old:?}") };
        assert!(remedy.contains("0.81") && remedy.contains("3.0 or newer"), "{remedy}");
        assert_eq!(check("3.0.5356.0").finding, Finding::Present("3.0.5356.0".to_owned()));
        assert_eq!(plugin(None), None);
    }

    #[test]
    fn an_old_driver_is_refused() {
        let root = tempfile::tempdir().unwrap();
        for folder in ["sys/module/neuron", "var/lib/dpkg"] {
            fs::create_dir_all(root.path().join(folder)).unwrap();
        }
        let package = "Package: aws-neuronx-runtime-lib\nVersion: 2.34.10\n";
        fs::write(root.path().join("var/lib/dpkg/status"), package).unwrap();
        let check = |driver: &str| {
            fs::write(root.path().join("sys/module/neuron/version"), driver).unwrap();
            driver_and_runtime(&HostFiles::new(root.path()))
        };
        assert!(check("2.21.37.0").is_missing());
        assert_eq!(check("2.30.2").finding, Finding::Present("2.30 and 2.34".to_owned()));

        let files = HostFiles::new(root.path());
        let of = |compiler: &str| compiler_and_runtime(&files, compiler);
        let same = of("NeuronX Compiler version 2.27.5334").unwrap();
        assert_eq!(same.finding, Finding::Present("2.27 and 2.34".to_owned()));
        let Finding::Advice { remedy, .. } =
            of("NeuronX Compiler version 2.26.6360").unwrap().finding
        else {
            panic!()
        };
        assert!(remedy.contains("NRT 10") && remedy.contains("update neuronx-cc"), "{remedy}");
        assert_eq!(of("unknown"), None);
        assert_eq!(compiler_and_runtime(&HostFiles::new(Path::new("/nowhere")), "2.27"), None);
    }

    #[test]
    fn a_driver_that_does_not_know_the_device_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path.trim_start_matches('/'));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("sys/module/neuron/version", "2.21.37.0\n");
        let runtime = "Package: aws-neuronx-runtime-lib\nVersion: 2.31.1\n";
        write("var/lib/dpkg/status", runtime);
        let is_missing = || driver_and_runtime(&HostFiles::new(root.path())).is_missing();
        assert!(!is_missing());
        write(DEVICE, "Trainium2\n");
        assert!(is_missing());
    }

    #[test]
    fn only_newer_chips_have_logical_cores_of_two() {
        assert!(logical_cores_of("2", "Trainium1").is_missing());
        assert!(!logical_cores_of("2", "Trainium2").is_missing());
        assert!(logical_cores_of("4", "").is_missing());
    }
}
