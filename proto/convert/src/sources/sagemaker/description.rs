//! The description of a training job, as `describe-training-job` prints it, or the estimator's
//! arguments beside its hyperparameters.

use std::sync::LazyLock;

use serde_json::{Map, Value};

use super::instances;
use crate::draft::Draft;
use crate::rule::{Rule, Table, unknown};
use crate::shared::{Keys, TABLES};
use crate::sources::examples::LAUNCHED;
use crate::values::{is_off, shown};

static ESTIMATOR: Keys = LazyLock::new(|| TABLES.estimator.keys());
static FIT: Keys = LazyLock::new(|| TABLES.fit.keys());
static DESCRIPTION: Keys = LazyLock::new(|| TABLES.description.keys());

/// Sets the fields that arguments of the estimator name by themselves.
pub(super) fn fields(outer: &Map<String, Value>, draft: &mut Draft) {
    for (key, rule) in ESTIMATOR.iter() {
        if let (Rule::Field(path), Some(value)) = (rule, outer.get(*key).filter(|it| !it.is_null()))
        {
            draft.set(path, value.clone(), key);
        }
    }
}

/// Reads what is beside the hyperparameters.
pub(super) fn read(outer: &Map<String, Value>, draft: &mut Draft) {
    instance(outer, draft);
    hosts(outer, draft);
    limits(outer, draft);
    let tables: [Table; 3] = [&ESTIMATOR, &FIT, &DESCRIPTION];
    for (key, _) in outer.iter().filter(|(_, value)| !is_off(value)) {
        let rule = tables.iter().copied().flatten().find(|(name, _)| name == key);
        match rule.map(|(_, rule)| rule) {
            Some(Rule::Dropped(reason)) => draft.note(key, format!("dropped: {reason}")),
            Some(Rule::Refused(advice)) => draft.refuse(key, *advice),
            Some(_) => {}
            None => {
                let known = tables.iter().copied().flatten().map(|(known, _)| *known);
                draft.refuse(key, unknown(key, known, "remove it, if the job does not need it"));
            }
        }
    }
}

/// A value of the description, or the estimator's of the same meaning, with its key.
fn either<'a>(
    outer: &'a Map<String, Value>,
    section: &str,
    name: &str,
    argument: &str,
) -> Option<(String, &'a Value)> {
    let of_section = outer.get(section).and_then(|it| it.get(name));
    let found = of_section.map(|value| (format!("{section}.{name}"), value));
    let found = found.or_else(|| Some((argument.to_owned(), outer.get(argument)?)));
    found.filter(|(_, value)| !value.is_null())
}

fn instance(outer: &Map<String, Value>, draft: &mut Draft) {
    let given = either(outer, "ResourceConfig", "InstanceType", "instance_type");
    let Some((key, value)) = given else { return };
    match instances::devices(&shown(value)) {
        Some((platform, cores)) => {
            if draft.get("resources.platform").is_none() {
                draft.set("resources.platform", platform.into(), &key);
            }
            // A launcher's number of processes comes first.
            if draft.get("resources.cores").is_none() {
                draft.set("resources.cores", cores.into(), &key);
            }
        }
        None if draft.get("resources.platform").is_some() => {}
        None => draft.refuse(
            &key,
            format!(
                "{} is not a known instance type; give resources.platform and \
                resources.cores by --set",
                shown(value)
            ),
        ),
    }
}

fn hosts(outer: &Map<String, Value>, draft: &mut Draft) {
    let groups = outer.get("ResourceConfig").and_then(|it| it.get("InstanceGroups"));
    if groups.is_some_and(|groups| !is_off(groups)) {
        draft.refuse(
            "ResourceConfig.InstanceGroups",
            "all hosts of a job are alike; give resources.platform, resources.cores and \
            resources.hosts by --set, and leave the groups out",
        );
    }
    let given = either(outer, "ResourceConfig", "InstanceCount", "instance_count");
    let Some((key, value)) = given else { return };
    match value.as_u64() {
        Some(0 | 1) => {}
        Some(_) => {
            draft.set("resources.hosts", value.clone(), &key);
            if draft.get("resources.engine").is_none() {
                draft.note("resources.hosts", LAUNCHED);
            }
        }
        None => draft.refuse(&key, format!("must be a number, not {}", shown(value))),
    }
}

/// SageMaker's longest wait covers waiting and running.
fn limits(outer: &Map<String, Value>, draft: &mut Draft) {
    let section = "StoppingCondition";
    let run = seconds(either(outer, section, "MaxRuntimeInSeconds", "max_run"), draft);
    let wait = seconds(either(outer, section, "MaxWaitTimeInSeconds", "max_wait"), draft);
    if let Some((key, run)) = &run {
        draft.set("resources.max_run_seconds", (*run).into(), key);
    }
    let run = run.map_or(0, |(_, run)| run);
    match wait {
        Some((key, wait)) if wait < run => {
            draft.refuse(
                &key,
                "covers waiting and running, and must not be less than the limit of the run",
            );
        }
        Some((key, wait)) => {
            draft.note(&key, "resources.max_wait_seconds is the wait alone, without the run");
            draft.set("resources.max_wait_seconds", (wait - run).max(1).into(), &key);
        }
        None => {}
    }
    let spot = ["EnableManagedSpotTraining", "use_spot_instances"];
    if let Some(key) = spot.iter().find(|key| outer.get(**key).is_some_and(|it| !is_off(it))) {
        draft.note(
            key,
            "dropped: run the daemon on a spot instance with `serve --ec2-notices`; a job resumes from \
            its newest checkpoint",
        );
    }
}

fn seconds(given: Option<(String, &Value)>, draft: &mut Draft) -> Option<(String, u64)> {
    let (key, value) = given?;
    if value.as_u64().is_none() {
        draft.refuse(&key, format!("must be a number of seconds, not {}", shown(value)));
    }
    Some((key, value.as_u64()?))
}
