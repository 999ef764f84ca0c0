//! The needs of NeuronCores: the driver, the runtime with its collectives, the compiler, and the tools by
//! which cores are counted and watched. Packages are those of AWS's repository.

mod selection;
mod versions;

use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use traind_neuron::{ROOT_COMM_PORT, ROOT_COMM_PORTS};
use traind_wording::counted;

use super::{Check, Finding, HostFiles, limits};
use crate::host::discovery::TimeoutReader;

const LIBRARIES: &str = "/opt/aws/neuron/lib";
const TOOLS: &str = "/opt/aws/neuron/bin";
/// The compiler is a Python program, which takes seconds to start.
const COMPILER_TIMEOUT: Duration = Duration::from_secs(60);

/// `library`: the plugin, if it is installed.
pub(super) fn checks(files: &HostFiles, plugin: Check, library_path: Option<&Path>) -> Vec<Check> {
    let compiler = compiler(files);
    let of_compiler =
        version_in(&compiler).and_then(|version| versions::compiler_and_runtime(files, version));
    let checks = [
        driver(files),
        versions::driver_and_runtime(files),
        devices(files),
        library(files, "libnrt.so.1", "aws-neuronx-runtime-lib"),
        library(files, "libnccom.so.2", "aws-neuronx-collectives"),
        library(files, "libncfw.so.2", "aws-neuronx-runtime-lib"),
        tool(files, "neuron-ls"),
        tool(files, "neuron-monitor"),
        compiler,
        plugin,
    ];
    let advice = [fabric(files), huge_pages(files), reserved_ports(files), limits::locked_memory()];
    let of_versions = [versions::plugin(library_path), versions::logical_cores(files)];
    let of_versions = of_compiler.into_iter().chain(of_versions.into_iter().flatten());
    let of_environment = of_versions.chain(selection::checks(files));
    checks.into_iter().chain(of_environment).chain(advice).collect()
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
            "choose a trn1, trn2, trn3 or inf2 instance; in a container, pass --device=/dev/neuron0 and so on",
        ),
        Some(node) => Check::missing(
            NAME,
            format!("/dev/{node} is not open to this user"),
            "add the user to the node's group, and log in again",
        ),
        None => Check::present(NAME, counted(nodes.len(), "device").to_string()),
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
        Some(path) => compiler_at(NAME, &files.path(path)),
        None => Check::missing(
            NAME,
            "not on PATH",
            "install the Python package neuronx-cc from AWS Neuron's repository, and put its folder \
             on the daemon's PATH",
        ),
    }
}

/// Executes the compiler once: its Python environment may be broken, or closed to this user.
fn compiler_at(name: &'static str, program: &Path) -> Check {
    match compiler_version(program) {
        Err(error) => Check::missing(
            name,
            format!("{} does not run: {error}", program.display()),
            "install the Python package neuronx-cc again, with its Python below /opt or /usr",
        ),
        Ok(version) => compiler_that_runs(name, program, &version),
    }
}

fn compiler_that_runs(name: &'static str, program: &Path, version: &str) -> Check {
    let found = format!("{}, {version}", program.display());
    match program.starts_with("/home") || program.starts_with("/root") {
        true => Check::advice(
            name,
            found,
            "the daemon's jobs cannot read a home folder with --allow-root, or as other users: \
             install it in /opt",
        ),
        false => Check::present(name, found),
    }
}

/// The version that a compiler which runs said.
fn version_in(compiler: &Check) -> Option<&str> {
    match &compiler.finding {
        Finding::Present(found) | Finding::Advice { found, .. } => {
            found.rsplit_once(", ").map(|(_, version)| version)
        }
        Finding::Missing { .. } => None,
    }
}

/// The last line that the compiler prints for `--version`.
fn compiler_version(program: &Path) -> Result<String, String> {
    let mut command = Command::new(program);
    command.arg("--version").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    let mut text = String::new();
    let output = child.stdout.take();
    let read = output.map(|pipe| {
        TimeoutReader::new(pipe, COMPILER_TIMEOUT).take(1 << 16).read_to_string(&mut text)
    });
    if matches!(read, Some(Err(_))) {
        let _ = child.kill();
    }
    let status = child.wait().map_err(|error| error.to_string())?;
    match text.lines().rfind(|line| !line.trim().is_empty()) {
        Some(line) if status.success() => Ok(line.trim().to_owned()),
        _ => Err(status.to_string()),
    }
}

/// The ports of the jobs' collectives: another program that has one makes a job wait for ever.
fn reserved_ports(files: &HostFiles) -> Check {
    const NAME: &str = "ports of collectives";
    let last = ROOT_COMM_PORT + ROOT_COMM_PORTS - 1;
    let range = files.read("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let reserved = files.read("/proc/sys/net/ipv4/ip_local_reserved_ports").unwrap_or_default();
    let newest = range.split_whitespace().nth(1).and_then(|port| port.parse::<u32>().ok());
    let is_reserved = reserved.contains(&format!("{ROOT_COMM_PORT}-"));
    match newest.is_some_and(|newest| newest >= ROOT_COMM_PORT) && !is_reserved {
        true => Check::advice(
            NAME,
            format!("{ROOT_COMM_PORT} to {last} are among those that Linux gives to any program"),
            format!("`sysctl -w net.ipv4.ip_local_reserved_ports={ROOT_COMM_PORT}-{last}`"),
        ),
        false => Check::present(NAME, format!("{ROOT_COMM_PORT} to {last}")),
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
            let checks = checks(&files, Check::present("PJRT plugin", "there"), None);
            checks.iter().filter(|check| check.is_missing()).map(|check| check.name).collect()
        };
        let all = [
            "driver",
            "device nodes",
            "libnrt.so.1",
            "libnccom.so.2",
            "libncfw.so.2",
            "neuronx-cc",
        ];
        assert_eq!(missing(), all);
        for (path, left) in [
            ("sys/module/neuron/version", 1),
            ("dev/neuron0", 2),
            ("opt/aws/neuron/lib/libnrt.so.1", 3),
            ("opt/aws/neuron/lib/libnccom.so.2", 4),
            ("opt/aws/neuron/lib/libncfw.so.2", 5),
        ] {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "2.21.37.0\n").unwrap();
            assert_eq!(missing(), all[left..]);
        }
        assert_eq!(driver(&files), Check::present("driver", "2.21.37.0"));
    }

    fn compiler(text: &str) -> (tempfile::TempDir, Check) {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("neuronx-cc");
        fs::write(&program, text).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let check = compiler_at("neuronx-cc", &program);
        (folder, check)
    }

    #[test]
    fn the_compiler_is_executed() {
        let (_folder, check) = compiler("#!/bin/sh\necho NeuronX Compiler version 2.27.5334\n");
        let Finding::Present(found) = &check.finding else { panic!("{check:?}") };
        assert!(found.ends_with(", NeuronX Compiler version 2.27.5334"), "{found}");
        assert_eq!(version_in(&check), Some("NeuronX Compiler version 2.27.5334"));
        for broken in ["#!/bin/sh\nexit 1\n", "#!/nowhere/python\n"] {
            let (_folder, check) = compiler(broken);
            assert!(check.is_missing(), "{check:?}");
        }
    }

    #[test]
    fn a_compiler_in_a_home_folder_is_to_be_moved() {
        let of = |program: &str| compiler_that_runs("neuronx-cc", Path::new(program), "2.27");
        for home in ["/home/a/venv/bin/neuronx-cc", "/root/venv/bin/neuronx-cc"] {
            let Finding::Advice { remedy, .. } = of(home).finding else { panic!("{home}") };
            assert!(remedy.contains("install it in /opt"), "{remedy}");
        }
        let elsewhere = of("/opt/venv/bin/neuronx-cc");
        assert!(matches!(elsewhere.finding, Finding::Present(_)), "{elsewhere:?}");
    }

    #[test]
    fn ports_that_linux_gives_away_are_to_be_reserved() {
        let root = tempfile::tempdir().unwrap();
        let files = HostFiles::new(root.path());
        let ipv4 = root.path().join("proc/sys/net/ipv4");
        fs::create_dir_all(&ipv4).unwrap();
        let is_present = |range: &str, reserved: &str| {
            fs::write(ipv4.join("ip_local_port_range"), range).unwrap();
            fs::write(ipv4.join("ip_local_reserved_ports"), reserved).unwrap();
            matches!(reserved_ports(&files).finding, Finding::Present(_))
        };
        assert!(is_present("32768\t60999", ""));
        assert!(!is_present("1024 65535", ""));
        assert!(is_present("1024 65535", "61100-61227"));
    }
}
