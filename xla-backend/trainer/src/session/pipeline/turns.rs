//! The order in which the stages of a host launch passes that exchange data with other hosts.
//!
//! A client of CPU devices runs programs of several devices one at a time, in the order of their launch. Hosts that
//! launched them in different orders would wait for each other in different programs.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::Ended;
use crate::step::Pass;

/// Passes in the order of their launch, the same on all hosts with the same stages.
pub(super) struct Turns {
    order: Vec<Pass>,
    /// The place of the next one; `None` once a stage has failed.
    next: Mutex<Option<usize>>,
    changed: Condvar,
}

impl Turns {
    pub(super) fn new(order: Vec<Pass>) -> Turns {
        Turns { order, next: Mutex::new(Some(0)), changed: Condvar::new() }
    }

    /// Launches a pass when all before it are launched. `Err(None)`: another stage has failed.
    pub(super) fn launch<T>(&self, pass: Pass, launch: impl FnOnce() -> Ended<T>) -> Ended<T> {
        self.wait_for(pass)?;
        let launched = launch()?;
        self.advance();
        Ok(launched)
    }

    /// Lets no stage wait for its turn any more.
    pub(super) fn fail(&self) {
        *self.next() = None;
        self.changed.notify_all();
    }

    fn wait_for(&self, pass: Pass) -> Ended<()> {
        let waits = |next: &mut Option<usize>| next.is_some_and(|next| self.order[next] != pass);
        let next = self.changed.wait_while(self.next(), waits);
        let next = next.unwrap_or_else(PoisonError::into_inner);
        next.map(|_| ()).ok_or(None)
    }

    fn advance(&self) {
        let mut next = self.next();
        *next = next.map(|next| next + 1);
        self.changed.notify_all();
    }

    fn next(&self) -> MutexGuard<'_, Option<usize>> {
        self.next.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::step::PipelineOrder;

    const ORDER: PipelineOrder =
        PipelineOrder { stages: 2, chunks_per_stage: 2, microbatches: 6, compares: false };

    fn passes() -> Vec<Vec<Pass>> {
        (0..ORDER.stages).map(|stage| ORDER.training(stage)).collect()
    }

    #[test]
    fn stages_launch_their_passes_in_one_order() {
        let (order, launched) = (ORDER.one_order(&passes()), Mutex::new(Vec::new()));
        let turns = Turns::new(order.clone());
        thread::scope(|scope| {
            for passes in passes() {
                let (turns, launched) = (&turns, &launched);
                scope.spawn(move || {
                    for pass in passes {
                        let launch = || {
                            launched.lock().unwrap().push(pass);
                            Ok(())
                        };
                        turns.launch(pass, launch).unwrap();
                    }
                });
            }
        });
        assert_eq!(launched.into_inner().unwrap(), order);
    }

    #[test]
    fn no_stage_waits_for_one_that_has_failed() {
        let turns = Turns::new(ORDER.one_order(&passes()));
        thread::scope(|scope| {
            // A stage that is not the first one.
            let waiting = scope.spawn(|| turns.launch(passes()[1][0], || Ok(())));
            turns.fail();
            assert!(matches!(waiting.join(), Ok(Err(None))));
        });
    }
}
