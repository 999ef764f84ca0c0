//! Limits of one program.

use crate::Version;

/// The compiler's own limit on instructions, which `--internal-max-instruction-limit` raises.
pub const INSTRUCTIONS_MAX: u64 = 5_000_000;
/// An output may have no more bytes (NCC_EVRF024).
pub const OUTPUT_BYTES_MAX: u64 = 4 << 30;
/// The largest k of a top-k operation (NCC_EVRF014).
pub const TOP_K_MAX: u64 = 16_384;
/// Integers up to this are exact where they are computed in float32.
pub const ELEMENT_INDEX_EXACT_MAX: u64 = 1 << 24;

/// The port of the root of a job's collectives on one host, to which the number of the job's first core is added, so
/// that jobs on one host never share one. Above Linux's default range of ephemeral ports.
pub const ROOT_COMM_PORT: u32 = 61_100;
/// The number of ports from that one on: one for each core of the largest instance.
pub const ROOT_COMM_PORTS: u32 = 128;

/// The first runtime with communicators for 16 sets of groups: that of SDK 2.32.
const SIXTEEN_SETS: Version = Version::new(2, 34);

/// The number of different sets of replica groups that a program may have with a runtime of this version.
pub fn replica_groups_max(runtime: Option<Version>) -> usize {
    match runtime {
        Some(version) if version >= SIXTEEN_SETS => 16,
        _ => 12,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newer_runtimes_have_more_communicators() {
        let of = |text: &str| replica_groups_max(Version::parse(text));
        assert_eq!((of("2.33.10"), of("2.34.10"), of("3.0"), of("")), (12, 16, 16, 12));
    }
}
