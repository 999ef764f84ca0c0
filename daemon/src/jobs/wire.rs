//! States and outcomes of jobs on the wire: the part of that border which events in the store
//! cross. The rest is in `interfaces::convert`.

use traind_proto::v1;

use super::state::{JobState, Outcome};

pub(crate) fn job_state(state: JobState) -> v1::JobState {
    match state {
        JobState::Pending => v1::JobState::Pending,
        JobState::Starting => v1::JobState::Starting,
        JobState::Running => v1::JobState::Running,
        JobState::Cancelling => v1::JobState::Cancelling,
        JobState::Completed => v1::JobState::Completed,
        JobState::Failed => v1::JobState::Failed,
        JobState::Cancelled => v1::JobState::Cancelled,
    }
}

/// Returns `None` for the unspecified state.
pub(crate) fn job_state_from_proto(state: v1::JobState) -> Option<JobState> {
    JobState::ALL.into_iter().find(|known| job_state(*known) == state)
}

/// An outcome that the runner left unspecified counts as a failure.
pub(crate) fn outcome_from_proto(outcome: v1::Outcome) -> Outcome {
    match outcome {
        v1::Outcome::Completed => Outcome::Completed,
        v1::Outcome::Cancelled => Outcome::Cancelled,
        v1::Outcome::Failed | v1::Outcome::Unspecified => Outcome::Failed,
    }
}
