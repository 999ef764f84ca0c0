//! The status of all hosts in the run folder of the first one, for a daemon that follows the run from elsewhere, and
//! that daemon's request to stop.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use prost::Message as _;
use traind_proto::run_status::{self, CANCEL, STOP_FILE};
use traind_proto::v1::{HostStatus, RunStatus};
use traind_rendezvous::HostReport;

use super::Hosts;
use crate::error::{RunError, RunResult};
use crate::reporting::{Activity, Stop, StopReason};

/// The time between two statuses.
const PERIOD: Duration = Duration::from_secs(2);

/// The run whose status is written.
#[derive(Clone, Debug)]
pub(crate) struct Published {
    pub run_dir: PathBuf,
    pub attempt: u32,
    pub cores: Vec<u32>,
    pub activity: Activity,
    pub stop: Stop,
}

impl Hosts {
    /// Writes the status of all hosts until the process ends, and obeys a request to stop, on a thread of its own.
    pub(crate) fn publish(&self, published: Published) -> RunResult<()> {
        let hosts = self.clone();
        // An earlier attempt was asked.
        take_request(&published.run_dir);
        let write = move || {
            for number in 1.. {
                // A folder that cannot be written to fails the event log too.
                let _ = hosts.write_status(&published, number);
                if let Some(reason) = take_request(&published.run_dir) {
                    published.stop.request(reason);
                }
                std::thread::sleep(PERIOD);
            }
        };
        let thread = std::thread::Builder::new().name("status".to_owned());
        thread.spawn(write).map(drop).map_err(RunError::Thread)
    }

    fn write_status(&self, published: &Published, number: u64) -> std::io::Result<()> {
        let Published { run_dir, attempt, cores, activity, .. } = published;
        let own = HostStatus {
            rank: self.rank,
            host: self.name(),
            cores: cores.clone(),
            usage: activity.usages(cores),
        };
        let server = self.met.get().and_then(|met| met.server.as_ref());
        let reports = server.map(|server| server.reports()).unwrap_or_default();
        let others = reports.into_iter().filter(|report| report.rank != self.rank).map(of_report);
        let hosts = std::iter::once(own).chain(others).collect();
        run_status::write(Path::new(run_dir), &RunStatus { number, attempt: *attempt, hosts })
    }
}

/// Removes a request to stop from the run folder, and returns it.
fn take_request(run_dir: &Path) -> Option<StopReason> {
    let path = run_dir.join(STOP_FILE);
    let text = fs::read_to_string(&path).ok()?;
    // A request that stays behind is repeated, which changes nothing.
    let _ = fs::remove_file(&path);
    Some(if text.trim() == CANCEL { StopReason::Cancelled } else { StopReason::Interrupted })
}

fn of_report(report: HostReport) -> HostStatus {
    let HostReport { rank, name, cores, status } = report;
    // A host that runs another version may report in a form of its own.
    let usage = HostStatus::decode(status.as_slice()).unwrap_or_default().usage;
    HostStatus { rank, host: name, cores, usage }
}

#[cfg(test)]
mod tests {
    use traind_proto::run_status::INTERRUPT;

    use super::*;

    #[test]
    fn a_request_to_stop_is_taken_once() {
        let folder = tempfile::tempdir().unwrap();
        let check = |text: &str, expect| {
            fs::write(folder.path().join(STOP_FILE), text).unwrap();
            assert_eq!(take_request(folder.path()), Some(expect));
            assert_eq!(take_request(folder.path()), None);
        };
        check(CANCEL, StopReason::Cancelled);
        check(INTERRUPT, StopReason::Interrupted);
    }
}
