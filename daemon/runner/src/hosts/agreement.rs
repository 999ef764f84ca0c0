//! Stop requests on which all hosts agree: a signal to one of them stops all after the same step.
//!
//! Each host gives its own request before a step, and takes those of all before the next one. So the exchange
//! runs while the cores compute.

use std::sync::mpsc::{Receiver, sync_channel};

use super::Hosts;
use crate::error::{RunError, RunResult};
use crate::reporting::{Stop, StopReason};

/// The channel of stop requests.
const STOP: &str = "stop";

/// The requests of all hosts.
#[derive(Debug)]
pub(crate) struct StopAgreement {
    hosts: Hosts,
    stop: Stop,
    /// The exchange that was begun last.
    pending: Option<Receiver<RunResult<Option<StopReason>>>>,
}

impl StopAgreement {
    pub(crate) fn new(hosts: Hosts, stop: Stop) -> StopAgreement {
        StopAgreement { hosts, stop, pending: None }
    }

    /// The reason for which all hosts stop before the next step. Each host calls this before each step.
    pub(crate) fn reason(&mut self) -> RunResult<Option<StopReason>> {
        if self.hosts.is_alone() {
            return Ok(self.stop.reason());
        }
        let agreed = match self.pending.take() {
            Some(pending) => received(&pending)?,
            None => None,
        };
        if agreed.is_none() {
            self.pending = Some(self.begin()?);
        }
        Ok(agreed)
    }

    /// Exchanges the requests on a thread of its own.
    fn begin(&self) -> RunResult<Receiver<RunResult<Option<StopReason>>>> {
        let (hosts, own) = (self.hosts.clone(), self.stop.reason());
        let (sender, receiver) = sync_channel(1);
        let exchange = move || {
            // The receiver is gone once the run ends.
            let _ = sender.send(exchange(&hosts, own));
        };
        let thread = std::thread::Builder::new().name("agreement".to_owned());
        thread.spawn(exchange).map_err(RunError::Thread)?;
        Ok(receiver)
    }
}

fn received(pending: &Receiver<RunResult<Option<StopReason>>>) -> RunResult<Option<StopReason>> {
    let ended = || RunError::Panicked("the exchange of stop requests ended".to_owned());
    pending.recv().map_err(|_| ended())?
}

fn exchange(hosts: &Hosts, own: Option<StopReason>) -> RunResult<Option<StopReason>> {
    let requests = hosts.gather_all(STOP, vec![code(own)])?;
    Ok(agreed(requests.iter().filter_map(|request| request.first().copied())))
}

/// A cancellation outweighs an interruption, since the job is not resumed.
fn agreed(codes: impl Iterator<Item = u8>) -> Option<StopReason> {
    match codes.max() {
        Some(2) => Some(StopReason::Cancelled),
        Some(1) => Some(StopReason::Interrupted),
        _ => None,
    }
}

fn code(reason: Option<StopReason>) -> u8 {
    match reason {
        None => 0,
        Some(StopReason::Interrupted) => 1,
        Some(StopReason::Cancelled) => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_request_of_one_host_is_that_of_all() {
        let check = |codes: &[u8], expect| assert_eq!(agreed(codes.iter().copied()), expect);
        check(&[0, 0, 0], None);
        check(&[0, 1, 0], Some(StopReason::Interrupted));
        check(&[2, 1, 0], Some(StopReason::Cancelled));
        for reason in [None, Some(StopReason::Interrupted), Some(StopReason::Cancelled)] {
            check(&[code(reason), 0], reason);
        }
    }

    #[test]
    fn one_host_decides_at_once() {
        let stop = Stop::default();
        let mut agreement = StopAgreement::new(Hosts::alone(), stop.clone());
        assert_eq!(agreement.reason().unwrap(), None);
        stop.request(StopReason::Interrupted);
        assert_eq!(agreement.reason().unwrap(), Some(StopReason::Interrupted));
    }
}
