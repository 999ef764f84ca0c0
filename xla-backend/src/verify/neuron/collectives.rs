//! Replica groups, rings, and the number of cores.

use std::collections::BTreeSet;

use super::program::{Form, Module};
use super::{Finding, Limits, Problem};

const COLLECTIVES: &[&str] = &["all_reduce", "all_gather", "reduce_scatter", "all_to_all"];
/// The runtime's failure to load a program.
const LOAD: &str = "NRT_INVALID";
const COUNT: &str = "NRT_LOAD_NOT_ENOUGH_NC";

pub(super) fn check(form: &Form, replicas: usize) -> Option<Problem> {
    match form.name() {
        "collective_permute" => {
            let pairs = form.integers("source_target_pairs").unwrap_or_default();
            let problem = "a permutation of cores that is not a closed ring of all of them";
            (!is_ring(&pairs, replicas)).then(|| (LOAD, problem.to_owned()))
        }
        name if COLLECTIVES.contains(&name) => {
            let groups = form.integers("replica_groups").unwrap_or_default();
            let mut present = BTreeSet::new();
            let again = groups.iter().flatten().find(|core| !present.insert(**core));
            let again = again.map(|core| format!("the core {core} takes part in two groups"));
            let missing = (0..replicas as i64).find(|core| !present.contains(core));
            let missing = missing.map(|core| format!("the core {core} takes part in no group"));
            missing.or(again).map(|problem| (LOAD, problem))
        }
        "collective_broadcast" | "cross-replica-sum" => {
            Some((LOAD, "a collective that the runtime does not have".to_owned()))
        }
        _ => None,
    }
}

/// Whether each core sends to one other and receives from one, and all form one ring.
fn is_ring(pairs: &[Vec<i64>], replicas: usize) -> bool {
    let next = |core: i64| {
        let mut targets = pairs.iter().filter(|pair| pair.first() == Some(&core));
        Some((targets.next()?.get(1).copied()?, targets.next().is_none()))
    };
    let (mut at, mut seen) = (0, BTreeSet::new());
    while seen.insert(at) {
        match next(at) {
            Some((target, true)) => at = target,
            _ => return false,
        }
    }
    at == 0 && seen.len() == replicas && pairs.len() == replicas
}

pub(super) fn check_program(module: &Module, limits: &Limits) -> Vec<Finding> {
    let mut findings = Vec::new();
    let sets: BTreeSet<Vec<Vec<i64>>> = module
        .forms
        .iter()
        .filter(|form| COLLECTIVES.contains(&form.name()))
        .filter_map(|form| form.integers("replica_groups"))
        .filter(|groups| groups.iter().any(|group| group.len() > 1))
        .collect();
    if sets.len() > limits.replica_groups_max {
        let problem = format!(
            "{} different sets of replica groups, of at most {}",
            sets.len(),
            limits.replica_groups_max
        );
        findings.push(Finding::of_program(LOAD, problem));
    }
    let counts = &limits.core_counts;
    if !counts.is_empty() && !counts.iter().any(|count| *count as usize == module.replicas) {
        let problem = format!("{} cores, and AWS documents {counts:?}", module.replicas);
        findings.push(Finding::of_program(COUNT, problem));
    }
    findings
}
