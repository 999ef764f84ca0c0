//! The cost of MPI between two processes of this host: predictions use it, and `traind doctor --engine mpi` reports it.
//!
//! A runner measures it in processes of its own, since the daemon never loads MPI's library.

use std::path::Path;
use std::time::Duration;

use traind_job_file::commands::MpiCost;

use super::process::{PlanError, answer, planner};
use crate::access::account::Account;
use crate::host::meter::Meter;
use crate::host::plugins;
use crate::host::readiness::{Check, Finding};
use crate::jobs::supervisor::environment::measuring_environment;

/// A measurement takes about a second.
const TIMEOUT: Duration = Duration::from_secs(25);

/// Returns the runner's measurement. Blocks for about a second.
pub(crate) fn measure(
    runner: &Path,
    account: Option<Account>,
    meter: &Meter,
) -> Result<MpiCost, PlanError> {
    let mut command = planner(account, measuring_environment(std::env::vars_os()));
    command.arg("--measure-mpi").arg(runner);
    Ok(serde_json::from_slice(&answer(&mut command, &[], TIMEOUT, meter)?)?)
}

/// Checks that processes of this host can exchange data, for `traind doctor --engine mpi`.
pub(crate) fn checks(runner: &Path, cache_dir: &Path) -> Vec<Check> {
    let library = match plugins::MPI.find(cache_dir) {
        Some(path) => Finding::Present(path.display().to_string()),
        None => Finding::Advice {
            found: "not installed; runners ask the system's loader for libmpi_abi.so.1".to_owned(),
            remedy: plugins::MPI.instructions(),
        },
    };
    let exchange = match measure(runner, None, &Meter::default()) {
        Ok(cost) => Finding::Present(format!(
            "{:.0} µs and {:.2} GB/s between two processes of this host",
            1e6 * cost.latency_seconds,
            cost.bytes_per_second / 1e9
        )),
        Err(error) => Finding::Missing {
            found: error.to_string(),
            remedy: "run `traind plugins install mpi`, or set TRAIND_PLUGIN_MPI to a library of the MPI ABI"
                .to_owned(),
        },
    };
    vec![
        Check { name: "MPI library", finding: library },
        Check { name: "exchange", finding: exchange },
    ]
}
