"""The machine that a benchmark runs on, as its output names it: speeds of different processors do not compare."""

import os
from pathlib import Path

# Instruction sets by which traind's kernels and PyTorch's choose their code.
INSTRUCTION_SETS = ["avx2", "fma", "avx512f", "avx512_bf16", "amx_bf16", "asimd", "bf16", "sve"]


def description(text=None):
    """One line: processor, its model numbers, how many of the processors are used, and instruction sets."""
    facts = first_processor(text or Path("/proc/cpuinfo").read_text())
    name = facts.get("model name") or f"processor {facts.get('CPU implementer', '?')}/{facts.get('CPU part', '?')}"
    numbers = [f"{key} {facts[key]}" for key in ("cpu family", "model", "stepping") if key in facts]
    flags = (facts.get("flags") or facts.get("Features") or "").split()
    sets = [name for name in INSTRUCTION_SETS if name in flags]
    used = f"{len(os.sched_getaffinity(0))} of {os.cpu_count()} processors"
    return f"{name} ({', '.join([*numbers, used])}): {' '.join(sets)}"


def first_processor(text):
    """The facts about the first processor of /proc/cpuinfo."""
    lines = (line.partition(":") for line in text.split("\n\n")[0].splitlines())
    return {key.strip(): value.strip() for key, _, value in lines}
