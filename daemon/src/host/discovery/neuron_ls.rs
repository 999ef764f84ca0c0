//! `neuron-ls -j`: lists the devices if sysfs does not.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output, Stdio};
use std::time::Duration;

use serde::Deserialize;

use super::FoundCore;
use super::sysfs::CORES_PER_DEVICE_MAX;
use super::timeout::TimeoutReader;
use crate::host::pipes::end_blocking;

/// The program usually takes a second, and the daemon does not start before.
const TIMEOUT: Duration = Duration::from_secs(20);
/// Its output is some 300 bytes per device.
const OUTPUT_BYTES_MAX: u64 = 1 << 20;
/// The last bytes of its messages.
const ERRORS_BYTES_MAX: usize = 64 << 10;

/// The program writes `null` for unknown values.
#[derive(Deserialize)]
struct Device {
    neuron_device: u32,
    nc_count: Option<u32>,
    neuroncore_ids: Option<Vec<u32>>,
    neuron_processes: Option<Vec<Process>>,
}

#[derive(Clone, Deserialize)]
struct Process {
    pid: u32,
    command: Option<String>,
}

/// A process that uses cores of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DeviceUser {
    pub pid: u32,
    pub command: String,
    /// The cores of the device, of which it has one at least.
    pub cores: Vec<u32>,
}

/// All cores of a host, and the processes that use them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CoreUsers {
    pub cores: u32,
    pub users: Vec<DeviceUser>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum NeuronLsError {
    #[error("run {program}: {source}", program = .program.display())]
    Run { program: PathBuf, source: io::Error },
    #[error("{message} ({status})")]
    Failed { message: String, status: ExitStatus },
    #[error("parse its output: {0}")]
    Output(#[from] serde_json::Error),
    #[error("it lists no devices")]
    NoDevices,
}

/// Lists all cores.
pub(super) fn cores(program: &Path) -> Result<Vec<FoundCore>, NeuronLsError> {
    Ok(parse(&output_of(program)?)?)
}

/// Lists the processes that use cores.
pub(crate) fn users(program: &Path) -> Result<CoreUsers, NeuronLsError> {
    Ok(parse_users(&output_of(program)?)?)
}

fn output_of(program: &Path) -> Result<Vec<u8>, NeuronLsError> {
    let Output { status, stdout, stderr } = run(program, TIMEOUT)
        .map_err(|source| NeuronLsError::Run { program: program.to_owned(), source })?;
    if !status.success() {
        let errors = String::from_utf8_lossy(&stderr);
        let last = errors.lines().rfind(|line| !line.trim().is_empty());
        let message = last.unwrap_or("without an error message").to_owned();
        return Err(NeuronLsError::Failed { message, status });
    }
    Ok(stdout)
}

/// Runs the program, which must write something or end within `timeout`.
fn run(program: &Path, timeout: Duration) -> io::Result<Output> {
    let mut command = Command::new(program);
    command.arg("-j").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let (output, errors) = (child.stdout.take(), child.stderr.take());
    let read = (|| {
        if let Some(pipe) = output {
            TimeoutReader::new(pipe, timeout).take(OUTPUT_BYTES_MAX).read_to_end(&mut stdout)?;
        }
        let errors = errors.map(|pipe| TimeoutReader::new(pipe, timeout).take(OUTPUT_BYTES_MAX));
        stderr = end_blocking(errors, ERRORS_BYTES_MAX)?;
        Ok::<_, io::Error>(())
    })();
    if read.is_err() {
        let _ = child.kill();
    }
    let status = child.wait()?;
    read.map(|()| Output { status, stdout, stderr })
}

fn devices(json: &[u8]) -> serde_json::Result<Vec<Device>> {
    let mut devices: Vec<Device> = serde_json::from_slice(json)?;
    devices.sort_by_key(|device| device.neuron_device);
    Ok(devices)
}

fn parse_users(json: &[u8]) -> serde_json::Result<CoreUsers> {
    let mut found = CoreUsers::default();
    for device in devices(json)? {
        let cores: Vec<u32> = (found.cores..found.cores + device.cores()).collect();
        found.cores += device.cores();
        let users =
            device.neuron_processes.into_iter().flatten().map(|Process { pid, command }| {
                DeviceUser { pid, command: command.unwrap_or_default(), cores: cores.clone() }
            });
        found.users.extend(users);
    }
    Ok(found)
}

fn parse(json: &[u8]) -> serde_json::Result<Vec<FoundCore>> {
    let devices = devices(json)?;
    let mut found = Vec::new();
    for device in devices {
        let core = FoundCore {
            device: "neuron".to_owned(),
            device_index: device.neuron_device,
            uuid: String::new(),
        };
        found.extend(std::iter::repeat_n(core, device.cores() as usize));
    }
    Ok(found)
}

impl Device {
    /// The number of logical cores: ids and the count are both of logical ones.
    fn cores(&self) -> u32 {
        let count = match self.neuroncore_ids.as_ref().map_or(0, Vec::len) as u32 {
            0 => self.nc_count.unwrap_or(0),
            ids => ids,
        };
        if count > CORES_PER_DEVICE_MAX { 0 } else { count }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(json: &str, expect: &[u32]) {
        let found = parse(json.as_bytes()).unwrap();
        let devices: Vec<u32> = found.iter().map(|core| core.device_index).collect();
        assert_eq!(devices, expect);
    }

    #[test]
    fn devices_are_sorted_and_have_their_cores() {
        check(
            r#"[{"neuron_device": 1, "bdf": "00:1f.0", "connected_to": null, "nc_count": 2, "memory_size": 34359738368,
                 "neuroncore_ids": [2, 3], "neuron_processes": []},
                {"neuron_device": 0, "nc_count": 2}]"#,
            &[0, 0, 1, 1],
        );
        let trn2 = r#"[{"neuron_device": 0, "bdf": "cc:00.0", "nc_count": 4, "logical_neuroncore_config": 2,
                        "memory_size": 103079215104, "neuroncore_ids": [0, 1, 2, 3], "cpu_affinity": "48-95",
                        "numa_node": "1", "connected_to": [1, 3, 4, 12], "neuron_processes": []}]"#;
        check(trn2, &[0, 0, 0, 0]);
        let without_ids =
            r#"[{"neuron_device": 0, "nc_count": 4, "logical_neuroncore_config": 2}]"#;
        check(without_ids, &[0, 0, 0, 0]);
        let odd = r#"[{"neuron_device": 0, "nc_count": null, "neuroncore_ids": [0]},
                      {"neuron_device": 1, "nc_count": 4294967295, "neuroncore_ids": null}]"#;
        check(odd, &[0]);
        check("[]", &[]);
        assert!(parse(b"neuron-ls: command failed").is_err());
    }

    #[test]
    fn processes_use_cores_of_their_devices() {
        let json = r#"[{"neuron_device": 1, "nc_count": 2, "neuroncore_ids": [2, 3], "neuron_processes": [
                           {"pid": 7, "command": "python train.py", "neuron_runtime_version": "2.34.10"},
                           {"pid": 8, "command": null}]},
                       {"neuron_device": 0, "nc_count": 2, "neuron_processes": null}]"#;
        let user =
            |pid, command: &str| DeviceUser { pid, command: command.to_owned(), cores: vec![2, 3] };
        let expect = CoreUsers { cores: 4, users: vec![user(7, "python train.py"), user(8, "")] };
        assert_eq!(parse_users(json.as_bytes()).unwrap(), expect);
        assert_eq!(parse_users(b"[]").unwrap(), CoreUsers::default());
    }

    #[test]
    fn a_program_that_hangs_is_killed() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("neuron-ls");
        std::fs::write(&program, "#!/bin/sh\necho '[{'\nexec sleep 60\n").unwrap();
        std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .unwrap();
        let error = run(&program, Duration::from_millis(50)).unwrap_err();
        assert!(error.to_string().contains("no output"), "{error}");
    }
}
