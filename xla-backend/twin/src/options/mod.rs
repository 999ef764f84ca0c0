//! Options: behaviour that no public fact decides, and failures to inject. `options.txt` describes them for users.

mod values;

use std::str::FromStr;

use traind_neuron::{CORE_KINDS, INSTANCES, Version, instance};

pub(crate) use values::{Donation, Errors, NextSdk, NullEvents, WorkFolder};

/// The variable with options as `NAME=VALUE`, separated by commas, or with `@` and the path of a file that has them, so
/// that they can change between processes.
const VARIABLE: &str = "TRAIND_TWIN_OPTIONS";
/// A line for each option: its name, its default and its meaning.
const DESCRIPTIONS: &str = include_str!("../../options.txt");

/// A kind of cores that traind does not know, as that of a later chip.
const UNKNOWN_KIND: &str = "NC_v9";

macro_rules! options {
    ($($(#[doc = $doc:literal])+ $name:ident: $kind:ty,)+) => {
        /// Each field is an option of the same name.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct Options {
            $($(#[doc = $doc])+ pub $name: $kind,)+
        }

        impl Options {
            /// The options without a value, which their descriptions give.
            fn empty() -> Options {
                Options { $($name: <$kind>::default(),)+ }
            }

            fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
                if !is_text_of(name, value) {
                    return Err(refused(name, value));
                }
                match name {
                    $(stringify!($name) => self.$name = parsed(name, value)?,)+
                    _ => return Err(format!("the twin has no option {name}")),
                }
                Ok(())
            }

            #[cfg(test)]
            const NAMES: &[&str] = &[$(stringify!($name)),+];
        }
    };
}

options! {
    /// The EC2 instance.
    instance: String,
    /// Milliseconds until the runtime is initialized.
    init_ms: u64,
    /// Milliseconds until a program is compiled.
    compile_ms: u64,
    /// Whether the plugin lists devices against their numbers on the host.
    reversed: bool,
    /// Whether the compiler reads the dialect `chlo`.
    chlo: bool,
    /// Whether cost analysis, statistics of compiled memory and the optimized program are implemented.
    analysis: bool,
    /// Whether all powers of two of cores work.
    any_count: bool,
    /// Whether the plugin is one of version 2, which serves older versions of the API alone.
    version_2: bool,
    /// Whether sums, products and comparisons of 32-bit integers are computed in float32.
    inexact: bool,
    /// The fate of donated arguments.
    donation: Donation,
    /// The version of the loaded driver.
    driver: String,
    /// The version of the runtime.
    runtime: String,
    /// Microseconds that each execution takes at least.
    dispatch_us: u64,
    /// Whether the parts are those of the SDK after 2.32.
    next_sdk: NextSdk,
    /// A status of the runtime with which the execution number `fail_at` fails; 0 for none.
    fail_status: u32,
    /// See `fail_status`.
    fail_at: u64,
    /// The number of an execution that waits for another core until the runtime's limit; 0 for none.
    hang_at: u64,
    /// The number of an execution that finds no memory on its core; 0 for none.
    memory_full_at: u64,
    /// Whether a process that registers the plugin without devices compiles without holding cores.
    compiles_without_cores: bool,
    /// Milliseconds that a process waits for the others.
    meet_ms: u64,
    /// A code with which the compiler refuses the programs of jobs, without `NCC_`; empty for none.
    compile_code: String,
    /// Where the texts of compiler and runtime are.
    errors: Errors,
    /// The folder in which the plugin gives programs to the compiler.
    work_folder: WorkFolder,
    /// The kind of the cores as the plugin names it; empty for that of the instance.
    kind: String,
    /// The fate of an execution that asks for no events of completion.
    null_events: NullEvents,
    /// Whether the plugin has extensions, though none for custom calls.
    extensions: bool,
}

/// Versions of an SDK's parts.
pub(crate) struct Versions {
    pub plugin: &'static str,
    pub compiler: &'static str,
}

impl Default for Options {
    fn default() -> Options {
        let mut options = Options::empty();
        for (name, value) in descriptions() {
            // The test below sets each of them.
            let _ = options.set(name, value);
        }
        options
    }
}

/// The names of options with their defaults.
fn descriptions() -> impl Iterator<Item = (&'static str, &'static str)> {
    DESCRIPTIONS.lines().filter_map(|line| line.split_whitespace().next()?.split_once('='))
}

impl Options {
    /// The names of all options with their defaults.
    pub fn described() -> impl Iterator<Item = (&'static str, &'static str)> {
        descriptions()
    }

    /// The values that an option may have; none of those that have a number or a text.
    pub fn values(name: &str) -> Vec<&'static str> {
        match name {
            "instance" => INSTANCES.iter().map(|instance| instance.name).collect(),
            "donation" => Donation::names(),
            "next_sdk" => NextSdk::names(),
            "errors" => Errors::names(),
            "null_events" => NullEvents::names(),
            "work_folder" => WorkFolder::names(),
            _ => {
                let switches = ["false", "true"];
                let default = descriptions().find(|(option, _)| *option == name);
                let is_switch = default.is_some_and(|(_, value)| switches.contains(&value));
                if is_switch { switches.to_vec() } else { Vec::new() }
            }
        }
    }

    /// The versions of plugin and compiler: those of SDK 2.32, or assumed ones of the next.
    pub(crate) fn versions(&self) -> Versions {
        let (plugin, compiler) = match self.next_sdk {
            NextSdk::No => ("3.0.5356.0", "2.27.5334"),
            _ => ("3.1.0.0", "2.28.0"),
        };
        Versions { plugin: if self.version_2 { "2.2.17544.0" } else { plugin }, compiler }
    }

    /// The runtime's version, as far as it says what fits.
    pub(crate) fn runtime(&self) -> Result<Version, String> {
        Version::parse(&self.runtime).ok_or_else(|| format!("no version: {}", self.runtime))
    }

    /// Returns the options of the environment.
    pub fn of_environment() -> Result<Options, String> {
        let text = std::env::var(VARIABLE).unwrap_or_default();
        match text.strip_prefix('@') {
            Some(path) => {
                let read = std::fs::read_to_string(path);
                read.map_err(|error| format!("{path}: {error}"))?.trim().parse()
            }
            None => text.parse(),
        }
    }
}

impl FromStr for Options {
    type Err = String;

    fn from_str(text: &str) -> Result<Options, String> {
        let mut options = Options::default();
        for option in text.split(',').filter(|option| !option.is_empty()) {
            let (name, value) =
                option.split_once('=').ok_or_else(|| format!("{option} is not NAME=VALUE"))?;
            options.set(name.trim(), value.trim())?;
        }
        Ok(options)
    }
}

fn parsed<T: FromStr>(name: &str, value: &str) -> Result<T, String> {
    value.parse().map_err(|_| refused(name, value))
}

/// Whether an option that is a text may have a value.
fn is_text_of(name: &str, value: &str) -> bool {
    match name {
        "instance" => instance(value).is_some(),
        "kind" => value.is_empty() || kinds().any(|kind| kind == value),
        "driver" | "runtime" => Version::parse(value).is_some(),
        "compile_code" => value.chars().all(|it| it.is_ascii_uppercase() || it.is_ascii_digit()),
        _ => true,
    }
}

/// The kinds of cores that the plugin may name: those that traind knows, and one that it does not.
fn kinds() -> impl Iterator<Item = &'static str> {
    CORE_KINDS.iter().map(|kind| kind.kind).chain([UNKNOWN_KIND])
}

fn refused(name: &str, value: &str) -> String {
    let values = match name {
        "kind" => kinds().collect(),
        _ => Options::values(name),
    };
    let instead = match (name, &values[..]) {
        ("driver" | "runtime", _) => ", but a version such as 2.34.10".to_owned(),
        ("compile_code", _) => ", but a code without NCC_, such as EOOM002".to_owned(),
        (_, []) => ", but a number".to_owned(),
        (_, values) => format!(", but {}", values.join(" or ")),
    };
    format!("the twin's option {name} is not '{value}'{instead}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_and_others_refused() {
        let options: Options =
            "instance=trn2.48xlarge,fail_status=1006, chlo=true".parse().unwrap();
        assert_eq!(
            (options.instance.as_str(), options.fail_status, options.chlo),
            ("trn2.48xlarge", 1006, true)
        );
        assert_eq!("".parse(), Ok(Options::default()));
        for (wrong, part) in [
            ("chlo", "NAME=VALUE"),
            ("chlo=maybe", "false or true"),
            ("speed=1", "no option speed"),
            ("donation=sometimes", "works or ignored"),
            ("next_sdk=yes", "no or serves"),
            ("fail_at=first", "a number"),
            ("kind=NC_v99", "NC_v3d or NC_v3 or NC_v4d or NC_v4 or NC_v9"),
            ("driver=new", "a version"),
            ("runtime=", "a version"),
            ("compile_code=NCC_EOOM002", "without NCC_"),
            ("instance=p5.48xlarge", "trn1.2xlarge or trn1.32xlarge"),
        ] {
            let error = wrong.parse::<Options>().unwrap_err();
            assert!(error.contains(part), "{wrong}: {error}");
        }
        assert_eq!("kind=NC_v4".parse::<Options>().unwrap().kind, "NC_v4");
    }

    #[test]
    fn all_options_are_described_with_a_default() {
        let described: Vec<&str> = descriptions().map(|(name, _)| name).collect();
        assert_eq!(described, Options::NAMES);
        for (name, value) in descriptions() {
            assert_eq!(Options::empty().set(name, value), Ok(()), "{name}");
            let values = Options::values(name);
            assert!(values.is_empty() || values.contains(&value), "{name}");
            values.iter().for_each(|value| Options::empty().set(name, value).unwrap());
        }
    }
}
