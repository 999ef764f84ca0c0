"""Memory, utilization and power of the first GPU by `nvidia-smi`, sampled while something else runs."""

import subprocess
import threading
from statistics import median

QUERY = "memory.used,utilization.gpu,power.draw"
PERIOD_MS = 200


class Meter:
    """Samples within a `with` block; empty without `nvidia-smi`."""

    def __enter__(self):
        self.samples = []
        command = ["nvidia-smi", "--id=0", f"--query-gpu={QUERY}", "--format=csv,noheader,nounits", f"-lms={PERIOD_MS}"]
        try:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        except OSError:
            self.process = None
            return self
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()
        return self

    def read(self):
        for line in self.process.stdout:
            try:
                self.samples.append(tuple(float(cell) for cell in line.split(",")))
            except ValueError:
                continue

    def __exit__(self, *_):
        if self.process:
            self.process.terminate()
            self.process.wait()
            self.thread.join()

    def measured(self):
        """The peak of memory in MiB, the median utilization in percent, and the median power in watts."""
        if not self.samples:
            return {}
        memory, utilization, power = zip(*self.samples, strict=True)
        return {"memory_mib_peak": max(memory), "utilization": median(utilization), "watts": median(power)}
