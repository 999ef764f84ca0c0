//! The processor time of processes that the daemon runs for a user, without a core of their own.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::process::Stat;

/// Adds up processor time; clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Meter(Arc<AtomicU64>);

impl Meter {
    /// The time until now.
    pub(crate) fn time(&self) -> Duration {
        Duration::from_micros(self.0.load(Ordering::Relaxed))
    }

    pub(crate) fn add(&self, time: Duration) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.0.fetch_add(micros, Ordering::Relaxed);
    }

    /// Reads the time of a process, which must not be waited for before, when the result is dropped.
    pub(crate) fn of_process(&self, pid: Option<u32>) -> Metering {
        Metering { pid, meter: self.clone() }
    }
}

/// A process whose time is added when this is dropped: of itself, of what it waited for, and of what is left of its
/// session.
#[derive(Debug)]
pub(crate) struct Metering {
    pid: Option<u32>,
    meter: Meter,
}

impl Drop for Metering {
    fn drop(&mut self) {
        let Some(pid) = self.pid else { return };
        let own = Stat::read(pid).map(|stat| stat.processor_time()).unwrap_or_default();
        self.meter.add(own + time_of_session(pid));
    }
}

/// The processor time of the other processes in the session that `leader` opened.
fn time_of_session(leader: u32) -> Duration {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let others = pids.filter(|pid| *pid != leader).filter_map(|pid| Stat::read(pid).ok());
    others.filter(|stat| stat.session == leader).map(|stat| stat.processor_time()).sum()
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use rustix::process::{Pid, Signal, kill_process_group};

    use super::*;

    const BUSY: &str = "i=0; while [ $i -lt 300000 ]; do i=$((i + 1)); done";

    /// Runs a script, whose output ends when it has worked, and returns its processor time.
    fn time(script: &str) -> Duration {
        let mut command = Command::new("setsid");
        let command = command.args(["sh", "-c", script]).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let meter = Meter::default();
        let metering = meter.of_process(Some(child.id()));
        let mut output = child.stdout.take().unwrap();
        std::io::copy(&mut output, &mut std::io::sink()).unwrap();
        drop(metering);
        let group = Pid::from_child(&child);
        let _ = kill_process_group(group, Signal::KILL);
        child.wait().unwrap();
        meter.time()
    }

    #[test]
    fn the_time_of_a_process_is_that_of_its_children_too() {
        let least = Duration::from_millis(50);
        let idle = time("sleep 0.3");
        for script in [
            BUSY.to_owned(),
            format!("sh -c '{BUSY}'; true"),
            // One that is still there.
            format!("(exec >&- sleep 2) & pid=$!; sh -c '{BUSY}; exec >&-; sleep 2' & wait $pid"),
        ] {
            let busy = time(&script);
            assert!(busy > idle + least, "{script}: {busy:?}, idle: {idle:?}");
        }
    }
}
