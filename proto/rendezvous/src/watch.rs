//! Watches the hosts by their heartbeats: decides when a host is lost.
//!
//! A host is lost when it is silent, when its connection breaks and it does not come back, or when it stands in
//! a phase that should progress while another waits for it. Time in which host 0 itself did not run counts for nobody:
//! Slurm stops and continues all hosts of a job that it suspends.

use std::time::{Duration, Instant};

use crate::wire::{Heartbeat, Verdict};

/// When a host counts as lost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WatchSettings {
    /// The longest time between two heartbeats.
    pub silence_max: Duration,
    /// The longest time without a connection, once there was one.
    pub absence_max: Duration,
    /// The time without progress after which a host that others wait for may have fallen behind.
    pub delay_max: Duration,
    /// The number of median steps that this time must be longer than, too.
    pub delay_steps: f64,
}

impl Default for WatchSettings {
    fn default() -> WatchSettings {
        WatchSettings {
            silence_max: Duration::from_secs(20),
            absence_max: Duration::from_secs(5),
            delay_max: Duration::from_secs(30),
            delay_steps: 20.0,
        }
    }
}

/// Reason of a lost host, as in the failures of jobs.
pub(crate) const HOST_LOST: &str = "HOST_LOST";

/// The newest report of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostReport {
    pub rank: u32,
    /// Its name in its cluster.
    pub name: String,
    pub cores: Vec<u32>,
    /// The status of its [`HostState`](crate::HostState).
    pub status: Vec<u8>,
}

/// The hosts of a job, as host 0 sees them.
#[derive(Debug)]
pub(crate) struct Watch {
    settings: WatchSettings,
    hosts: Vec<Host>,
    verdict: Option<Verdict>,
    /// When the hosts were judged last, which each heartbeat leads to.
    judged: Instant,
}

/// A host's newest state.
#[derive(Clone, Debug)]
struct Host {
    rank: u32,
    name: String,
    /// `None` until the first heartbeat: until then the meeting's deadline counts.
    heard: Option<Instant>,
    absent_since: Option<Instant>,
    has_left: bool,
    newest: Heartbeat,
    /// The last change of phase or step.
    progressed: Instant,
}

impl Watch {
    pub(crate) fn new(size: u32, settings: WatchSettings, now: Instant) -> Watch {
        let hosts = (0..size).map(|rank| Host::new(rank, now));
        Watch { settings, hosts: hosts.collect(), verdict: None, judged: now }
    }

    pub(crate) fn named(&mut self, rank: u32, name: String) {
        self.host(rank, |host| host.name = name);
    }

    pub(crate) fn heard(&mut self, rank: u32, heartbeat: Heartbeat, now: Instant) {
        self.host(rank, |host| host.hear(heartbeat, now));
    }

    /// The connection of a host broke.
    pub(crate) fn disconnected(&mut self, rank: u32, now: Instant) {
        self.host(rank, |host| host.absent_since = Some(now));
    }

    /// A host's run ended; `failure` is the reason if it failed.
    pub(crate) fn left(&mut self, rank: u32, failure: Option<Verdict>) {
        if failure.is_none() {
            self.host(rank, |host| host.has_left = true);
        }
        self.verdict = self.verdict.take().or(failure);
    }

    /// A host was started again, and the others cannot continue with it.
    pub(crate) fn restarted(&mut self, rank: u32) {
        let Some(host) = self.hosts.get(rank as usize) else { return };
        let verdict = host.lost("was started again while the job ran");
        self.verdict.get_or_insert(verdict);
    }

    /// Whether a host has left or lost its connection.
    pub(crate) fn is_gone(&self, rank: u32) -> bool {
        let host = self.hosts.get(rank as usize);
        host.is_none_or(|host| host.has_left || host.absent_since.is_some() || host.heard.is_none())
    }

    /// The newest reports of the hosts that are there, by rank.
    pub(crate) fn reports(&self) -> Vec<HostReport> {
        let report = |host: &Host| HostReport {
            rank: host.rank,
            name: host.name.clone(),
            cores: host.newest.cores.clone(),
            status: host.newest.status.clone(),
        };
        self.watched().map(report).collect()
    }

    /// The newest state of host 0, with its name.
    pub(crate) fn first(&self) -> (&str, &Heartbeat) {
        (&self.hosts[0].name, &self.hosts[0].newest)
    }

    /// Returns the reason for which all hosts end; the first one is kept.
    pub(crate) fn verdict(&mut self, now: Instant) -> Option<Verdict> {
        self.discount_pause(now);
        if self.verdict.is_none() {
            self.verdict =
                self.absent(now).or_else(|| self.silent(now)).or_else(|| self.behind(now));
        }
        self.verdict.clone()
    }

    /// Discounts the time since the last call that exceeds a quarter of the longest silence.
    fn discount_pause(&mut self, now: Instant) {
        let elapsed = now.saturating_duration_since(self.judged);
        self.judged = now;
        let pause = elapsed.saturating_sub(self.settings.silence_max / 4);
        self.hosts.iter_mut().for_each(|host| host.discount(pause, now));
    }

    fn absent(&self, now: Instant) -> Option<Verdict> {
        let is_lost = |since: Instant| now.duration_since(since) > self.settings.absence_max;
        let lost = self.watched().find(|host| host.absent_since.is_some_and(is_lost))?;
        Some(lost.lost("lost its connection to host 0"))
    }

    fn silent(&self, now: Instant) -> Option<Verdict> {
        let silence = |host: &Host| host.heard.map(|heard| now.duration_since(heard));
        let silent = self.watched().filter_map(|host| Some((silence(host)?, host)));
        let (silence, host) = silent.max_by_key(|(silence, _)| *silence)?;
        let is_lost = silence > self.settings.silence_max;
        is_lost.then(|| host.lost(&format!("has been silent for {} s", silence.as_secs())))
    }

    /// A host that stands while others wait for it: they have launched its step, or a later one.
    fn behind(&self, now: Instant) -> Option<Verdict> {
        let waiting = self.watched().filter(|host| !host.newest.should_progress);
        let reached = waiting.map(|host| host.newest.step).max()?;
        let late = self.watched().filter(|host| host.newest.should_progress);
        let host = late.filter(|host| host.newest.step < reached).min_by_key(|it| it.progressed)?;
        let delay = now.duration_since(host.progressed);
        let limit = self.settings.delay_steps * host.newest.step_seconds.max(0.0);
        let is_behind = delay > self.settings.delay_max && delay.as_secs_f64() > limit;
        let problem = || {
            let seconds = delay.as_secs();
            format!("has fallen behind: the others have waited for it for {seconds} s")
        };
        is_behind.then(|| host.lost(&problem()))
    }

    /// The hosts that were there and have not left.
    fn watched(&self) -> impl Iterator<Item = &Host> {
        self.hosts.iter().filter(|host| host.heard.is_some() && !host.has_left)
    }

    fn host(&mut self, rank: u32, change: impl FnOnce(&mut Host)) {
        if let Some(host) = self.hosts.get_mut(rank as usize) {
            change(host);
        }
    }
}

impl Host {
    fn new(rank: u32, now: Instant) -> Host {
        Host {
            rank,
            name: String::new(),
            heard: None,
            absent_since: None,
            has_left: false,
            newest: Heartbeat::default(),
            progressed: now,
        }
    }

    fn hear(&mut self, heartbeat: Heartbeat, now: Instant) {
        let place = |it: &Heartbeat| (it.step, it.phase.clone(), it.should_progress);
        if self.heard.is_none() || place(&self.newest) != place(&heartbeat) {
            self.progressed = now;
        }
        (self.heard, self.absent_since) = (Some(now), None);
        self.newest = heartbeat;
    }

    fn discount(&mut self, pause: Duration, now: Instant) {
        let later = |time: &mut Instant| *time = now.min(*time + pause);
        later(&mut self.progressed);
        self.heard.iter_mut().chain(&mut self.absent_since).for_each(later);
    }

    fn lost(&self, problem: &str) -> Verdict {
        lost(self.rank, &self.name, &self.newest, problem)
    }
}

/// The verdict about a host that was last seen in the state `newest`.
pub(crate) fn lost(rank: u32, name: &str, newest: &Heartbeat, problem: &str) -> Verdict {
    let Heartbeat { phase, step, cores, .. } = newest;
    let host = name.to_owned();
    let name = if name.is_empty() { "unknown" } else { name };
    let cores = match (cores.first(), cores.last()) {
        (Some(first), Some(last)) if first == last => format!(", core {first}"),
        (Some(first), Some(last)) => format!(", cores {first} to {last}"),
        _ => String::new(),
    };
    let phase = if phase.is_empty() { "start" } else { phase };
    Verdict {
        rank,
        reason: HOST_LOST.to_owned(),
        message: format!(
            "host {rank} ({name}{cores}) {problem}; it was last seen in phase {phase} of step {step}"
        ),
        transient: true,
        step: Some(*step),
        host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A watch over three hosts that have all been heard at the time 0.
    fn watch() -> (Watch, impl Fn(u64) -> Instant) {
        let start = Instant::now();
        let at = move |second| start + Duration::from_secs(second);
        let mut watch = Watch::new(3, WatchSettings::default(), start);
        for rank in 0..3 {
            watch.named(rank, format!("node{rank}"));
            watch.heard(rank, beat("COMPUTE", 7), at(0));
        }
        (watch, at)
    }

    fn beat(phase: &str, step: u64) -> Heartbeat {
        let should_progress = phase == "INPUT";
        let cores = vec![0, 1, 2, 3];
        Heartbeat {
            phase: phase.to_owned(),
            step,
            should_progress,
            cores,
            step_seconds: 2.0,
            ..Heartbeat::default()
        }
    }

    #[track_caller]
    fn check(verdict: Option<Verdict>, rank: u32, parts: &[&str]) {
        let verdict = verdict.unwrap();
        assert!(
            verdict.transient && verdict.rank == rank && verdict.step == Some(7),
            "{verdict:?}"
        );
        assert_eq!(verdict.host, format!("node{rank}"));
        for part in parts {
            assert!(verdict.message.contains(part), "{part}: {}", verdict.message);
        }
    }

    #[test]
    fn a_silent_host_is_lost() {
        let (mut watch, at) = watch();
        for second in 1..=20 {
            for rank in [0, 2] {
                watch.heard(rank, beat("COMPUTE", 7), at(second));
            }
            assert_eq!(watch.verdict(at(second)), None, "{second}");
        }
        let parts = ["host 1 (node1, cores 0 to 3)", "silent for 21 s", "COMPUTE of step 7"];
        check(watch.verdict(at(21)), 1, &parts);
        // The first verdict is kept.
        watch.heard(1, beat("COMPUTE", 8), at(22));
        check(watch.verdict(at(50)), 1, &parts);
    }

    #[test]
    fn a_host_may_reconnect_soon() {
        let (mut watch, at) = watch();
        watch.disconnected(2, at(1));
        assert!(watch.is_gone(2) && !watch.is_gone(1));
        assert_eq!(watch.verdict(at(6)), None);
        watch.heard(2, beat("COMPUTE", 7), at(6));
        assert_eq!(watch.verdict(at(8)), None);
        watch.disconnected(2, at(8));
        assert_eq!(watch.verdict(at(13)), None);
        check(watch.verdict(at(14)), 2, &["lost its connection"]);
    }

    #[test]
    fn a_host_that_stands_while_others_wait_for_it_is_behind() {
        let (mut watch, at) = watch();
        for second in 1..=41 {
            for rank in [0, 2] {
                watch.heard(rank, beat("COMPUTE", 8), at(second));
            }
            watch.heard(1, beat("INPUT", 7), at(second));
            // Twenty median steps take longer than the shortest delay.
            assert_eq!(watch.verdict(at(second)), None, "{second}");
        }
        watch.heard(0, beat("COMPUTE", 8), at(42));
        check(watch.verdict(at(42)), 1, &["fallen behind", "for 41 s", "INPUT of step 7"]);
    }

    #[test]
    fn a_pause_of_host_0_counts_for_nobody() {
        let (mut watch, at) = watch();
        watch.disconnected(2, at(0));
        assert_eq!(watch.verdict(at(600)), None);
        watch.heard(2, beat("COMPUTE", 7), at(600));
        // Hosts that stay silent afterwards are lost.
        for second in 601..=615 {
            for rank in [0, 2] {
                watch.heard(rank, beat("COMPUTE", 7), at(second));
            }
            assert_eq!(watch.verdict(at(second)), None, "{second}");
        }
        check(watch.verdict(at(616)), 1, &["silent for 21 s"]);
    }

    #[test]
    fn slow_heartbeats_hide_no_silent_host() {
        let (mut watch, at) = watch();
        let mut lost = None;
        for second in (0..=100).step_by(10) {
            watch.heard(0, beat("COMPUTE", 7), at(second));
            watch.heard(2, beat("COMPUTE", 7), at(second));
            lost = lost.or(watch.verdict(at(second)).map(|verdict| (second, verdict.rank)));
        }
        assert_eq!(lost, Some((50, 1)));
    }

    #[test]
    fn phases_that_take_long_delay_nothing() {
        let (mut watch, at) = watch();
        for second in 1..=600 {
            for rank in [0, 2] {
                watch.heard(rank, beat("COMPUTE", 8), at(second));
            }
            watch.heard(1, beat("COMPILE", 7), at(second));
            assert_eq!(watch.verdict(at(second)), None, "{second}");
        }
    }

    #[test]
    fn a_host_that_left_is_not_missed_and_a_failed_one_ends_all() {
        let (mut watch, at) = watch();
        watch.left(1, None);
        watch.disconnected(1, at(1));
        for rank in [0, 2] {
            watch.heard(rank, beat("COMPUTE", 7), at(99));
        }
        assert_eq!(watch.verdict(at(100)), None);
        let failure = Verdict { rank: 2, reason: "DATA_EMPTY".to_owned(), ..Verdict::default() };
        watch.left(2, Some(failure.clone()));
        assert_eq!(watch.verdict(at(100)), Some(failure));
    }

    #[test]
    fn hosts_that_have_not_come_yet_are_not_judged() {
        let start = Instant::now();
        let mut watch = Watch::new(2, WatchSettings::default(), start);
        watch.heard(0, beat("IDLE", 0), start + Duration::from_secs(99));
        assert_eq!(watch.verdict(start + Duration::from_secs(100)), None);
        watch.restarted(1);
        assert!(watch.verdict(start).unwrap().message.contains("started again"));
    }
}
