//! The priority of threads that work beside the steps.

use rustix::process::{getpriority_process, setpriority_process};

/// The priority of work that a step may wait for: a third of the weight of a thread of normal priority. It must not
/// stand still while other processes are busy.
pub(crate) const BESIDE_STEPS: i32 = 5;

/// The priority of work that takes long and is not needed for many steps: about a thirtieth of the weight.
pub const BEHIND_STEPS: i32 = 15;

/// Lowers the priority of the calling thread and of those that it starts, unless it is lower already, as in a
/// preparation. Where that is refused, the thread only competes with the steps.
pub fn lower(nice: i32) {
    if getpriority_process(None).is_ok_and(|own| own < nice) {
        let _ = setpriority_process(None, nice);
    }
}
