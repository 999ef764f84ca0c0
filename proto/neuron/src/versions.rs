//! Versions of the SDK's parts, and which of them fit together.

use std::cmp::Ordering;
use std::fmt;

use crate::Generation;

/// The first two numbers of a version, which say what fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    pub major: u32,
    pub minor: u32,
}

impl Version {
    pub const fn new(major: u32, minor: u32) -> Version {
        Version { major, minor }
    }

    /// Parses the first `major.minor` of a text, such as `2.27.5334.0+abc` or
    /// `NeuronX Compiler version 2.27.5334`.
    pub fn parse(text: &str) -> Option<Version> {
        let numbers = |word: &str| -> Option<Version> {
            let mut parts = word.split('.').map(|part| {
                let digits = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
                part[..digits].parse().ok()
            });
            Some(Version { major: parts.next()??, minor: parts.next()?? })
        };
        text.split_whitespace().find_map(numbers)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// The version of the PJRT C API that `traind-pjrt` uses. The plugin compares the sizes of structures, and needs to
/// know it. Versions 2 of the plugin do not serve it.
pub const CLIENT_API: Version = Version::new(0, 81);

/// The versions of the PJRT C API that a line of the plugin serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApiWindow {
    /// The first version of libneuronxla of the line.
    pub plugin: Version,
    pub first: Version,
    pub last: Version,
}

/// Windows by ascending version of the plugin. Version 2 also needs a Python interpreter in the process.
pub const API_WINDOWS: &[ApiWindow] = &[
    ApiWindow { plugin: Version::new(2, 0), first: Version::new(0, 54), last: Version::new(0, 75) },
    ApiWindow {
        plugin: Version::new(3, 0),
        first: Version::new(0, 54),
        last: Version::new(0, 104),
    },
];

/// Explains why a version of libneuronxla cannot serve a client of version `api` of the PJRT C API.
pub fn api_problem(plugin: Version, api: Version) -> Option<String> {
    let window = API_WINDOWS.iter().rev().find(|window| plugin >= window.plugin)?;
    if (window.first..=window.last).contains(&api) {
        return None;
    }
    Some(format!(
        "libneuronxla {plugin} serves versions {} to {} of the PJRT C API, and traind uses {api}: \
         install libneuronxla 3.0 or newer",
        window.first, window.last
    ))
}

/// Runtimes from the first version on need a driver of at least the second one.
const DRIVERS: &[(Version, Version)] = &[(Version::new(2, 32), Version::new(2, 27))];
/// Drivers from the first version on need a runtime of at least the second one.
const RUNTIMES: &[(Version, Version)] = &[(Version::new(2, 29), Version::new(2, 33))];

/// Explains why a driver and a runtime do not work together.
pub fn driver_problem(driver: Version, runtime: Version) -> Option<String> {
    let old_driver = DRIVERS.iter().find(|(from, needs)| runtime >= *from && driver < *needs);
    if let Some((_, needs)) = old_driver {
        return Some(format!(
            "the runtime {runtime} needs the driver {needs} or newer, and {driver} is loaded: \
             update aws-neuronx-dkms, then `modprobe -r neuron; modprobe neuron`"
        ));
    }
    let old_runtime = RUNTIMES.iter().find(|(from, needs)| driver >= *from && runtime < *needs);
    old_runtime.map(|(_, needs)| {
        format!(
            "the driver {driver} needs the runtime {needs} or newer, and {runtime} is installed: \
             update aws-neuronx-runtime-lib"
        )
    })
}

/// Compilers and runtimes of one SDK each, by the first versions: of SDK 2.30, 2.31 and 2.32.
const SDKS: &[(Version, Version)] = &[
    (Version::new(2, 25), Version::new(2, 32)),
    (Version::new(2, 26), Version::new(2, 33)),
    (Version::new(2, 27), Version::new(2, 34)),
];

/// Explains that a compiler and a runtime are of different SDKs: runtimes from SDK 2.30 on compare the format of
/// programs.
pub fn compiler_problem(compiler: Version, runtime: Version) -> Option<String> {
    let compilers = SDKS.iter().filter(|(first, _)| compiler >= *first).count();
    let runtimes = SDKS.iter().filter(|(_, first)| runtime >= *first).count();
    let package = match compilers.cmp(&runtimes) {
        Ordering::Equal => return None,
        Ordering::Less => "neuronx-cc",
        Ordering::Greater => "aws-neuronx-runtime-lib",
    };
    Some(format!(
        "neuronx-cc {compiler} and the runtime {runtime} are of different SDKs, and a runtime may refuse another one's \
         programs (NRT 10): update {package}"
    ))
}

/// Drivers from the second version on serve a device from that generation on.
const OF_DEVICES: &[(Generation, Version)] = &[(Generation::Trainium2, Version::new(2, 22))];

/// Explains why a driver does not serve a device.
pub fn device_problem(device: Generation, driver: Version) -> Option<String> {
    let needs =
        OF_DEVICES.iter().find(|(generation, needs)| *generation == device && driver < *needs);
    needs.map(|(_, needs)| {
        format!(
            "{device:?} needs the driver {needs} or newer: update aws-neuronx-dkms, then \
             `modprobe -r neuron; modprobe neuron`"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_in_texts() {
        let parse = Version::parse;
        assert_eq!(parse("2.27.5334.0+a1b2"), Some(Version::new(2, 27)));
        assert_eq!(parse("NeuronX Compiler version 2.26.6360"), Some(Version::new(2, 26)));
        assert_eq!(parse("0.81"), Some(Version::new(0, 81)));
        assert_eq!(parse("3"), None);
        assert_eq!(parse("unknown"), None);
    }

    #[test]
    fn plugins_serve_versions_of_the_api() {
        let problem = |plugin: [u32; 2], api| {
            api_problem(Version::new(plugin[0], plugin[1]), Version::new(0, api))
        };
        assert!(problem([2, 2], 81).unwrap().contains("3.0 or newer"));
        assert_eq!(problem([3, 0], 81), None);
        assert!(problem([3, 0], 113).is_some());
        assert_eq!(problem([2, 2], 75), None);
    }

    #[test]
    fn drivers_and_runtimes_fit_together() {
        let problem = |driver: u32, runtime: u32| {
            driver_problem(Version::new(2, driver), Version::new(2, runtime))
        };
        assert!(problem(26, 32).unwrap().contains("driver 2.27 or newer"));
        assert!(problem(29, 32).unwrap().contains("runtime 2.33 or newer"));
        assert_eq!(problem(30, 34), None);
        assert_eq!(problem(26, 31), None);
    }

    #[test]
    fn compilers_and_runtimes_are_of_one_sdk() {
        let problem = |compiler: u32, runtime: u32| {
            compiler_problem(Version::new(2, compiler), Version::new(2, runtime))
        };
        for (compiler, runtime) in [(25, 32), (26, 33), (27, 34), (28, 35), (24, 31)] {
            assert_eq!(problem(compiler, runtime), None, "{compiler} {runtime}");
        }
        assert!(problem(27, 33).unwrap().contains("update aws-neuronx-runtime-lib"));
        assert!(problem(25, 34).unwrap().contains("update neuronx-cc"));
    }

    #[test]
    fn newer_devices_need_newer_drivers() {
        let (old, new) = (Version::new(2, 21), Version::new(2, 22));
        assert!(device_problem(Generation::Trainium2, old).unwrap().contains("driver 2.22"));
        assert_eq!(device_problem(Generation::Trainium2, new), None);
        assert_eq!(device_problem(Generation::Trainium1, old), None);
    }
}
