//! Versions of the SDK's parts, and which of them fit together.

use std::fmt;

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
}
