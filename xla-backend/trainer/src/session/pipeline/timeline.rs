//! When the passes of a batch ran, and for how long each stage waited for others.
//!
//! A plugin may queue a program long before it runs. So a pass counts from when it could have started: when it was
//! launched, its stage was free and the passes that it needs had ended.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use traind_xla::runtime::Pending;

use crate::error::Result;
use crate::session::{Observer, PipelineTime};
use crate::step::{LastChunk, Pass};

/// Collects the times of a batch's passes as they end, and reports them to an observer after the last one.
#[derive(Clone)]
pub(super) struct Timeline(Arc<Mutex<Passes>>);

struct Passes {
    begun: Instant,
    /// The passes of each stage of this host, in their order.
    order: Vec<Vec<Pass>>,
    last: LastChunk,
    ran: HashMap<Pass, Ran>,
    observer: Arc<dyn Observer>,
}

#[derive(Clone, Copy)]
struct Ran {
    launched: Instant,
    ended: Instant,
}

impl Timeline {
    pub(super) fn new(
        order: Vec<Vec<Pass>>,
        last: LastChunk,
        observer: Arc<dyn Observer>,
    ) -> Timeline {
        let (begun, ran) = (Instant::now(), HashMap::new());
        Timeline(Arc::new(Mutex::new(Passes { begun, order, last, ran, observer })))
    }

    /// Records when `pass`, which was launched at that time, ends.
    pub(super) fn follow(&self, pass: Pass, launched: Instant, program: &Pending) -> Result<()> {
        let timeline = self.clone();
        let record = move || timeline.ended(pass, Ran { launched, ended: Instant::now() });
        Ok(program.on_completed(record)?)
    }

    fn ended(&self, pass: Pass, ran: Ran) {
        let mut passes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        passes.ran.insert(pass, ran);
        let count: usize = passes.order.iter().map(Vec::len).sum();
        if passes.ran.len() == count {
            passes.observer.batch_passed(passes.time());
        }
    }
}

impl Passes {
    fn time(&self) -> PipelineTime {
        let ended = self.ran.values().map(|ran| ran.ended).max();
        let span = ended.map(|last| last.saturating_duration_since(self.begun));
        let busy = self.order.iter().map(|passes| self.busy(passes)).collect();
        PipelineTime { span: span.unwrap_or_default(), busy }
    }

    /// The time that a stage spent in its passes.
    fn busy(&self, passes: &[Pass]) -> Duration {
        let mut free: Option<Instant> = None;
        let mut busy = Duration::ZERO;
        for pass in passes {
            let Some(ran) = self.ran.get(pass) else { continue };
            let needs = pass.needs(self.last);
            let needs = needs.iter().filter_map(|needed| Some(self.ran.get(needed)?.ended));
            let start = needs.chain(free).fold(ran.launched, Instant::max);
            busy += ran.ended.saturating_duration_since(start);
            free = Some(ran.ended);
        }
        busy
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::{Direction, PipelineOrder};

    /// Two stages with two micro-batches, whose forward passes take 10 ms and backward passes 20 ms. `queued`: whether
    /// all programs are launched at once.
    fn passes(queued: bool) -> Passes {
        let pipeline_order =
            PipelineOrder { stages: 2, chunks_per_stage: 1, microbatches: 2, compares: false };
        let last = pipeline_order.last_chunk();
        let order: Vec<Vec<Pass>> = (0..2).map(|stage| pipeline_order.training(stage)).collect();
        let start = Instant::now();
        let pass = |direction, chunk, micro| Pass { direction, chunk, micro };
        let (forward, backward) = (Direction::Forward, Direction::Backward);
        let times = [
            (pass(forward, 0, 0), 0, 10),
            (pass(forward, 0, 1), 10, 20),
            (pass(backward, 1, 0), 10, 30),
            (pass(backward, 0, 0), 30, 50),
            (pass(backward, 1, 1), 30, 50),
            (pass(backward, 0, 1), 50, 70),
        ];
        let at = |ms| start + Duration::from_millis(ms);
        let ran = times.map(|(pass, begin, end)| {
            (pass, Ran { launched: at(if queued { 0 } else { begin }), ended: at(end) })
        });
        let (ran, observer) = (HashMap::from(ran), Arc::new(()));
        Passes { begun: start, order, last, ran, observer }
    }

    #[test]
    fn a_stage_is_busy_in_its_passes_alone_however_early_they_are_launched() {
        for queued in [false, true] {
            let time = passes(queued).time();
            assert_eq!(time.span, Duration::from_millis(70));
            assert_eq!(time.busy, [60, 40].map(Duration::from_millis));
        }
    }
}
