//! Runners that are shell scripts. They report frames of a real event log, which its writer wrote
//! beforehand; `say NAME` appends one. A preparation runs the script `frames/preparation.sh`, or answers with the file
//! `preparation.json`; without these, it leaves its process id in `preparing` and waits for the end of its standard
//! input. A generator runs the script `frames/generator.sh` in the folder of the runner. A test of cores adds its
//! request to the file `core-tests` and runs the script `frames/core-test.sh`.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rustix::process::Pid;
use traind_proto::event_log::EventLogWriter;
use traind_proto::run_status;
use traind_proto::v1::{self, event::Kind};

pub(crate) const STEPS: u64 = 40;

/// Reports all steps quickly and completes.
pub(crate) const COMPLETES: &str = "say started; say_steps 1 40; say completed";

/// Trains until it gets a signal, and then stops.
pub(crate) const STOPS_WHEN_ASKED: &str = "
trap 'say cancelled; exit 3' TERM INT
say started
while :; do sleep 0.02; done";

/// Ignores signals.
pub(crate) const STUBBORN: &str = "
trap '' TERM INT
say started
while :; do sleep 0.02; done";

/// Trains until the test creates the file `go` in the run folder, then completes.
pub(crate) const WAITS_FOR_GO: &str = "
trap 'say cancelled; exit 3' TERM INT
say started; say_steps 1 20
until [ -e go ]; do sleep 0.02; done
say_steps 21 40; say completed";

const PRELUDE: &str = r#"#!/bin/sh
frames=$(dirname "$0")/frames
say() { cat "$frames/$1" >> "$run_dir/events.log"; }
say_steps() { step=$1; while [ "$step" -le "$2" ]; do say "step-$step"; step=$((step + 1)); done; }
# In one write, so that no time passes between them.
say_two_steps() { cat "$frames/step-1" "$frames/step-2" > two-steps; cat two-steps >> "$run_dir/events.log"; }
run_dir=$1
if [ "$1" = plan ]; then
  request=$(cat)
  [ -e "$frames/plan.sh" ] && . "$frames/plan.sh"
  cat "$(dirname "$0")/plan.json" 2> /dev/null; exit
fi
if [ "$1" = test-cores ]; then
  cd "$(dirname "$0")"; read -r request; echo "$request" >> core-tests
  [ -e frames/core-test.sh ] && . frames/core-test.sh
  exit 1
fi
if [ "$1" = generate ]; then
  cd "$(dirname "$0")"; request=$(cat)
  [ -e frames/generator.sh ] && . frames/generator.sh
  exit 1
fi
if [ "$1" = prepare ]; then
  cd "$(dirname "$0")"; read -r request
  [ -e "$frames/preparation.sh" ] && . "$frames/preparation.sh"
  [ -e preparation.json ] && exec cat preparation.json
  echo $$ > preparing.new; mv preparing.new preparing
  exec cat > /dev/null
fi
"#;

/// Writes the script and its frames into `folder`.
pub(crate) fn install(folder: &Path, script: &str) {
    let frames = folder.join("frames");
    fs::create_dir_all(&frames).unwrap();
    write_frame(&frames, "started", started());
    write_frame(&frames, "completed", finished(v1::Outcome::Completed, None));
    write_frame(&frames, "cancelled", finished(v1::Outcome::Cancelled, None));
    write_frame(&frames, "failed", finished(v1::Outcome::Failed, Some(failure())));
    write_frame(&frames, "disk-full", finished(v1::Outcome::Failed, Some(full_disk())));
    write_frame(&frames, "device-failed", finished(v1::Outcome::Failed, Some(device_failed())));
    write_frame(&frames, "host-lost", finished(v1::Outcome::Failed, Some(host_lost())));
    for step in 1..=STEPS {
        write_frame(&frames, &format!("step-{step}"), self::step(step));
    }
    run_status::write(&frames, &status()).unwrap();
    let runner = folder.join("runner");
    fs::write(&runner, format!("{PRELUDE}{script}\n")).unwrap();
    fs::set_permissions(&runner, Permissions::from_mode(0o755)).unwrap();
}

/// Makes the planner run a script on a host whose runner is installed in `folder`.
pub(crate) fn install_planner(folder: &Path, script: &str) {
    fs::write(folder.join("frames/plan.sh"), script).unwrap();
}

/// Makes preparations run a script on a host whose runner is installed in `folder`, and answer that they succeeded. In
/// the script, `run_dir` is the run folder of the job.
pub(crate) fn install_preparation(folder: &Path, script: &str) {
    const ANSWER: &str = r#"{"prepared": {"programs": 1, "compiled": 1, "seconds": 1}}"#;
    let script = format!("run_dir=$(dirname \"$TMPDIR\")\n{script}\necho '{ANSWER}'; exit\n");
    fs::write(folder.join("frames/preparation.sh"), script).unwrap();
}

/// Makes generators run a script on a host whose runner is installed in `folder`, and answer with a text.
pub(crate) fn install_generator(folder: &Path, script: &str) {
    const ANSWER: &str = r#"{"step": 7, "texts": [{"prompt": "a", "text": "b", "tokens": [1]}]}"#;
    let script = format!("{script}\necho '{ANSWER}'; exit\n");
    fs::write(folder.join("frames/generator.sh"), script).unwrap();
}

/// Writes a log with one event, which is one frame.
fn write_frame(frames: &Path, name: &str, kind: Kind) {
    EventLogWriter::open(&frames.join(name)).unwrap().append(kind).unwrap();
}

pub(crate) fn started() -> Kind {
    Kind::Started(v1::Started {
        pid: 1,
        cores: vec![0],
        platform: "cpu".into(),
        device_kind: "script".into(),
        attempt: 1,
    })
}

pub(crate) fn step(step: u64) -> Kind {
    Kind::Step(v1::Step {
        step,
        max_steps: STEPS,
        epoch: step as f64 / 20.0,
        loss: 1.0 / step as f64,
        learning_rate: 1e-4 * (1.0 - step as f64 / STEPS as f64),
        grad_norm: 2.0 / (step as f64).sqrt(),
        samples_per_second: 100.0,
        tokens_per_second: 5000.0,
        input_wait_share: 0.25,
        time: Some(v1::StepTime {
            input_wait_seconds: 0.08,
            dispatch_seconds: 0.01,
            compute_seconds: 0.22,
            read_back_seconds: 0.01,
            decode_seconds: 0.0,
        }),
        eta_seconds: 0.32 * (STEPS - step) as f64,
        metrics: Default::default(),
    })
}

pub(crate) fn finished(outcome: v1::Outcome, failure: Option<v1::Failure>) -> Kind {
    Kind::Finished(v1::Finished {
        outcome: outcome.into(),
        failure,
        steps: STEPS,
        metrics: [("eval_accuracy".to_owned(), 0.5)].into(),
        ..Default::default()
    })
}

fn full_disk() -> v1::Failure {
    v1::Failure {
        reason: "DISK_FULL".into(),
        message: "write out/checkpoint-2: no space left on device".into(),
        transient: true,
        ..Default::default()
    }
}

/// The status of two hosts with two cores each.
fn status() -> v1::RunStatus {
    let usage = v1::CoreUsage {
        utilization_percent_1s: 87.0,
        phase: v1::Phase::Compute.into(),
        step: 7,
        max_steps: STEPS,
        ..Default::default()
    };
    let host = |rank: u32| v1::HostStatus {
        rank,
        host: format!("n{}", rank + 1),
        cores: vec![0, 1],
        usage: (0..2).map(|core| v1::CoreUsage { core, ..usage }).collect(),
    };
    v1::RunStatus { number: 1, attempt: 1, hosts: (0..2).map(host).collect() }
}

fn device_failed() -> v1::Failure {
    v1::Failure {
        reason: "DEVICE_FAILED".into(),
        message: "host 1: core 3 has an uncorrectable error".into(),
        host: Some("n1".into()),
        ..Default::default()
    }
}

fn host_lost() -> v1::Failure {
    v1::Failure {
        reason: "HOST_LOST".into(),
        message: "host 0 (n2, cores 0 to 3) cannot be reached".into(),
        host: Some("n2".into()),
        transient: true,
        ..Default::default()
    }
}

fn failure() -> v1::Failure {
    v1::Failure {
        reason: "DATA_ROW_INVALID".into(),
        message: "row 7 has 3 fields, the header has 2".into(),
        file: Some("train.csv".into()),
        row: Some(7),
        ..Default::default()
    }
}

/// The pids of runners with a run folder below `jobs`. A child that a runner has just forked has the
/// same arguments, but does not lead a session.
pub(crate) fn pids(jobs: &Path) -> Vec<Pid> {
    let mut pids = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<i32>() else { continue };
        let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let is_runner = String::from_utf8_lossy(&command).contains(&jobs.display().to_string());
        if is_runner && session(&entry.path()) == Some(pid) {
            pids.extend(Pid::from_raw(pid));
        }
    }
    pids
}

/// The session of a process. `getsid` does not work: it returns 0 for a process that is ending.
fn session(process: &Path) -> Option<i32> {
    const SESSION: usize = 3; // counted behind the command's name: state, parent, group, session
    let stat = fs::read_to_string(process.join("stat")).ok()?;
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(SESSION)?.parse().ok()
}
