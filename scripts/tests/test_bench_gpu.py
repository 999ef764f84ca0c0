"""Sources that the benchmark on GPUs reads: NVML, which `daemon/tests` imitates, `traind cores`, `traind plan` and the tests' output."""

import contextlib
import ctypes
import io
import json
import os
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

SCRIPTS = Path(__file__).parents[1]
for folder in ("lib", "bench"):
    sys.path.insert(0, str(SCRIPTS / folder))

import gpu_daemon
import gpu_fixtures
import gpu_meter
import gpu_speeds
import gpu_work

NVML = SCRIPTS.parent / "daemon/tests/daemon/services/nvml.c"


class Device(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        library = Path(cls.folder.name) / "libnvidia-ml.so.1"
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, NVML], check=True)
        cls.nvml = gpu_meter.Nvml(library)

    def test_nvml_is_asked_itself(self):
        self.assertEqual(self.nvml.sample(), {"memory_bytes": 20 << 30, "utilization_percent": 87, "watts": 512.5})

    def test_the_device_is_named(self):
        self.assertEqual(self.nvml.describe(), "NVIDIA H100 80GB HBM3, 81920 MiB, driver 570.86.15")

    def test_an_error_names_the_function(self):
        with self.assertRaisesRegex(OSError, "nvmlDeviceGetHandleByIndex_v2 failed with 15"):
            self.nvml.call("nvmlDeviceGetHandleByIndex_v2", 1, ctypes.byref(ctypes.c_void_p()))

    def test_a_missing_library_is_no_device(self):
        with self.assertRaises(OSError):
            gpu_meter.Nvml(Path(self.folder.name) / "absent.so")


class Meter(unittest.TestCase):
    def test_bytes_are_peaks_and_others_medians(self):
        meter = gpu_meter.Meter(dict)
        meter.samples = [{"used_bytes": used, "watts": watts} for used, watts in [(3, 10), (9, None), (4, 30), (5, 20)]]
        self.assertEqual(meter.measured(), {"used_bytes_peak": 9, "watts": 20})

    def test_samples_are_taken_until_the_end(self):
        taken = threading.Semaphore(0)
        with gpu_meter.Meter(lambda: taken.release() or {"watts": 5}) as meter:
            taken.acquire()
            taken.acquire()
        self.assertGreaterEqual(len(meter.samples), 2)
        self.assertFalse(meter.thread.is_alive())
        self.assertEqual(gpu_meter.Meter(dict).measured(), {})


class Commands(unittest.TestCase):
    def test_the_plan_of_a_core(self):
        plan = "batch            32 rows per core\nper core         1.5 GiB of 79.6 GiB\n  weights        86.7 MiB\n"
        self.assertEqual(gpu_daemon.planned_bytes(plan), 3 << 29)
        self.assertIsNone(gpu_daemon.planned_bytes("error: no such model"))

    def test_a_core_is_read_by_driver_and_runner(self):
        usage = {"memory_used_bytes": 7, "utilization_percent_1s": 99.0, "model_flops_utilization_percent": 40.0}
        figures = {"memory_used_bytes": 9, "utilization_percent": 97.0, "power_watts": 600.0}
        sample = gpu_daemon.core_sample([{"core": 0, "usage": usage, "figures": figures}, {"core": 1}])
        self.assertEqual((sample["used_bytes"], sample["memory_bytes"], sample["watts"]), (7, 9, 600.0))
        self.assertEqual(set(gpu_daemon.core_sample([]).values()), {None})

    def test_the_steady_speed_is_after_the_warm_up(self):
        self.assertEqual(gpu_daemon.steady([(5, 1.0), (10, 1.0), (15, 30.0), (20, 40.0), (25, 20.0)]), 30.0)
        self.assertEqual(gpu_daemon.steady([(5, 1.0)]), 0.0)


class Plugin(unittest.TestCase):
    def site(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        site = Path(folder.name)
        for name in ["jax_plugins/xla_cuda13", "nvidia/cu13"]:
            (site / name).mkdir(parents=True)
        return site, site / "jax_plugins/xla_cuda13/xla_cuda_plugin.so"

    def test_that_of_jax_is_found(self):
        site, library = self.site()
        library.touch()
        with mock.patch.dict(os.environ, clear=True), mock.patch.object(sys, "path", [str(site)]):
            self.assertEqual(gpu_daemon.plugin("cuda"), {"TRAIND_PLUGIN_CUDA": str(library)})
            self.assertEqual(gpu_daemon.plugin("cpu"), {})

    def test_its_absence_names_the_package(self):
        with mock.patch.dict(os.environ, clear=True), mock.patch.object(sys, "path", []):
            with self.assertRaisesRegex(SystemExit, "jax-cuda13-pjrt"):
                gpu_daemon.plugin("cuda")

    def test_the_compilers_tools_are_those_beside_it(self):
        site, library = self.site()
        given = {"TRAIND_PLUGIN_CUDA": str(library), "XLA_FLAGS": "--a=b"}
        with mock.patch.dict(os.environ, given, clear=True):
            flags = f"--a=b --xla_gpu_cuda_data_dir={site / 'nvidia/cu13'}"
            self.assertEqual(gpu_daemon.plugin_alone("cuda"), {"XLA_FLAGS": flags})
            self.assertEqual(gpu_daemon.plugin_alone("cpu"), {})


class Fixtures(unittest.TestCase):
    def test_families_are_sorted_by_their_results(self):
        text = (
            "test fixtures::xlm_roberta_is_that_of_transformers ... ok\n"
            "test fixtures::bert_is_that_of_transformers ... FAILED\n\nfailures:\n\n---- bert ----\nlogits[0]: 1\n"
        )
        found = gpu_fixtures.verdict(text, is_whole=True)
        self.assertEqual((found["equal"], found["differing"]), (["xlm-roberta"], ["bert"]))
        self.assertIn("logits[0]: 1", found["failures"])


class Bench:
    """One without a daemon and a GPU, whose JAX fails."""

    FAILURES = (subprocess.SubprocessError,)
    options = SimpleNamespace(brief=True, tokenizer="tokenizer", data=Path("data"))
    nvml, is_cpu = None, True

    def __init__(self, scratch):
        self.scratch, self.results, self.saved, self.daemon = Path(scratch), {}, [], self

    def peer(self, script, *arguments):
        if script == "jax_step.py":
            raise subprocess.CalledProcessError(1, script)
        if script == "speed_trainer.py":
            measured = {"speeds": [(20, 5.0)], "memory_bytes_peak": 7, "losses": [0.5]}
            Path(arguments[1]).write_text(json.dumps(measured))

    def run(self, job):
        seconds = 9.0 if job["name"].endswith("-cold") else 3.0
        return gpu_daemon.Run(self.scratch, seconds, seconds, [(15, 1.0), (20, 2.0), (25, 3.0)])

    def core(self):
        return {"used_bytes": 5, "watts": 10.0}

    def job_file(self, job):
        return job["name"]

    def planned_bytes(self, file):
        return len(file)

    def save(self):
        self.saved.append([(work, *sides) for work, sides in self.results["speeds"].items()])


class Sides(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.bench = Bench(folder.name)
        speeds = gpu_speeds.Speeds(self.bench)
        self.addCleanup(speeds.close)
        with contextlib.redirect_stdout(io.StringIO()):
            self.found = speeds.measure()

    def test_a_side_that_fails_leaves_the_others(self):
        for work in gpu_work.BRIEF:
            sides = self.found[work.name]
            self.assertEqual(list(sides), ["traind", "trainer", "jax", "compiled"])
            self.assertIn("jax_step.py", sides["jax"]["failure"])
            self.assertEqual((sides["compiled"]["samples_per_second"], sides["trainer"]["last_loss"]), (5.0, 0.5))

    def test_the_first_step_is_timed_with_and_without_compiled_programs(self):
        traind = self.found[gpu_work.BRIEF[0].name]["traind"]
        self.assertEqual((traind["first_step_seconds"], traind["first_step_seconds_cold"]), (3.0, 9.0))
        self.assertEqual((traind["used_bytes_peak"], traind["cores"]), (5, {"watts": 10.0}))

    def test_results_are_saved_side_by_side(self):
        first, second, *_ = (work.name for work in gpu_work.BRIEF)
        self.assertEqual(self.bench.saved[:3], [
            [(first, "traind"), (second,)],
            [(first, "traind"), (second, "traind")],
            [(first, "traind", "trainer"), (second, "traind")],
        ])  # fmt: skip

    def test_rows_of_several_lengths_compile_all_programs_in_the_first_run(self):
        for work in gpu_work.WORKS:
            job = work.job("model", "rows")
            steps = gpu_speeds.cold_job(job, work)["train"]["max_steps"]
            self.assertEqual(steps == work.steps, work.sampling == "group_by_length")
            self.assertEqual(job["train"]["max_steps"], work.steps)


class Table(unittest.TestCase):
    def test_missing_measurements_leave_their_columns_empty(self):
        heads = sum(width + 1 for width, *_ in gpu_speeds.COLUMNS.values())
        measured = {"samples_per_second": 12.34, "planned_bytes": 3 << 20, "nvml": {"watts": 512.5}}
        line = gpu_speeds.line("bert", "traind", measured)
        self.assertEqual(len(line), 22 + 1 + 10 + heads)
        self.assertEqual(line.split(), ["bert", "traind", "12.3", "3", "512"])

    def test_speeds_are_measured_after_the_warm_up(self):
        for work in [*gpu_work.WORKS, *gpu_work.BRIEF]:
            self.assertGreater(work.steps, gpu_daemon.WARM_UP_STEPS + 5)


if __name__ == "__main__":
    unittest.main()
