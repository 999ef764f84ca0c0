//! `neuron-ls -j`: the devices, where sysfs does not have them.

use std::io::{self, Read};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use serde::Deserialize;

use super::FoundCore;
use super::neuron::CORES_MAX;
use super::patient::Patient;

/// The daemon does not start before it has answered, which takes a second.
const PATIENCE: Duration = Duration::from_secs(20);
/// It tells some 300 bytes of a device.
const ANSWER_BYTES_MAX: u64 = 1 << 20;

/// It writes `null` for what it does not know.
#[derive(Deserialize)]
struct Device {
    neuron_device: u32,
    nc_count: Option<u32>,
    logical_neuroncore_config: Option<u32>,
    neuroncore_ids: Option<Vec<u32>>,
}

/// All cores, or what went wrong in words.
pub(super) fn cores(program: &Path) -> Result<Vec<FoundCore>, String> {
    let (status, output, said) =
        run(program, PATIENCE).map_err(|error| format!("{}: {error}", program.display()))?;
    if !status.success() {
        let said = String::from_utf8_lossy(&said);
        let last = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("nothing");
        return Err(format!("{last} ({status})"));
    }
    parse(&output)
}

/// How it ended, what it printed, and what it complained of.
fn run(program: &Path, patience: Duration) -> io::Result<(ExitStatus, Vec<u8>, Vec<u8>)> {
    let mut command = Command::new(program);
    command.arg("-j").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let (mut output, mut said) = (Vec::new(), Vec::new());
    let (pipe, complaints) = (child.stdout.take(), child.stderr.take());
    let read = (|| {
        if let Some(pipe) = pipe {
            Patient::new(pipe, patience).take(ANSWER_BYTES_MAX).read_to_end(&mut output)?;
        }
        if let Some(pipe) = complaints {
            Patient::new(pipe, patience).take(ANSWER_BYTES_MAX).read_to_end(&mut said)?;
        }
        Ok::<_, io::Error>(())
    })();
    if read.is_err() {
        let _ = child.kill();
    }
    let status = child.wait()?;
    read.map(|()| (status, output, said))
}

fn parse(json: &[u8]) -> Result<Vec<FoundCore>, String> {
    let mut devices: Vec<Device> =
        serde_json::from_slice(json).map_err(|error| format!("what cannot be read: {error}"))?;
    devices.sort_by_key(|device| device.neuron_device);
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
    /// The ids are those of logical cores; the count may be of physical ones.
    fn cores(&self) -> u32 {
        let count = match self.neuroncore_ids.as_ref().map_or(0, Vec::len) as u32 {
            0 => self.nc_count.unwrap_or(0) / self.logical_neuroncore_config.unwrap_or(1).max(1),
            ids => ids,
        };
        if count > CORES_MAX { 0 } else { count }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(json: &str, expect: Result<&[u32], &str>) {
        let found = parse(json.as_bytes());
        match (found, expect) {
            (Ok(found), Ok(expect)) => {
                let devices: Vec<u32> = found.iter().map(|core| core.device_index).collect();
                assert_eq!(devices, expect);
            }
            (Err(found), Err(expect)) => assert!(found.contains(expect), "{found}"),
            (found, expect) => panic!("{found:?}, not {expect:?}"),
        }
    }

    #[test]
    fn devices_come_in_order_with_their_cores() {
        check(
            r#"[{"neuron_device": 1, "bdf": "00:1f.0", "connected_to": null, "nc_count": 2, "memory_size": 34359738368,
                 "neuroncore_ids": [2, 3], "neuron_processes": []},
                {"neuron_device": 0, "nc_count": 2}]"#,
            Ok(&[0, 0, 1, 1]),
        );
        let trn2 = r#"[{"neuron_device": 0, "nc_count": 8, "logical_neuroncore_config": 2}]"#;
        check(trn2, Ok(&[0, 0, 0, 0]));
        let odd = r#"[{"neuron_device": 0, "nc_count": null, "neuroncore_ids": [0]},
                      {"neuron_device": 1, "nc_count": 4294967295, "neuroncore_ids": null}]"#;
        check(odd, Ok(&[0]));
        check("[]", Ok(&[]));
        check("neuron-ls: command failed", Err("cannot be read"));
    }

    #[test]
    fn a_program_that_hangs_is_ended() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("neuron-ls");
        std::fs::write(&program, "#!/bin/sh\necho '[{'\nexec sleep 60\n").unwrap();
        std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .unwrap();
        let error = run(&program, Duration::from_millis(50)).unwrap_err();
        assert!(error.to_string().contains("said nothing"), "{error}");
    }
}
