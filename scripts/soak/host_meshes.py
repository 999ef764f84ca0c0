"""Trains on meshes over several hosts, and continues their checkpoints on other numbers of hosts.

Each host is a runner of its own on this machine, started without a daemon with traind's own variables.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from checkpoints import write_inputs
from reshard import SAVED, STEPS, result

HOSTS = [1, 2, 4]
# The devices of each host, and the rows of a step on each device.
DEVICES, ROWS = 2, 2
# Limit of differences: of losses, relative, and of weights, relative to the largest one.
LIMIT = 1e-5
MESHES = {
    "D": {},
    "D-T2": {"tensor": 2},
    "D-P2": {"pipeline": 2},
    # Stages on different hosts, where there are several.
    "D-P2-far": {"pipeline": 2, "placement": "PDT"},
    # Stages whose parameters the cores of all hosts share.
    "FSDP-P2": {"pipeline": 2, "fsdp": "full_shard"},
    "FSDP-P2-far": {"pipeline": 2, "fsdp": "full_shard", "placement": "PDT"},
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ["runner", "cache", "model"]:
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--mesh", choices=MESHES, action="append", help="only this one; may be repeated")
    parser.add_argument(
        "--hosts", type=int, nargs="+", default=HOSTS, help="numbers of hosts, which divide the largest"
    )
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="traind-soak-") as folder:
        folder = Path(folder)
        write_inputs(folder, arguments.model)
        names = arguments.mesh or MESHES
        bad = sum(check(arguments, folder, name, MESHES[name]) for name in names)
    print(f"(largest difference of losses and weights over the limit, {LIMIT}): {bad} bad")
    sys.exit(1 if bad else 0)


def check(arguments, folder, name, mesh):
    """Prints how far each number of hosts, and each resumed run, is from the first one. Returns how many are too far."""
    saved = {hosts: Run(arguments, folder, f"{name}-{hosts}", hosts, mesh) for hosts in arguments.hosts}
    whole, bad = result(saved[arguments.hosts[0]]), 0
    print(f"{name:<8} from \\ to  whole" + "".join(f"{hosts:>12}" for hosts in arguments.hosts), flush=True)
    for source, run in saved.items():
        checkpoint = str(run.folder / "out" / f"checkpoint-{SAVED}")
        cells = [distance(whole, result(run))]
        for target in arguments.hosts:
            resumed = Run(arguments, folder, f"{name}-{source}-to-{target}", target, mesh, checkpoint)
            cells.append(distance(whole, result(resumed)))
        bad += sum(cell > 1 for cell in cells)
        print(f"{source:>15} hosts" + "".join(f"{cell:>12.4f}" for cell in cells), flush=True)
    return bad


class Run:
    """A run that has ended."""

    def __init__(self, arguments, folder, name, hosts, mesh, checkpoint=None):
        self.folder = folder / name
        self.folder.mkdir()
        devices = DEVICES * max(arguments.hosts)
        (self.folder / "job.yaml").write_text(json.dumps(job_file(folder, name, (hosts, devices), mesh, checkpoint)))
        runners = [self.start(arguments, rank, hosts) for rank in range(hosts)]
        for rank, runner in enumerate(runners):
            if runner.wait(timeout=600) != 0:
                sys.exit(f"host {rank} of {name} failed:\n{self.logs()}")

    def start(self, arguments, rank, hosts):
        environment = os.environ | {"TRAIND_CACHE_DIR": str(arguments.cache)}
        if hosts > 1:
            environment |= {"TRAIND_HOST_RANK": str(rank), "TRAIND_HOSTS": str(hosts)}
        with open(self.folder / f"host-{rank}.log", "wb") as log:
            command = [arguments.runner, "job.yaml"]
            return subprocess.Popen(command, cwd=self.folder, env=environment, stdout=log, stderr=log)

    def logs(self):
        return "".join(path.read_text() for path in sorted(self.folder.glob("host-*.log")))


def job_file(folder, name, size, mesh, checkpoint):
    hosts, devices = size
    rows_axis = devices // (mesh.get("tensor", 1) * mesh.get("pipeline", 1))
    train = {
        "max_steps": STEPS,
        "save_strategy": "steps",
        "save_steps": SAVED,
        "logging_steps": 1,
        "eval_strategy": "no",
        "per_device_train_batch_size": ROWS * devices // rows_axis,
        "learning_rate": 1e-4,
        # Some gradients are rounding noise, of which Adam would make full steps.
        "adam_epsilon": 1e-3,
    }
    if checkpoint:
        train["resume_from_checkpoint"] = checkpoint
    model = {"name_or_path": str(folder / "model"), "task": "sequence-classification", "num_labels": 3}
    if "fsdp" in mesh:
        # Smaller matrices are not sharded.
        model |= {"from_config": True, "config_overrides": {"intermediate_size": 2050}}
    return {
        "name": name,
        "model": model,
        "data": {"train": str(folder / "train.csv"), "text": "text", "label": "label"},
        "train": train,
        "resources": {"platform": "cpu", "hosts": hosts, "cores": devices // hosts},
        "parallel": mesh,
        "output_dir": "out",
    }


def distance(one, other):
    """The largest difference over its limit; infinite where steps or weights are missing."""
    if len(one[0]) != len(other[0]) or set(one[1]) != set(other[1]):
        return float("inf")
    loss = max(abs(b / a - 1) for a, b in zip(one[0], other[0], strict=True))
    largest = max(abs(value) for values in one[1].values() for value in values)
    pairs = ((one[1][name], other[1][name]) for name in one[1])
    weight = max(abs(a - b) for expect, found in pairs for a, b in zip(expect, found, strict=True))
    return max(loss, weight / largest) / LIMIT


if __name__ == "__main__":
    main()
