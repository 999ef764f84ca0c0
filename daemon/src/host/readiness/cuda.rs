//! The needs of NVIDIA GPUs: a driver that is new enough for CUDA 13, device nodes that this user may open,
//! and the libraries that the plugin loads.

use std::path::Path;

use traind_wording::counted;

use super::{Check, HostFiles, limits};

/// The vendor's id on the PCI bus, and the class of display controllers.
const NVIDIA: &str = "0x10de";
const DISPLAY_CLASS: &str = "0x03";
/// CUDA 13 needs a driver of this branch or a newer one.
const DRIVER_MIN: u32 = 580;

/// Libraries that the plugin loads, as pip installs them beside it, with their packages.
const LIBRARIES: [(&str, &str); 5] = [
    ("nvidia/cu13/lib/libcublas.so.13", "nvidia-cublas"),
    ("nvidia/cu13/lib/libcudart.so.13", "nvidia-cuda-runtime"),
    ("nvidia/cudnn/lib/libcudnn.so.9", "nvidia-cudnn-cu13"),
    ("nvidia/nccl/lib/libnccl.so.2", "nvidia-nccl-cu13"),
    ("nvidia/cu13/bin/ptxas", "nvidia-cuda-nvcc"),
];

pub(super) fn checks(files: &HostFiles, plugin: Check, library: Option<&Path>) -> Vec<Check> {
    let mut checks = vec![gpus(files), driver(files), nodes(files), driver_library(files), plugin];
    checks.extend(library.map(|library| cuda_libraries(files, library)));
    checks.push(limits::locked_memory());
    checks
}

fn gpus(files: &HostFiles) -> Check {
    const FOLDER: &str = "/sys/bus/pci/devices";
    let of = |device: &str, file: &str| files.read(format!("{FOLDER}/{device}/{file}"));
    let is_gpu = |device: &&String| {
        of(device, "vendor").as_deref() == Some(NVIDIA)
            && of(device, "class").is_some_and(|class| class.starts_with(DISPLAY_CLASS))
    };
    match files.names(FOLDER).iter().filter(is_gpu).count() {
        0 => Check::missing(
            "GPUs",
            "none on the PCI bus",
            "choose an instance with NVIDIA GPUs, or pass the devices into the container or the \
             virtual machine",
        ),
        count => Check::present("GPUs", format!("{count} on the PCI bus")),
    }
}

fn driver(files: &HostFiles) -> Check {
    const NAME: &str = "driver";
    let install = format!("install NVIDIA's driver {DRIVER_MIN} or newer, and restart");
    let Some(text) = files.read("/proc/driver/nvidia/version") else {
        return Check::missing(NAME, "the kernel module nvidia is not loaded", install);
    };
    match version(&text) {
        Some((branch, version)) if branch < DRIVER_MIN => {
            Check::missing(NAME, format!("{version} is too old for CUDA 13"), install)
        }
        Some((_, version)) => Check::present(NAME, version),
        None => Check::advice(NAME, "of unknown version", install),
    }
}

/// Returns the branch and the version in a line such as
/// `NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build`.
fn version(text: &str) -> Option<(u32, String)> {
    let line = text.lines().find(|line| line.starts_with("NVRM version:"))?;
    line.split_whitespace().find_map(|word| {
        let (branch, _) = word.split_once('.')?;
        Some((branch.parse().ok()?, word.to_owned()))
    })
}

fn nodes(files: &HostFiles) -> Check {
    const NAME: &str = "device nodes";
    let gpus = files.numbered("/dev", "nvidia");
    let needed = ["nvidiactl", "nvidia-uvm"].map(str::to_owned).into_iter().chain(gpus.clone());
    let needed: Vec<String> = needed.map(|name| format!("/dev/{name}")).collect();
    let absent: Vec<&String> = needed.iter().filter(|node| !files.exists(node)).collect();
    if gpus.is_empty() || !absent.is_empty() {
        let found = if gpus.is_empty() {
            "no /dev/nvidia0".to_owned()
        } else {
            format!("no {}", absent[0])
        };
        return Check::missing(NAME, found, "run `nvidia-modprobe -u -c 0`");
    }
    match needed.iter().find(|node| !files.is_usable(node)) {
        Some(node) => Check::missing(
            NAME,
            format!("{node} is not open to this user"),
            "add the user to the node's group (often video), and log in again",
        ),
        None => Check::present(NAME, counted(gpus.len(), "GPU").to_string()),
    }
}

/// The driver's own library, which a container needs besides the devices.
fn driver_library(files: &HostFiles) -> Check {
    const NAME: &str = "libcuda.so.1";
    match files.library(NAME, &["/usr/local/cuda/compat"]) {
        Some(path) => Check::present(NAME, path.display().to_string()),
        None => Check::missing(
            NAME,
            "not found",
            "install the driver's user-space libraries; in a container, run it with the NVIDIA \
             Container Toolkit",
        ),
    }
}

fn cuda_libraries(files: &HostFiles, plugin: &Path) -> Check {
    const NAME: &str = "CUDA libraries";
    let Some(site) = plugin.ancestors().nth(3) else {
        return Check::missing(NAME, "the plugin is in no folder of packages", REINSTALL);
    };
    let absent = LIBRARIES.iter().find(|(file, _)| !files.exists(site.join(file)));
    match absent {
        Some((file, package)) => {
            let found = format!("no {file} beside the plugin (package {package})");
            Check::missing(NAME, found, REINSTALL)
        }
        None => Check::present(NAME, site.join("nvidia").display().to_string()),
    }
}

const REINSTALL: &str =
    "run `traind plugins install cuda`, or install the package where the plugin is";

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::Finding;
    use super::*;

    const VERSION: &str = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build\n\
                           GCC version: gcc version 13.3.0";

    /// Writes a file of the host, with its folders.
    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path.trim_start_matches('/'));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn host_with_gpus(root: &Path) {
        for (device, class) in [("0000:01:00.0", "0x030200"), ("0000:02:00.0", "0x040300")] {
            write(root, &format!("/sys/bus/pci/devices/{device}/vendor"), "0x10de\n");
            write(root, &format!("/sys/bus/pci/devices/{device}/class"), class);
        }
        write(root, "/proc/driver/nvidia/version", VERSION);
        for node in ["nvidia0", "nvidiactl", "nvidia-uvm", "nvidia-caps"] {
            write(root, &format!("/dev/{node}"), "");
        }
        write(root, "/usr/lib/x86_64-linux-gnu/libcuda.so.1", "");
        for (file, _) in LIBRARIES {
            write(root, &format!("/site/{file}"), "");
        }
    }

    /// The findings as lines, without those about limits.
    fn findings(root: &Path) -> Vec<String> {
        let plugin = Check::present("PJRT plugin", "there");
        let library = Path::new("/site/jax_plugins/xla_cuda13/xla_cuda_plugin.so");
        let mut checks = checks(&HostFiles::new(root), plugin, Some(library));
        checks.pop();
        let lines = checks.into_iter().map(|check| match check.finding {
            Finding::Present(found) => format!("{}: {found}", check.name),
            Finding::Advice { found, .. } | Finding::Missing { found, .. } => {
                format!("{}! {found}", check.name)
            }
        });
        lines.collect()
    }

    #[test]
    fn a_host_that_has_all_is_ready() {
        let root = tempfile::tempdir().unwrap();
        host_with_gpus(root.path());
        let expect = [
            "GPUs: 1 on the PCI bus",
            "driver: 580.65.06",
            "device nodes: 1 GPU",
            "libcuda.so.1: /usr/lib/x86_64-linux-gnu/libcuda.so.1",
            "PJRT plugin: there",
            "CUDA libraries: /site/nvidia",
        ];
        assert_eq!(findings(root.path()), expect);
    }

    #[test]
    fn each_missing_part_is_named() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path();
        let has = |expect: &str| {
            let found = findings(path);
            assert!(found.iter().any(|line| line == expect), "{expect} in {found:?}");
        };
        has("GPUs! none on the PCI bus");
        has("driver! the kernel module nvidia is not loaded");
        has("device nodes! no /dev/nvidia0");
        has("libcuda.so.1! not found");
        host_with_gpus(path);
        write(path, "/proc/driver/nvidia/version", &VERSION.replace("580", "570"));
        has("driver! 570.65.06 is too old for CUDA 13");
        fs::remove_file(path.join("dev/nvidia-uvm")).unwrap();
        has("device nodes! no /dev/nvidia-uvm");
        fs::remove_file(path.join("site/nvidia/nccl/lib/libnccl.so.2")).unwrap();
        has(
            "CUDA libraries! no nvidia/nccl/lib/libnccl.so.2 beside the plugin (package nvidia-nccl-cu13)",
        );
    }
}
