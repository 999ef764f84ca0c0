//! Runs the scheduler whenever something has changed, and carries out its decisions.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use traind_wording::counted;

use super::daemon::Daemon;
use super::disk_usage;
use super::eligibility;
use super::fences;
use super::notifier;
use super::preparer;
use super::queue::Queue;
use super::retention;
use crate::access::sharing::Sharing;
use crate::clock::Moment;
use crate::jobs::scheduler::{
    self, Active, Pending, Placement, Plan, Preemption, Reason, Rules, Usage, Waiting,
};
use crate::jobs::state::JobState;
use crate::jobs::store::{Job, Store, StoreError};
use crate::jobs::supervisor::Begin;
use crate::settings::Settings;

/// Delay before a failing store is used again.
const RETRY: Duration = Duration::from_secs(1);
/// The longest wait between two runs, in case the clock was set, and shortest between two notes of the running time.
const IDLE: Duration = Duration::from_secs(60);
/// The rest after a run, as a multiple of its duration, and the longest one.
const RESTS_PER_RUN: u32 = 4;
const REST_MAX: Duration = Duration::from_secs(1);

/// Attaches to the runners of an earlier daemon and starts to schedule.
pub(crate) async fn start(daemon: &Arc<Daemon>) -> Result<(), StoreError> {
    let unfinished = daemon.store.run(Store::unfinished).await?;
    for job in unfinished.into_iter().filter(|job| job.state.is_active()) {
        tracing::info!(job = job.id, state = %job.state, "attach again");
        daemon.attend((*job).clone(), Begin::Attach);
    }
    daemon.spawn(run(daemon.clone()));
    daemon.spawn(notifier::run(daemon.clone()));
    daemon.spawn(preparer::run(daemon.clone()));
    daemon.spawn(retention::run(daemon.clone()));
    daemon.spawn(disk_usage::run(daemon.clone()));
    if daemon.settings.host.counts_faults() {
        daemon.spawn(fences::health::run(daemon.clone()));
    }
    if let Some(every) = daemon.settings.test_cores_every {
        daemon.spawn(fences::idle_cores::run(daemon.clone(), every));
    }
    daemon.wake.notify_one();
    Ok(())
}

/// Schedules until the daemon closes. A run looks at every waiting job, so the rest after it grows with the
/// queue, and all that happens meanwhile shares the next one.
async fn run(daemon: Arc<Daemon>) {
    let (mut next, mut rest, mut noted) = (IDLE, Duration::ZERO, Instant::now());
    loop {
        tokio::select! {
            () = daemon.closing.cancelled() => return,
            () = tokio::time::sleep(rest) => {}
        }
        tokio::select! {
            () = daemon.closing.cancelled() => return,
            () = daemon.wake.notified() => {}
            () = tokio::time::sleep(next) => {}
        }
        let since = Instant::now();
        next = schedule(&daemon).await.unwrap_or_else(|error| {
            tracing::error!(%error, "schedule; will try again");
            RETRY
        });
        rest = (since.elapsed() * RESTS_PER_RUN).min(REST_MAX);
        if noted.elapsed() >= IDLE {
            noted = since;
            if let Err(error) = daemon.store.run(Store::note_running_time).await {
                tracing::warn!(%error, "note for how long the host has run");
            }
        }
    }
}

/// Runs the scheduler once. Returns when to run it again if nothing happens before.
async fn schedule(daemon: &Arc<Daemon>) -> Result<Duration, StoreError> {
    // A core that is fenced after this point wakes the scheduler again.
    let fenced = daemon.evict_from_fences().await?;
    let giving = daemon.fences.tests.giving.lock().await;
    let withheld = Withheld { fenced, tested: daemon.fences.tests.cores() };
    let (settings, preempted) = (daemon.settings.clone(), daemon.preempted());
    let decide = move |store: &Store| decide(store, &settings, &preempted, &withheld);
    let decision = daemon.store.run(decide).await?;
    let Decision { unfinished, placements, preemptions, waiting, queue, wants_tested, next } =
        decision;
    if wants_tested {
        daemon.fences.tests.make_way();
    }
    let held_by = daemon.clone();
    daemon.store.run(move |store| held_by.holds.release_ended(store, &unfinished)).await?;
    daemon.queue.replace(queue);
    for Preemption { id, reason } in preemptions {
        tracing::info!(job = id, reason, "preempt");
        daemon.preempt(&id, &reason);
    }
    for Placement { id, cores } in placements {
        if daemon.draining.is_cancelled() {
            break;
        }
        match daemon.store.run(move |store| store.place(&id, &cores)).await {
            Ok(job) => {
                tracing::info!(job = job.id, cores = ?job.cores, "start");
                daemon.preparer.queue_changed();
                daemon.attend(job, Begin::Launch);
            }
            // It was cancelled a moment ago, so its cores stay free.
            Err(StoreError::Illegal { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    drop(giving);
    // Last, so that placements do not wait for reasons to be written.
    if !waiting.is_empty() {
        daemon.store.run(move |store| store.wait(&waiting)).await?;
    }
    daemon.preparer.queue_changed();
    Ok(next)
}

/// The scheduler's decisions, and when to run it again.
pub(super) struct Decision {
    /// The ids of all jobs that have not ended.
    unfinished: HashSet<String>,
    placements: Vec<Placement>,
    preemptions: Vec<Preemption>,
    pub(super) waiting: Vec<Waiting>,
    queue: Queue,
    /// Whether a job would start if no core were tested.
    wants_tested: bool,
    next: Duration,
}

/// Cores that no job gets.
#[derive(Clone, Debug, Default)]
pub(super) struct Withheld {
    pub fenced: BTreeSet<u32>,
    pub tested: BTreeSet<u32>,
}

/// Decides which jobs start, which are preempted, and why the others wait.
pub(super) fn decide(
    store: &Store,
    settings: &Settings,
    preempted: &HashSet<String>,
    withheld: &Withheld,
) -> Result<Decision, StoreError> {
    let (mut unfinished, now) = (store.unfinished()?, store.moment());
    let known = unfinished.clone();
    let ids = known.iter().map(|job| job.id.clone()).collect();
    let platform = &settings.host.platform;
    let (mut waiting, next) =
        eligibility::withhold_blocked_jobs(store, &mut unfinished, platform, now)?;
    let (in_clusters, here): (Vec<Arc<Job>>, Vec<Arc<Job>>) =
        unfinished.into_iter().partition(|job| job.is_elsewhere());
    let sharing = settings.access.now().sharing();
    let usage = usage(store, &sharing, &here, now)?;
    let plan =
        |cores: &[u32]| plan(&here, settings, &sharing, usage.as_ref(), preempted, cores, now);
    let all = &settings.host.cores;
    let but = |core: &u32| !withheld.fenced.contains(core);
    let healthy: Vec<u32> = all.iter().copied().filter(but).collect();
    let free: Vec<u32> =
        healthy.iter().copied().filter(|core| !withheld.tested.contains(core)).collect();
    let (Plan { mut placements, waiting: queued, preemptions }, queue) = plan(&free);
    let wants_tested =
        free.len() < healthy.len() && plan(&healthy).0.placements.len() > placements.len();
    let (handed_over, held_back) = hand_over(&in_clusters, settings.cluster_jobs_per_user);
    placements.extend(handed_over);
    waiting.extend(queued.into_iter().chain(held_back));
    // Most jobs wait for the same reason as before.
    let reasons: HashMap<&str, &str> =
        known.iter().map(|job| (job.id.as_str(), job.waiting_reason.as_str())).collect();
    waiting.retain(|waiting| reasons.get(waiting.id.as_str()) != Some(&&*waiting.reason.lasting));
    let until = |then: i64| Duration::from_micros(then.saturating_sub(now.wall).unsigned_abs());
    let next = next.map_or(IDLE, until).min(IDLE);
    Ok(Decision { unfinished: ids, placements, preemptions, waiting, queue, wants_tested, next })
}

/// Divides the jobs that a cluster places into those that it gets and those that wait here. They take no cores of this
/// host, and wait in the cluster's own queue; but the cluster is asked about each of them every few seconds, by a
/// program of its own, so that a user has at most `per_user` there.
fn hand_over(jobs: &[Arc<Job>], per_user: usize) -> (Vec<Placement>, Vec<Waiting>) {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    let of_clusters = || jobs.iter().filter(|job| !job.is_adopted());
    for job in of_clusters().filter(|job| job.state != JobState::Pending) {
        *counts.entry(&job.owner).or_default() += 1;
    }
    let mut pending: Vec<_> = of_clusters().filter(|job| job.state == JobState::Pending).collect();
    pending.sort_by_key(|job| Reverse(job.priority));
    let (mut placements, mut waiting) = (Vec::new(), Vec::new());
    for job in pending {
        let (id, count) = (job.id.clone(), counts.entry(&job.owner).or_default());
        if *count < per_user {
            *count += 1;
            placements.push(Placement { id, cores: Vec::new() });
            continue;
        }
        let jobs = counted(per_user, "job");
        let reason = format!("{} has {jobs} in clusters, as many as a user may have", job.owner);
        waiting.push(Waiting { id, reason: Reason::lasting(reason) });
    }
    (placements, waiting)
}

/// The core time of users, running jobs included, in seconds; `None` without fair shares.
pub(super) fn usage(
    store: &Store,
    sharing: &Sharing,
    unfinished: &[Arc<Job>],
    now: Moment,
) -> Result<Option<HashMap<String, f64>>, StoreError> {
    let Some(fair_shares) = sharing.fair_shares else { return Ok(None) };
    let half_life = fair_shares.half_life();
    let mut usage = store.usage()?;
    for job in unfinished.iter().filter(|job| job.state.is_active()) {
        let of_owner = usage.entry(job.owner.clone()).or_default();
        let since = now.wall.saturating_sub(job.held(now));
        *of_owner = of_owner.with_run(job.cores.len(), since, now.wall, half_life);
    }
    let now = |usage: Usage| usage.at(now.wall, half_life).core_seconds;
    Ok(Some(usage.into_iter().map(|(user, usage)| (user, now(usage))).collect()))
}

/// `cores`: those that jobs may get.
fn plan(
    unfinished: &[Arc<Job>],
    settings: &Settings,
    sharing: &Arc<Sharing>,
    usage: Option<&HashMap<String, f64>>,
    preempted: &HashSet<String>,
    cores: &[u32],
    now: Moment,
) -> (Plan, Queue) {
    let (pending, active): (Vec<&Job>, Vec<&Job>) =
        unfinished.iter().map(Arc::as_ref).partition(|job| job.state == JobState::Pending);
    // A runner that exceeds its time limit still has its grace period.
    let grace = micros(settings.grace_period);
    let expected = active.iter().map(|job| expected_end(job, now)).collect();
    let as_active = |job| as_active(job, grace, preempted, now);
    let active: Vec<Active> = active.into_iter().map(as_active).collect();
    let pending: Vec<Pending> = pending.into_iter().map(|job| as_pending(job, grace)).collect();
    let rules = Rules {
        cores,
        withheld: settings.host.cores.len() - cores.len(),
        aligned: settings.host.platform == "neuron",
        cores_per_user: settings.cores_per_user,
        sharing: Some(sharing),
        usage,
    };
    let plan = scheduler::plan(rules, &active, &pending, now.wall);
    let queue = Queue::new(rules, &active, expected, &pending, &plan, now.wall);
    (plan, queue)
}

/// The expected end of the job: its runner's estimate, or its deadline if that is earlier.
fn expected_end(job: &Job, now: Moment) -> Option<i64> {
    let left = job.progress.as_ref().map(|step| step.eta_seconds).filter(|eta| eta.is_finite());
    let end = left.map(|seconds| now.wall.saturating_add((seconds.max(0.0) * 1e6) as i64));
    end.into_iter().chain(job.deadline(now)).min()
}

fn as_active(job: &Job, grace: i64, preempted: &HashSet<String>, now: Moment) -> Active {
    Active {
        id: job.id.clone(),
        name: job.name.clone(),
        owner: job.owner.clone(),
        cores: job.cores.clone(),
        end: job.deadline(now).map(|deadline| deadline.saturating_add(grace)),
        priority: job.priority,
        since: now.wall.saturating_sub(job.held(now)),
        stopping: job.state == JobState::Cancelling || preempted.contains(&job.id),
    }
}

fn as_pending(job: &Job, grace: i64) -> Pending {
    let max_run = job.max_run_seconds.map(Duration::from_secs).map(micros);
    Pending {
        id: job.id.clone(),
        name: job.name.clone(),
        owner: job.owner.clone(),
        cores: job.core_count,
        priority: job.priority,
        max_run: max_run.map(|max_run| max_run.saturating_add(grace)),
    }
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::state::Outcome;
    use crate::jobs::store::NewJob;

    /// Completes the active jobs and starts the next ones.
    fn advance(store: &Store, settings: &Settings) -> Decision {
        for job in store.unfinished().unwrap().iter().filter(|job| job.state.is_active()) {
            store.settle(&job.id, Outcome::Completed, None).unwrap();
        }
        let decision = decide(store, settings, &HashSet::new(), &Withheld::default()).unwrap();
        for Placement { id, cores } in &decision.placements {
            store.place(id, cores).unwrap();
        }
        store.wait(&decision.waiting).unwrap();
        decision
    }

    #[test]
    fn a_user_has_a_bounded_number_of_jobs_in_clusters() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("traind.db")).unwrap();
        let settings = Settings { cluster_jobs_per_user: 3, ..Settings::example() };
        for number in 0..1000 {
            let owner = if number < 998 { "ann" } else { "bob" };
            let new = NewJob {
                id: format!("job-{number:04}"),
                owner: owner.into(),
                output_dir: format!("/out/{number}"),
                engine: if number % 2 == 0 { "slurm" } else { "kubernetes" }.into(),
                priority: i64::from(number == 997),
                ..NewJob::default()
            };
            store.create(&new).unwrap();
        }
        let mut started: Vec<Vec<String>> = Vec::new();
        for _ in 0..3 {
            let decision =
                decide(&store, &settings, &HashSet::new(), &Withheld::default()).unwrap();
            let ids = decision.placements.iter().map(|it| it.id.clone()).collect();
            started.push(ids);
            for Placement { id, .. } in &decision.placements {
                store.place(id, &[]).unwrap();
            }
            store.wait(&decision.waiting).unwrap();
            if started.len() == 2 {
                store.settle("job-0001", Outcome::Completed, None).unwrap();
            }
        }
        let expect = ["job-0997", "job-0000", "job-0001", "job-0998", "job-0999"];
        assert_eq!(started, [expect.to_vec(), vec![], vec!["job-0002"]]);
        let reason = store.get("job-0003").unwrap().waiting_reason;
        assert_eq!(reason, "ann has 3 jobs in clusters, as many as a user may have");
    }

    #[test]
    fn jobs_deep_in_a_long_queue_get_no_new_events() {
        const JOBS: usize = 1000;
        const HEADS: usize = 100;
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("traind.db")).unwrap();
        let settings = Settings::example();
        let core_count = settings.host.cores.len() as u32;
        for number in 0..JOBS {
            let (id, output_dir) = (format!("job-{number:04}"), format!("/out/{number}"));
            let platform = settings.host.platform.clone();
            let new = NewJob { id, output_dir, core_count, platform, ..NewJob::default() };
            store.create(&new).unwrap();
        }
        let last = format!("job-{:04}", JOBS - 1);
        for head in 1..=HEADS {
            let queue = advance(&store, &settings).queue;
            let reason = queue.reason(&last).unwrap();
            assert!(reason.contains(&format!("behind job job-{head:04}")), "{reason}");
            assert_eq!(queue.forecast(&last).unwrap().position as usize, JOBS - head);
        }
        for job in store.unfinished().unwrap().iter().filter(|job| !job.state.is_active()) {
            // Created, waiting, and for one of them: next.
            assert!(job.last_sequence <= 3, "{job:?}");
        }
        assert!(
            decide(&store, &settings, &HashSet::new(), &Withheld::default())
                .unwrap()
                .waiting
                .is_empty()
        );
    }
}
