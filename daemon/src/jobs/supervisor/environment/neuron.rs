//! Variables of Neuron's plugin, compiler and runtime.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use traind_neuron::{
    CLIENT_API, CompilerFlags, Generation, InstalledCompiler, ROOT_COMM_PORT, VISIBLE_CORES,
    Version, core_ranges, parse_core_ranges,
};

/// Limit on a step, since a collective waits for ever if one of its cores is lost.
const EXEC_TIMEOUT_SECONDS: &str = "600";
/// Set to 1, the runtime writes a profile while a process runs.
const INSPECT: &str = "NEURON_RT_INSPECT_ENABLE";
/// The beginning of the names of all its settings.
const INSPECT_PREFIX: &str = "NEURON_RT_INSPECT_";
/// The folder of that profile, in the run folder, where runners start.
const PROFILE_FOLDER: &str = "neuron-profile";

type Assigned = Vec<(&'static str, OsString)>;

/// The cores that a runtime can have: a range without gaps.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Selection {
    Contiguous(String),
    /// The runtime refuses these.
    Scattered(String),
}

impl Selection {
    /// `given`: the cores to which the operator restricted the daemon, into which core numbers are indices.
    pub(crate) fn of(cores: &[u32], given: Option<&str>) -> Selection {
        let given = given.and_then(parse_core_ranges).unwrap_or_default();
        let visible = cores.iter().map(|core| given.get(*core as usize).copied().unwrap_or(*core));
        let visible: Vec<u32> = visible.collect();
        let text = core_ranges(&visible);
        match visible.windows(2).all(|pair| pair[0] + 1 == pair[1]) {
            true => Selection::Contiguous(text),
            false => Selection::Scattered(text),
        }
    }

    fn into_text(self) -> String {
        match self {
            Selection::Contiguous(text) | Selection::Scattered(text) => text,
        }
    }
}

/// Refuses cores that the runtime would refuse with a text of its own. `own`: the daemon's environment.
pub(crate) fn check_selection(cores: &[u32], own: Option<&OsStr>) -> Result<(), String> {
    match Selection::of(cores, own.and_then(OsStr::to_str)) {
        Selection::Contiguous(_) => Ok(()),
        Selection::Scattered(cores) => Err(format!(
            "the cores {cores} of the job have gaps or are not in ascending order, and Neuron's runtime \
             takes a range alone; set {VISIBLE_CORES} of the daemon to a range, such as 0-31"
        )),
    }
}

/// Settings that the daemon's environment overrides. `given` returns a variable that is set.
pub(super) fn defaults<'a>(
    given: impl Fn(&str) -> Option<&'a OsString>,
    cache_dir: &Path,
    seed: u64,
) -> Assigned {
    let compiler = given("PATH").and_then(|path| InstalledCompiler::find(path));
    let flags = CompilerFlags {
        compiler: compiler.and_then(|it| Version::parse(&it.version?)),
        logical_config: given("NEURON_LOGICAL_NC_CONFIG")
            .and_then(|value| value.to_str()?.trim().parse().ok()),
    };
    let mut settings = vec![
        ("NEURON_CC_FLAGS", flags.to_flags().into()),
        // Documented for torch's wrapper alone; traind keeps executables in its own cache.
        ("NEURON_COMPILE_CACHE_URL", cache_dir.join("neuron-compile-cache").into()),
        ("NEURON_INTERNAL_PJRT_C_API_VERSION", CLIENT_API.to_string().into()),
        ("NEURON_RT_EXEC_TIMEOUT", EXEC_TIMEOUT_SECONDS.into()),
        // The operator decides whether to round stochastically; the seed keeps it reproducible.
        ("NEURON_RT_STOCHASTIC_ROUNDING_SEED", seed.to_string().into()),
    ];
    if given(INSPECT).is_some_and(|value| value == "1") {
        settings.push(("NEURON_RT_INSPECT_DEVICE_PROFILE", "1".into()));
        settings.push(("NEURON_RT_INSPECT_OUTPUT_DIR", PROFILE_FOLDER.into()));
    }
    settings
}

/// Whether a variable is about the profile that the runtime writes.
pub(super) fn is_of_profiles(name: &str) -> bool {
    name.starts_with(INSPECT_PREFIX)
}

/// Settings that select a job's cores.
pub(super) fn assignments(job: &str, cores: &[u32], given: Option<&str>) -> Assigned {
    let port = ROOT_COMM_PORT + cores.first().copied().unwrap_or_default();
    vec![
        ("NEURON_PROCESS_TAG", job.to_owned().into()),
        ("NEURON_RT_ROOT_COMM_ID", format!("127.0.0.1:{port}").into()),
        (VISIBLE_CORES, Selection::of(cores, given).into_text().into()),
    ]
}

/// Variables that a runner on one core needs besides those that are set, for a command without a daemon. Where nothing
/// says which cores are free, the runtime gives it one.
pub(crate) fn standalone_environment(cache_dir: &Path, seed: u64) -> Assigned {
    let own: Vec<(OsString, OsString)> = std::env::vars_os().collect();
    let given = |name: &str| own.iter().find(|(it, _)| it == name).map(|(_, value)| value);
    let mut variables = defaults(given, cache_dir, seed);
    variables.push(("NEURON_RT_NUM_CORES", "1".into()));
    variables.retain(|(name, _)| given(name).is_none());
    variables
}

/// Variables by which the plugin compiles for so many cores of a device without having them, as far as it can.
pub(in crate::jobs::supervisor) fn compile_environment(device: &str, cores: usize) -> Assigned {
    let target = Generation::of_device(device)
        .map(|generation| ("NEURON_PLATFORM_TARGET_OVERRIDE", generation.target().into()));
    let others = [
        ("NEURON_FORCE_PJRT_PLUGIN_REGISTRATION", "1".into()),
        ("NEURON_RT_NUM_CORES", cores.to_string().into()),
    ];
    target.into_iter().chain(others).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(cores: &[u32], given: Option<&str>, expect: Selection) {
        assert_eq!(Selection::of(cores, given), expect);
    }

    #[test]
    fn cores_are_indices_into_those_of_the_daemon() {
        let contiguous = |text: &str| Selection::Contiguous(text.to_owned());
        let scattered = |text: &str| Selection::Scattered(text.to_owned());
        check(&[2, 3], Some("8-15"), contiguous("10-11"));
        check(&[2, 3], None, contiguous("2-3"));
        check(&[5], None, contiguous("5"));
        check(&[0, 1], Some("0,4-5"), scattered("0,4"));
        check(&[0, 1, 4], None, scattered("0-1,4"));
        check(&[0, 1], Some("3,2"), scattered("3,2"));
    }

    #[test]
    fn scattered_cores_are_refused_with_a_remedy() {
        assert_eq!(check_selection(&[0, 1], Some(OsStr::new("4-7"))), Ok(()));
        let error = check_selection(&[0, 1, 2], Some(OsStr::new("0,2,4"))).unwrap_err();
        assert!(error.contains("0,2,4") && error.contains("NEURON_RT_VISIBLE_CORES"), "{error}");
    }

    #[test]
    fn programs_are_compiled_for_the_hosts_device_without_its_cores() {
        let found = compile_environment("Trainium2", 4);
        let expected = [
            ("NEURON_PLATFORM_TARGET_OVERRIDE", "trn2".into()),
            ("NEURON_FORCE_PJRT_PLUGIN_REGISTRATION", "1".into()),
            ("NEURON_RT_NUM_CORES", "4".into()),
        ];
        assert_eq!(found, expected);
        assert_eq!(compile_environment("neuron", 1).len(), 2);
    }

    #[test]
    fn a_command_without_a_daemon_takes_one_core() {
        let variables = standalone_environment(Path::new("/cache"), 7);
        let value = |name: &str| variables.iter().find(|(it, _)| *it == name).map(|(_, it)| it);
        assert_eq!(value("NEURON_RT_NUM_CORES").unwrap(), "1");
        assert_eq!(value("NEURON_INTERNAL_PJRT_C_API_VERSION").unwrap(), "0.81");
    }
}
