"""Trains the same small jobs with two builds of traind, in turns, and prints whether losses and weights are the same bit for
bit, and the time of a step with each: by the clock, and of the processors, which a busy machine changes less.

Exits with 1 where bits differ, or where the steps of the second build take longer by more than the share of --slower.
"""

import itertools
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import both

import machine  # found by both
import meshes
import service
import tensors

CORES = 2
# Entries of a log that measure time.
TIMES = ("_runtime", "_per_second")
# The steps before these are left out: programs are compiled, and buffers get their places.
FIRST_TIMED = 5
ADAPTERS = {"peft": {"method": "lora", "target_modules": "all-linear", "lora_dropout": meshes.DROPOUT}}
# Family, task, and more sections.
JOBS = {
    "bert": ("bert", "sequence-classification", {}),
    "gpt2": ("gpt2", "causal-lm", {}),
    "t5": ("t5", "seq2seq-lm", {}),
    "llama-lora": ("llama", "sft", ADAPTERS),
    "vit": ("vit", "image-classification", {}),
}


@dataclass
class Trained:
    """The outcome of a run."""

    #: The entries of the log without times.
    log: list
    #: The bytes of each tensor of the output folder, by file and name.
    tensors: dict
    #: The median time of a step.
    step_seconds: float
    #: The mean time of the processors for a step.
    processor_seconds: float


def main():
    options = parse_options()
    builds = {"before": options.before, "after": options.after or options.traind.parent}
    print(machine.description(), flush=True)
    columns = ["ms/step", "after", "ratio", "processor ms", "after", "ratio"]
    print(f"{'job':12}{'bits':28}" + "".join(f"{column:>14}" for column in columns), flush=True)
    results = [compare(options, builds, name) for name in options.job or JOBS]
    sys.exit(0 if all(results) else 1)


def parse_options():
    parser = both.parser(__doc__, batch=meshes.BATCH)
    parser.add_argument("before", type=Path, help="a folder with traind and traind-runner")
    parser.add_argument("--after", type=Path, help="another one, instead of this checkout's release")
    parser.add_argument("--job", choices=JOBS, action="append", help="instead of all; can be repeated")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--shape", default="layers=2", help="of random_model.py")
    parser.add_argument("--inputs", type=Path, help="a folder that keeps rows and models for the next time")
    parser.add_argument("--slower", type=float, default=0.02, help="share by which steps may take longer")
    parser.add_argument(
        "--busy", action="store_true", help="judge by the time of the processors, on a machine with other work"
    )
    parser.add_argument("--bits-only", action="store_true", help="compare no times: one round, on any machine")
    options = parser.parse_args()
    if options.steps <= FIRST_TIMED + 1:
        parser.error(f"--steps must be above {FIRST_TIMED + 1}: the first ones are not timed")
    return options


def compare(options, builds, name):
    """Prints a line; returns whether both builds are alike."""
    family, task, sections = JOBS[name]
    with tempfile.TemporaryDirectory(prefix="compare.") as scratch:
        scratch = Path(scratch)
        rows, model = inputs(options, family, task, (options.inputs or scratch) / name)
        # The name and the folder are part of the output.
        job = meshes.job(family, task, model, rows, scratch / "output", CORES, {}, {}) | sections
        job["train"] |= {"max_steps": options.steps}
        runs = {build: [] for build in builds}
        for number in range(1 if options.bits_only else options.rounds):
            # Each build is the first one in every second round.
            for build in list(builds)[:: -1 if number % 2 else 1]:
                runs[build].append(train(builds[build] / "traind", job))
    differences = different_bits(runs)
    clock, ratio = times(runs, "step_seconds")
    processors, processor_ratio = times(runs, "processor_seconds")
    slower = (processor_ratio if options.busy else ratio) - 1
    is_slower = not options.bits_only and slower > options.slower
    bits = differences[0] if differences else "the same"
    cells = "".join(f"{cell:>14}" for cell in [*clock, f"{ratio:.3f}", *processors, f"{processor_ratio:.3f}"])
    print(f"{name:12}{bits:28}{cells}{'  slower' if is_slower else ''}", flush=True)
    for difference in differences[1:]:
        print(f"{'':12}{difference}", flush=True)
    return not differences and not is_slower


def times(runs, field):
    """The median of each build in milliseconds, and the median of the rounds' ratios."""
    before, after = ([getattr(run, field) for run in trained] for trained in runs.values())
    ratio = median(new / old for old, new in zip(before, after, strict=True))
    return [f"{1e3 * median(taken):.2f}" for taken in (before, after)], ratio


def inputs(options, family, task, folder):
    """The rows and the model of a job, which are made unless the folder is there. It is complete or absent."""
    if not folder.exists():
        part = folder.with_suffix(".part")
        part.mkdir(parents=True)
        meshes.inputs(options, family, task, part, options.shape)
        part.rename(folder)
    return folder / "train.jsonl", folder / "model"


def train(traind, job):
    with service.Daemon(traind, cores=CORES) as daemon:
        meter = Meter(daemon)
        done = daemon.run(job, on_event=meter.see)
    ends = [time for time, message in done.of_kind("step") if message.step >= FIRST_TIMED]
    log = [
        {key: value for key, value in entry.items() if not key.endswith(TIMES)}
        for entry in done.trainer_state()["log_history"]
    ]
    step_seconds = median(end - begin for begin, end in itertools.pairwise(ends))
    return Trained(log, contents(Path(job["output_dir"])), step_seconds, meter.step_seconds())


class Meter:
    """Reads the processor time of a daemon's runner after each step that is timed."""

    def __init__(self, daemon):
        self.daemon = daemon
        #: Steps and processor seconds.
        self.readings = []

    def see(self, event):
        if event.WhichOneof("kind") != "step" or event.step.step < FIRST_TIMED:
            return
        ticks = [processor_ticks(process) for process in self.daemon.runners()]
        # After its last step, a runner may have ended.
        if any(ticks):
            self.readings.append((event.step.step, sum(ticks) / os.sysconf("SC_CLK_TCK")))

    def step_seconds(self):
        (first, before), *_, (last, after) = self.readings
        return (after - before) / (last - first)


def processor_ticks(process):
    """User and system time of a process, 0 once it has ended."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return int(fields[11]) + int(fields[12])


def contents(folder):
    """The bytes of each tensor of a folder, by file and name."""
    return {
        (file.name, tensor): content
        for file in sorted(folder.glob("*.safetensors"))
        for tensor, content in tensors.raw(file).items()
    }


def different_bits(runs):
    """How runs differ from the first one of the first build, a line for each kind of difference."""
    first, *others = [run for trained in runs.values() for run in trained]
    found = []
    logs = [run.log for run in others if run.log != first.log]
    if logs:
        steps = [entry.get("step") for entry, other in zip(first.log, logs[0], strict=False) if entry != other]
        found.append(f"losses from step {steps[0]} on" if steps else "numbers of steps")
    keys = first.tensors.keys()
    if any(run.tensors.keys() != keys for run in others):
        found.append("names of tensors")
    changed = {key for run in others for key in keys if run.tensors.get(key) != first.tensors[key]}
    if changed:
        found.append(f"{len(changed)} of {len(keys)} tensors")
    return found


if __name__ == "__main__":
    both.run(main)
