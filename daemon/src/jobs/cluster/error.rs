//! Errors of clusters.

use std::io;

#[derive(Debug, thiserror::Error)]
pub(crate) enum ClusterError {
    #[error(
        "{program} is not on the daemon's PATH: run the daemon on a host with the cluster's client programs, such as a login node"
    )]
    Missing { program: &'static str },
    #[error("run {program}: {source}")]
    Run { program: &'static str, source: io::Error },
    /// The same call may succeed later.
    #[error("{program}: {message}")]
    Unavailable { program: &'static str, message: String },
    #[error("{program} refused: {message}")]
    Refused { program: &'static str, message: String },
    #[error("{program} answered {text:?}, which is not understood")]
    Answer { program: &'static str, text: String },
}

impl ClusterError {
    /// The error of a program that failed with `message`, which has one of the texts in `unavailable` where the
    /// scheduler does not answer now.
    pub(super) fn of_message(
        program: &'static str,
        message: String,
        unavailable: &[&str],
    ) -> ClusterError {
        match unavailable.iter().any(|known| message.contains(known)) {
            true => ClusterError::Unavailable { program, message },
            false => ClusterError::Refused { program, message },
        }
    }

    /// Whether Slurm has no hosts such as the job asks for. Kubernetes accepts such a job, and leaves its pods waiting.
    pub(crate) fn lacks_hosts(&self) -> bool {
        const LACKS: &str = "Requested node configuration is not available";
        matches!(self, ClusterError::Refused { message, .. } if message.contains(LACKS))
    }

    /// Whether the same call may succeed later without any change to the job.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            ClusterError::Unavailable { .. } | ClusterError::Run { .. } => true,
            ClusterError::Missing { .. }
            | ClusterError::Refused { .. }
            | ClusterError::Answer { .. } => false,
        }
    }
}
