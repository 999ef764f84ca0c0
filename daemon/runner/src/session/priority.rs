//! The priority of threads that work beside the steps.

use rustix::process::{getpriority_process, setpriority_process};

/// A third of the weight of a thread of normal priority. A step may have to wait for the thread's
/// program while other processes are busy.
const NICE: i32 = 5;

/// Lowers the priority of the calling thread and of those that it starts, unless it is lower already, as in a
/// preparation. Where that is refused, the thread only competes with the steps.
pub(super) fn lower() {
    if getpriority_process(None).is_ok_and(|nice| nice < NICE) {
        let _ = setpriority_process(None, NICE);
    }
}
