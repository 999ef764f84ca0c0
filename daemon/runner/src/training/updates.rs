//! The optimizer's updates: the one place that applies the learning rate schedule.

use std::sync::Arc;

use traind_models::optimizers::Optimizers;
use traind_trainer::train_loop::Update;
use traind_xla::runtime::HostArray;

use crate::error::RunResult;
use crate::progress::{Plateau, Timetable};

#[derive(Clone)]
pub(crate) struct Updates {
    timetable: Timetable,
    optimizers: Arc<Optimizers>,
}

impl Updates {
    pub(crate) fn new(timetable: Timetable, optimizers: Arc<Optimizers>) -> Updates {
        Updates { timetable, optimizers }
    }

    /// Returns the update that follows `done` updates and the evaluations of `plateau`.
    pub(crate) fn after(&self, done: u64, plateau: &Plateau) -> RunResult<Update> {
        let learning_rate = self.timetable.learning_rate(done, plateau);
        let warmup_share = self.timetable.warmup_share(done);
        let scalars = self.optimizers.scalars(done + 1, learning_rate, warmup_share);
        Ok(Update { learning_rate, scalars: HostArray::from_f32(&[scalars.len()], &scalars)? })
    }
}
