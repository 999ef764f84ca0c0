"""Kills, stops and cuts off hosts of a job. Resumed runs must end with the bits of an uninterrupted one.

Each host is a runner of its own, started without a daemon with traind's own variables.
"""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from checkpoints import write_inputs

STEPS = 200
SAVE_STEPS = 30
SILENCE_SECONDS = 5
# The silence, and the time for the last event.
END_SECONDS_MAX = 60
PORT = 7733
# More layers than hosts, and matrices that are large enough to be sharded.
SIZES = {"num_hidden_layers": 4, "intermediate_size": 2050}
MESHES = {
    "rows": lambda hosts: {},
    "shards": lambda hosts: {"fsdp": "full_shard"},
    # Each host has one.
    "stages": lambda hosts: {"pipeline": hosts, "placement": "PDT"},
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ["runner", "cache", "model"]:
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--faults", type=int, default=100)
    parser.add_argument("--hosts", type=int, default=2)
    parser.add_argument("--mesh", choices=MESHES, default="rows", help="what the hosts divide")
    parser.add_argument("--namespaces", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    random.seed(arguments.seed)
    # A run that is ended, as by `timeout`, leaves neither runners nor namespaces behind, and says how far it came.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    network = Network(arguments.hosts) if arguments.namespaces else None
    with tempfile.TemporaryDirectory(prefix="traind-soak-", ignore_cleanup_errors=True) as folder:
        soak = Soak(arguments, Path(folder), network)
        try:
            sys.exit(soak.run())
        finally:
            soak.stop()
            if network:
                network.remove()


class Soak:
    def __init__(self, arguments, folder, network):
        self.arguments, self.folder, self.network = arguments, folder, network
        self.processes, self.count, self.longest, self.wrong = [], 0, 0.0, 0

    def job(self, name):
        return Job(self, name)

    def prepare(self):
        write_inputs(self.folder, self.arguments.model)
        # Compiles the programs.
        self.job("compile").end()
        self.whole = self.job("whole")
        started = time.monotonic()
        self.whole.end()
        self.seconds = time.monotonic() - started

    def run(self):
        """Returns 1 where a run hung, named no host or ended with other bits."""
        self.prepare()
        try:
            self.suffer_all()
        finally:
            seen = f"all others ended within {self.longest:.1f} s, {self.wrong} wrong"
            print(f"{self.count} faults: {seen}", flush=True)
        return int(self.wrong > 0)

    def suffer_all(self):
        faults = [kill, stop] + ([cut] if self.network else [])
        for number in range(self.arguments.faults):
            job = self.job(f"faulty-{number}")
            fault = faults[number % len(faults)]
            rank = random.randrange(self.arguments.hosts)
            seconds, problem = job.suffer(fault, rank, random.uniform(0.5, 1.0) * self.seconds)
            self.longest = max(self.longest, seconds)
            job.end()
            if problem is None and job.weights() != self.whole.weights():
                problem = "the resumed run has other weights"
            if problem:
                self.wrong += 1
                print(f"{fault.__name__} host {rank}: {problem}", flush=True)
            self.count += 1
            shutil.rmtree(job.folder)

    def stop(self):
        """Ends runners that a fault or an early end left."""
        for process in self.processes:
            process.kill()
            process.wait()


class Job:
    """A job and its attempts."""

    def __init__(self, soak, name):
        self.soak, self.folder = soak, soak.folder / name
        self.folder.mkdir()
        (self.folder / "job.yaml").write_text(json.dumps(job_file(soak, name)))

    def start(self):
        hosts = range(self.soak.arguments.hosts)
        return [self.start_host(rank) for rank in hosts]

    def start_host(self, rank):
        environment = {
            **os.environ,
            "TRAIND_CACHE_DIR": str(self.soak.arguments.cache),
            "TRAIND_HOST_RANK": str(rank),
            "TRAIND_HOSTS": str(self.soak.arguments.hosts),
            "TRAIND_HOST_SILENCE_SECONDS": str(SILENCE_SECONDS),
        }
        command = [self.soak.arguments.runner, "job.yaml"]
        if self.soak.network:
            environment["TRAIND_COORDINATOR"] = f"{address(0)}:{PORT}"
            command = ["ip", "netns", "exec", namespace(rank), *command]
        log = open(self.folder / f"host-{rank}.log", "ab")
        process = subprocess.Popen(command, cwd=self.folder, env=environment, stdout=log, stderr=log)
        self.soak.processes.append(process)
        return process

    def end(self):
        """Runs the job to its end."""
        for rank, process in enumerate(self.start()):
            if process.wait(timeout=600) != 0:
                sys.exit(f"host {rank} of {self.folder.name} failed:\n{self.logs()}")

    def suffer(self, fault, rank, seconds):
        """Returns how long the others lived on, and what was wrong."""
        processes = self.start()
        time.sleep(seconds)
        others = [process for other, process in enumerate(processes) if other != rank]
        if any(process.poll() is not None for process in processes):
            # The run was over, or about to be.
            for process in processes:
                process.wait(timeout=END_SECONDS_MAX)
            return 0.0, None
        repair = fault(processes[rank], rank)
        started, problem = time.monotonic(), None
        for process in others:
            try:
                code = process.wait(timeout=END_SECONDS_MAX)
                problem = problem or self.check_end(code, rank)
            except subprocess.TimeoutExpired:
                problem = f"a runner did not end:\n{self.logs()}"
                process.kill()
        lived = time.monotonic() - started
        processes[rank].kill()
        processes[rank].wait()
        repair()
        return lived, problem

    def check_end(self, code, rank):
        names = f"host {rank} (" in self.logs()
        if code not in (0, 1) or (code == 1 and not names):
            return f"a runner ended with {code} and named {'the' if names else 'no'} host:\n{self.logs()}"
        return None

    def logs(self):
        return "".join(path.read_text() for path in sorted(self.folder.glob("host-*.log")))

    def weights(self):
        return (self.folder / "out/model.safetensors").read_bytes()


def job_file(soak, name):
    return {
        "name": name,
        "model": {
            "name_or_path": str(soak.folder / "model"),
            "task": "sequence-classification",
            "num_labels": 3,
            "from_config": True,
            "config_overrides": SIZES,
        },
        "data": {"train": str(soak.folder / "train.csv"), "text": "text", "label": "label"},
        "train": {
            "max_steps": STEPS,
            "per_device_train_batch_size": 4,
            "learning_rate": 1e-4,
            "save_strategy": "steps",
            "save_steps": SAVE_STEPS,
            "save_total_limit": 2,
            "eval_strategy": "no",
        },
        "resources": {"platform": "cpu", "hosts": soak.arguments.hosts, "cores": 2},
        "parallel": MESHES[soak.arguments.mesh](soak.arguments.hosts),
        "output_dir": "out",
    }


def kill(process, _rank):
    process.send_signal(signal.SIGKILL)
    return lambda: None


def stop(process, _rank):
    process.send_signal(signal.SIGSTOP)
    return lambda: None


def cut(_process, rank):
    link = ["ip", "-n", namespace(rank), "link", "set", "eth0"]
    subprocess.run([*link, "down"], check=True)
    return lambda: subprocess.run([*link, "up"], check=True)


def namespace(rank):
    return f"traind-{rank}"


def address(rank):
    return f"10.77.0.{rank + 1}"


class Network:
    """A namespace for each host, on one bridge."""

    BRIDGE = "traind-soak"

    def __init__(self, hosts):
        self.hosts = hosts
        try:
            self.make()
        except subprocess.CalledProcessError:
            self.remove()
            raise

    def make(self):
        ip("link", "add", self.BRIDGE, "type", "bridge")
        ip("link", "set", self.BRIDGE, "up")
        for rank in range(self.hosts):
            space, outer = namespace(rank), link(rank)
            ip("netns", "add", space)
            ip("link", "add", outer, "type", "veth", "peer", "name", "eth0", "netns", space)
            ip("link", "set", outer, "master", self.BRIDGE, "up")
            ip("-n", space, "address", "add", f"{address(rank)}/24", "dev", "eth0")
            ip("-n", space, "link", "set", "eth0", "up")
            ip("-n", space, "link", "set", "lo", "up")

    def remove(self):
        """Removes what is there of it. A namespace alone would take its link along at a later time."""
        for rank in range(self.hosts):
            ip("link", "delete", link(rank), check=False)
            ip("netns", "delete", namespace(rank), check=False)
        ip("link", "delete", self.BRIDGE, check=False)


def link(rank):
    return f"traind-v{rank}"


def ip(*arguments, check=True):
    subprocess.run(["ip", *arguments], check=check)


if __name__ == "__main__":
    main()
