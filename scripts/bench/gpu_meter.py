"""Memory, utilization and power of the first GPU, sampled while something else runs."""

import ctypes
import threading
import time
from statistics import median

PERIOD_SECONDS = 0.2
MEMORY_V2 = 2 << 24


class Memory(ctypes.Structure):
    """`nvmlMemory_v2_t`."""

    _fields_ = [
        ("version", ctypes.c_uint),
        *((name, ctypes.c_ulonglong) for name in ("total", "reserved", "free", "used")),
    ]


class Utilization(ctypes.Structure):
    """`nvmlUtilization_t`, in percent."""

    _fields_ = [("gpu", ctypes.c_uint), ("memory", ctypes.c_uint)]


class Nvml:
    """NVIDIA's management library and its first GPU. Raises OSError where there is none."""

    def __init__(self, library="libnvidia-ml.so.1"):
        self.library, self.device = ctypes.CDLL(str(library)), ctypes.c_void_p()
        self.call("nvmlInit_v2")
        self.call("nvmlDeviceGetHandleByIndex_v2", 0, ctypes.byref(self.device))

    def call(self, function, *arguments):
        if status := getattr(self.library, function)(*arguments):
            raise OSError(f"{function} failed with {status}")

    def ask(self, function, answer):
        self.call(function, self.device, ctypes.byref(answer))
        return answer

    def memory(self):
        return self.ask("nvmlDeviceGetMemoryInfo_v2", Memory(version=ctypes.sizeof(Memory) | MEMORY_V2))

    def sample(self):
        return {
            "memory_bytes": self.memory().used,
            "utilization_percent": self.ask("nvmlDeviceGetUtilizationRates", Utilization()).gpu,
            "watts": self.ask("nvmlDeviceGetPowerUsage", ctypes.c_uint()).value / 1000,
        }

    def describe(self):
        name, driver = ctypes.create_string_buffer(96), ctypes.create_string_buffer(80)
        self.call("nvmlDeviceGetName", self.device, name, len(name))
        self.call("nvmlSystemGetDriverVersion", driver, len(driver))
        memory_mib = self.memory().total >> 20
        return f"{name.value.decode()}, {memory_mib} MiB, driver {driver.value.decode()}"


def nvml():
    """None without a GPU."""
    try:
        return Nvml()
    except OSError:
        return None


class Meter:
    """Calls `sample` periodically within a `with` block. It returns measurements by name, None where it has none."""

    def __init__(self, sample):
        self.sample, self.samples, self.ended = sample, [], threading.Event()

    def __enter__(self):
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()
        return self

    def run(self):
        due = time.monotonic()
        while not self.ended.is_set():
            self.samples.append(self.sample())
            due = max(due + PERIOD_SECONDS, time.monotonic())
            self.ended.wait(due - time.monotonic())

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()

    def measured(self):
        """The peak of each measurement in bytes, and the median of each other one."""
        names = dict.fromkeys(name for sample in self.samples for name in sample)
        found = {}
        for name in names:
            values = [sample[name] for sample in self.samples if sample.get(name) is not None]
            if values and name.endswith("_bytes"):
                found[f"{name}_peak"] = max(values)
            elif values:
                found[name] = median(values)
        return found
