//! JSON views of messages for the page's scripts: with the wire's names, times as seconds since
//! 1970, and enums in lower case.

use std::collections::BTreeMap;

use prost_types::Timestamp;
use serde_json::{Map, Value, json};
use traind_proto::v1::event::Kind;
use traind_proto::v1::{Core, Evaluated, Event, Job, Saved, Step};

use crate::interfaces::job_view::JobView;
use crate::interfaces::text;
use crate::interfaces::text::events::describe;

/// The most points of a curve that are sent.
const POINTS_MAX: usize = 1000;

/// The view of `traind get`, with values as the page draws them.
pub(super) fn job(job: &Job) -> Value {
    let mut view = json!(JobView::from(job.clone()));
    view["estimated_start_time"] = json!(seconds(job.estimated_start_time.as_ref()));
    view["create_time"] = json!(seconds(job.create_time.as_ref()));
    view["start_time"] = json!(seconds(job.start_time.as_ref()));
    view["end_time"] = json!(seconds(job.end_time.as_ref()));
    view["progress"] = json!(job.progress.as_ref().map(step));
    view["metrics"] = numbers(&job.metrics);
    view
}

pub(super) fn core(core: &Core) -> Value {
    let mut view = Map::from_iter([
        ("host".to_owned(), json!(core.host)),
        ("core".to_owned(), json!(core.core)),
        ("platform".to_owned(), json!(core.platform)),
        ("device".to_owned(), json!(core.device)),
        ("job_id".to_owned(), json!(core.job_id)),
        ("job_name".to_owned(), json!(core.job_name)),
    ]);
    if let Some(usage) = &core.usage {
        view.insert("phase".to_owned(), json!(text::activity(usage)));
        view.insert("utilization_1s".to_owned(), json!(usage.utilization_percent_1s));
        view.insert("utilization_1m".to_owned(), json!(usage.utilization_percent_1m));
        view.insert("memory_used_bytes".to_owned(), json!(usage.memory_used_bytes));
        view.insert("memory_total_bytes".to_owned(), json!(usage.memory_total_bytes));
        view.insert("step".to_owned(), json!(usage.step));
        view.insert("tflops".to_owned(), json!(usage.tflops));
        view.insert("mfu".to_owned(), json!(usage.model_flops_utilization_percent));
        view.insert("stage".to_owned(), json!(usage.stage.as_ref().map(text::stage)));
        let sent = usage.communication.as_ref().map(text::communication);
        view.insert("communication".to_owned(), json!(sent));
    }
    if let Some(figures) = &core.figures {
        view.insert("temperature".to_owned(), json!(figures.temperature_celsius));
        view.insert("power".to_owned(), json!(figures.power_watts));
        view.insert("errors".to_owned(), json!(figures.errors));
    }
    Value::Object(view)
}

/// An event with its description, and with its data if the page draws it.
pub(super) fn event(event: &Event) -> Value {
    let (kind, data) = match &event.kind {
        Some(Kind::Step(of)) => ("step", step(of)),
        Some(Kind::Evaluated(of)) => ("evaluated", evaluated(of)),
        Some(Kind::Saved(of)) => ("saved", saved(of)),
        Some(Kind::StateChanged(of)) => ("state", json!({ "state": text::state(of.to()) })),
        Some(Kind::Warning(_)) => ("warning", Value::Null),
        _ => ("line", Value::Null),
    };
    json!({
        "sequence": event.sequence,
        "time": seconds(event.time.as_ref()),
        "kind": kind,
        "data": data,
        "text": describe(event),
    })
}

fn step(step: &Step) -> Value {
    let time = step.time.unwrap_or_default();
    json!({
        "step": step.step,
        "max_steps": step.max_steps,
        "epoch": step.epoch,
        "loss": number(step.loss),
        "learning_rate": number(step.learning_rate),
        "grad_norm": number(step.grad_norm),
        "samples_per_second": number(step.samples_per_second),
        "tokens_per_second": number(step.tokens_per_second),
        "input_wait_share": step.input_wait_share,
        "eta_seconds": number(step.eta_seconds),
        "time": {
            "input wait": time.input_wait_seconds,
            "dispatch": time.dispatch_seconds,
            "compute": time.compute_seconds,
            "read back": time.read_back_seconds,
        },
    })
}

/// A number, or the name of a value that is not finite, which JSON cannot represent.
fn number(value: f64) -> Value {
    if value.is_finite() { json!(value) } else { json!(value.to_string()) }
}

fn numbers(metrics: &BTreeMap<String, f64>) -> Value {
    metrics.iter().map(|(name, value)| (name.clone(), number(*value))).collect()
}

fn evaluated(evaluated: &Evaluated) -> Value {
    json!({
        "split": evaluated.split,
        "step": evaluated.step,
        "epoch": evaluated.epoch,
        "metrics": numbers(&evaluated.metrics),
        "rows": evaluated.rows,
        "seconds": evaluated.seconds,
    })
}

fn saved(saved: &Saved) -> Value {
    let kind = text::plain(saved.kind().as_str_name(), "SAVED_KIND_");
    json!({
        "path": saved.path,
        "kind": kind,
        "step": saved.step,
        "bytes": saved.bytes,
        "seconds": saved.seconds,
    })
}

fn seconds(time: Option<&Timestamp>) -> Option<f64> {
    time.map(|time| time.seconds as f64 + f64::from(time.nanos) / 1e9)
}

/// Metrics of a job over all its attempts. Holds at most twice as many points as are sent, however
/// long the job is.
#[derive(Default)]
pub(super) struct Curves {
    steps: Vec<Step>,
    /// Which steps are kept.
    stride: Stride,
    newest: Option<Step>,
    evaluations: Vec<Value>,
    saves: Vec<Value>,
    last_sequence: u64,
}

/// Keeps one step in `length`, a power of two.
struct Stride {
    length: usize,
    passed: usize,
}

impl Default for Stride {
    fn default() -> Stride {
        Stride { length: 1, passed: 0 }
    }
}

impl Curves {
    pub(super) fn add(&mut self, event: &Event) {
        self.last_sequence = event.sequence;
        match &event.kind {
            Some(Kind::Step(step)) => self.add_step(step.clone()),
            Some(Kind::Evaluated(of)) => self.evaluations.push(evaluated(of)),
            Some(Kind::Saved(of)) => self.saves.push(saved(of)),
            _ => {}
        }
    }

    /// A resumed attempt repeats some steps, which replace the earlier ones.
    fn add_step(&mut self, step: Step) {
        let before = self.steps.partition_point(|known| known.step < step.step);
        self.steps.truncate(before);
        self.newest = Some(step.clone());
        self.stride.passed += 1;
        if self.stride.passed < self.stride.length {
            return;
        }
        self.stride.passed = 0;
        self.steps.push(step);
        if self.steps.len() >= 2 * POINTS_MAX {
            thin_out(&mut self.steps);
            self.stride.length *= 2;
        }
    }

    /// Returns the curves, always including the last point. The stream of events continues after
    /// `last_sequence`.
    pub(super) fn view(mut self) -> Value {
        self.steps.extend(self.newest.filter(|newest| self.steps.last() != Some(newest)));
        if self.steps.len() > POINTS_MAX {
            thin_out(&mut self.steps);
        }
        json!({
            "steps": self.steps.iter().map(step).collect::<Vec<_>>(),
            "evaluations": self.evaluations,
            "saves": self.saves,
            "last_sequence": self.last_sequence,
        })
    }
}

/// Removes every second point, but never the last one.
fn thin_out(steps: &mut Vec<Step>) {
    let keep = steps.len() % 2;
    let mut index = 0;
    steps.retain(|_| {
        index += 1;
        index % 2 == keep
    });
}

#[cfg(test)]
mod tests {
    use traind_proto::v1::Failure;

    use super::*;

    fn at(step: u64, loss: f64) -> Event {
        let kind = Some(Kind::Step(Step { step, loss, ..Default::default() }));
        Event { kind, ..Default::default() }
    }

    fn points(curves: Curves) -> Vec<(u64, f64)> {
        let view = curves.view();
        let steps = view["steps"].as_array().unwrap().clone();
        let point = |step: Value| (step["step"].as_u64().unwrap(), step["loss"].as_f64().unwrap());
        steps.into_iter().map(point).collect()
    }

    #[test]
    fn a_resumed_attempt_replaces_the_steps_that_it_repeats() {
        let mut curves = Curves::default();
        for event in [at(10, 3.0), at(20, 2.0), at(30, 1.0), at(20, 2.5), at(30, 1.5)] {
            curves.add(&event);
        }
        assert_eq!(points(curves), [(10, 3.0), (20, 2.5), (30, 1.5)]);
    }

    #[test]
    fn long_curves_are_downsampled_and_keep_their_end() {
        for length in [1, 2, 999, 1000, 1001, 2500, 1_000_000] {
            let mut curves = Curves::default();
            (1..=length).for_each(|step| curves.add(&at(step, 1.0)));
            assert!(curves.steps.len() < 2 * POINTS_MAX, "of {length}: {}", curves.steps.len());
            let points = points(curves);
            let least = (length as usize).min(POINTS_MAX / 2);
            assert!((least..=POINTS_MAX).contains(&points.len()), "of {length}: {}", points.len());
            assert_eq!(points.last().unwrap().0, length);
            assert!(points.is_sorted_by(|(left, _), (right, _)| left < right), "of {length}");
        }
    }

    #[test]
    fn a_failure_names_all_that_is_to_blame() {
        let failure = Failure {
            reason: "STEP_DIVERGED".into(),
            tensor: Some("head.weight".into()),
            host: Some("node-7".into()),
            ..Default::default()
        };
        let view = job(&Job {
            failure: Some(failure),
            create_time: Some(Timestamp { seconds: 10, nanos: 0 }),
            billed_seconds: 3.0,
            ..Default::default()
        });
        assert_eq!(view["failure"]["tensor"], json!("head.weight"));
        assert_eq!(view["failure"]["host"], json!("node-7"));
        assert_eq!((&view["create_time"], &view["billed_seconds"]), (&json!(10.0), &json!(3.0)));
    }

    #[test]
    fn values_that_are_not_finite_are_sent_by_name() {
        let view = step(&Step { loss: f64::NAN, grad_norm: f64::INFINITY, ..Default::default() });
        assert_eq!((&view["loss"], &view["grad_norm"]), (&json!("NaN"), &json!("inf")));
        assert_eq!(view["learning_rate"], json!(0.0));
    }
}
