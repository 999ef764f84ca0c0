//! Limits of processes that training jobs run into.

use rustix::process::{Resource, getrlimit};

use super::Check;

/// Shards, sockets and libraries of a large job.
pub(crate) const OPEN_FILES_MIN: u64 = 8192;

pub(super) fn open_files() -> Check {
    const NAME: &str = "open files";
    match getrlimit(Resource::Nofile).maximum {
        Some(limit) if limit < OPEN_FILES_MIN => Check::advice(
            NAME,
            format!("at most {limit}"),
            format!(
                "set LimitNOFILE={OPEN_FILES_MIN} in the unit, or `ulimit -Hn {OPEN_FILES_MIN}`"
            ),
        ),
        limit => {
            Check::present(NAME, limit.map_or("no limit".to_owned(), |limit| limit.to_string()))
        }
    }
}

/// Network adapters and GPUs register host memory, which cannot be swapped then.
pub(super) fn locked_memory() -> Check {
    const NAME: &str = "locked memory";
    match getrlimit(Resource::Memlock).current {
        None => Check::present(NAME, "no limit"),
        Some(bytes) => Check::advice(
            NAME,
            format!("at most {} KiB", bytes / 1024),
            "set LimitMEMLOCK=infinity in the unit, or `ulimit -l unlimited`, for collectives \
             between hosts",
        ),
    }
}
