"""Formats the benchmark's measurements."""

from statistics import median


def sides(results):
    lines = [
        f"{'':24} {'samples/s':>10} {'(range)':>17} {'whole s':>8} {'accuracy':>9} {'peak MiB':>9} {'traind / it':>12}"
    ]
    for side, runs in results.items():
        speeds = measurements(runs, "samples_per_second")
        lines.append(
            f"{side:24} {median(speeds):10.1f} {f'{min(speeds):.1f}-{max(speeds):.1f}':>17} "
            f"{median(measurements(runs, 'whole_seconds')):8.1f} "
            f"{median(measurements(runs, 'accuracy')):9.4f} {median(measurements(runs, 'memory_bytes_peak')) / 2**20:9.0f} "
            f"{ratio(results, side):>12}"
        )
    lines += [compilation(side, runs) for side, runs in results.items() if "compile_seconds" in runs[0]]
    return "\n".join(lines)


def measurements(runs, name):
    return [run[name] for run in runs]


def ratio(results, side):
    """The ratio of the medians of samples per second."""
    if "traind" not in results or side == "traind":
        return ""
    speed = lambda name: median(measurements(results[name], "samples_per_second"))
    return f"{speed('traind') / speed(side):.2f}x"


def compilation(side, runs):
    return f"{side}: compiled {runs[0]['programs']} programs in {median(measurements(runs, 'compile_seconds')):.1f} s before"


def step_time(runs):
    """The parts of traind's mean step in the median run."""
    run = sorted(runs, key=lambda run: run["samples_per_second"])[len(runs) // 2]
    total = sum(run["step_time"].values())
    lines = [f"\ntraind's step: {total * 1e3:.1f} ms"]
    for part, seconds in run["step_time"].items():
        lines.append(f"  {part.replace('_', ' '):12} {seconds * 1e3:9.2f} ms {seconds / total:7.2%}")
    lines.append(f"  input-bound: {run['step_time']['input_wait'] / total:.2%} of the time")
    lines.append("  (dispatch is tracing or replaying the step and handing it to the device)")
    lines.append(f"  programs that a step waited for: {run['late_compilations']}")
    return "\n".join(lines)


def saving(measured):
    return (
        f"\na checkpoint of {measured['bytes'] / 2**20:.0f} MiB: steps stall {measured['stall_seconds'] * 1e3:.1f} ms, "
        f"{measured['stall_share']:.2%} of {measured['steps_between']} steps; "
        f"written in {measured['write_seconds']:.2f} s while training continues"
    )


def memory(measured):
    kept, recomputed = measured["kept"], measured["recomputed"]
    pairs = zip(kept["losses"], recomputed["losses"], strict=True)
    difference = max(abs(one - other) / abs(one) for one, other in pairs)
    lines = [f"\n{'activations':12} {'temporaries MiB':>16} {'s/step':>8}"]
    for name, measurements in measured.items():
        lines.append(
            f"{name:12} {measurements['temporary_bytes'] / 2**20:16.1f} {measurements['seconds_per_step']:8.3f}"
        )
    lines.append(f"largest relative difference of the losses of {len(kept['losses'])} steps: {difference:.1e}")
    return "\n".join(lines)


def startup(measured):
    lines = ["\nseconds since submission" + "".join(f"{caches:>10}" for caches in measured)]
    for name in measured["cold"]:
        cells = (f"{marks[name]:10.2f}" if name in marks else f"{'-':>10}" for marks in measured.values())
        lines.append(f"  {name:22}" + "".join(cells))
    return "\n".join(lines)
