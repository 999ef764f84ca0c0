//! The compiler's command line.

use crate::Version;

/// Flags of every version: all models are transformers, and automatic casts would change losses compared
/// with other platforms.
pub const LEGACY_FLAGS: &str = "--model-type=transformer -O1 --auto-cast=none";

/// The first compiler with `--implicit-integer-downcast`: that of SDK 2.32. Its default changes in the
/// next SDK. The default of `--native-int64` does, too, but programs have no 64-bit integers.
const INTEGER_FLAGS: Version = Version::new(2, 27);

/// The facts that the flags depend on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompilerFlags {
    /// The compiler's version; without one, no flag is added that old compilers refuse.
    pub compiler: Option<Version>,
    /// `NEURON_LOGICAL_NC_CONFIG`, if it is set.
    pub logical_config: Option<u32>,
}

impl CompilerFlags {
    /// `NEURON_CC_FLAGS` for these.
    pub fn to_flags(self) -> String {
        let mut flags = LEGACY_FLAGS.to_owned();
        // The compiler's default is two on trn2, and both must agree.
        if let Some(config) = self.logical_config {
            flags.push_str(&format!(" --lnc={config}"));
        }
        if self.compiler.is_some_and(|version| version >= INTEGER_FLAGS) {
            flags.push_str(" --implicit-integer-downcast=all");
        }
        flags
    }
}

/// The number of instructions to which `NEURON_CC_FLAGS` set the compiler's limit, if they do.
pub fn instruction_limit(flags: &str) -> Option<u64> {
    const FLAG: &str = "--internal-max-instruction-limit";
    let behind = &flags[flags.rfind(FLAG)? + FLAG.len()..];
    let value = behind.strip_prefix(['=', ' '])?.trim_start();
    value.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_of_instructions_is_that_of_the_last_flag() {
        let flag = "--internal-max-instruction-limit";
        assert_eq!(instruction_limit(&format!("-O1 {flag}=20000000 --lnc=2")), Some(20_000_000));
        assert_eq!(instruction_limit(&format!("{flag} 7")), Some(7));
        assert_eq!(instruction_limit(&format!("{flag}=7 {flag}=8")), Some(8));
        for none in ["", "-O1", &format!("{flag}=many"), flag] {
            assert_eq!(instruction_limit(none), None, "{none}");
        }
    }

    #[test]
    fn flags_follow_the_version_and_the_logical_configuration() {
        let flags =
            |compiler, logical_config| CompilerFlags { compiler, logical_config }.to_flags();
        assert_eq!(flags(None, None), LEGACY_FLAGS);
        assert_eq!(flags(Some(Version::new(2, 26)), Some(1)), format!("{LEGACY_FLAGS} --lnc=1"));
        let newest = flags(Some(Version::new(2, 27)), None);
        assert!(newest.ends_with("--implicit-integer-downcast=all"));
    }
}
