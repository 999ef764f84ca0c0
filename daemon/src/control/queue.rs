//! Waiting jobs as of the scheduler's last run: why each waits, its position and its expected
//! start. All of it follows from the store, so it is kept only in memory.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use crate::access::sharing::Sharing;
use crate::jobs::scheduler::{Active, Forecast, Pending, Plan, Rules, Waiting, forecast};

/// The first jobs of the queue, whose starts are forecast.
const FORECASTS_MAX: usize = 1000;

/// The result of the scheduler's last run. Forecasts are computed on demand, since the scheduler
/// runs more often than anyone asks for them.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    /// Positions and reasons by job id.
    reasons: HashMap<String, (u32, String)>,
    forecast_input: ForecastInput,
    /// The jobs by their ids.
    forecasts: OnceLock<HashMap<String, Forecast>>,
}

/// Input of the forecasts.
#[derive(Debug, Default)]
struct ForecastInput {
    cores: Vec<u32>,
    aligned: bool,
    cores_per_user: Option<u32>,
    sharing: Option<Arc<Sharing>>,
    active: Vec<Active>,
    /// Jobs that wait, in scheduling order.
    waiting: Vec<Pending>,
    now: i64,
}

impl Queue {
    /// `expected`: the expected end of each of `active`, where it is better known than by the
    /// job's time limit.
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
        let waiting = plan.waiting.iter().take(FORECASTS_MAX);
        let waiting = waiting.filter_map(|w| find(&w.id).cloned()).collect();
        let Rules { aligned, cores_per_user, .. } = rules;
        let (cores, sharing) = (rules.cores.to_vec(), rules.sharing.cloned());
        let forecast_input =
            ForecastInput { cores, aligned, cores_per_user, sharing, active, waiting, now };
        let reasons = plan.waiting.iter().zip(1..).map(reason_of).collect();
        Queue { reasons, forecast_input, forecasts: OnceLock::new() }
    }

    /// Returns why this job waits.
    pub(crate) fn reason(&self, id: &str) -> Option<String> {
        self.reasons.get(id).map(|(_, reason)| reason.clone())
    }

    /// Returns the position of this job, and its expected start if it is among the first of the queue.
    pub(crate) fn forecast(&self, id: &str) -> Option<Forecast> {
        let (position, _) = self.reasons.get(id)?;
        let first = self.forecasts.get_or_init(|| self.forecast_input.forecasts()).get(id);
        let position = *position;
        Some(first.cloned().unwrap_or_else(|| Forecast {
            id: id.to_owned(),
            position,
            start: None,
        }))
    }
}

fn reason_of((waiting, position): (&Waiting, u32)) -> (String, (u32, String)) {
    (waiting.id.clone(), (position, waiting.reason.current.clone()))
}

impl ForecastInput {
    fn forecasts(&self) -> HashMap<String, Forecast> {
        let ForecastInput { cores, aligned, cores_per_user, .. } = self;
        let rules = Rules {
            cores,
            aligned: *aligned,
            cores_per_user: *cores_per_user,
            sharing: self.sharing.as_ref(),
            ..Rules::default()
        };
        let waiting: Vec<&Pending> = self.waiting.iter().collect();
        let forecasts = forecast(rules, &self.active, &waiting, self.now);
        forecasts.into_iter().map(|forecast| (forecast.id.clone(), forecast)).collect()
    }
}

/// The newest queue, which all calls read.
#[derive(Debug, Default)]
pub(crate) struct SharedQueue {
    queue: RwLock<Arc<Queue>>,
}

impl SharedQueue {
    pub(crate) fn replace(&self, queue: Queue) {
        *self.queue.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(queue);
    }

    /// Returns the queue as of the scheduler's last run.
    pub(crate) fn get(&self) -> Arc<Queue> {
        self.queue.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
