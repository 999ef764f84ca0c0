//! Ends this process with the one that asked it something, since nobody else reads the answer.
//!
//! Imports nothing.

use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use traind_job_file::commands::PARENT_VARIABLE;

/// Lets the kernel kill this process when its parent ends, however that ends, if the environment names the parent.
/// Returns false if that has ended already.
pub(crate) fn end_with_it() -> bool {
    let named = std::env::var(PARENT_VARIABLE).ok();
    let Some(parent) = named.and_then(|id| id.parse::<i32>().ok()) else { return true };
    // A kernel that has no such signal leaves this process as it is.
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    getppid().is_some_and(|found| found.as_raw_nonzero().get() == parent)
}
