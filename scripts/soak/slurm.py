"""Runs jobs in a real Slurm on this machine through the daemon, and compares their losses with those of local jobs."""

import argparse
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from checkpoints import write_inputs

CORES_PER_HOST = 2
STEPS = 60
LONG_STEPS = 4000
LIMIT = 1e-6
PATIENCE_SECONDS = 240

CONFIGURATION = """\
ClusterName=soak
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
SlurmctldPort={port}
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=2
MpiDefault=none
KillWait=20
{nodes}
PartitionName=all Nodes={names} Default=YES MaxTime=INFINITE State=UP
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ["programs", "model"]:
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--hosts", type=int, default=2)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="slurm-") as folder, Slurm(Path(folder)) as slurm:
        write_inputs(Path(folder), arguments.model)
        with Daemon(arguments, Path(folder), slurm) as daemon:
            for check in [trains, waits, cancels, requeues, limits_time, drains, outlives_the_daemon]:
                started = time.monotonic()
                seen = check(daemon, slurm, arguments.hosts)
                print(f"{check.__name__:<20} {seen} ({time.monotonic() - started:.0f} s)", flush=True)


def trains(daemon, _, hosts):
    local = daemon.losses(
        daemon.complete(daemon.submit("local", engine="local", hosts=1, cores=CORES_PER_HOST * hosts))
    )
    placed = daemon.complete(daemon.submit("placed", hosts=hosts))
    difference = compare(local, daemon.losses(placed))
    return f"{placed['cluster_job']} on {placed['host_names']}: {len(local)} losses differ by at most {difference:.1e}"


def waits(daemon, _, hosts):
    first = daemon.submit("first", hosts=2 if hosts == 2 else 1, steps=LONG_STEPS)
    daemon.until(first, lambda job: job["state"] == "running")
    blocked = daemon.submit("blocked", hosts=2)
    reason = daemon.until(blocked, lambda job: "not free" in job.get("waiting_reason", ""))["waiting_reason"]
    for name in [blocked, first]:
        daemon.cancel(name)
    return reason


def cancels(daemon, slurm, hosts):
    name = daemon.submit("cancelled", hosts=hosts, steps=LONG_STEPS)
    daemon.until_step(name, 20)
    daemon.cancel(name)
    slurm.until_empty()
    return "cancelled, and Slurm's queue is empty"


def requeues(daemon, slurm, hosts):
    whole = daemon.long_losses(hosts)
    name = daemon.submit("requeued", hosts=hosts, steps=LONG_STEPS)
    number = daemon.until_step(name, 200)["cluster_job"].split()[-1]
    slurm.run("scontrol", "requeue", number)
    daemon.until(name, lambda job: "waits" in job.get("waiting_reason", ""))
    until(lambda: not slurm.steps(number), "the first run's tasks end")
    slurm.run("scontrol", "update", f"JobId={number}", "StartTime=now")
    job = daemon.complete(name)
    assert job["cluster_job"].split()[-1] == number, job
    return f"resumed in the same Slurm job; {compare(whole, daemon.losses(job)):.1e}"


def limits_time(daemon, slurm, hosts):
    name = daemon.submit("limited", hosts=hosts, steps=100 * LONG_STEPS, max_run_seconds=15)
    job = daemon.until(name, lambda job: job["state"] == "failed")
    assert job["failure"]["reason"] == "MAX_RUN_EXCEEDED", job["failure"]
    slurm.until_empty()
    return job["failure"]["message"]


def drains(daemon, slurm, hosts):
    name = daemon.submit("drained", hosts=hosts, steps=LONG_STEPS)
    daemon.until_step(name, 200)
    daemon.cli("drain")
    daemon.process.wait(PATIENCE_SECONDS)
    slurm.until_empty()
    daemon.start()
    job = daemon.complete(name)
    assert job["attempt"] == 2, job
    return f"resumed as another Slurm job; {compare(daemon.long_losses(hosts), daemon.losses(job)):.1e}"


def outlives_the_daemon(daemon, _, hosts):
    name = daemon.submit("outliving", hosts=hosts, steps=LONG_STEPS)
    daemon.until_step(name, 100)
    daemon.process.kill()
    daemon.process.wait()
    time.sleep(5)
    daemon.start()
    job = daemon.complete(name)
    assert job["attempt"] == 1, job
    return f"one attempt; {compare(daemon.long_losses(hosts), daemon.losses(job)):.1e}"


def compare(expected, found):
    """The largest difference of the losses relative to the expected ones."""
    assert expected.keys() == found.keys(), f"steps {sorted(expected)[-3:]} and {sorted(found)[-3:]}"
    largest = max(abs(found[step] - loss) / abs(loss) for step, loss in expected.items())
    assert largest <= LIMIT, f"losses differ by {largest}"
    return largest


def until(condition, what):
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (value := condition()):
        if time.monotonic() > deadline:
            sys.exit(f"timed out waiting until {what}")
        time.sleep(0.1)
    return value


class Slurm:
    """A controller and two hosts, which are this machine."""

    def __init__(self, folder):
        self.folder, self.processes = folder, []
        self.environment = os.environ | {"SLURM_CONF": str(folder / "slurm.conf")}

    def __enter__(self):
        host = socket.gethostname().split(".")[0]
        (self.folder / "state").mkdir()
        lines = []
        for number in [1, 2]:
            (self.folder / f"spool-n{number}").mkdir()
            where = f"NodeHostname={host} NodeAddr=127.0.0.1 Port={17000 + number}"
            lines.append(f"NodeName=n{number} {where} CPUs={CORES_PER_HOST} State=UNKNOWN")
        text = CONFIGURATION.format(folder=self.folder, host=host, port=17000, nodes="\n".join(lines), names="n1,n2")
        (self.folder / "slurm.conf").write_text(text)
        with contextlib.suppress(OSError):
            start_munge()
        for command in [["slurmctld", "-D"], ["slurmd", "-D", "-N", "n1"], ["slurmd", "-D", "-N", "n2"]]:
            log = open(self.folder / "start.log", "ab")
            self.processes.append(subprocess.Popen(command, env=self.environment, stdout=log, stderr=log))
        until(lambda: self.output("sinfo", "--noheader", "--format=%t %D").strip() == "idle 2", "both hosts are idle")
        return self

    def __exit__(self, *_):
        subprocess.run(["scancel", "--user=root"], env=self.environment, check=False, capture_output=True)
        time.sleep(1)
        for process in reversed(self.processes):
            process.terminate()
            process.wait()

    def run(self, *command):
        subprocess.run(command, env=self.environment, check=True, capture_output=True)

    def output(self, *command):
        return subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False).stdout

    def steps(self, number):
        return self.output("squeue", "--steps", f"--jobs={number}", "--noheader").strip()

    def until_empty(self):
        until(lambda: not self.output("squeue", "--noheader").strip(), "Slurm's queue is empty")


def start_munge():
    if subprocess.run(["pgrep", "-x", "munged"], check=False, capture_output=True).returncode == 0:
        return
    run = Path("/run/munge")
    run.mkdir(exist_ok=True)
    shutil.chown(run, "munge", "munge")
    subprocess.run(["runuser", "-u", "munge", "--", "/usr/sbin/munged"], check=True)


class Daemon:
    """A daemon on this machine, with the command line for its jobs."""

    def __init__(self, arguments, folder, cluster, engine="slurm"):
        self.folder, self.traind, self.engine = folder, arguments.programs / "traind", engine
        self.environment = cluster.environment | {"TRAIND_SOCKET": str(folder / "socket")}
        self.whole = None

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()

    def start(self):
        command = [self.traind, "serve", "--state-dir", self.folder / "daemon", "--cores", "4"]
        log = open(self.folder / "daemon.log", "ab")
        self.process = subprocess.Popen(command, env=self.environment, stdout=log, stderr=log)
        until(lambda: self.cli("ls", check=False).returncode == 0, "the daemon answers")

    def cli(self, *arguments, check=True):
        command = [self.traind, *arguments]
        ended = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False)
        if check and ended.returncode != 0:
            sys.exit(f"{arguments}: {ended.stdout}{ended.stderr}")
        return ended

    def submit(self, name, steps=STEPS, **resources):
        resources = {"engine": self.engine, "cores": CORES_PER_HOST, "max_restarts": 0, **resources}
        job = {
            "name": name,
            "model": {"name_or_path": str(self.folder / "model"), "task": "sequence-classification", "num_labels": 3},
            "data": {"train": str(self.folder / "train.csv"), "text": "text", "label": "label"},
            "train": {
                "max_steps": steps,
                "per_device_train_batch_size": 2,
                "logging_steps": 5,
                "save_steps": 500,
                "save_total_limit": 1,
            },
            "resources": resources,
            "output_dir": str(self.folder / "out" / name),
        }
        if resources["engine"] == "kubernetes":
            job["kubernetes"] = {"image": "traind"}
        path = self.folder / f"{name}.yaml"
        path.write_text(json.dumps(job))
        self.cli("submit", str(path))
        return name

    def get(self, name):
        return json.loads(self.cli("get", name, "--output", "json").stdout)

    def until(self, name, condition):
        job = {}

        def holds():
            job.update(self.get(name))
            if job["state"] == "failed" and not condition(job):
                sys.exit(f"{name}: {job['failure']}")
            return condition(job)

        until(holds, f"job {name} is as wanted; the daemon's log:\n{(self.folder / 'daemon.log').read_text()[-3000:]}")
        return self.get(name)

    def until_step(self, name, step):
        return self.until(
            name, lambda job: job["state"] == "running" and job.get("progress", {}).get("step", 0) >= step
        )

    def complete(self, name):
        return self.until(name, lambda job: job["state"] == "completed")

    def cancel(self, name):
        self.cli("cancel", name)
        self.until(name, lambda job: job["state"] == "cancelled")

    def losses(self, job):
        history = json.loads((Path(job["output_dir"]) / "trainer_state.json").read_text())["log_history"]
        return {entry["step"]: entry["loss"] for entry in history if "loss" in entry}

    def long_losses(self, hosts):
        """Those of an uninterrupted job, which is run once."""
        if self.whole is None:
            self.whole = self.losses(self.complete(self.submit("whole", hosts=hosts, steps=LONG_STEPS)))
        return self.whole


if __name__ == "__main__":
    main()
