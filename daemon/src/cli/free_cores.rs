//! NeuronCores that no job and no other process has, for commands that run without a daemon. The runtime gives a
//! process the cores that its environment names, and fails where another process has one of them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::ensure;
use traind_neuron::{Cause, VISIBLE_CORES, core_ranges, is_core_range, parse_core_ranges};
use traind_proto::v1;
use traind_wording::counted;

use super::Global;
use super::connect::client;
use super::runner_command::Interrupts;
use crate::host::discovery::{CoreUsers, DeviceUser, NeuronPaths, neuron_core_users};
use crate::jobs::supervisor::before_jobs::core_test;

/// Holders that a message names.
const NAMED_MAX: usize = 8;
/// The pause between two looks for cores.
const LOOK: Duration = Duration::from_millis(500);
/// The status of the runtime for cores that another process has.
const CORES_BUSY: &str = "NRT 4 (RESOURCE)";
/// How long cores are tried that nobody seems to have and that the runtime refuses: their holder may be about to end.
const REFUSED_MAX: Duration = Duration::from_secs(60);

/// The variables that name the cores of a process; none where the runtime chooses.
pub(super) type Variables = Option<(&'static str, OsString)>;

/// The holder of a core, in words behind the core's number.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Holder {
    words: String,
    /// Whether it is a daemon's test, which ends soon.
    is_test: bool,
}

/// The holders of cores, by the cores' numbers on this host.
type Held = BTreeMap<u32, Holder>;

/// Calls `work` with the variables of `count` NeuronCores which are free, by what `neuron-ls` and this host's daemon
/// say. Waits while the daemon tests cores that are needed, and chooses again if another process has taken one
/// meanwhile. Fails, and names the holders, if too few are free. Where neither answers, the runtime chooses.
pub(super) async fn with_free_cores<T>(
    global: &Global,
    count: u32,
    interrupts: &mut Interrupts,
    mut work: impl AsyncFnMut(Variables, &mut Interrupts) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let mut refused_since = None;
    loop {
        let variables = until_free(global, count, interrupts).await?;
        let chosen = variables.clone().map(|(_, cores)| cores.display().to_string());
        let error = match (work(variables, interrupts).await, chosen) {
            (Err(error), Some(cores)) if is_busy(&error) => {
                eprintln!("another process has taken core {cores}: choosing again");
                error
            }
            (done, _) => return done,
        };
        if refused_since.get_or_insert_with(Instant::now).elapsed() > REFUSED_MAX {
            return Err(error);
        }
        pause(interrupts).await?;
    }
}

/// Whether the runtime refused cores that another process has.
fn is_busy(error: &anyhow::Error) -> bool {
    let explained = traind_neuron::explain(&format!("{error:#}"));
    explained.is_some_and(|it| it.cause == Cause::Busy && it.code == CORES_BUSY)
}

async fn pause(interrupts: &mut Interrupts) -> anyhow::Result<()> {
    tokio::select! {
        () = tokio::time::sleep(LOOK) => Ok(()),
        interrupted = interrupts.next() => Err(interrupted.into()),
    }
}

/// Chooses cores, as soon as no test of the daemon's is in the way.
async fn until_free(
    global: &Global,
    count: u32,
    interrupts: &mut Interrupts,
) -> anyhow::Result<Variables> {
    let start = Instant::now();
    let mut is_told = false;
    loop {
        let (candidates, held) = read(global).await;
        let error = match choose(&candidates, count, &held) {
            Ok(cores) => {
                return Ok((!cores.is_empty()).then(|| (VISIBLE_CORES, core_ranges(&cores).into())));
            }
            Err(error) => error,
        };
        let is_tested = candidates.iter().any(|core| held.get(core).is_some_and(|it| it.is_test));
        if !is_tested || start.elapsed() > core_test::NEURON_TIMEOUT {
            return Err(error);
        }
        if !std::mem::replace(&mut is_told, true) {
            let minutes = core_test::NEURON_TIMEOUT.as_secs() / 60;
            eprintln!(
                "{}: waiting for the test, {minutes} minutes at most",
                holders(&candidates, &held)
            );
        }
        pause(interrupts).await?;
    }
}

/// The cores that a command may take, and the holders of cores. No cores where neither `neuron-ls` nor a daemon
/// answers.
async fn read(global: &Global) -> (Vec<u32>, Held) {
    let tool = NeuronPaths::of_command().tools.join(NeuronPaths::LISTING);
    let users = neuron_core_users(&tool).ok();
    let of_daemon = daemon_cores(global).await;
    let total = users.as_ref().map(|it| it.cores);
    let Some(total) = total.or_else(|| of_daemon.iter().map(|it| it.host_core + 1).max()) else {
        return Default::default();
    };
    let mut held = held_by_processes(&users.unwrap_or_default(), Path::new("/proc"));
    held.extend(held_by_jobs(&of_daemon));
    (candidates(std::env::var(VISIBLE_CORES).ok().as_deref(), total), held)
}

impl Holder {
    fn lasting(words: String) -> Holder {
        Holder { words, is_test: false }
    }

    fn test(words: String) -> Holder {
        Holder { words, is_test: true }
    }
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
        (Some(fence), "") => Some(Holder::lasting(format!("is fenced ({})", fence.reason))),
        (None, "") if core.being_tested => Some(Holder::test("is tested by the daemon".to_owned())),
        (None, "") => None,
        (_, job) => Some(Holder::lasting(format!("is held by job {job} ({})", core.job_name))),
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
            Some(mark) if mark == core_test::MARK => {
                Holder::test(format!("is tested by a daemon (process {pid})"))
            }
            Some(job) => Holder::lasting(format!("is held by job {job} (process {pid})")),
            None => Holder::lasting(format!("is held by process {pid} ({})", command.trim())),
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
    if candidates.is_empty() {
        return Ok(Vec::new());
    }
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
        candidates.iter().filter_map(|core| Some((*core, &held.get(core)?.words))).collect();
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
        let holder = |by: &str| Holder::lasting(format!("is held by {by}"));
        cores.iter().map(|(core, by)| (*core, holder(by))).collect()
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
            (10, "NEURON_RT_VISIBLE_CORES=6\0TRAIND_JOB_ID=core-test\0"),
        ] {
            std::fs::create_dir(proc.path().join(pid.to_string())).unwrap();
            std::fs::write(proc.path().join(format!("{pid}/environ")), environment).unwrap();
        }
        let user = |pid, cores: [u32; 2]| DeviceUser {
            pid,
            command: "python train.py ".to_owned(),
            cores: cores.to_vec(),
        };
        let users = [(7, [0, 1]), (8, [2, 3]), (9, [4, 5]), (10, [6, 7])];
        let users = users.map(|(pid, cores)| user(pid, cores)).to_vec();
        let found = held_by_processes(&CoreUsers { cores: 8, users }, proc.path());
        let of = |core: u32| found.get(&core).map(|it| it.words.as_str());
        assert_eq!(of(0), Some("is held by job k3 (process 7)"));
        assert_eq!((of(2), of(3)), (None, Some("is held by process 8 (python train.py)")));
        // A process of another user holds its whole device.
        assert_eq!((of(4), of(7)), (Some("is held by process 9 (python train.py)"), None));
        let test = Holder::test("is tested by a daemon (process 10)".to_owned());
        assert_eq!(found.get(&6), Some(&test));
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
        let tested = v1::Core { being_tested: true, ..core(11, "") };
        let found = held_by_jobs(&[core(8, "k3"), core(9, ""), sick, tested]);
        let lasting = |words: &str| Holder::lasting(words.to_owned());
        let test = Holder::test("is tested by the daemon".to_owned());
        let expect = [
            (8, lasting("is held by job k3 (tweets)")),
            (10, lasting("is fenced (errors)")),
            (11, test),
        ];
        assert_eq!(found, expect.into());
    }
}
