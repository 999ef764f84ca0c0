//! The batch script of a job, and the options of `sbatch`.
//!
//! Slurm signals the tasks of `srun` alone, so that the runners get SIGTERM before the time limit and can
//! save a checkpoint.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use traind_job_file::{Platform, Slurm};

use super::super::Submission;

/// Seconds between SIGTERM and the time limit.
const NOTICE_SECONDS: u64 = 120;
/// The seconds by which Slurm may send that signal too early.
const NOTICE_RESOLUTION_SECONDS: u64 = 60;
/// Seconds that the other hosts' runners may take to end after the first one has: they notice that
/// themselves, and report why.
const WAIT_SECONDS: u64 = 90;

/// The exit code of an attempt that was given up. It must not seem to have completed to a daemon that was restored from
/// a backup, which has the cluster's word alone.
const GIVEN_UP: u8 = 75;

/// Slurm's priorities are sums of weights of some thousand each.
const NICE_PER_PRIORITY: i64 = 100;

/// The options of `sbatch`; the script is its input.
pub(super) fn arguments(job: &Submission<'_>) -> Vec<OsString> {
    let (spec, resources) = (job.spec, &job.spec.job.resources);
    let mut options = vec![
        "--parsable".into(),
        format!("--job-name={}", job_name(&spec.job.name)),
        format!("--comment={}", comment(&spec.job_id, spec.attempt)),
        format!("--nodes={}", resources.hosts),
        format!("--ntasks={}", resources.hosts),
        "--ntasks-per-node=1".into(),
        format!("--signal=TERM@{NOTICE_SECONDS}"),
        "--requeue".into(),
        "--open-mode=append".into(),
    ];
    options.push(match resources.platform {
        Platform::Cpu => format!("--cpus-per-task={}", resources.cores),
        Platform::Cuda => format!("--gpus-per-node={}", resources.cores),
        // Clusters count devices or nothing at all, and a runner takes all cores of its host's share.
        Platform::Neuron => "--exclusive".into(),
    });
    options.extend(nice(resources.priority).map(|value| format!("--nice={value}")));
    options.extend(resources.max_run_seconds.map(|seconds| format!("--time={}", limit(seconds))));
    options.extend(own_options(&spec.job.slurm, job.avoided));
    let mut all: Vec<OsString> = options.into_iter().map(OsString::from).collect();
    all.push(with_path("--output=", &job.log));
    all.push(with_path("--chdir=", job.run_dir));
    all
}

/// The name under which Slurm lists a job. In the controller's records, names stand between other fields without
/// quotes, so that a word of one could be a field.
fn job_name(name: &str) -> String {
    match name.contains('=') {
        true => name.replace(char::is_whitespace, "_"),
        false => name.to_owned(),
    }
}

fn with_path(option: &str, path: &Path) -> OsString {
    let mut text = OsString::from(option);
    // Slurm replaces patterns such as %j in the name of the output.
    text.push(path.to_string_lossy().replace('%', "%%"));
    text
}

fn own_options(slurm: &Slurm, avoided: &[String]) -> Vec<String> {
    let given = [
        ("partition", &slurm.partition),
        ("account", &slurm.account),
        ("qos", &slurm.qos),
        ("constraint", &slurm.constraint),
    ];
    let given = given.into_iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
    let mut options: Vec<String> = given.map(|(name, value)| format!("--{name}={value}")).collect();
    let excluded: Vec<&str> = slurm.exclude.iter().chain(avoided).map(String::as_str).collect();
    if !excluded.is_empty() {
        options.push(format!("--exclude={}", excluded.join(",")));
    }
    options.extend(slurm.options.iter().cloned());
    options
}

/// The number by which Slurm lowers the priority of a job. Only an operator of the cluster could raise it.
fn nice(priority: i64) -> Option<i64> {
    (priority < 0).then(|| -priority * NICE_PER_PRIORITY)
}

/// Slurm's time limit for a job that may run for `seconds`, as "MINUTES:SECONDS". The daemon stops the
/// job itself when its time is over; Slurm does if no daemon runs.
fn limit(seconds: u64) -> String {
    let seconds = seconds.saturating_add(NOTICE_SECONDS + NOTICE_RESOLUTION_SECONDS);
    format!("{}:{:02}", seconds / 60, seconds % 60)
}

/// The comment by which an attempt's job is found.
pub(super) fn comment(job_id: &str, attempt: u32) -> String {
    format!("traind/{job_id}/{attempt}")
}

/// The attempt of a job that has this comment.
pub(super) fn attempt(job_id: &str, comment: &str) -> Option<u32> {
    comment.strip_prefix(&format!("traind/{job_id}/"))?.parse().ok()
}

/// The batch script.
pub(super) fn text(job: &Submission<'_>) -> String {
    let (runner, run_dir) = (quoted(job.runner.as_os_str()), quoted(job.run_dir.as_os_str()));
    let void = quoted(job.run_dir.join(Submission::void_file(job.spec.attempt)).as_os_str());
    let label = if job.spec.job.resources.hosts > 1 { " --label" } else { "" };
    format!(
        "#!/bin/sh\n\
         # The runners of job {id}, attempt {attempt}.\n\
         if [ ! -r {run_dir}/run.json ]; then\n  \
           echo \"$(hostname) does not see the run folder\" {run_dir} >&2; exit 1\n\
         fi\n\
         # The daemon has given this attempt up.\n\
         if [ -e {void} ]; then exit {GIVEN_UP}; fi\n\
         exec srun --kill-on-bad-exit=0 --wait={WAIT_SECONDS}{label} {runner} {run_dir}\n",
        id = job.spec.job_id,
        attempt = job.spec.attempt,
    )
}

/// A word of a shell.
pub(super) fn quoted(text: &OsStr) -> String {
    format!("'{}'", text.to_string_lossy().replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use traind_job_file::RunSpec;

    use super::*;

    fn spec(resources: &str, slurm: &str) -> RunSpec {
        let spec = serde_json::json!({
            "job_id": "b4",
            "attempt": 2,
            "job": {
                "name": "first job",
                "model": {"name_or_path": "/model", "task": "sequence-classification"},
                "data": {"train": "/train.csv"},
                "resources": serde_json::from_str::<serde_json::Value>(resources).unwrap(),
                "slurm": serde_json::from_str::<serde_json::Value>(slurm).unwrap(),
                "output_dir": "/out",
            },
            "cores": [0],
            "plugin": "/plugin.so",
            "cache_dir": "/cache",
        });
        serde_json::from_value(spec).unwrap()
    }

    fn submission<'a>(spec: &'a RunSpec, avoided: &'a [String]) -> Submission<'a> {
        Submission {
            spec,
            runner: Path::new("/opt/traind-runner"),
            run_dir: Path::new("/state/it's 5%/b4"),
            log: "/state/it's 5%/b4/runner.log".into(),
            environment: BTreeMap::new(),
            account: None,
            avoided,
        }
    }

    #[test]
    fn options_follow_from_the_job_file() {
        let resources = r#"{"engine": "slurm", "hosts": 2, "cores": 4, "max_run_seconds": 3600,
                            "priority": -5}"#;
        let slurm =
            r#"{"partition": "long", "qos": "high", "exclude": "n[3-4]", "options": ["--mem=0"]}"#;
        let spec = spec(resources, slurm);
        let found = arguments(&submission(&spec, &["n9".to_owned()]));
        let found: Vec<_> = found.iter().map(|it| it.to_str().unwrap()).collect();
        let expect = [
            "--parsable",
            "--job-name=first job",
            "--comment=traind/b4/2",
            "--nodes=2",
            "--ntasks=2",
            "--ntasks-per-node=1",
            "--signal=TERM@120",
            "--requeue",
            "--open-mode=append",
            "--cpus-per-task=4",
            "--nice=500",
            "--time=63:00",
            "--partition=long",
            "--qos=high",
            "--exclude=n[3-4],n9",
            "--mem=0",
            "--output=/state/it's 5%%/b4/runner.log",
            "--chdir=/state/it's 5%%/b4",
        ];
        assert_eq!(found, expect);
    }

    #[test]
    fn a_comment_names_its_attempt() {
        assert_eq!(attempt("b4", &comment("b4", 12)), Some(12));
        assert_eq!([attempt("b4", "traind/b45/1"), attempt("b4", "mine")], [None, None]);
    }

    #[test]
    fn devices_are_requested_as_the_cluster_counts_them() {
        let option = |platform: &str| {
            let resources =
                format!(r#"{{"engine": "slurm", "cores": 8, "platform": "{platform}"}}"#);
            let spec = spec(&resources, "{}");
            let found = arguments(&submission(&spec, &[]));
            let wanted = ["--cpus-per-task=8", "--gpus-per-node=8", "--exclusive"];
            wanted.into_iter().find(|it| found.iter().any(|found| found == it))
        };
        let found = ["cpu", "cuda", "neuron"].map(option);
        assert_eq!(
            found,
            [Some("--cpus-per-task=8"), Some("--gpus-per-node=8"), Some("--exclusive")]
        );
    }

    #[test]
    fn a_priority_that_slurm_grants_to_operators_alone_is_not_asked_for() {
        assert_eq!([-100, -1, 0, 1, 100].map(nice), [Some(10_000), Some(100), None, None, None]);
    }

    #[test]
    fn the_script_quotes_its_paths() {
        let spec = spec(r#"{"engine": "slurm", "hosts": 2}"#, "{}");
        let script = text(&submission(&spec, &[]));
        let last = script.lines().last().unwrap();
        assert_eq!(
            last,
            r"exec srun --kill-on-bad-exit=0 --wait=90 --label '/opt/traind-runner' '/state/it'\''s 5%/b4'"
        );
        assert!(
            script.contains(r"if [ -e '/state/it'\''s 5%/b4/void-2' ]; then exit 75; fi"),
            "{script}"
        );
    }

    /// Texts that would be commands, patterns or options if they were not one word each.
    const HOSTILE: [&str; 7] = [
        "$(touch pwned)",
        "`touch pwned`",
        "'; touch pwned; '",
        "a\n#SBATCH --uid=0\ntouch pwned",
        "--uid=0",
        "a --wrap=id",
        "%x-%j",
    ];

    #[test]
    fn hostile_values_are_neither_commands_nor_other_options() {
        let plain = spec(r#"{"engine": "slurm"}"#, "{}");
        for hostile in HOSTILE {
            let mut spec = plain.clone();
            spec.job.name = hostile.to_owned();
            spec.job.slurm.partition = Some(hostile.to_owned());
            let submission = submission(&spec, &[]);
            let found = arguments(&submission);
            let name = if hostile.contains('=') {
                hostile.replace([' ', '\n'], "_")
            } else {
                hostile.to_owned()
            };
            for (option, value) in [("--job-name", name.as_str()), ("--partition", hostile)] {
                assert!(found.contains(&format!("{option}={value}").into()), "{found:?}");
            }
            assert_eq!(found.len(), arguments(&self::submission(&plain, &[])).len() + 1);
            assert_eq!(text(&submission), text(&self::submission(&plain, &[])));
        }
    }

    /// The controller's record of a job begins with its name.
    #[test]
    fn a_name_is_no_field_of_the_controllers_record() {
        let record = |name: &str| {
            let mut spec = spec(r#"{"engine": "slurm"}"#, "{}");
            spec.job.name = name.to_owned();
            let arguments = arguments(&submission(&spec, &[]));
            let option = arguments.iter().find_map(|it| it.to_str()?.strip_prefix("--job-name="));
            let name = option.unwrap();
            let text = format!(
                "JobId=7 JobName={name} UserId=a(1) JobState=RUNNING RunTime=0:0:1 NodeList=n1"
            );
            super::super::record::of_controller("7", &text)
        };
        let plain = record("plain").unwrap();
        for hostile in
            ["x JobState=COMPLETED", "x\u{2003}JobState=NODE_FAIL NodeList=n9 Restarts=7"]
        {
            assert_eq!(record(hostile).unwrap(), plain, "{hostile}");
        }
    }

    /// A shell executes the script of a run folder that is called like commands.
    #[test]
    fn a_shell_takes_the_run_folder_for_one_word() {
        let scratch = tempfile::tempdir().unwrap();
        let tools = scratch.path().join("tools");
        std::fs::create_dir(&tools).unwrap();
        let srun = tools.join("srun");
        std::fs::write(&srun, "#!/bin/sh\nfor word; do last=$word; done\nprintf %s \"$last\"\n")
            .unwrap();
        std::fs::set_permissions(&srun, std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .unwrap();
        let spec = spec(r#"{"engine": "slurm"}"#, "{}");
        for hostile in HOSTILE {
            let run_dir = scratch.path().join(hostile);
            std::fs::create_dir(&run_dir).unwrap();
            std::fs::write(run_dir.join("run.json"), "{}").unwrap();
            let submission = Submission { run_dir: &run_dir, ..submission(&spec, &[]) };
            let mut shell = std::process::Command::new("/bin/sh");
            shell.arg("-c").arg(text(&submission)).env("PATH", &tools).current_dir(scratch.path());
            let output = shell.output().unwrap();
            assert_eq!(
                String::from_utf8_lossy(&output.stdout),
                run_dir.to_string_lossy(),
                "{output:?}"
            );
            assert!(!scratch.path().join("pwned").exists(), "{hostile}");
        }
    }
}
