"""Samples per second, memory, utilization and power of traind, the Trainer and JAX, one after the other."""

import contextlib
import json
from concurrent.futures import ThreadPoolExecutor

import gpu_daemon
import gpu_work
from gpu_meter import Meter

COLUMNS = {
    "samples/s": (10, lambda it: it["samples_per_second"], ".1f"),
    "first step s": (13, lambda it: it.get("first_step_seconds"), ".1f"),
    "planned MiB": (12, lambda it: mebibytes(it.get("planned_bytes")), ".0f"),
    "used MiB": (9, lambda it: mebibytes(it.get("used_bytes_peak")), ".0f"),
    "NVML %": (7, lambda it: it.get("nvml", {}).get("utilization_percent"), ".0f"),
    "cores %": (8, lambda it: it.get("cores", {}).get("utilization_percent"), ".0f"),
    "NVML W": (7, lambda it: it.get("nvml", {}).get("watts"), ".0f"),
    "cores W": (8, lambda it: it.get("cores", {}).get("watts"), ".0f"),
}
# Models and rows that are prepared at a time, which takes no GPU.
PREPARED_SIDE_BY_SIDE = 4


def mebibytes(count):
    return count / 2**20 if count else None


class Speeds:
    """Prepares the models and the rows of all works while something else runs."""

    def __init__(self, bench):
        self.bench, self.pool = bench, ThreadPoolExecutor(PREPARED_SIDE_BY_SIDE)
        self.works = gpu_work.BRIEF if bench.options.brief else gpu_work.WORKS
        self.prepared = {work.name: self.pool.submit(self.prepare, work) for work in self.works}

    def inputs(self, work):
        """The model and the rows of a work, once they are there."""
        return self.prepared[work.name].result()

    def close(self):
        self.pool.shutdown(cancel_futures=True)

    def prepare(self, work):
        """A model with random weights, and rows."""
        model, rows = self.bench.scratch / f"{work.name}-model", self.bench.scratch / f"{work.name}.jsonl"
        description = self.describe(model, rows, work)
        self.bench.peer("random_model.py", work.family, work.task, self.bench.options.tokenizer, model, work.shape)
        count = 2 * work.batch * work.steps // (1 if work.task == gpu_work.CLASSIFY else 4)
        self.bench.peer("speed_rows.py", description, self.bench.options.data, rows, count)
        return model, rows

    def describe(self, model, rows, work, compile=False):
        """Writes the description of `work` for the peers' programs."""
        file = self.bench.scratch / f"{work.name}-{'compiled' if compile else 'eager'}.json"
        file.write_text(json.dumps(work.trainer(model, rows, compile, self.bench.is_cpu)))
        return file

    def measure(self):
        heads = " ".join(f"{name:>{width}}" for name, (width, *_) in COLUMNS.items())
        print(f"\n{'':22} {'side':10} {heads}")
        found = self.bench.results["speeds"] = {work.name: {} for work in self.works}
        # Should time be short, the sides that are compared first have been measured for all works.
        for side in (self.traind, self.trainer, self.jax, self.compiled):
            for work in self.works:
                found[work.name][side.__name__] = self.side(side, work)
                self.bench.save()
        return found

    def side(self, side, work):
        """A side's measurements; one that fails leaves the others their time."""
        try:
            measured = side(*self.inputs(work), work)
        except self.bench.FAILURES as failure:
            print(f"{work.name}, {side.__name__}: {failure}", flush=True)
            return {"failure": str(failure)}
        print(line(work.name, side.__name__, measured), flush=True)
        return measured

    def traind(self, model, rows, work):
        """Two runs: the second finds its programs in the cache."""
        daemon, job = self.bench.daemon, work.job(model, rows)
        cold = self.bench.run(cold_job(job, work))
        with self.metered() as nvml, Meter(daemon.core) as cores:
            warm = self.bench.run(job)
        told = cores.measured()
        return {
            "samples_per_second": warm.samples_per_second,
            "first_step_seconds": warm.first_step_seconds,
            "first_step_seconds_cold": cold.first_step_seconds,
            "planned_bytes": daemon.planned_bytes(daemon.job_file(job)),
            "used_bytes_peak": told.pop("used_bytes_peak", 0),
            "nvml": nvml.measured(),
            "cores": told,
        }

    def trainer(self, model, rows, work, compile=False):
        return self.peer("speed_trainer.py", self.describe(model, rows, work, compile))

    def compiled(self, model, rows, work):
        return self.trainer(model, rows, work, compile=True)

    def jax(self, model, rows, work):
        return self.peer("jax_step.py", self.describe(model, rows, work))

    def peer(self, script, description):
        out = description.with_suffix(".out")
        with self.metered() as nvml:
            self.bench.peer(script, description, out)
        measured = json.loads(out.read_text())
        return {
            "samples_per_second": gpu_daemon.steady(measured["speeds"]),
            "used_bytes_peak": measured["memory_bytes_peak"],
            "last_loss": measured["losses"][-1],
            "nvml": nvml.measured(),
        }

    @contextlib.contextmanager
    def metered(self):
        nvml = self.bench.nvml
        with Meter(nvml.sample if nvml else dict) as meter:
            yield meter


def cold_job(job, work):
    """The first run: a few steps, or all where rows of other lengths have programs of their own."""
    steps = job["train"]["max_steps"] if work.sampling == "group_by_length" else gpu_work.COLD_STEPS
    return job | {"name": f"{work.name}-cold", "train": job["train"] | {"max_steps": steps}}


def line(work, side, measured):
    cells = ((width, value(measured), form) for width, value, form in COLUMNS.values())
    texts = (f"{'' if value is None else format(value, form):>{width}}" for width, value, form in cells)
    return f"{work:22} {side:10} {' '.join(texts)}"
