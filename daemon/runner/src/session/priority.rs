//! The priority of threads that work beside the steps.

/// A third of the weight of a thread of normal priority. A step may have to wait for the thread's
/// program while other processes are busy.
const NICE: i32 = 5;

/// Lowers the priority of the calling thread and of those that it starts. Where that is refused, the
/// thread only competes with the steps.
pub(super) fn lower() {
    let _ = rustix::process::setpriority_process(None, NICE);
}
