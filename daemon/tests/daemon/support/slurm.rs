//! A Slurm of shell scripts: `sbatch`, `scontrol`, `squeue`, `scancel` and `srun` that keep their jobs in a
//! folder. Jobs start at once, unless the folder has a file `hold`.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use crate::support::host::Host;

const PROGRAMS: [(&str, &str); 8] = [
    (
        "sbatch",
        r#"
[ ! -e "$jobs/refuse" ] || { cat "$jobs/refuse" >&2; exit 1; }
id=$(($(cat "$jobs/last" 2> /dev/null || echo 6) + 1)); echo "$id" > "$jobs/last"
job=$jobs/$id; mkdir "$job"
printf '%s\n' "$@" > "$job/arguments"; env > "$job/environment"; cat > "$job/script"
echo 0 > "$job/restarts"; echo Resources > "$job/reason"; echo PENDING > "$job/state"
[ -e "$jobs/hold" ] || start "$id"
echo "$id""#,
    ),
    (
        "start",
        r#"
job=$jobs/$1; log=$(sed -n 's/^--output=//p' "$job/arguments")
echo RUNNING > "$job/state"
{
    cd "$(sed -n 's/^--chdir=//p' "$job/arguments")" || exit 1
    setsid sh -c 'echo $$ > "$0/pid"; exec sh "$0/script"' "$job" >> "$log" 2>&1
    code=$?
    echo "$code:0" > "$job/exit"
    case $code in 0) end=COMPLETED ;; *) end=FAILED ;; esac
    [ ! -e "$job/end" ] || { end=$(cat "$job/end"); rm "$job/end"; }
    echo "$end" > "$job/state"
} > /dev/null 2>&1 < /dev/null &"#,
    ),
    ("srun", r#"while case $1 in --*) true ;; *) false ;; esac; do shift; done; exec "$@""#),
    (
        "scontrol",
        r#"
[ "$1" != ping ] || { echo "Slurmctld(primary) at head is UP"; exit; }
job=$jobs/$3
[ -e "$job/state" ] || { echo "slurm_load_jobs error: Invalid job id specified" >&2; exit 1; }
nodes='n[1-2]'; ! grep -q '^--exclude=n1$' "$job/arguments" || nodes='n[2-3]'
printf 'JobId=%s JobState=%s Reason=%s Restarts=%s ExitCode=%s RunTime=00:00:01 NodeList=%s\n' \
    "$3" "$(cat "$job/state")" "$(cat "$job/reason")" "$(cat "$job/restarts")" \
    "$(cat "$job/exit" 2> /dev/null || echo 0:0)" "$nodes""#,
    ),
    (
        "squeue",
        r#"
for job in "$jobs"/[0-9]*; do echo "${job##*/}|$(sed -n 's/^--comment=//p' "$job/arguments")"; done"#,
    ),
    (
        "scancel",
        r#"
case $1 in --signal=*) signal=${1#--signal=}; shift ;; *) signal= ;; esac
job=$jobs/$1; state=$(cat "$job/state"); echo "$signal $1" >> "$jobs/cancelled"
case $signal,$state in
,PENDING) echo CANCELLED > "$job/state" ;;
,*) echo CANCELLED > "$job/end"; kill -TERM "$(cat "$job/pid")" ;;
*,RUNNING) kill -"$signal" "$(cat "$job/pid")" ;;
*) echo "scancel: error: Kill job error" >&2; exit 1 ;;
esac"#,
    ),
    (
        "requeue",
        r#"
job=$jobs/$1; echo PENDING > "$job/end"; echo BeginTime > "$job/reason"
echo $(($(cat "$job/restarts") + 1)) > "$job/restarts"; kill -TERM "$(cat "$job/pid")"
until [ "$(cat "$job/state")" = PENDING ]; do sleep 0.05; done"#,
    ),
    // The new state is SUSPENDED or RUNNING.
    ("change", r#"echo "$2" > "$jobs/$1/state""#),
];

/// The folder of a host's Slurm.
pub(crate) struct Slurm {
    bin: PathBuf,
    jobs: PathBuf,
}

impl Slurm {
    /// Installs the programs on a host, and puts them on the PATH of its daemon.
    pub(crate) fn install(host: &mut Host) -> Slurm {
        let slurm = Slurm { bin: host.path("slurm/bin"), jobs: host.path("slurm/jobs") };
        fs::create_dir_all(&slurm.bin).unwrap();
        fs::create_dir_all(&slurm.jobs).unwrap();
        for (name, text) in PROGRAMS {
            let head = format!("#!/bin/sh\njobs={}\n", slurm.jobs.display());
            let path = slurm.bin.join(name);
            fs::write(&path, head + text + "\n").unwrap();
            fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        }
        host.environment.push(("PATH".to_owned(), slurm.path()));
        slurm
    }

    fn path(&self) -> String {
        format!("{}:{}", self.bin.display(), std::env::var("PATH").unwrap())
    }

    /// A file of the folder.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.jobs.join(name)
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.file(name)).unwrap_or_default()
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.file(name), text).unwrap();
    }

    /// Runs one of the programs.
    pub(crate) fn run(&self, program: &str, arguments: &[&str]) {
        let mut command = Command::new(self.bin.join(program));
        let status = command.env("PATH", self.path()).args(arguments).status().unwrap();
        assert!(status.success(), "{program} {arguments:?}");
    }

    /// Number of jobs that were submitted.
    pub(crate) fn count(&self) -> usize {
        let entries = fs::read_dir(&self.jobs).unwrap().flatten();
        entries.filter(|entry| entry.path().is_dir()).count()
    }
}
