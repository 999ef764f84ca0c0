//! Inspects and signals the daemon's processes.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

/// Whether a process is running. A zombie is not.
pub fn alive(pid: u32) -> bool {
    let Ok(text) = fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    text.rsplit(')').next().is_some_and(|rest| !rest.trim_start().starts_with('Z'))
}

/// Sends SIGTERM to a process.
pub fn terminate(pid: u32) {
    kill_process(Pid::from_raw(pid as i32).unwrap(), Signal::TERM).unwrap();
}

/// Stops a process until it is killed or continued.
pub(crate) fn suspend(pid: u32) {
    kill_process(Pid::from_raw(pid as i32).unwrap(), Signal::STOP).unwrap();
}

/// Whether no thread of a process runs: after [`suspend`], each first ends the system call that it is in.
pub(crate) fn is_suspended(pid: u32) -> bool {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    tasks.flatten().all(|task| {
        // A thread that has ended in the meantime has no state.
        let text = fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        text.rsplit(')')
            .next()
            .is_none_or(|rest| rest.is_empty() || rest.trim_start().starts_with('T'))
    })
}

/// Continues a stopped process.
pub(crate) fn wake(pid: u32) {
    kill_process(Pid::from_raw(pid as i32).unwrap(), Signal::CONT).unwrap();
}

/// Kills a process. Returns false if there is none.
pub(crate) fn kill(pid: u32) -> bool {
    kill_process(Pid::from_raw(pid as i32).unwrap(), Signal::KILL).is_ok()
}

/// Kills every runner whose run directory is below `folder`.
pub(crate) fn kill_runners(folder: &Path) {
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
        let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let names_folder = |part: &[u8]| part.starts_with(folder.as_os_str().as_bytes());
        if command.split(|byte| *byte == 0).skip(1).any(names_folder) {
            // It may have exited in the meantime.
            let _ = Pid::from_raw(pid).map(|pid| kill_process_group(pid, Signal::KILL));
        }
    }
}
