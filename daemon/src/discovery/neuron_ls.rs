//! `neuron-ls -j`: the devices, where sysfs does not have them.

use std::path::Path;
use std::process::Command;

use serde::Deserialize;

use super::FoundCore;

#[derive(Deserialize)]
struct Device {
    neuron_device: u32,
    #[serde(default)]
    nc_count: u32,
    #[serde(default)]
    logical_neuroncore_config: Option<u32>,
    #[serde(default)]
    neuroncore_ids: Vec<u32>,
}

/// All cores, or what went wrong in words.
pub(super) fn cores(program: &Path) -> Result<Vec<FoundCore>, String> {
    let output = Command::new(program).arg("-j").output();
    let output = output.map_err(|error| format!("{}: {error}", program.display()))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let last = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("nothing");
        return Err(format!("{last} ({})", output.status));
    }
    parse(&output.stdout)
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
        match self.neuroncore_ids.len() as u32 {
            0 => self.nc_count / self.logical_neuroncore_config.unwrap_or(1).max(1),
            ids => ids,
        }
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
        check("[]", Ok(&[]));
        check("neuron-ls: command failed", Err("cannot be read"));
    }
}
