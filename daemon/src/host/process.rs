//! Processes as `/proc` describes them.

use std::fs;
use std::io::{self, ErrorKind};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What `/proc` counts in, whatever the kernel does.
const TICKS_PER_SECOND: f64 = 100.0;

/// A process, told apart from later ones with the same number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Identity {
    pub pid: u32,
    /// Clock ticks since boot.
    pub start_time: u64,
    pub boot_id: String,
}

impl Identity {
    /// This very process.
    pub(crate) fn own() -> io::Result<Identity> {
        let pid = std::process::id();
        let stat = Stat::read(pid)?;
        Ok(Identity { pid, start_time: stat.start_time, boot_id: boot_id()? })
    }

    /// Whether the machine has not been started since. Where that cannot be told, nothing else can.
    pub(crate) fn is_of_this_boot(&self) -> bool {
        boot_id().is_ok_and(|id| id == self.boot_id)
    }

    /// How long it runs, however often the clock was set meanwhile.
    pub(crate) fn age(&self) -> Duration {
        uptime()
            .unwrap_or_default()
            .saturating_sub(Duration::from_secs_f64(self.start_time as f64 / TICKS_PER_SECOND))
    }

    /// Whether this process still exists and is no zombie.
    pub(crate) fn is_alive(&self) -> bool {
        self.is_of_this_boot()
            && Stat::read(self.pid).is_ok_and(|s| !s.ended && s.start_time == self.start_time)
    }
}

fn uptime() -> Option<Duration> {
    let text = fs::read_to_string("/proc/uptime").ok()?;
    let seconds = text.split_ascii_whitespace().next()?.parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}

fn boot_id() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

/// What `/proc/<pid>/stat` says.
pub(crate) struct Stat {
    start_time: u64,
    pub(crate) ended: bool,
}

impl Stat {
    pub(crate) fn read(pid: u32) -> io::Result<Stat> {
        let text = fs::read_to_string(format!("/proc/{pid}/stat"))?;
        Stat::parse(&text).ok_or_else(|| io::Error::new(ErrorKind::InvalidData, text))
    }

    /// The command name may hold spaces and parentheses, so fields count from its end.
    fn parse(text: &str) -> Option<Stat> {
        let (_, fields) = text.rsplit_once(')')?;
        let mut fields = fields.split_ascii_whitespace();
        let state = fields.next()?;
        let start_time = fields.nth(18)?.parse().ok()?;
        Some(Stat { start_time, ended: matches!(state, "Z" | "X") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_process_with_the_same_number_is_not_the_same() {
        let own = Identity::own().unwrap();
        assert!(own.is_alive() && own.age() < Duration::from_secs(3600));
        assert!(!Identity { start_time: own.start_time + 1, ..own.clone() }.is_alive());
        assert!(!Identity { boot_id: "another boot".into(), ..own }.is_alive());
    }

    #[test]
    fn stat_survives_an_odd_command_name() {
        let text = "7 (a) b) Z 1 7 7 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 4242 0 0";
        let stat = Stat::parse(text).unwrap();
        assert!(stat.ended);
        assert_eq!(stat.start_time, 4242);
    }
}
