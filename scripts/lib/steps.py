"""Compares two log histories step by step."""

import math

FIELDS = ("loss", "learning_rate", "grad_norm")
LIMIT_FIRST = 1e-5
LIMIT = 1e-3


def pair(reference, ours):
    """Rows of (step, {field: (theirs, ours)}) for the steps that either history logged, NaN where it did not."""
    theirs, mine = by_step(reference), by_step(ours)
    return [
        (step, {field: (figure(theirs, step, field), figure(mine, step, field)) for field in FIELDS})
        for step in sorted(theirs.keys() | mine.keys())
    ]


def by_step(history):
    """The per-step entries of a log history; evaluations and the closing summary have no loss."""
    return {entry["step"]: entry for entry in history if "loss" in entry}


def figure(history, step, field):
    return history.get(step, {}).get(field, math.nan)


def difference(theirs, ours):
    """Relative to the reference; NaN on either side gives NaN."""
    return abs(ours - theirs) / abs(theirs) if theirs else abs(ours)


def largest_difference(rows, field):
    return max((difference(*values[field]) for _, values in rows), default=math.nan)


def table(rows):
    lines = ["step " + " ".join(f"{field + ' Trainer':>22} {'traind':>12} {'rel. diff':>9}" for field in FIELDS)]
    for step, values in rows:
        cells = (f"{a:22.7g} {b:12.7g} {difference(a, b):9.1e}" for a, b in values.values())
        lines.append(f"{step:4} " + " ".join(cells))
    return "\n".join(lines)


def report(subject, peer, case, rows, complaints):
    """Prints how a case compares with a peer's run, and what keeps the two from being the same."""
    differences = ", ".join(f"{field} {largest_difference(rows, field):.1e}" for field in FIELDS)
    first = largest_difference(rows[:1], "loss")
    settings = ", ".join(f"{name}: {value}" for name, value in case.items())
    verdict = f"not {peer}'s run" if complaints else "equal"
    print(f"{subject}, {settings}\n    {verdict}: first loss {first:.1e}, {differences}", flush=True)
    for complaint in complaints:
        print(f"    {complaint}", flush=True)


def complaints(rows, steps):
    """The differences that keep the two from being the same run of `steps` steps."""
    found = []
    if len(rows) != steps:
        found.append(f"{len(rows)} steps were logged, not {steps}")
    for index, (step, values) in enumerate(rows):
        limit = LIMIT_FIRST if index == 0 else LIMIT
        for field, (theirs, ours) in values.items():
            # Negated so that NaN, for which every comparison is false, is a difference.
            if not difference(theirs, ours) <= limit:
                found.append(f"step {step}: {field} {ours:.8g} is not the Trainer's {theirs:.8g} to {limit}")
    return found
