//! The optimizer's updates: the one place that applies the learning rate schedule.

use std::sync::Arc;

use traind_models::optimizers::Optimizer;
use traind_xla::runtime::HostArray;

use crate::error::RunResult;
use crate::progress::{Plateau, Timetable};

/// The arguments of one update.
#[derive(Clone, Debug)]
pub(crate) struct Update {
    pub learning_rate: f64,
    /// f32, in the order of the optimizer's scalars.
    pub scalars: HostArray,
}

#[derive(Clone)]
pub(crate) struct Updates {
    timetable: Timetable,
    optimizer: Arc<dyn Optimizer>,
}

impl Updates {
    pub(crate) fn new(timetable: Timetable, optimizer: Arc<dyn Optimizer>) -> Updates {
        Updates { timetable, optimizer }
    }

    /// Returns the update that follows `done` updates and the evaluations of `plateau`.
    pub(crate) fn after(&self, done: u64, plateau: &Plateau) -> RunResult<Update> {
        let learning_rate = self.timetable.learning_rate(done, plateau);
        let share = if self.optimizer.warms_up() { self.timetable.warmup_share(done) } else { 1.0 };
        let scalars = self.optimizer.scalars(done + 1, learning_rate * share);
        Ok(Update { learning_rate, scalars: HostArray::from_f32(&[scalars.len()], &scalars)? })
    }
}
