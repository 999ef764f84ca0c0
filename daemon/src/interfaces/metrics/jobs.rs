//! Metrics of jobs: counts by state, and the progress of unfinished ones.

use std::sync::Arc;

use traind_proto::v1::Step;

use super::audience::Audience;
use super::gauges::Gauges;
use crate::clock;
use crate::jobs::state::JobState;
use crate::jobs::store::{Billed, Job};

/// The most waiting jobs with series of their own.
const WAITING_SERIES_MAX: usize = 500;

type Labels<'a> = [(&'static str, &'a str); 4];

pub(super) fn describe(
    gauges: &mut Gauges,
    states: &[(String, u64)],
    unfinished: &[Arc<Job>],
    billed: &Billed,
    audience: &Audience,
) {
    for state in JobState::ALL.map(JobState::name) {
        let count = states.iter().find(|(name, _)| name == state).map_or(0, |(_, count)| *count);
        gauges.set("traind_jobs", "Jobs by state", &[("state", state)], count as f64);
    }
    let queued = unfinished.iter().filter(|job| job.state == JobState::Pending).count();
    gauges.set::<&str>("traind_queue_length", "Jobs that wait for cores", &[], queued as f64);
    costs(gauges, billed);
    let seen: Vec<Arc<Job>> =
        unfinished.iter().filter(|job| audience.sees(&job.owner)).cloned().collect();
    for job in with_series(&seen) {
        job_metrics(gauges, job);
    }
}

/// Sums over the ended runs of all jobs.
fn costs(gauges: &mut Gauges, billed: &Billed) {
    let none: [(&str, &str); 0] = [];
    let help = "Time for which runs that have ended held their cores";
    gauges.set("traind_billed_seconds", help, &none, billed.seconds);
    gauges.set(
        "traind_cost",
        "Cost of runs that have ended, where there is a price",
        &none,
        billed.cost,
    );
    let help = "Cost that these runs would have had on demand, beyond what they cost";
    gauges.set("traind_spot_savings", help, &none, billed.saved);
    if let Some(joules) = billed.energy_joules {
        let help = "Energy of all jobs, where the host reports it";
        gauges.set("traind_energy_joules", help, &none, joules);
    }
}

/// The jobs that get series of their own: all active ones, and the oldest waiting ones, since a queue
/// may be long.
fn with_series(unfinished: &[Arc<Job>]) -> impl Iterator<Item = &Arc<Job>> {
    let is_waiting = |job: &&Arc<Job>| job.state == JobState::Pending;
    let active = unfinished.iter().filter(move |job| !is_waiting(job));
    active.chain(unfinished.iter().filter(is_waiting).take(WAITING_SERIES_MAX))
}

fn job_metrics(gauges: &mut Gauges, job: &Job) {
    let labels: Labels<'_> = [
        ("job_id", &job.id),
        ("job_name", &job.name),
        ("owner", &job.owner),
        ("platform", &job.platform),
    ];
    let mut set = |name, help, value| gauges.set(name, help, &labels, value);
    set("traind_job_cores", "Cores that the job requests", f64::from(job.core_count));
    set("traind_job_restarts", "Restarts after failures", f64::from(job.restarts));
    if job.state == JobState::Pending {
        let seconds = (clock::now() - job.create_time) as f64 / 1e6;
        set("traind_job_waiting_seconds", "Time since a waiting job was accepted", seconds);
    }
    if let Some(joules) = job.energy_joules {
        set("traind_job_energy_joules", "Energy that the job has used", joules);
    }
    if let Some(step) = &job.progress {
        progress(&mut set, step);
        times(gauges, &labels, step);
    }
    for (name, value) in &job.metrics {
        let labels: Vec<_> = labels.into_iter().chain([("metric", name.as_str())]).collect();
        gauges.set("traind_job_metric", "Metrics of the newest evaluation", &labels, *value);
    }
}

fn progress(set: &mut impl FnMut(&'static str, &'static str, f64), step: &Step) {
    set("traind_job_step", "Steps done", step.step as f64);
    set("traind_job_max_steps", "Steps the job will do", step.max_steps as f64);
    set("traind_job_epoch", "Epochs done", step.epoch);
    set("traind_job_loss", "Training loss since the log before", step.loss);
    set("traind_job_learning_rate", "Learning rate of the newest step", step.learning_rate);
    set("traind_job_grad_norm", "Norm of the gradients before clipping", step.grad_norm);
    set("traind_job_samples_per_second", "Training rows a second", step.samples_per_second);
    set("traind_job_tokens_per_second", "Training tokens a second", step.tokens_per_second);
    set("traind_job_eta_seconds", "Expected time until the last step", step.eta_seconds);
    let help = "Share of the time spent waiting for input, 0 to 1";
    set("traind_job_input_wait_ratio", help, step.input_wait_share);
}

fn times(gauges: &mut Gauges, labels: &Labels<'_>, step: &Step) {
    let Some(time) = &step.time else { return };
    let parts = [
        ("input_wait", time.input_wait_seconds),
        ("dispatch", time.dispatch_seconds),
        ("compute", time.compute_seconds),
        ("read_back", time.read_back_seconds),
    ];
    for (part, seconds) in parts {
        let labels: Vec<_> = labels.iter().copied().chain([("part", part)]).collect();
        gauges.set("traind_job_step_seconds", "Mean time of the parts of a step", &labels, seconds);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::store::{NewJob, Store};

    #[test]
    fn series_of_waiting_jobs_are_limited() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("traind.db")).unwrap();
        let waiting = store.create(&NewJob { id: "a".into(), ..NewJob::default() }).unwrap();
        let active = Arc::new(Job { state: JobState::Running, ..waiting.clone() });
        let waiting = Arc::new(waiting);
        let mut unfinished: Vec<_> = std::iter::repeat_n(waiting, WAITING_SERIES_MAX + 7).collect();
        unfinished.extend([active.clone(), active]);
        assert_eq!(with_series(&unfinished).count(), WAITING_SERIES_MAX + 2);
    }
}
