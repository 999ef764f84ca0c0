//! What is known of waiting jobs as of the scheduler's last look: why each waits, where it stands
//! and when it will start. It follows from what is stored, so it is in memory alone.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use crate::jobs::scheduler::{Active, Forecast, Pending, Plan, Rules, Waiting, forecast};

/// The scheduler's last look. Forecasts are made when somebody asks: the scheduler looks more
/// often than people do.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    /// By job id.
    reasons: HashMap<String, String>,
    outlook: Outlook,
    /// By job id.
    forecasts: OnceLock<HashMap<String, Forecast>>,
}

/// What forecasts are made of.
#[derive(Debug, Default)]
struct Outlook {
    cores: Vec<u32>,
    aligned: bool,
    cores_per_user: Option<u32>,
    active: Vec<Active>,
    /// In the order of their turns.
    waiting: Vec<Pending>,
    now: i64,
}

impl Queue {
    /// `expected`: when each of `active` will probably end, where a better guess than its
    /// limit is known.
    pub(crate) fn new(
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
            let job = find(&placed.id);
            let max_run = job.and_then(|job| job.max_run);
            let end = max_run.map(|max_run| now.saturating_add(max_run));
            let owner = job.map(|job| job.owner.clone()).unwrap_or_default();
            let (id, cores) = (placed.id.clone(), placed.cores.clone());
            Active { id, owner, cores, end, ..Active::default() }
        }));
        let waiting = plan.waiting.iter().filter_map(|w| find(&w.id).cloned()).collect();
        let Rules { aligned, cores_per_user, .. } = rules;
        let cores = rules.cores.to_vec();
        let outlook = Outlook { cores, aligned, cores_per_user, active, waiting, now };
        let reasons = plan.waiting.iter().map(reason_of).collect();
        Queue { reasons, outlook, forecasts: OnceLock::new() }
    }

    /// Why this job waits, as of now.
    pub(crate) fn reason(&self, id: &str) -> Option<String> {
        self.reasons.get(id).cloned()
    }

    pub(crate) fn forecast(&self, id: &str) -> Option<Forecast> {
        self.forecasts.get_or_init(|| self.outlook.forecasts()).get(id).cloned()
    }
}

fn reason_of(waiting: &Waiting) -> (String, String) {
    (waiting.id.clone(), waiting.reason.now.clone())
}

impl Outlook {
    fn forecasts(&self) -> HashMap<String, Forecast> {
        let Outlook { cores, aligned, cores_per_user, .. } = self;
        let rules = Rules { cores, aligned: *aligned, cores_per_user: *cores_per_user };
        let waiting: Vec<&Pending> = self.waiting.iter().collect();
        let forecasts = forecast(rules, &self.active, &waiting, self.now);
        forecasts.into_iter().map(|forecast| (forecast.id.clone(), forecast)).collect()
    }
}

/// The queue that all calls read.
#[derive(Debug, Default)]
pub(crate) struct SharedQueue {
    queue: RwLock<Arc<Queue>>,
}

impl SharedQueue {
    pub(crate) fn replace(&self, queue: Queue) {
        *self.queue.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(queue);
    }

    /// As of the scheduler's last look.
    pub(crate) fn get(&self) -> Arc<Queue> {
        self.queue.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
