//! NeuronCores that no job and no other process has, for commands that run without a daemon. The runtime gives a
//! process the cores that its environment names, and fails where another process has one of them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use anyhow::ensure;
use traind_neuron::{VISIBLE_CORES, core_ranges, is_core_range, parse_core_ranges};
use traind_proto::v1;
use traind_wording::counted;

use super::Global;
use super::connect::client;
use crate::host::discovery::{CoreUsers, DeviceUser, NeuronPaths, neuron_core_users};

/// Holders that a message names.
const NAMED_MAX: usize = 8;

/// The holders of cores, by the cores' numbers on this host.
type Held = BTreeMap<u32, String>;

/// The variables that give a runner `count` NeuronCores which are free, by what `neuron-ls` and this host's daemon say.
/// Fails, and names the holders, if too few are. Empty where neither answers, so that the runtime chooses.
pub(super) async fn variables(
    global: &Global,
    count: u32,
) -> anyhow::Result<Option<(&'static str, OsString)>> {
    let tool = NeuronPaths::of_command().tools.join(NeuronPaths::LISTING);
    let users = neuron_core_users(&tool).ok();
    let of_daemon = daemon_cores(global).await;
    let total = users.as_ref().map(|it| it.cores);
    let Some(total) = total.or_else(|| of_daemon.iter().map(|it| it.host_core + 1).max()) else {
        return Ok(None);
    };
    let mut held = held_by_processes(&users.unwrap_or_default(), Path::new("/proc"));
    held.extend(held_by_jobs(&of_daemon));
    let given = std::env::var(VISIBLE_CORES).ok();
    let cores = choose(&candidates(given.as_deref(), total), count, &held)?;
    Ok((!cores.is_empty()).then(|| (VISIBLE_CORES, core_ranges(&cores).into())))
}

/// The NeuronCores of this host's daemon; none where no daemon answers, or it has others.
async fn daemon_cores(global: &Global) -> Vec<v1::Core> {
    // A daemon at an address may be another host's.
    if global.remote.address.is_some() {
        return Vec::new();
    }
    let Ok(mut cores) = client::cores(global).await else { return Vec::new() };
    let request = v1::ListCoresRequest { platform: "neuron".to_owned() };
    let listed = cores.list_cores(request).await.map(|reply| reply.into_inner().cores);
    listed.unwrap_or_default().into_iter().filter(|core| core.host.is_empty()).collect()
}

fn held_by_jobs(cores: &[v1::Core]) -> Held {
    let holder = |core: &v1::Core| match (&core.fence, core.job_id.as_str()) {
        (Some(fence), "") => Some(format!("is fenced ({})", fence.reason)),
        (None, "") => None,
        (_, job) => Some(format!("is held by job {job} ({})", core.job_name)),
    };
    cores.iter().filter_map(|core| Some((core.host_core, holder(core)?))).collect()
}

/// The cores of processes: those that the environment of a process names, or all of its devices where it
/// cannot be read.
fn held_by_processes(users: &CoreUsers, proc: &Path) -> Held {
    let mut held = Held::new();
    for DeviceUser { pid, command, cores } in &users.users {
        let environment = std::fs::read(proc.join(pid.to_string()).join("environ"));
        let environment = environment.unwrap_or_default();
        let named = variable(&environment, VISIBLE_CORES).and_then(|it| parse_core_ranges(&it));
        let holder = match variable(&environment, "TRAIND_JOB_ID") {
            Some(job) => format!("is held by job {job} (process {pid})"),
            None => format!("is held by process {pid} ({})", command.trim()),
        };
        let is_held = |core: &&u32| named.as_ref().is_none_or(|named| named.contains(core));
        held.extend(cores.iter().filter(is_held).map(|core| (*core, holder.clone())));
    }
    held
}

/// The value of a variable in the text of `/proc/PID/environ`.
fn variable(environment: &[u8], name: &str) -> Option<String> {
    let entries = environment.split(|byte| *byte == 0);
    let mut entries = entries.filter_map(|entry| std::str::from_utf8(entry).ok()?.split_once('='));
    entries.find(|(it, _)| *it == name).map(|(_, value)| value.to_owned())
}

/// The cores that a command may take: those that its user restricts it to, or all.
fn candidates(given: Option<&str>, total: u32) -> Vec<u32> {
    let given = given.and_then(parse_core_ranges).filter(|cores| is_core_range(cores));
    given.unwrap_or_else(|| (0..total).collect())
}

/// Chooses neighbours that begin at a multiple of their number, as collectives need: the last ones that are
/// free, since a daemon gives jobs the first ones.
fn choose(candidates: &[u32], count: u32, held: &Held) -> anyhow::Result<Vec<u32>> {
    let windows = candidates.windows(count as usize);
    let aligned = windows.filter(|it| (it[0] - candidates[0]).is_multiple_of(count));
    let mut free = aligned.filter(|it| it.iter().all(|core| !held.contains_key(core)));
    let found = free.next_back().map(<[u32]>::to_vec);
    ensure!(
        found.is_some() || !candidates.iter().any(|core| held.contains_key(core)),
        "no {} free, side by side: {}; wait for them, or use another platform",
        match count {
            1 => "NeuronCore is".to_owned(),
            _ => format!("{} are", counted(count, "NeuronCore")),
        },
        holders(candidates, held)
    );
    // More than there are: the runtime says so.
    Ok(found.unwrap_or_else(|| candidates.to_vec()))
}

/// "core 0 is held by job 7 (a), cores 1-3 are held by process 12 (python)".
fn holders(candidates: &[u32], held: &Held) -> String {
    let held: Vec<(u32, &String)> =
        candidates.iter().filter_map(|core| Some((*core, held.get(core)?))).collect();
    let runs: Vec<_> = held.chunk_by(|(a, of), (b, also)| a + 1 == *b && of == also).collect();
    let words = runs.iter().take(NAMED_MAX).map(|run| match run {
        [(core, holder)] => format!("core {core} {holder}"),
        run => {
            let (first, last) = (run[0].0, run[run.len() - 1].0);
            format!("cores {first}-{last} {}", run[0].1.replacen("is ", "are ", 1))
        }
    });
    let more = if runs.len() > NAMED_MAX { ", and more" } else { "" };
    words.collect::<Vec<_>>().join(", ") + more
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(cores: &[(u32, &str)]) -> Held {
        cores.iter().map(|(core, by)| (*core, format!("is held by {by}"))).collect()
    }

    #[track_caller]
    fn check(total: u32, count: u32, of: &[(u32, &str)], expect: Result<&[u32], &str>) {
        let found = choose(&candidates(None, total), count, &held(of));
        match expect {
            Ok(cores) => assert_eq!(found.unwrap(), cores),
            Err(part) => {
                let error = found.unwrap_err().to_string();
                assert!(error.contains(part), "{error}");
            }
        }
    }

    #[test]
    fn the_last_free_cores_are_chosen_and_the_holders_named() {
        check(2, 1, &[], Ok(&[1]));
        check(2, 1, &[(0, "job a")], Ok(&[1]));
        check(2, 1, &[(1, "job a")], Ok(&[0]));
        check(8, 2, &[(5, "job a"), (7, "job b")], Ok(&[2, 3]));
        check(8, 4, &[(5, "job a")], Ok(&[0, 1, 2, 3]));
        check(
            8,
            8,
            &[(5, "job a")],
            Err("no 8 NeuronCores are free, side by side: core 5 is held by job a;"),
        );
        let all = [(0, "job a"), (1, "job a"), (2, "process 7 (python)")];
        check(3, 1, &all, Err("cores 0-1 are held by job a, core 2 is held by process 7 (python)"));
        // The runtime refuses what the host does not have.
        check(2, 4, &[], Ok(&[0, 1]));
        let of_user = candidates(Some("4-5"), 8);
        assert_eq!(choose(&of_user, 1, &held(&[(5, "job a")])).unwrap(), [4]);
        let error = choose(&of_user, 2, &held(&[(5, "job a")])).unwrap_err().to_string();
        assert!(error.contains("core 5"), "{error}");
        let many: Vec<(u32, String)> = (0..20).map(|core| (core, format!("job {core}"))).collect();
        let many: Vec<(u32, &str)> = many.iter().map(|(core, job)| (*core, job.as_str())).collect();
        check(20, 1, &many, Err("core 7 is held by job 7, and more"));
    }

    #[test]
    fn processes_hold_the_cores_that_their_environment_names() {
        let proc = tempfile::tempdir().unwrap();
        for (pid, environment) in [
            (7, "PATH=/bin\0NEURON_RT_VISIBLE_CORES=0-1\0TRAIND_JOB_ID=k3\0"),
            (8, "NEURON_RT_VISIBLE_CORES=3\0"),
        ] {
            std::fs::create_dir(proc.path().join(pid.to_string())).unwrap();
            std::fs::write(proc.path().join(format!("{pid}/environ")), environment).unwrap();
        }
        let user = |pid, cores: [u32; 2]| DeviceUser {
            pid,
            command: "python train.py ".to_owned(),
            cores: cores.to_vec(),
        };
        let users = vec![user(7, [0, 1]), user(8, [2, 3]), user(9, [4, 5])];
        let found = held_by_processes(&CoreUsers { cores: 8, users }, proc.path());
        let of = |core: u32| found.get(&core).map(String::as_str);
        assert_eq!(of(0), Some("is held by job k3 (process 7)"));
        assert_eq!((of(2), of(3)), (None, Some("is held by process 8 (python train.py)")));
        // Of another user, all of its device.
        assert_eq!((of(4), of(6)), (Some("is held by process 9 (python train.py)"), None));
    }

    #[test]
    fn jobs_hold_cores_by_their_numbers_on_the_host() {
        let core = |host_core, job: &str| v1::Core {
            host_core,
            job_id: job.to_owned(),
            job_name: "tweets".to_owned(),
            ..v1::Core::default()
        };
        let sick = v1::Core {
            fence: Some(v1::Fence { reason: "errors".to_owned(), ..v1::Fence::default() }),
            ..core(10, "")
        };
        let found = held_by_jobs(&[core(8, "k3"), core(9, ""), sick]);
        let expect = [(8, "is held by job k3 (tweets)"), (10, "is fenced (errors)")];
        assert_eq!(found, expect.map(|(core, by)| (core, by.to_owned())).into());
    }
}
