//! Checks of `traind doctor --engine slurm`.

use super::super::program::{Call, find};
use crate::host::readiness::{Check, Finding};

const PROGRAMS: [(&str, &str); 6] = [
    ("sbatch", "submits jobs"),
    ("scontrol", "reports their state"),
    ("squeue", "finds jobs after a crash of the daemon"),
    ("scancel", "stops them"),
    ("srun", "starts runners"),
    ("sacct", "reports jobs that the controller has forgotten"),
];

/// Checks that this host can submit jobs to Slurm.
pub(crate) async fn checks() -> Vec<Check> {
    let mut found: Vec<Check> =
        PROGRAMS.iter().map(|(name, use_of)| program(name, use_of)).collect();
    found.push(controller().await);
    found
}

fn program(name: &'static str, use_of: &str) -> Check {
    let finding = match find(name) {
        Some(path) => Finding::Present(path.display().to_string()),
        None => Finding::Missing {
            found: format!("not on the PATH; {name} {use_of}"),
            remedy: "install Slurm's client programs (Debian: slurm-client), or use a login node"
                .to_owned(),
        },
    };
    Check { name, finding }
}

async fn controller() -> Check {
    let answer = Call::new("scontrol", None).arg("ping").run().await;
    let finding = match answer {
        Ok(answer) if answer.success && answer.output.contains("UP") => {
            Finding::Present(answer.output.replace('\n', "; "))
        }
        Ok(answer) => missing([answer.output, answer.errors].join(" ")),
        Err(error) => missing(error.to_string()),
    };
    Check { name: "controller", finding }
}

fn missing(found: String) -> Finding {
    let remedy = "check slurm.conf (SLURM_CONF), munge and the network".to_owned();
    Finding::Missing { found: found.trim().to_owned(), remedy }
}
