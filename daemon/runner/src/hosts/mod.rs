//! The hosts of a job, of which this process runs one: its place, and the calls by which all exchange values
//! and agree.
//!
//! A job on one host exchanges nothing: each call returns what the host gave.
//!
//! Imports `reporting` and `error`.

mod agreement;
mod arguments;
mod environment;
mod meeting;
mod status_file;
mod store;
mod watchdog;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use traind_pjrt::KeyValueStore;
use traind_proto::reasons;
use traind_proto::v1::Failure;
use traind_rendezvous::{Client, Placement, RendezvousError, Server, Verdict, node_name};

use crate::error::{RunError, RunResult};

use store::RendezvousStore;

pub(crate) use agreement::StopAgreement;
pub(crate) use arguments::placement_of;
pub(crate) use environment::apply as apply_environment;
pub(crate) use meeting::MeetingPlace;
pub(crate) use status_file::Published;
pub(crate) use watchdog::Watched;

/// How long host 0 waits at its end until the others have left.
const LEAVE_MAX: Duration = Duration::from_secs(10);
/// The time in which the loss of a host is noticed once its connections break.
const LOSS_MAX: Duration = Duration::from_secs(8);
/// The time in which a process ends after its last event.
const EXIT_MAX: Duration = Duration::from_secs(20);
/// The folder with the run folders of all hosts but the first.
const FOLDER: &str = "hosts";
/// The text between the names of groups of hosts. Names are not empty.
const BETWEEN_GROUPS: &str = "\n\n";
/// The channel in which hosts meet after their last step.
const END: &str = "end";

/// A cloneable handle to the hosts of the job.
#[derive(Clone, Debug)]
pub(crate) struct Hosts {
    rank: u32,
    size: u32,
    met: Arc<OnceLock<Met>>,
}

/// The rendezvous, once this host has joined.
#[derive(Debug)]
struct Met {
    client: Client,
    /// The rendezvous service, which host 0 serves.
    server: Option<Server>,
    /// The silence after which a host is lost.
    silence_max: Duration,
}

impl Hosts {
    /// The hosts of a job on one host.
    pub(crate) fn alone() -> Hosts {
        Hosts { rank: 0, size: 1, met: Arc::default() }
    }

    /// The hosts among which `placement` puts this one. They have not met yet.
    pub(crate) fn of(placement: Option<&Placement>) -> Hosts {
        let place = placement.map(|it| Hosts { rank: it.rank, size: it.size, met: Arc::default() });
        place.unwrap_or_else(Hosts::alone)
    }

    /// The number of this host, from 0.
    pub(crate) fn rank(&self) -> usize {
        self.rank as usize
    }

    /// The name of this host, as its cluster knows it.
    fn name(&self) -> String {
        node_name(|variable| std::env::var(variable).ok())
    }

    pub(crate) fn size(&self) -> usize {
        self.size as usize
    }

    /// Returns this host's own folder in a run directory, which is the directory itself on host 0.
    pub(crate) fn run_dir(&self, run_dir: &Path) -> std::io::Result<PathBuf> {
        if self.is_first() {
            return Ok(run_dir.to_owned());
        }
        let own = run_dir.join(FOLDER).join(self.rank.to_string());
        std::fs::create_dir_all(&own)?;
        Ok(own)
    }

    /// Whether this host writes the output and the job's log.
    pub(crate) fn is_first(&self) -> bool {
        self.rank == 0
    }

    pub(crate) fn is_alone(&self) -> bool {
        self.size == 1
    }

    /// Waits until all hosts have come here.
    pub(crate) fn barrier(&self, channel: &str) -> RunResult<()> {
        match self.client()? {
            Some(client) => Ok(client.barrier(channel, None)?),
            None => Ok(()),
        }
    }

    /// Returns on host 0 what all hosts give, in their order.
    pub(crate) fn gather(&self, channel: &str, bytes: Vec<u8>) -> RunResult<Option<Vec<Vec<u8>>>> {
        match self.client()? {
            Some(client) => Ok(client.gather(channel, &bytes)?),
            None => Ok(Some(vec![bytes])),
        }
    }

    /// Returns on all hosts what all give, in their order. For few bytes.
    pub(crate) fn gather_all(&self, channel: &str, bytes: Vec<u8>) -> RunResult<Vec<Vec<u8>>> {
        match self.client()? {
            Some(client) => Ok(client.gather_all(channel, bytes)?),
            None => Ok(vec![bytes]),
        }
    }

    /// Returns on all hosts what host 0 gives.
    pub(crate) fn broadcast(&self, channel: &str, bytes: Vec<u8>) -> RunResult<Vec<u8>> {
        match self.client()? {
            Some(client) => Ok(client.broadcast(channel, bytes)?),
            None => Ok(bytes),
        }
    }

    /// Fails on all hosts alike where they give different values, and names those that differ from host 0.
    pub(crate) fn check_equal(&self, what: &'static str, value: Vec<u8>) -> RunResult<()> {
        let values = self.gather_all(what, value)?;
        let differ = |(rank, value): (usize, &Vec<u8>)| (*value != values[0]).then_some(rank);
        let hosts: Vec<usize> = values.iter().enumerate().filter_map(differ).collect();
        match hosts.is_empty() {
            true => Ok(()),
            false => Err(RunError::HostsDiffer { what, hosts }),
        }
    }

    /// Returns the names that all hosts give which are in one of `groups` with this one. They are not empty and have no
    /// line breaks. All hosts of the job call this with the same groups.
    pub(crate) fn common(
        &self,
        channel: &str,
        own: &BTreeSet<String>,
        groups: &[Vec<usize>],
    ) -> RunResult<BTreeSet<String>> {
        let names: Vec<&str> = own.iter().map(String::as_str).collect();
        let given = self.gather(channel, names.join("\n").into_bytes())?;
        let common = given.map(|given| common_lines(&given, groups)).unwrap_or_default();
        let common = self.broadcast(channel, common)?;
        let common = String::from_utf8_lossy(&common);
        let group = groups.iter().position(|group| group.contains(&self.rank()));
        let of_group = group.and_then(|group| common.split(BETWEEN_GROUPS).nth(group));
        Ok(of_group.unwrap_or_default().lines().map(str::to_owned).collect())
    }

    /// Runs `work` on host 0 first, and then on the others: what host 0 has cached there is not made again.
    pub(crate) fn first_then_others<T>(
        &self,
        channel: &str,
        work: impl FnOnce() -> RunResult<T>,
    ) -> RunResult<T> {
        if !self.is_first() {
            self.barrier(channel)?;
            return work();
        }
        let done = work()?;
        self.barrier(channel)?;
        Ok(done)
    }

    /// Ends this host's part in a run that did not fail, when all hosts have come to their ends.
    pub(crate) fn complete(&self) -> RunResult<()> {
        self.barrier(END)?;
        if let Some(met) = self.met.get() {
            // The others notice the end of the connection besides.
            let _ = met.client.leave(None);
            met.wait_for_others();
        }
        Ok(())
    }

    /// Names this host in a failure for which the host is to blame and not the job, where there are others
    /// that could replace it.
    pub(crate) fn blame(&self, failure: &mut Failure) {
        let of_host = [reasons::DEVICE_FAILED, reasons::HOST_MEMORY_FULL];
        let is_of_host = failure.transient || of_host.contains(&failure.reason.as_str());
        if is_of_host && !self.is_alone() {
            failure.host.get_or_insert_with(|| self.name());
        }
    }

    /// Ends the others too, with the reason for which this host's run failed.
    pub(crate) fn fail(&self, failure: &Failure) {
        let Some(met) = self.met.get() else { return };
        let verdict = Verdict {
            rank: self.rank,
            reason: failure.reason.clone(),
            message: failure.message.clone(),
            transient: failure.transient,
            step: failure.step,
            host: failure.host.clone().unwrap_or_default(),
        };
        // Without a connection they notice that it is broken.
        let _ = met.client.leave(Some(verdict));
        met.wait_for_others();
    }

    /// Ends the others too where this host was asked to stop before its first step, on which they cannot agree.
    pub(crate) fn abandon(&self) {
        self.fail(&Failure {
            reason: reasons::HOST_LOST.to_owned(),
            message: format!("host {} was asked to stop before the first step", self.rank),
            transient: true,
            ..Failure::default()
        });
    }

    /// How long calls that wait for other hosts may still take once this one was asked to stop.
    pub(crate) fn stop_patience(&self) -> Duration {
        self.met.get().map_or(Duration::ZERO, |met| met.silence_max)
    }

    /// Bounds the time that the process takes to end after its last event: libraries may wait in their
    /// destructors for calls that were abandoned.
    pub(crate) fn limit_exit(&self) {
        if !self.is_alone() {
            watchdog::limit_exit(EXIT_MAX);
        }
    }

    /// Waits where `error` may follow from the loss of another host: the watch then ends this process, with that
    /// host's name.
    pub(crate) fn expect_loss(&self, error: &RunError) {
        let is_of_device = matches!(error, RunError::Device(_) | RunError::Rendezvous(_));
        if is_of_device && self.met.get().is_some() {
            std::thread::sleep(LOSS_MAX);
        }
    }

    /// The connection by which MPI's library starts.
    pub(crate) fn serve_mpi(&self) -> RunResult<Option<std::os::unix::net::UnixStream>> {
        let client = self.client()?.cloned();
        Ok(client.map(traind_rendezvous::serve_pmi).transpose()?)
    }

    /// The store by which the device clients of the hosts find each other that give the same `group`.
    pub(crate) fn store(&self, group: usize) -> RunResult<Option<Arc<dyn KeyValueStore>>> {
        let client = self.client()?.cloned();
        let store = |client| RendezvousStore::of_group(client, group);
        Ok(client.map(|client| Arc::new(store(client)) as Arc<dyn KeyValueStore>))
    }

    /// `None` on one host. Fails where the hosts have not met, which is a defect of the caller.
    fn client(&self) -> RunResult<Option<&Client>> {
        if self.is_alone() {
            return Ok(None);
        }
        let not_met = || RendezvousError::Refused("the hosts have not met".to_owned());
        Ok(Some(&self.met.get().ok_or_else(not_met)?.client))
    }
}

impl Met {
    /// Serves the others until they have left.
    fn wait_for_others(&self) {
        if let Some(server) = &self.server {
            server.wait_until_alone(LEAVE_MAX);
        }
    }
}

/// The lines that all texts of a group have, of each of `groups` in turn.
fn common_lines(texts: &[Vec<u8>], groups: &[Vec<usize>]) -> Vec<u8> {
    let lines =
        |host: &usize| texts[*host].split(|byte| *byte == b'\n').collect::<BTreeSet<&[u8]>>();
    let of_group = |group: &Vec<usize>| {
        let common = group.iter().map(lines).reduce(|common, lines| &common & &lines);
        common.into_iter().flatten().collect::<Vec<_>>().join(&b'\n')
    };
    groups.iter().map(of_group).collect::<Vec<_>>().join(BETWEEN_GROUPS.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_host_exchanges_nothing() {
        let hosts = Hosts::alone();
        assert!(hosts.is_first() && hosts.is_alone());
        assert_eq!((hosts.rank(), hosts.size()), (0, 1));
        hosts.barrier("a").unwrap();
        assert_eq!(hosts.gather("a", vec![1]).unwrap(), Some(vec![vec![1]]));
        assert_eq!(hosts.gather_all("a", vec![1]).unwrap(), [[1]]);
        assert_eq!(hosts.broadcast("a", vec![2]).unwrap(), [2]);
        assert_eq!(hosts.first_then_others("a", || Ok(3)).unwrap(), 3);
        let names = ["b", "c"].map(str::to_owned).into();
        assert_eq!(hosts.common("a", &names, &[vec![0]]).unwrap(), names);
        assert!(hosts.common("a", &BTreeSet::new(), &[vec![0]]).unwrap().is_empty());
        hosts.check_equal("the job", vec![4]).unwrap();
        assert!(hosts.serve_mpi().unwrap().is_none());
        hosts.complete().unwrap();
    }

    #[test]
    fn names_that_a_host_lacks_are_not_common() {
        let check = |texts: &[&str], groups: &[Vec<usize>], expect: &str| {
            let texts: Vec<_> = texts.iter().map(|text| text.as_bytes().to_vec()).collect();
            assert_eq!(String::from_utf8(common_lines(&texts, groups)).unwrap(), expect);
        };
        check(&["a\nb\nc", "c\nb", "b\nc\nd"], &[vec![0, 1, 2]], "b\nc");
        check(&["a\nb", ""], &[vec![0, 1]], "");
        check(&["a", "b"], &[vec![0, 1]], "");
        // Hosts with other stages have other programs.
        let of_stages = [vec![0, 2], vec![1, 3]];
        check(&["a\nb", "c\nd", "b", "d\nb"], &of_stages, "b\n\nd");
        check(&["a", "c", "b", "c"], &of_stages, "\n\nc");
    }

    #[test]
    fn a_failure_of_a_host_names_it_and_one_of_the_job_does_not() {
        let placement = Placement { launcher: "traind", rank: 1, size: 2, coordinator: None };
        let hosts = Hosts::of(Some(&placement));
        let check = |hosts: &Hosts, reason: &str, transient, names| {
            let reason = reason.to_owned();
            let mut failure = Failure { reason, transient, ..Failure::default() };
            hosts.blame(&mut failure);
            assert_eq!(failure.host.is_some(), names, "{failure:?}");
        };
        check(&hosts, reasons::DISK_FULL, true, true);
        check(&hosts, reasons::DEVICE_FAILED, false, true);
        check(&hosts, reasons::HOST_MEMORY_FULL, false, true);
        check(&hosts, reasons::DATA_ROW_INVALID, false, false);
        check(&Hosts::alone(), reasons::DEVICE_FAILED, false, false);
    }

    #[test]
    fn hosts_that_have_not_met_cannot_exchange() {
        let placement = Placement { launcher: "traind", rank: 1, size: 2, coordinator: None };
        let hosts = Hosts::of(Some(&placement));
        assert!(!hosts.is_first() && !hosts.is_alone());
        assert!(hosts.barrier("a").is_err());
        // Nobody learns of a failure before.
        hosts.fail(&Failure::default());
    }
}
