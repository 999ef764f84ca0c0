"""A private daemon on the GPU and jobs run on it by the command line, since the host may lack gRPC for Python."""

import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

STEP = re.compile(r"step (\d+)/\d+ .*samples/s ([\d.]+)")
STARTED = re.compile(r"runner (\d+) started")
PLANNED = re.compile(r"^per core +([\d.]+) (B|KiB|MiB|GiB|TiB)", re.MULTILINE)
UNITS = ["B", "KiB", "MiB", "GiB", "TiB"]
# Until the first programs are compiled and memory is laid out.
WARM_UP_STEPS = 10


class JobFailed(Exception):
    """A job that did not complete, with the end of what was printed about it."""


@dataclass
class Run:
    output: Path
    seconds: float
    first_step_seconds: float
    speeds: list

    @property
    def samples_per_second(self):
        return steady(self.speeds)

    def log_history(self):
        return json.loads((self.output / "trainer_state.json").read_text())["log_history"]


def steady(speeds):
    """The median of the speeds after the warm-up, from pairs of step and speed."""
    after = sorted(speed for step, speed in speeds if step > WARM_UP_STEPS)
    return after[len(after) // 2] if after else 0.0


def planned_bytes(plan):
    """The bytes of a core that `traind plan` printed; None where it printed none."""
    found = PLANNED.search(plan)
    return found and round(float(found[1]) * 1024 ** UNITS.index(found[2]))


def core_sample(cores):
    """The facts about the first core in `traind cores`: by the device's driver, and by the runner of its job."""
    [core, *_] = cores or [{}]
    device, usage = core.get("figures") or {}, core.get("usage") or {}
    return {
        "memory_bytes": device.get("memory_used_bytes"),
        "utilization_percent": device.get("utilization_percent"),
        "watts": device.get("power_watts"),
        "used_bytes": usage.get("memory_used_bytes") or None,
        "busy_percent": usage.get("utilization_percent_1s"),
        "model_flops_utilization_percent": usage.get("model_flops_utilization_percent"),
    }


class Daemon:
    """`traind serve` with one core of a platform, running within a `with` block."""

    def __init__(self, traind, platform, scratch):
        self.traind, self.platform, self.scratch = traind, platform, Path(scratch)
        self.environment = os.environ | {
            "TRAIND_SOCKET": str(self.scratch / "socket"),
            "TRAIND_CACHE_DIR": str(self.scratch / "cache"),
            **plugin(platform),
        }

    def __enter__(self):
        command = [self.traind, "serve", "--platform", self.platform, "--cores", "1", "--state-dir"]
        with open(self.scratch / "daemon.log", "wb") as log:
            state = self.scratch / "state"
            self.process = subprocess.Popen([*command, state], env=self.environment, stdout=log, stderr=log)
        for _ in range(100):
            if subprocess.run([self.traind, "ls"], env=self.environment, capture_output=True).returncode == 0:
                return self
            time.sleep(0.1)
        self.__exit__()
        raise RuntimeError(f"the daemon did not start: {(self.scratch / 'daemon.log').read_text(errors='replace')}")

    def __exit__(self, *_):
        subprocess.run([self.traind, "drain"], env=self.environment, capture_output=True, timeout=60)
        self.process.terminate()
        self.process.wait(30)

    def ask(self, *arguments):
        """The output of a command."""
        done = subprocess.run([self.traind, *map(str, arguments)], env=self.environment, capture_output=True, text=True)
        return done.stdout + done.stderr

    def core(self):
        """The sample of its core; empty while it does not answer."""
        command = [self.traind, "cores", "-o", "json"]
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True)
        return core_sample(json.loads(done.stdout)) if done.returncode == 0 else {}

    def planned_bytes(self, file):
        return planned_bytes(self.ask("plan", file))

    def job_file(self, job):
        file = self.scratch / f"{job['name']}.json"
        job = job | {"resources": {"platform": self.platform, "cores": 1, "max_restarts": 1}}
        file.write_text(json.dumps(job | {"output_dir": str(self.scratch / job["name"])}))
        return file

    def run(self, job, kill_after_step=None):
        """Runs a job, given as a dictionary. With `kill_after_step` its runner is killed once, after that step."""
        file, start = self.job_file(job), time.monotonic()
        command = [self.traind, "submit", file, "--watch"]
        watch = subprocess.Popen(
            command, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        lines, speeds, runner, first = [], [], None, None
        for line in watch.stdout:
            lines.append(line)
            if found := STARTED.search(line):
                runner = int(found[1])
            if found := STEP.search(line):
                first = first or time.monotonic() - start
                speeds.append((int(found[1]), float(found[2])))
                if kill_after_step is not None and int(found[1]) > kill_after_step:
                    os.kill(runner, signal.SIGKILL)
                    kill_after_step = None
        if watch.wait() != 0:
            raise JobFailed("".join(lines[-12:]))
        return Run(self.scratch / job["name"], time.monotonic() - start, first or 0.0, speeds)


def plugin(platform):
    """The variables that name the plugin: that of GPUs is JAX's."""
    name = f"TRAIND_PLUGIN_{platform.upper()}"
    if platform != "cuda" or name in os.environ:
        return {}
    plugins = importlib.util.find_spec("jax_plugins")
    for folder in plugins.submodule_search_locations if plugins else []:
        for found in sorted(Path(folder).glob("xla_cuda*/xla_cuda_plugin.so"), reverse=True):
            return {name: str(found)}
    raise SystemExit(f"needs JAX's CUDA plugin (jax-cuda13-pjrt) in {sys.executable}, or {name}")


def plugin_alone(platform):
    """The same for a program that the daemon does not start: XLA needs the folder of ptxas and libdevice too."""
    variables = plugin(platform)
    if platform == "cuda":
        library = Path((os.environ | variables)["TRAIND_PLUGIN_CUDA"])
        tools = library.parents[2] / "nvidia" / "cu13"
        flags = os.environ.get("XLA_FLAGS", "")
        variables["XLA_FLAGS"] = f"{flags} --xla_gpu_cuda_data_dir={tools}".strip() if tools.is_dir() else flags
    return variables
