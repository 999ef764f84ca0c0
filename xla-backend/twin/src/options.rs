//! Options: behaviour that no public fact decides, and failures to inject.

use std::str::FromStr;

/// The variable with options as `NAME=VALUE`, separated by commas.
const VARIABLE: &str = "TRAIND_TWIN_OPTIONS";

/// Each field is an option of the same name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The EC2 instance.
    pub instance: String,
    /// Milliseconds until the runtime is initialized, and until a program is compiled.
    pub init_ms: u64,
    pub compile_ms: u64,
    /// Whether the plugin lists devices against their numbers on the host.
    pub reversed: bool,
    /// Whether the compiler reads the dialect `chlo`.
    pub chlo: bool,
    /// Whether cost analysis, statistics of compiled memory and the optimized program are implemented.
    pub analysis: bool,
    /// Whether all powers of two of cores work.
    pub any_count: bool,
    /// Whether the plugin is one of version 2, which serves older versions of the API alone.
    pub version_2: bool,
    /// Whether integers are computed with the 24 digits of float32.
    pub inexact: bool,
    /// A status of the runtime with which the execution number `fail_at` fails; 0 for none.
    pub fail_status: u32,
    pub fail_at: u64,
    /// A code with which the compiler fails, without `NCC_`; empty for none.
    pub compile_code: String,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            instance: "trn1.2xlarge".to_owned(),
            init_ms: 0,
            compile_ms: 0,
            reversed: true,
            chlo: false,
            analysis: false,
            any_count: false,
            version_2: false,
            inexact: false,
            fail_status: 0,
            fail_at: 1,
            compile_code: String::new(),
        }
    }
}

impl Options {
    /// Returns the options of the environment.
    pub fn of_environment() -> Result<Options, String> {
        std::env::var(VARIABLE).unwrap_or_default().parse()
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "instance" => self.instance = value.to_owned(),
            "init_ms" => self.init_ms = parsed(name, value)?,
            "compile_ms" => self.compile_ms = parsed(name, value)?,
            "reversed" => self.reversed = parsed(name, value)?,
            "chlo" => self.chlo = parsed(name, value)?,
            "analysis" => self.analysis = parsed(name, value)?,
            "any_count" => self.any_count = parsed(name, value)?,
            "version_2" => self.version_2 = parsed(name, value)?,
            "inexact" => self.inexact = parsed(name, value)?,
            "fail_status" => self.fail_status = parsed(name, value)?,
            "fail_at" => self.fail_at = parsed(name, value)?,
            "compile_code" => self.compile_code = value.to_owned(),
            _ => return Err(format!("the twin has no option {name}")),
        }
        Ok(())
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
    value.parse().map_err(|_| format!("the twin's option {name} is not {value}"))
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
        for wrong in ["chlo", "chlo=maybe", "speed=1"] {
            assert!(wrong.parse::<Options>().is_err(), "{wrong}");
        }
    }
}
