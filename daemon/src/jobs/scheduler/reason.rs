//! Reasons for which jobs wait, in one sentence each.
//!
//! A reason has two forms. The current one names other jobs and counts of cores, and is shown on
//! request. The lasting one does not change while other jobs come and go; it is stored as an
//! event, so that a long queue does not write events for every job that passes through it.

use traind_wording::counted;

use super::{Active, Pending, Rules};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reason {
    pub current: String,
    pub lasting: String,
}

impl Reason {
    /// A reason whose two forms are the same.
    pub(crate) fn lasting(text: String) -> Reason {
        Reason { current: text.clone(), lasting: text }
    }
}

/// `standing`: the standing of the head's group, where there are fair shares.
pub(super) fn behind(head: &Pending, standing: Option<String>) -> Reason {
    let cores = count(head.cores as usize);
    let head = label(&head.id, &head.name);
    let standing = standing.map(|standing| format!("; {standing}")).unwrap_or_default();
    let current = format!("is behind job {head}, which needs {cores}{standing}");
    Reason { current, lasting: "is behind other jobs".to_owned() }
}

pub(super) fn short(rules: Rules<'_>, active: &[Active], job: &Pending) -> Reason {
    let held: usize = active.iter().map(|job| job.cores.len()).sum();
    let (needs, total) = (count(job.cores as usize), rules.cores.len());
    let free = total.saturating_sub(held);
    let in_one_range = if rules.aligned { " in one range" } else { "" };
    let holders: Vec<String> = active
        .iter()
        .map(|job| format!("{} uses {}", label(&job.id, &job.name), job.cores.len()))
        .collect();
    let holders = holders.join(", ");
    let current = format!("needs {needs}{in_one_range}, {free} of {total} free: {holders}");
    Reason { current, lasting: format!("needs {needs}{in_one_range}, and other jobs use too many") }
}

pub(super) fn too_wide(rules: Rules<'_>, job: &Pending) -> Reason {
    let needs = count(job.cores as usize);
    let (total, withheld) = (rules.cores.len() + rules.withheld, rules.withheld);
    let but = match withheld {
        0 => String::new(),
        1 => ", of which one is fenced or tested (`traind cores`)".to_owned(),
        _ => format!(", of which {withheld} are fenced or tested (`traind cores`)"),
    };
    Reason::lasting(format!("needs {needs}, but this host has {total}{but}"))
}

pub(super) fn beyond_limit(job: &Pending, held: usize, limit: usize) -> Reason {
    let (needs, owner) = (count(job.cores as usize), &job.owner);
    let current = format!(
        "needs {needs}: the jobs of {owner} hold {held} of the {limit} that a user may hold"
    );
    let lasting = format!(
        "needs {needs}: the jobs of {owner} are at the limit of {} for a user",
        counted(limit, "core")
    );
    Reason { current, lasting }
}

pub(super) fn beyond_limit_of_group(
    job: &Pending,
    group: &str,
    held: usize,
    limit: usize,
) -> Reason {
    let needs = count(job.cores as usize);
    let current = format!(
        "needs {needs}: the jobs of group {group} hold {held} of the {limit} that it may hold"
    );
    let lasting =
        format!("needs {needs}: group {group} is at its limit of {}", counted(limit, "core"));
    Reason { current, lasting }
}

pub(super) fn too_many_jobs(group: &str, jobs: usize, limit: u32) -> Reason {
    let jobs = counted(jobs, "job");
    let current = format!("group {group} runs {jobs}, and may run {limit} at a time");
    let limit = counted(limit, "running job");
    Reason { current, lasting: format!("group {group} is at its limit of {limit}") }
}

fn count(cores: usize) -> String {
    counted(cores, "core").to_string()
}

fn label(id: &str, name: &str) -> String {
    if name.is_empty() { id.to_owned() } else { format!("{id} ({name})") }
}
