//! Slurm's list of nodes, and the port of a job step.

use super::{LaunchError, Variables};
use crate::address::Address;

/// The ports of jobs, below those that Linux gives to clients, which begin at 32768.
const PORTS: std::ops::Range<u32> = 20_000..32_000;

/// The first node of the step, at a port that depends on the job and its step.
pub(super) fn coordinator(at: &Variables<'_>) -> Result<Option<Address>, LaunchError> {
    let variable = "SLURM_STEP_NODELIST";
    let Some(value) = at.get(variable) else { return Ok(None) };
    let [job, step] = [at.count("SLURM_JOB_ID")?, at.count("SLURM_STEP_ID")?];
    let number = job.unwrap_or_default().wrapping_add(step.unwrap_or_default());
    let port = PORTS.start + number % (PORTS.end - PORTS.start);
    let expected = "a list of nodes such as \"n[1-4,7],m2\"";
    let host = first_node(&value);
    let host = host.ok_or(LaunchError::Variable { variable, value, expected })?;
    Ok(Some(Address { host, port: port as u16 }))
}

/// The first of a list such as `n[001-4,7]-x,m2`.
fn first_node(list: &str) -> Option<String> {
    let Some((prefix, rest)) = list.split_once('[').filter(|(prefix, _)| !prefix.contains(','))
    else {
        return list.split(',').next().filter(|name| !name.is_empty()).map(str::to_owned);
    };
    let (numbers, rest) = rest.split_once(']')?;
    let number = numbers.split([',', '-']).next().filter(|number| !number.is_empty())?;
    // The rest may have numbers of its own, and other nodes follow.
    let first = format!("{prefix}{number}");
    let end = rest.split(',').next().unwrap_or_default();
    match end.contains('[') {
        true => first_node(&format!("{first}{rest}")),
        false => Some(first + end),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_node_of_a_list_is_found() {
        let check = |list: &str, expect: Option<&str>| {
            assert_eq!(first_node(list).as_deref(), expect, "{list}");
        };
        check("n1", Some("n1"));
        check("n2,n1", Some("n2"));
        check("n[1-4,7],m2", Some("n1"));
        check("node-[003-128]", Some("node-003"));
        check("m2,n[1-4]", Some("m2"));
        check("r[2-3]n[5,6]-ib,x", Some("r2n5-ib"));
        check("gpu[7]", Some("gpu7"));
        check("", None);
        check("n[1-4", None);
        check("n[]", None);
    }
}
