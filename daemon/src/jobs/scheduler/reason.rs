//! Why a job waits, in one sentence.
//!
//! Each is said in two ways. What names other jobs and counts is of the moment: it is shown to who
//! asks. What stays while those others come and go is stored and told as an event, so that the
//! events of a long queue do not grow with every job that passes through it.

use super::{Active, Pending, Rules};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reason {
    pub now: String,
    pub lasting: String,
}

impl Reason {
    /// One that stays as it is.
    pub(crate) fn lasting(text: String) -> Reason {
        Reason { now: text.clone(), lasting: text }
    }
}

pub(super) fn behind(head: &Pending) -> Reason {
    let cores = count(head.cores as usize);
    let head = label(&head.id, &head.name);
    let now = format!("is behind job {head}, which comes first and needs {cores}");
    Reason { now, lasting: "is behind others that come first".to_owned() }
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
    let now = format!("needs {needs}{in_one_range}, {free} of {total} free: {holders}");
    Reason { now, lasting: format!("needs {needs}{in_one_range}, and others use too many") }
}

pub(super) fn too_wide(job: &Pending, total: usize) -> Reason {
    let needs = count(job.cores as usize);
    Reason::lasting(format!("needs {needs}, but this host has {total}"))
}

pub(super) fn beyond_limit(job: &Pending, held: usize, limit: usize) -> Reason {
    let (needs, owner) = (count(job.cores as usize), &job.owner);
    let now =
        format!("needs {needs}: the jobs of {owner} hold {held}, and a user may hold {limit}");
    let lasting = format!("needs {needs}: the jobs of {owner} hold what a user may, {limit}");
    Reason { now, lasting }
}

fn count(cores: usize) -> String {
    format!("{cores} core{}", if cores == 1 { "" } else { "s" })
}

fn label(id: &str, name: &str) -> String {
    if name.is_empty() { id.to_owned() } else { format!("{id} ({name})") }
}
