//! Variables of the environment that switch something on or off. A value that is not understood is refused before
//! anything starts: as the other one, it would be taken without a word.

/// A variable with two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switch {
    /// The variable.
    pub name: &'static str,
    /// The value that switches it on.
    pub on: &'static str,
    /// The value that switches it off.
    pub off: &'static str,
    /// Whether it is on where the variable is not set, or empty.
    pub default: bool,
}

const fn of(name: &'static str, default: bool) -> Switch {
    Switch { name, on: "on", off: "off", default }
}

/// Programs for CPU devices call vectorized kernels, and those for GPUs cuDNN's attention.
pub const KERNELS: Switch = of("TRAIND_KERNELS", true);
/// Results of programs for NeuronCores replace arguments in place.
pub const NEURON_DONATION: Switch = of("TRAIND_NEURON_DONATION", true);
/// Programs for NeuronCores are compiled before their job has cores.
pub const NEURON_PREPARE: Switch = of("TRAIND_NEURON_PREPARE", false);
/// Jobs may have all powers of two of NeuronCores.
pub const NEURON_ANY_CORE_COUNT: Switch =
    Switch { name: "TRAIND_NEURON_ANY_CORE_COUNT", on: "1", off: "0", default: false };

/// All switches.
pub const SWITCHES: [Switch; 4] = [KERNELS, NEURON_DONATION, NEURON_PREPARE, NEURON_ANY_CORE_COUNT];

/// The beginning of names that switches alone have.
const OF_NEURON: &str = "TRAIND_NEURON_";

impl Switch {
    /// Whether it is on in this process's environment.
    pub fn is_on(&self) -> bool {
        let value = std::env::var(self.name).unwrap_or_default();
        if value == self.on { true } else { value != self.off && self.default }
    }
}

/// Refuses a switch of this process's environment whose value is not understood.
pub fn check_switches() -> Result<(), String> {
    let variables = std::env::vars_os();
    let mut texts =
        variables.map(|(name, value)| [name, value].map(|it| it.to_string_lossy().into_owned()));
    texts.try_for_each(|[name, value]| check(&name, &value))
}

fn check(name: &str, value: &str) -> Result<(), String> {
    let Some(Switch { on, off, .. }) = SWITCHES.iter().find(|switch| switch.name == name) else {
        if !name.starts_with(OF_NEURON) {
            return Ok(());
        }
        let known = SWITCHES.map(|it| it.name).into_iter().filter(|it| it.starts_with(OF_NEURON));
        let known = known.collect::<Vec<_>>().join(", ");
        return Err(format!("there is no variable {name}; those for NeuronCores are {known}"));
    };
    match value.is_empty() || [on, off].contains(&&value) {
        true => Ok(()),
        false => Err(format!("{name} is {value:?}, and its values are {on} and {off}")),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn values_and_names_that_are_not_understood_are_refused_with_those_that_are() {
        for Switch { name, on, off, .. } in SWITCHES {
            for good in [on, off, ""] {
                assert_eq!(check(name, good), Ok(()), "{name}");
            }
            for wrong in ["of", "yes", "On", "true", "2", " "] {
                let error = check(name, wrong).unwrap_err();
                assert!(error.contains(name) && error.contains(&format!("{wrong:?}")), "{error}");
                assert!(error.ends_with(&format!("{on} and {off}")), "{error}");
            }
        }
        let error = check("TRAIND_NEURON_DONATON", "off").unwrap_err();
        assert!(error.contains("TRAIND_NEURON_DONATION"), "{error}");
        for other in ["TRAIND_CACHE_DIR", "NEURON_CC_FLAGS", "PATH"] {
            assert_eq!(check(other, "of"), Ok(()));
        }
    }
}
