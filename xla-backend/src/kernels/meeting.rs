//! Calls in which the cores of a group meet: the last one that comes does the work of all, and none of their threads
//! waits.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::thread;

use traind_pjrt::{DeferredCall, KernelError, flush_to_zero};

/// Calls that have not all come.
pub(super) struct Meetings(Mutex<BTreeMap<Meeting, Present>>);

/// An execution, the number of a group and that of its call.
type Meeting = (i64, u32, i64);

/// The cores that have called, each with its number.
type Present = Vec<(usize, DeferredCall)>;

/// One core's place in a meeting.
#[derive(Clone, Copy)]
pub(super) struct Participant {
    pub(super) meeting: Meeting,
    /// The number in the group, by which calls are ordered.
    pub(super) core: usize,
    /// How many meet.
    pub(super) cores: usize,
}

impl Meetings {
    pub(super) const fn new() -> Meetings {
        Meetings(Mutex::new(BTreeMap::new()))
    }

    /// Does `work` on the calls of all cores, in the order of their numbers, if this is the last one.
    pub(super) fn join(
        &self,
        at: Participant,
        call: DeferredCall,
        work: impl FnOnce(&mut [DeferredCall]) -> Result<(), KernelError>,
    ) {
        let Some(mut present) = self.meet(at, call) else { return };
        present.sort_by_key(|(core, _)| *core);
        let (cores, mut calls): (Vec<usize>, Vec<DeferredCall>) = present.into_iter().unzip();
        let outcome = match cores.is_sorted_by(|before, after| before < after) {
            true => work(&mut calls),
            false => Err("cores that meet have equal numbers".into()),
        };
        for (core, call) in cores.into_iter().zip(calls) {
            let outcome = outcome.clone();
            match core == at.core {
                true => call.finish(outcome),
                // A program may continue here and wait for others.
                false => drop(thread::spawn(|| {
                    flush_to_zero();
                    call.finish(outcome);
                })),
            }
        }
    }

    /// All calls, if this is the last one.
    fn meet(&self, at: Participant, call: DeferredCall) -> Option<Present> {
        let mut meetings = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let present = meetings.entry(at.meeting).or_default();
        present.push((at.core, call));
        if present.len() < at.cores { None } else { meetings.remove(&at.meeting) }
    }
}
