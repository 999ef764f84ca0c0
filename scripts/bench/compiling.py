"""Where XLA's compiler spends its time on a training step, with and without traind's kernels.

The compiler logs the time of each pass and of each module that LLVM compiles. LLVM works on several threads, so that its
times add up to more than a program takes. A pass that consists of others is left out, since those are counted.
"""

import argparse
import json
import os
import re
import subprocess
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import bench
import traind_side

# The first of the steps waits for its program.
TRAIN = {"max_steps": 2, "eval_strategy": "no", "save_strategy": "no"}
LOGGED = "hlo_pass_pipeline=1,cpu_compiler=1,ir_compiler=1"
PIPELINE = re.compile(r"Running HLO pass pipeline on module (\S+): (.*)")
PASS = re.compile(r"HLO pass: (.+) time: .*?\((\d+) us\) \(cumulative")
LOOP = re.compile(r"Compiled LLVM module: __compute_module_(\S+?)_kernel_module time: .*?\((\d+) us\)")
PROGRAM = re.compile(r"Compiling \[step\] for CPU using JIT time: .*?\((\d+) us\)")
THREAD = re.compile(r"^I\d+ \S+ +(\d+) ")
SHOWN = 6


@dataclass
class Times:
    """Seconds of the programs `step`, in all."""

    programs: list = field(default_factory=list)
    passes: Counter = field(default_factory=Counter)
    loops: Counter = field(default_factory=Counter)
    modules: int = 0


def read(lines):
    times, pipelines, modules = Times(), set(), {}
    for line in lines:
        found = THREAD.match(line)
        thread = found[1] if found else None
        if found := PIPELINE.search(line):
            modules[thread] = found[1]
            pipelines.add(found[2])
        elif found := PASS.search(line):
            if modules.get(thread) == "step" and found[1] not in pipelines:
                times.passes[found[1]] += int(found[2]) / 1e6
        elif found := LOOP.search(line):
            times.modules += 1
            times.loops[re.sub(r"\.\d+", "", found[1])] += int(found[2]) / 1e6
        elif found := PROGRAM.search(line):
            times.programs.append(int(found[1]) / 1e6)
    return times


def compiled(options, kernels):
    """The times of the job's programs with an empty cache."""
    with tempfile.TemporaryDirectory(prefix="traind.") as folder:
        cache = Path(folder) / "cache"
        cache.mkdir()
        (cache / "plugins").symlink_to(options.plugins)
        job = Path(folder) / "job.yaml"
        job.write_text(json.dumps(job_of(options, Path(folder) / "out")))
        environment = os.environ | {
            "TRAIND_CACHE_DIR": str(cache),
            "TF_CPP_MIN_LOG_LEVEL": "0",
            "TF_CPP_VMODULE": LOGGED,
            "TRAIND_KERNELS": "on" if kernels else "off",
        }
        command = [options.runner, job]
        done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True, errors="replace")
        return read((done.stdout + done.stderr).splitlines())


def job_of(options, output):
    job = traind_side.job(bench.work_of(options, options.model), output, **TRAIN)
    job["data"]["max_length"] = options.length
    # Its programs would count too.
    del job["data"]["validation"]
    return job


def report(times):
    count = max(len(times.programs), 1)
    print(f"  {len(times.programs)} programs, {sum(times.programs) / count:.2f} s each")
    print(f"  passes {times.passes.total() / count:.2f} s, LLVM {times.loops.total() / count:.2f} s")
    print(f"  {times.modules / count:.0f} modules of LLVM")
    for name, seconds in [("pass", times.passes), ("loop", times.loops)]:
        for kind, spent in seconds.most_common(SHOWN):
            print(f"    {name} {kind}: {spent / count:.2f} s")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("runner", "plugins", "model", "data"):
        parser.add_argument(f"--{name}", required=True, type=Path)
    parser.set_defaults(rows=0, epochs=1)
    parser.add_argument("--length", type=int, default=32)
    options = parser.parse_args()
    for kernels in (False, True):
        print("with kernels" if kernels else "without kernels", flush=True)
        report(compiled(options, kernels))


if __name__ == "__main__":
    main()
