"""Trains 20 steps with every loss of a task here and with the tool that it comes from, from the same weights and rows;
then compares our own runs: batches in parts with whole ones, and several cores with one.

Exits with 1 where a run differs from the peer's by more than the limits in peers/jobs/case.py, or from our own by more
than its limit.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

import both
import job_cases

import service  # found by both
import steps

LIMIT = 1e-6
# These multiply the rounding of sums over tokens, by beta and by an exponential. The first steps are equal to 3e-7, and
# TRL's own losses are 2.9e-5 and 6.3e-6 from those of one core.
LIMITS = {"dpo-by-strong-beta": 2e-5, "dpo-by-forward-kl": 3e-6}
CORES_MAX = 8


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--traind", required=True, type=Path)
    parser.add_argument("--jobs-python", required=True, help="an interpreter with TRL and sentence-transformers")
    parser.add_argument("--keep", type=Path, help="a folder that the jobs are written to and stay in")
    parser.add_argument("names", nargs="*", help="beginnings of the names of losses, such as `embedding-gist`")
    options = parser.parse_args()
    wanted = tuple(options.names) or ""
    names = [name for name in job_cases.listed(options, "losses") if name.startswith(wanted)]
    with tempfile.TemporaryDirectory(prefix="losses.") as scratch:
        folder = options.keep or Path(scratch)
        with service.Daemon(options.traind, cores=CORES_MAX) as daemon:
            different = job_cases.differing(options, daemon, folder, names)
        unlike = [name for name in names if unlike_base(folder, name, names)]
    print(f"{len(names)} jobs, {len(different)} of which differ from the peer's", *different)
    print(f"and {len(unlike)} from ours in another form", *unlike)
    sys.exit(1 if different or unlike else 0)


def unlike_base(folder, name, names):
    """Whether the losses differ from those of the same job on one core, in whole batches; prints by how much."""
    base = max((other for other in names if other != name and name.startswith(other + "-")), key=len, default=None)
    if base is None or not name.endswith(("-in-parts", "-cores")):
        return False
    one, other = (losses(folder / job) for job in (base, name))
    if len(one) != len(other) or not one:
        print(f"{name}: {len(other)} losses, {base} has {len(one)}")
        return True
    largest = max(map(steps.difference, one, other))
    print(f"{name:60} {largest:.1e} from {base}")
    return not largest <= LIMITS.get(base, LIMIT)


def losses(folder):
    state = json.loads((folder / "ours.json").read_text())
    return [entry["loss"] for entry in state.get("log_history", []) if "loss" in entry]


if __name__ == "__main__":
    both.run(main)
