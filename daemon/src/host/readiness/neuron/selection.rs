//! Whether the environment selects cores that the host has, as the runtime and the daemon read it.

use traind_neuron::{Generation, VISIBLE_CORES};

use crate::host::cores::visible_problem;
use crate::host::readiness::{Check, HostFiles};

const NUM_CORES: &str = "NEURON_RT_NUM_CORES";
const DEVICES: &str = "/sys/devices/virtual/neuron_device";

/// A check of each variable that is set.
pub(super) fn checks(files: &HostFiles) -> Vec<Check> {
    let given = |name: &str| std::env::var_os(name).map(|it| it.to_string_lossy().into_owned());
    let config = given("NEURON_LOGICAL_NC_CONFIG");
    let found = core_count(files, config.as_deref());
    let visible = given(VISIBLE_CORES).filter(|it| !it.trim().is_empty());
    let checks = [
        visible.map(|visible| of_visible(&visible, found)),
        given(NUM_CORES).map(|count| of_number(&count, found)),
    ];
    checks.into_iter().flatten().collect()
}

/// The host's logical cores; 0 if they are not known.
fn core_count(files: &HostFiles, config: Option<&str>) -> u32 {
    let devices = files.numbered(DEVICES, "neuron");
    let name =
        |device: &String| files.read(format!("{DEVICES}/{device}/info/architecture/device_name"));
    let generation = devices.first().and_then(name).and_then(|it| Generation::of_device(&it));
    let Some(generation) = generation else { return 0 };
    let config = match config {
        Some(config) => config.trim().parse().ok(),
        None => Some(generation.default_logical_config()),
    };
    let kind = config.and_then(|config| generation.core_kind(config));
    kind.map_or(0, |it| devices.len() as u32 * generation.physical_cores() / it.logical_config)
}

fn of_visible(given: &str, found: u32) -> Check {
    match visible_problem(given, found) {
        Some(problem) => Check::missing(
            VISIBLE_CORES,
            format!("{given}: {problem}"),
            "set it to a range of the host's cores, such as 0-1, or unset it to have all of them",
        ),
        None => Check::present(VISIBLE_CORES, given),
    }
}

fn of_number(given: &str, found: u32) -> Check {
    let number: Option<u32> = given.trim().parse().ok();
    let problem = match number {
        None | Some(0) => "is not a number above 0".to_owned(),
        Some(number) if found > 0 && number > found => {
            format!("is more than the {found} cores of the host")
        }
        Some(_) => {
            let of_daemon = "the daemon gives each job its cores and does not read it: restrict the daemon by \
                             `traind serve --cores`";
            return Check::advice(NUM_CORES, given, of_daemon);
        }
    };
    Check::missing(
        NUM_CORES,
        format!("{given}, which {problem}"),
        "unset it, or set it to a number of cores of the host",
    )
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::host::readiness::Finding;

    fn found(check: &Check) -> &str {
        match &check.finding {
            Finding::Missing { found, .. } => found,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn selections_that_the_runtime_refuses_are_found() {
        for good in ["0", "0-31", "8-11", "4,5,6"] {
            assert_eq!(of_visible(good, 32), Check::present(VISIBLE_CORES, good));
        }
        for (given, part) in [
            ("0,2", "takes a range"),
            ("5-3", "takes a range"),
            ("all", "takes a range"),
            ("30-32", "the cores 0 to 31"),
            ("0-4000000", "the cores 0 to 31"),
        ] {
            let check = of_visible(given, 32);
            assert!(found(&check).contains(given) && found(&check).contains(part), "{check:?}");
        }
        // A host that does not say how many it has.
        assert!(!of_visible("30-33", 0).is_missing() && of_visible("0,2", 0).is_missing());
        for (given, part) in
            [("33", "the 32 cores"), ("0", "above 0"), ("two", "above 0"), ("-1", "above 0")]
        {
            let check = of_number(given, 32);
            assert!(found(&check).contains(part), "{check:?}");
        }
        let Check { finding: Finding::Advice { remedy, .. }, .. } = of_number("2", 32) else {
            panic!()
        };
        assert!(remedy.contains("serve --cores"), "{remedy}");
    }

    #[test]
    fn the_hosts_cores_are_counted_by_their_logical_configuration() {
        let root = tempfile::tempdir().unwrap();
        let files = HostFiles::new(root.path());
        assert_eq!(core_count(&files, None), 0);
        let check = |name: &str, config, expect| {
            for device in 0..2 {
                let folder = format!("{DEVICES}/neuron{device}/info/architecture");
                let folder = root.path().join(folder.trim_start_matches('/'));
                fs::create_dir_all(&folder).unwrap();
                fs::write(folder.join("device_name"), name).unwrap();
            }
            assert_eq!(core_count(&files, config), expect, "{name} {config:?}");
        };
        check("Trainium1", None, 4);
        check("Trainium2", None, 8);
        check("Trainium2", Some("1"), 16);
        check("Trainium2", Some("4"), 0);
        check("Neuron", None, 0);
    }
}
