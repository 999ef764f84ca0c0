"""The machine that is measured, as outputs name it: speeds of different processors do not compare."""

import os
from pathlib import Path

# Instruction sets by which traind's kernels and PyTorch's choose their code.
INSTRUCTION_SETS = ["avx2", "fma", "avx512f", "avx512_bf16", "amx_bf16", "asimd", "bf16", "sve"]


def description(text=None):
    """One line: processor, its model numbers, how many of the processors are used, and instruction sets."""
    facts = first_processor(text or Path("/proc/cpuinfo").read_text())
    name = processor(facts)
    numbers = [f"{key} {facts[key]}" for key in ("cpu family", "model", "stepping") if key in facts]
    flags = (facts.get("flags") or facts.get("Features") or "").split()
    sets = [name for name in INSTRUCTION_SETS if name in flags]
    used = f"{len(os.sched_getaffinity(0))} of {os.cpu_count()} processors"
    return f"{name} ({', '.join([*numbers, used])}): {' '.join(sets)}"


def summary():
    """The processors that may be used, their name, and the memory."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    name = processor(first_processor(Path("/proc/cpuinfo").read_text()))
    return f"{len(os.sched_getaffinity(0))} cores, {name}, {memory / 2**30:.0f} GiB"


def processor(facts):
    """The name of a processor, or its numbers where it has none."""
    return facts.get("model name") or f"processor {facts.get('CPU implementer', '?')}/{facts.get('CPU part', '?')}"


def first_processor(text):
    """The facts about the first processor of /proc/cpuinfo."""
    lines = (line.partition(":") for line in text.split("\n\n")[0].splitlines())
    return {key.strip(): value.strip() for key, _, value in lines}
