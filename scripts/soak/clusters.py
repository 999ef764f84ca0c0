"""Shared by the soaks of clusters: a daemon whose jobs a cluster places, and checks that hold for every engine."""

import argparse
import json
import signal
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


def soak(engine, cluster_of, checks, description):
    """Runs the checks one after the other with the cluster that `cluster_of` makes of the arguments and a folder."""
    parser = argparse.ArgumentParser(description=description)
    for name in ["programs", "model"]:
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--hosts", type=int, default=2)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix=f"{engine}-") as folder:
        folder = Path(folder)
        with cluster_of(arguments, folder) as cluster:
            write_inputs(folder, arguments.model)
            with Daemon(arguments, folder, cluster, engine) as daemon:
                for check in checks:
                    started = time.monotonic()
                    seen = check(daemon, cluster, arguments.hosts)
                    print(f"{check.__name__:<20} {seen} ({time.monotonic() - started:.0f} s)", flush=True)


def trains(daemon, _, hosts):
    local = daemon.local_losses(hosts)
    placed = daemon.complete(daemon.submit("placed", hosts=hosts))
    difference = compare(local, daemon.losses(placed))
    # A short job may end before the daemon asks for its hosts.
    names = placed.get("host_names", "unknown hosts")
    return f"{placed['cluster_job']} on {names}: {len(local)} losses differ by at most {difference:.1e}"


def follows_another(daemon, _, hosts):
    """Jobs of the cluster and of the daemon's own cores in turn, each after the one before."""
    first = daemon.submit("first", hosts=hosts, steps=LONG_STEPS // 2)
    second = daemon.submit("second", hosts=hosts, after=first)
    third = daemon.submit("third", engine="local", hosts=1, after=second)
    daemon.until_step(first, 100)
    waiting = {name: daemon.get(name) for name in [second, third]}
    for name, job in waiting.items():
        assert job["state"] == "pending" and "comes after" in job["waiting_reason"], f"{name}: {job}"
    ends = [daemon.complete(name) for name in [first, second, third]]
    for before, after in zip(ends, ends[1:], strict=False):
        assert before["end_time"] <= after["start_time"], f"{before['end_time']} {after['start_time']}"
    return f"{waiting[second]['waiting_reason']}; {' then '.join(job['engine'] for job in ends)}"


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


class Daemon:
    """A daemon on this machine, with the command line for its jobs."""

    def __init__(self, arguments, folder, cluster, engine):
        self.folder, self.traind, self.engine = folder, arguments.programs / "traind", engine
        # It is started in other folders, too.
        self.runner = (arguments.programs / "traind-runner").absolute()
        self.environment = cluster.environment | {"TRAIND_SOCKET": str(folder / "socket")}
        self.whole = self.local = None

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

    def submit(self, name, **job):
        path = self.folder / f"{name}.yaml"
        path.write_text(json.dumps(self.job(name, **job) | {"output_dir": str(self.folder / "out" / name)}))
        self.cli("submit", str(path))
        return name

    def job(self, name, steps=STEPS, **resources):
        """A job file whose output is beside it."""
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
            "output_dir": "out",
        }
        return job | ({"kubernetes": {"image": "traind"}} if resources["engine"] == "kubernetes" else {})

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

    def local_losses(self, hosts):
        """The losses of a short job on as many cores of this host, which is run once."""
        if self.local is None:
            name = self.submit("local", engine="local", hosts=1, cores=CORES_PER_HOST * hosts)
            self.local = self.losses(self.complete(name))
        return self.local

    def long_losses(self, hosts):
        """The losses of an uninterrupted job, which is run once."""
        if self.whole is None:
            self.whole = self.losses(self.complete(self.submit("whole", hosts=hosts, steps=LONG_STEPS)))
        return self.whole
