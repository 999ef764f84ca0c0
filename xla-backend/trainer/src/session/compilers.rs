//! The processes of Neuron's compiler, which a plugin starts and waits for. A plugin cannot be asked to give a compile
//! up.

use std::fs;
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::error::Error;

/// How often their end is considered.
pub(super) const COMPILERS_POLL: Duration = Duration::from_millis(50);
const COMPILER: &str = "neuronx-cc";
/// The memory that a compiler is taken to need.
const COMPILER_BYTES: u64 = 8 << 30;

/// Says whether work is to be given up.
pub type MustStop = Arc<dyn Fn() -> bool + Send + Sync>;

/// Runs `work`, which compiles programs. If it must stop meanwhile, the compilers are ended, and the error is
/// [`Error::Abandoned`].
pub fn give_up_on<T, E: From<Error>>(
    must_stop: &(dyn Fn() -> bool + Sync),
    work: impl FnOnce() -> Result<T, E>,
) -> Result<T, E> {
    let is_done = AtomicBool::new(false);
    let watch = || {
        while !is_done.load(Ordering::Relaxed) {
            if must_stop() {
                end_compilers();
            }
            thread::sleep(COMPILERS_POLL);
        }
    };
    let result = thread::scope(|scope| {
        scope.spawn(watch);
        let result = work();
        is_done.store(true, Ordering::Relaxed);
        result
    });
    if must_stop() { result.map_err(|_| Error::Abandoned.into()) } else { result }
}

/// The number of compilers that run at one time on so many processors: as many as free memory allows, and at least one.
pub(super) fn compiler_processes(processors: usize) -> usize {
    compilers_in(processors, free_memory_bytes())
}

fn compilers_in(processors: usize, free: Option<u64>) -> usize {
    let fitting = free.map_or(usize::MAX, |free| (free / COMPILER_BYTES) as usize);
    fitting.clamp(1, processors.max(1))
}

fn free_memory_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().trim_end_matches(" kB").parse::<u64>().ok().map(|kib| kib * 1024)
}

/// Asks the compilers that this process started to end.
pub fn end_compilers() {
    for pid in children_with(process::id(), COMPILER) {
        // It may have ended meanwhile.
        let _ = kill_process(pid, Signal::TERM);
    }
}

/// The children of a process whose command lines contain `word`.
fn children_with(parent: u32, word: &str) -> Vec<Pid> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids =
        entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let is_wanted = |pid: &i32| {
        let read = |name: &str| fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
        let command = read("cmdline");
        parent_of(&String::from_utf8_lossy(&read("stat"))) == Some(parent)
            && String::from_utf8_lossy(&command).contains(word)
    };
    pids.filter(is_wanted).filter_map(Pid::from_raw).collect()
}

/// The parent in a line of `/proc/PID/stat`: the second word behind the name, which may contain anything.
fn parent_of(stat: &str) -> Option<u32> {
    let (_, behind) = stat.rsplit_once(')')?;
    behind.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn memory_limits_the_compilers_that_run_at_one_time() {
        let gib = |gib: u64| Some(gib << 30);
        assert_eq!(compilers_in(96, gib(64)), 8);
        assert_eq!(compilers_in(4, gib(64)), 4);
        assert_eq!((compilers_in(4, gib(2)), compilers_in(2, None)), (1, 2));
    }

    #[test]
    fn children_are_found_by_their_command() {
        let mut child = Command::new("cat");
        let mut child = child
            .args(["-", "/nowhere/neuronx-cc-of-a-test"])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let found = || children_with(process::id(), "neuronx-cc-of-a-test");
        // Until it has executed the program, its command line is that of this one.
        while found().is_empty() {
            std::thread::yield_now();
        }
        let pid = found().into_iter().map(|pid| pid.as_raw_nonzero().get()).collect::<Vec<_>>();
        assert_eq!(pid, [child.id() as i32]);
        assert!(children_with(1, "neuronx-cc-of-a-test").is_empty());
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(parent_of("7 (a) b) S 3 7"), Some(3));
    }
}
