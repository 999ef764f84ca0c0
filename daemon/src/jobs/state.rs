//! The states of a job, and one table of legal transitions.
//!
//! A state is never assigned. It is reached by applying a [`Transition`] to the stored
//! state, so that illegal changes are refused.

use std::fmt;
use std::str::FromStr;

/// The state of a job. Stored by name: see [`JobState::name`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum JobState {
    /// Acknowledged and durable; waits for its cores.
    Pending,
    /// Holds its cores; the runner has not reported yet.
    Starting,
    /// The runner has reported.
    Running,
    /// Cancelled; the runner is in its grace period.
    Cancelling,
    /// The runner completed its work.
    Completed,
    /// The runner reported a failure or died.
    Failed,
    /// Ended on request.
    Cancelled,
}

/// An event that changes the state of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transition {
    /// The scheduler gave the job its cores.
    Place,
    /// The runner wrote its first `Started` event.
    Report,
    /// The attempt ended without settling the job, and another one is to follow.
    Requeue,
    /// The end of the job was requested.
    Cancel,
    /// The runner has exited, and the job ended with this outcome.
    Settle(Outcome),
}

/// How a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Completed,
    Failed,
    Cancelled,
}

/// Error of a transition that the job's state does not allow.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("a {from} job cannot {transition}")]
pub struct IllegalTransition {
    pub from: JobState,
    pub transition: Transition,
}

impl JobState {
    pub const ALL: [JobState; 7] = [
        JobState::Pending,
        JobState::Starting,
        JobState::Running,
        JobState::Cancelling,
        JobState::Completed,
        JobState::Failed,
        JobState::Cancelled,
    ];

    /// Returns the state that `transition` leads to.
    pub fn after(self, transition: Transition) -> Result<JobState, IllegalTransition> {
        use JobState::{Cancelled, Cancelling, Pending, Running, Starting};
        match (self, transition) {
            // The gang scheduler found all cores at once.
            (Pending, Transition::Place) => Ok(Starting),
            // No runner exists yet that could be stopped.
            (Pending, Transition::Cancel) => Ok(Cancelled),
            // The daemon died before a runner existed, or the runner's failure may not recur.
            (Starting | Running, Transition::Requeue) => Ok(Pending),
            (Starting, Transition::Report) => Ok(Running),
            // The cancellation and the runner's first report may cross.
            (Cancelling, Transition::Report) => Ok(Cancelling),
            // Cancelling a job twice changes nothing.
            (Starting | Running | Cancelling, Transition::Cancel) => Ok(Cancelling),
            // A cancelling job may have completed or failed before the request reached it.
            (Starting | Running | Cancelling, Transition::Settle(outcome)) => Ok(outcome.state()),
            // A cancelled job needs no other attempt.
            (Cancelling, Transition::Requeue) => Ok(Cancelled),
            (from, transition) => Err(IllegalTransition { from, transition }),
        }
    }

    /// Whether the job has ended: no transition leads away from here.
    pub fn is_terminal(self) -> bool {
        matches!(self, JobState::Completed | JobState::Failed | JobState::Cancelled)
    }

    /// Holds cores.
    pub fn is_active(self) -> bool {
        matches!(self, JobState::Starting | JobState::Running | JobState::Cancelling)
    }

    /// Returns the name in the store, in tables and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            JobState::Pending => "pending",
            JobState::Starting => "starting",
            JobState::Running => "running",
            JobState::Cancelling => "cancelling",
            JobState::Completed => "completed",
            JobState::Failed => "failed",
            JobState::Cancelled => "cancelled",
        }
    }
}

impl Outcome {
    pub fn state(self) -> JobState {
        match self {
            Outcome::Completed => JobState::Completed,
            Outcome::Failed => JobState::Failed,
            Outcome::Cancelled => JobState::Cancelled,
        }
    }
}

impl fmt::Display for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl fmt::Display for Transition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Transition::Place => "be placed",
            Transition::Report => "report",
            Transition::Requeue => "be queued again",
            Transition::Cancel => "be cancelled",
            Transition::Settle(Outcome::Completed) => "complete",
            Transition::Settle(Outcome::Failed) => "fail",
            Transition::Settle(Outcome::Cancelled) => "end as cancelled",
        })
    }
}

/// Error of parsing the name of a state.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("unknown job state {0:?}")]
pub struct UnknownState(pub String);

impl FromStr for JobState {
    type Err = UnknownState;

    fn from_str(name: &str) -> Result<JobState, UnknownState> {
        let found = JobState::ALL.into_iter().find(|state| state.name() == name);
        found.ok_or_else(|| UnknownState(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRANSITIONS: [Transition; 7] = [
        Transition::Place,
        Transition::Report,
        Transition::Requeue,
        Transition::Cancel,
        Transition::Settle(Outcome::Completed),
        Transition::Settle(Outcome::Failed),
        Transition::Settle(Outcome::Cancelled),
    ];

    #[test]
    fn no_transition_leaves_a_terminal_state() {
        for state in JobState::ALL.into_iter().filter(|state| state.is_terminal()) {
            for transition in TRANSITIONS {
                assert!(state.after(transition).is_err(), "{state} took {transition}");
            }
        }
    }

    #[test]
    fn a_pending_job_must_be_placed_before_it_runs() {
        assert!(JobState::Pending.after(Transition::Report).is_err());
        assert!(JobState::Pending.after(Transition::Settle(Outcome::Completed)).is_err());
        assert_eq!(JobState::Pending.after(Transition::Place), Ok(JobState::Starting));
    }

    #[test]
    fn every_active_state_can_be_stopped_and_settled() {
        for state in JobState::ALL.into_iter().filter(|state| state.is_active()) {
            assert_eq!(state.after(Transition::Cancel), Ok(JobState::Cancelling));
            for outcome in [Outcome::Completed, Outcome::Failed, Outcome::Cancelled] {
                assert_eq!(state.after(Transition::Settle(outcome)), Ok(outcome.state()));
            }
        }
    }

    #[test]
    fn a_requeued_job_is_pending_unless_it_was_cancelled() {
        for state in [JobState::Starting, JobState::Running] {
            assert_eq!(state.after(Transition::Requeue), Ok(JobState::Pending));
        }
        assert_eq!(JobState::Cancelling.after(Transition::Requeue), Ok(JobState::Cancelled));
        assert!(JobState::Pending.after(Transition::Requeue).is_err());
    }

    #[test]
    fn names_round_trip() {
        for state in JobState::ALL {
            assert_eq!(state.name().parse(), Ok(state));
        }
        assert_eq!("runing".parse::<JobState>(), Err(UnknownState("runing".into())));
    }
}
