//! What NeuronCores need: the driver, the runtime with its collectives, the compiler, and the tools by
//! which cores are counted and watched. Packages are those of AWS's repository.

use super::{Check, HostFiles, limits};

const LIBRARIES: &str = "/opt/aws/neuron/lib";
const TOOLS: &str = "/opt/aws/neuron/bin";

pub(super) fn checks(files: &HostFiles, plugin: Check) -> Vec<Check> {
    vec![
        driver(files),
        devices(files),
        library(files, "libnrt.so.1", "aws-neuronx-runtime-lib"),
        library(files, "libnccom.so.2", "aws-neuronx-collectives"),
        tool(files, "neuron-ls"),
        tool(files, "neuron-monitor"),
        compiler(files),
        plugin,
        fabric(files),
        huge_pages(files),
        limits::locked_memory(),
    ]
}

fn driver(files: &HostFiles) -> Check {
    const NAME: &str = "driver";
    match files.exists("/sys/module/neuron") {
        true => {
            let version = files.read("/sys/module/neuron/version");
            Check::present(NAME, version.unwrap_or_else(|| "loaded".to_owned()))
        }
        false => Check::missing(
            NAME,
            "the kernel module neuron is not loaded",
            "install the package aws-neuronx-dkms, then `modprobe neuron`",
        ),
    }
}

fn devices(files: &HostFiles) -> Check {
    const NAME: &str = "device nodes";
    let nodes = files.numbered("/dev", "neuron");
    match nodes.iter().find(|node| !files.is_usable(format!("/dev/{node}"))) {
        _ if nodes.is_empty() => Check::missing(
            NAME,
            "no /dev/neuron0",
            "choose a trn1, trn2 or inf2 instance; in a container, pass --device=/dev/neuron0 and so on",
        ),
        Some(node) => Check::missing(
            NAME,
            format!("/dev/{node} is not open to this user"),
            "add the user to the node's group, and log in again",
        ),
        None => Check::present(NAME, format!("{} devices", nodes.len())),
    }
}

fn library(files: &HostFiles, name: &'static str, package: &str) -> Check {
    match files.library(name, &[LIBRARIES]) {
        Some(path) => Check::present(name, path.display().to_string()),
        None => Check::missing(name, "not found", format!("install the package {package}")),
    }
}

fn tool(files: &HostFiles, name: &'static str) -> Check {
    match files.program(name, &[TOOLS]) {
        Some(path) => Check::present(name, path.display().to_string()),
        None => Check::advice(name, "not found", "install the package aws-neuronx-tools"),
    }
}

fn compiler(files: &HostFiles) -> Check {
    const NAME: &str = "neuronx-cc";
    match files.program(NAME, &[]) {
        Some(path) => Check::present(NAME, path.display().to_string()),
        None => Check::missing(
            NAME,
            "not on PATH",
            "install the Python package neuronx-cc from AWS Neuron's repository, and put its folder \
             on the daemon's PATH",
        ),
    }
}

/// The Elastic Fabric Adapter, over which the cores of several hosts communicate.
fn fabric(files: &HostFiles) -> Check {
    const NAME: &str = "EFA";
    match files.names("/sys/class/infiniband").len() {
        0 => Check::advice(NAME, "no adapter", "only jobs over several hosts need one"),
        count => Check::present(NAME, format!("{count} adapters")),
    }
}

/// EFA's provider allocates its buffers in huge pages.
fn huge_pages(files: &HostFiles) -> Check {
    const NAME: &str = "huge pages";
    let text = files.read("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("HugePages_Total:"));
    match line.and_then(|count| count.trim().parse::<u64>().ok()).unwrap_or(0) {
        0 => Check::advice(
            NAME,
            "none",
            "only EFA needs them: `sysctl -w vm.nr_hugepages=5128`, as AWS's installer sets",
        ),
        count => Check::present(NAME, count.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn requirements_are_met_one_by_one() {
        let root = tempfile::tempdir().unwrap();
        let files = HostFiles::new(root.path());
        let missing = || -> Vec<&'static str> {
            let checks = checks(&files, Check::present("PJRT plugin", "there"));
            checks.iter().filter(|check| check.is_missing()).map(|check| check.name).collect()
        };
        let all = ["driver", "device nodes", "libnrt.so.1", "libnccom.so.2", "neuronx-cc"];
        assert_eq!(missing(), all);
        for (path, left) in [
            ("sys/module/neuron/version", 1),
            ("dev/neuron0", 2),
            ("opt/aws/neuron/lib/libnrt.so.1", 3),
            ("opt/aws/neuron/lib/libnccom.so.2", 4),
            ("usr/bin/neuronx-cc", 5),
        ] {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "2.21.37.0\n").unwrap();
            assert_eq!(missing(), all[left..]);
        }
        assert_eq!(driver(&files), Check::present("driver", "2.21.37.0"));
    }
}
