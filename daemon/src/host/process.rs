//! Processes as `/proc` describes them, and groups of processes that the daemon starts.

use std::fs;
use std::io::{self, ErrorKind};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use serde::{Deserialize, Serialize};
use tokio::process::Child;

/// The unit of times in `/proc`, independent of the kernel's configuration.
const TICKS_PER_SECOND: f64 = 100.0;

/// Identifies a process uniquely, even if its number is used again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Identity {
    pub pid: u32,
    /// Clock ticks since boot.
    pub start_time: u64,
    pub boot_id: String,
}

impl Identity {
    /// The identity of this process.
    pub(crate) fn own() -> io::Result<Identity> {
        let pid = std::process::id();
        let stat = Stat::read(pid)?;
        Ok(Identity { pid, start_time: stat.start_time, boot_id: boot_id()? })
    }

    /// Whether the process started since the machine booted. `false` if that is not known.
    pub(crate) fn is_of_this_boot(&self) -> bool {
        boot_id().is_ok_and(|id| id == self.boot_id)
    }

    /// Time since the process started, independent of changes to the clock.
    pub(crate) fn age(&self) -> Duration {
        uptime()
            .unwrap_or_default()
            .saturating_sub(Duration::from_secs_f64(self.start_time as f64 / TICKS_PER_SECOND))
    }

    /// Whether the process exists and is not a zombie.
    pub(crate) fn is_alive(&self) -> bool {
        self.is_of_this_boot()
            && Stat::read(self.pid).is_ok_and(|s| !s.ended && s.start_time == self.start_time)
    }
}

/// Time since the machine booted.
pub(crate) fn uptime() -> Option<Duration> {
    let text = fs::read_to_string("/proc/uptime").ok()?;
    let seconds = text.split_ascii_whitespace().next()?.parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}

/// A name of this boot of the machine.
pub(crate) fn boot_id() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

/// Contents of `/proc/<pid>/stat`.
pub(crate) struct Stat {
    start_time: u64,
    /// The process that opened the session.
    pub(crate) session: u32,
    /// Processor time of the process and of children that it waited for, in ticks.
    ticks: u64,
    /// The process is a zombie or dead.
    pub(crate) ended: bool,
}

impl Stat {
    pub(crate) fn read(pid: u32) -> io::Result<Stat> {
        let text = fs::read_to_string(format!("/proc/{pid}/stat"))?;
        Stat::parse(&text).ok_or_else(|| io::Error::new(ErrorKind::InvalidData, text))
    }

    /// The command name may contain spaces and parentheses, so fields are counted from its end.
    fn parse(text: &str) -> Option<Stat> {
        let (_, fields) = text.rsplit_once(')')?;
        let mut fields = fields.split_ascii_whitespace();
        let state = fields.next()?;
        let session = fields.nth(2)?.parse().ok()?;
        let times = [fields.nth(7)?, fields.next()?, fields.next()?, fields.next()?];
        let ticks = times.iter().map(|time| time.parse().unwrap_or(0u64)).sum();
        let start_time = fields.nth(4)?.parse().ok()?;
        Some(Stat { start_time, session, ticks, ended: matches!(state, "Z" | "X") })
    }

    /// The processor time of the process and of children that it waited for. Rounded up to a tick, since many processes
    /// may end within one.
    pub(crate) fn processor_time(&self) -> Duration {
        Duration::from_secs_f64((self.ticks + 1) as f64 / TICKS_PER_SECOND)
    }
}

/// The group of a process that the daemon started, which the process leads, with all that it started in turn. Dropping
/// it kills them.
#[derive(Debug)]
pub(crate) struct ProcessGroup(Option<Pid>);

impl ProcessGroup {
    /// The group that `child` leads. It is empty until the child leads it, and where the child was already waited for.
    pub(crate) fn of(child: &Child) -> ProcessGroup {
        ProcessGroup(child.id().and_then(|id| Pid::from_raw(id.cast_signed())))
    }

    /// Sends a signal to each process of the group.
    pub(crate) fn send(&self, signal: Signal) {
        // A group whose processes have ended takes none.
        self.0.map(|group| kill_process_group(group, signal));
    }

    /// Lets the processes outlive this value.
    pub(crate) fn release(mut self) {
        self.0 = None;
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.send(Signal::KILL);
    }
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use tokio::io::{AsyncBufReadExt, BufReader};

    use super::*;

    /// Starts a shell that leads a group, and returns it with the process that it started.
    async fn started() -> (Child, Pid) {
        let mut command = tokio::process::Command::new("sh");
        command.args(["-c", "sleep 600 & echo $!; wait"]).process_group(0).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = lines.next_line().await.unwrap().unwrap();
        (child, Pid::from_raw(line.parse().unwrap()).unwrap())
    }

    fn is_alive(process: Pid) -> bool {
        Stat::read(process.as_raw_nonzero().get().cast_unsigned()).is_ok_and(|stat| !stat.ended)
    }

    #[tokio::test]
    async fn a_group_that_is_dropped_ends_with_all_its_processes() {
        let (mut leader, member) = started().await;
        drop(ProcessGroup::of(&leader));
        leader.wait().await.unwrap();
        while is_alive(member) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    #[tokio::test]
    async fn a_group_that_is_released_stays() {
        let (mut leader, member) = started().await;
        let group = ProcessGroup::of(&leader);
        let again = ProcessGroup::of(&leader);
        group.release();
        leader.start_kill().unwrap();
        leader.wait().await.unwrap();
        assert!(is_alive(member));
        drop(again);
        while is_alive(member) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    #[test]
    fn a_process_that_reuses_a_pid_is_another_one() {
        let own = Identity::own().unwrap();
        assert!(own.is_alive() && own.age() < Duration::from_secs(3600));
        assert!(!Identity { start_time: own.start_time + 1, ..own.clone() }.is_alive());
        assert!(!Identity { boot_id: "another boot".into(), ..own }.is_alive());
    }

    #[test]
    fn stat_survives_an_odd_command_name() {
        let text = "7 (a) b) Z 1 7 8 0 -1 0 0 0 0 0 1 20 300 4000 20 0 1 0 4242 0 0";
        let stat = Stat::parse(text).unwrap();
        assert!(stat.ended);
        assert_eq!((stat.start_time, stat.session), (4242, 8));
        assert_eq!(stat.processor_time(), Duration::from_millis(43_220));
    }
}
