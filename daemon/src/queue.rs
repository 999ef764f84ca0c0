//! Where each waiting job stands in the queue, as of the scheduler's last look. It follows
//! from what is stored, so it is in memory alone.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

use crate::scheduler::{Active, Forecast, Pending, Plan, Rules, forecast};

/// By job id.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    forecasts: HashMap<String, Forecast>,
}

impl Queue {
    /// `expected`: when each of `active` will probably end, where a better guess than its
    /// limit is known.
    pub(crate) fn foresee(
        rules: Rules<'_>,
        active: &[Active],
        expected: Vec<Option<i64>>,
        pending: &[Pending],
        plan: &Plan,
        now: i64,
    ) -> Queue {
        let by_id: HashMap<&str, &Pending> =
            pending.iter().map(|job| (job.id.as_str(), job)).collect();
        let find = |id: &str| by_id.get(id).copied();
        let expect =
            |(job, end): (&Active, Option<i64>)| Active { end: end.or(job.end), ..job.clone() };
        let mut active: Vec<Active> = active.iter().zip(expected).map(expect).collect();
        active.extend(plan.placements.iter().map(|placed| {
            let max_run = find(&placed.id).and_then(|job| job.max_run);
            let end = max_run.map(|max_run| now.saturating_add(max_run));
            let (id, cores) = (placed.id.clone(), placed.cores.clone());
            Active { id, cores, end, ..Active::default() }
        }));
        let waiting: Vec<&Pending> = plan.waiting.iter().filter_map(|w| find(&w.id)).collect();
        let forecasts = forecast(rules, &active, &waiting, now);
        Queue { forecasts: forecasts.into_iter().map(|f| (f.id.clone(), f)).collect() }
    }
}

/// The queue that all calls read.
#[derive(Debug, Default)]
pub(crate) struct SharedQueue {
    queue: RwLock<Queue>,
}

impl SharedQueue {
    pub(crate) fn replace(&self, queue: Queue) {
        *self.queue.write().unwrap_or_else(PoisonError::into_inner) = queue;
    }

    pub(crate) fn forecast(&self, id: &str) -> Option<Forecast> {
        let queue = self.queue.read().unwrap_or_else(PoisonError::into_inner);
        queue.forecasts.get(id).cloned()
    }
}
