//! The status of all hosts in the run folder of the first one, for those who follow the run from elsewhere.

use std::path::{Path, PathBuf};
use std::time::Duration;

use prost::Message as _;
use traind_proto::run_status;
use traind_proto::v1::{CoreUsage, HostStatus, RunStatus};
use traind_rendezvous::HostReport;

use super::Hosts;
use crate::control::Activity;
use crate::error::{RunError, RunResult};

/// The time between two statuses.
const PERIOD: Duration = Duration::from_secs(2);

/// The run whose status is written.
#[derive(Clone, Debug)]
pub(crate) struct Published {
    pub run_dir: PathBuf,
    pub attempt: u32,
    pub cores: Vec<u32>,
    pub activity: Activity,
}

impl Hosts {
    /// Writes the status of all hosts until the process ends, on a thread of its own.
    pub(crate) fn publish(&self, published: Published) -> RunResult<()> {
        let hosts = self.clone();
        let write = move || {
            for number in 1.. {
                // A folder that cannot be written to fails the event log too.
                let _ = hosts.write_status(&published, number);
                std::thread::sleep(PERIOD);
            }
        };
        let thread = std::thread::Builder::new().name("status".to_owned());
        thread.spawn(write).map(drop).map_err(RunError::Thread)
    }

    fn write_status(&self, published: &Published, number: u64) -> std::io::Result<()> {
        let Published { run_dir, attempt, cores, activity } = published;
        let own = HostStatus {
            rank: self.rank,
            host: self.name(),
            cores: cores.clone(),
            usage: Some(activity.usage()),
        };
        let server = self.met.get().and_then(|met| met.server.as_ref());
        let reports = server.map(|server| server.reports()).unwrap_or_default();
        let others = reports.into_iter().filter(|report| report.rank != self.rank).map(of_report);
        let hosts = std::iter::once(own).chain(others).collect();
        run_status::write(Path::new(run_dir), &RunStatus { number, attempt: *attempt, hosts })
    }
}

fn of_report(report: HostReport) -> HostStatus {
    let HostReport { rank, name, cores, status } = report;
    HostStatus { rank, host: name, cores, usage: CoreUsage::decode(status.as_slice()).ok() }
}
