"""Runs jobs in a real Slurm on this machine, mostly through the daemon, and compares their losses with those of local jobs."""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

from clusters import (
    CORES_PER_HOST,
    LONG_STEPS,
    PATIENCE_SECONDS,
    compare,
    follows_another,
    outlives_the_daemon,
    soak,
    trains,
    until,
)

# When the daemon takes up a run.
SEEN_STEP = 100
SUSPENDED_SECONDS = 40
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
    checks = [
        trains, runs_alone, is_adopted, waits, follows_another, cancels, suspends, requeues, limits_time, drains,
        outlives_the_daemon,
    ]  # fmt: skip
    soak("slurm", lambda _, folder: Slurm(folder), checks, __doc__)


def runs_alone(daemon, slurm, hosts):
    """`srun` starts the runners, and no daemon knows of them."""
    run = slurm.srun(daemon, "alone", hosts)
    assert run.wait(PATIENCE_SECONDS) == 0, run.log.read_text()
    losses = daemon.losses({"output_dir": run.output})
    return f"{len(losses)} losses differ by at most {compare(daemon.local_losses(hosts), losses):.1e}"


def is_adopted(daemon, slurm, hosts):
    """The same, until the daemon takes the run up while it trains."""
    run = slurm.srun(daemon, "adopted", hosts, steps=LONG_STEPS)
    until(lambda: f"step {SEEN_STEP}" in run.log.read_text(), f"the run is at step {SEEN_STEP}")
    daemon.cli("adopt", str(run.output / "run"))
    step = daemon.until_step("adopted", SEEN_STEP)["progress"]["step"]
    job = daemon.complete("adopted")
    assert run.wait(PATIENCE_SECONDS) == 0, run.log.read_text()
    return f"followed from step {step}; {compare(daemon.long_losses(hosts), daemon.losses(job)):.1e}"


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


def suspends(daemon, slurm, hosts):
    """For longer than the silence after which a host counts as lost."""
    name = daemon.submit("suspended", hosts=hosts, steps=LONG_STEPS)
    number = daemon.until_step(name, 200)["cluster_job"].split()[-1]
    slurm.run("scontrol", "suspend", number)
    time.sleep(SUSPENDED_SECONDS / 2)
    before = daemon.get(name)
    time.sleep(SUSPENDED_SECONDS / 2)
    after = daemon.get(name)
    assert "is suspended" in after["waiting_reason"], after
    steps = [job["progress"]["step"] for job in (before, after)]
    assert steps[0] == steps[1], f"it trained on: {steps}"
    slurm.run("scontrol", "resume", number)
    job = daemon.complete(name)
    assert job["attempt"] == 1, job
    difference = compare(daemon.long_losses(hosts), daemon.losses(job))
    return f"{after['state']} at step {steps[0]} ({after['waiting_reason']}), and continued; {difference:.1e}"


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


class Run:
    """Runners that `srun` started on all hosts, with a log and an output folder of their own."""

    def __init__(self, process, log, output):
        self.wait, self.log, self.output = process.wait, log, output


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

    def srun(self, daemon, name, hosts, **job):
        """Starts the runners of a job on its hosts, in a folder of its own."""
        folder = self.folder / f"{name}-alone"
        folder.mkdir()
        (folder / "job.yaml").write_text(json.dumps(daemon.job(name, hosts=hosts, engine="local", **job)))
        log = folder / "srun.log"
        command = ["srun", f"-N{hosts}", f"-n{hosts}", f"-c{CORES_PER_HOST}", daemon.runner, "job.yaml"]
        with open(log, "wb") as out:
            process = subprocess.Popen(command, cwd=folder, env=self.environment, stdout=out, stderr=out)
        return Run(process, log, folder / "out")

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


if __name__ == "__main__":
    main()
