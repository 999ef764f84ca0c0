"""Writes the figures of soak tests into the table of docs/reliability.md.

Reads the outputs of tests, which print a line for each figure. A row that was measured again is replaced; the others
stay as they are, with their version, machine and date.
"""

import argparse
import datetime
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "scripts" / "lib"))

import machine

PAGE = REPOSITORY / "docs" / "reliability.md"
BEGIN = "<!-- figures: scripts/soak/run --publish -->"
END = "<!-- end of figures -->"
HEAD = ["| what | figure | version | machine | date |", "| --- | --- | --- | --- | --- |"]


@dataclass
class Kind:
    """A figure that a test prints."""

    #: The first cell of its row.
    what: str
    #: The lines that it is printed in, in order. Each has a group `figure`, or is one as a whole.
    lines: list[str]


KINDS = [
    Kind("kills of the daemon, while jobs are submitted and run", [r"\d+ kills: 0 jobs lost.*"]),
    Kind(
        "clients that call, beside others that never read",
        [
            r"\d+ clients and \d+ that never read",
            r"all connect and call at once: \d+ served.*",
            r"all call at once: \d+ served.*",
            r"one after another: \d+ served.*",
            r"resident \d+ MiB",
        ],
    ),
    Kind("calls while jobs run", [r"\d+ calls at 1,000 a second: .*"]),
    Kind("start of a job after its submission", [r"\d+ submissions: to the runner's first instruction .*"]),
    Kind("disks of the state folder that run full", [r"\d+ KiB: \d+ acknowledged, all there.*"]),
    Kind("garbage sent to the daemon", [r"\d+ messages and \d+ job files: the daemon lives"]),
    Kind("messages of the RPC, damaged", [r"\d+ messages of \d+ types: .*"]),
    Kind("job files, damaged", [r"\d+ job files: .*"]),
    Kind("a long history", [r"\d+ ended jobs: .*"]),
    Kind("a day of traffic", [r"\d+ watched jobs with \d+ events: .*"]),
    Kind("rows of the store", [r"\d+ jobs: \d+ KiB and \d+ descriptors more than at half"]),
    Kind("schedules of random jobs, on which no core is shared", [r"\d+ steps of \d+ histories"]),
    Kind("files of data, tokenizers and models, damaged", [r"\S+: \d+ cases, \d+ refused, .*"]),
    Kind("runners killed at random", [r"kills at random +\d+ in .*: 0 bad"]),
    Kind("runners killed while they save", [r"kills while saving +\d+ in .*: 0 bad"]),
    Kind("bits flipped in checkpoints", [r"bit flips +\d+ in .*: 0 bad"]),
    Kind("hosts of a job that fail", [r"\d+ faults: .* 0 wrong"]),
    Kind("programs checked for NeuronCores", [r"\d+ jobs on \d+ meshes: .*"]),
    Kind("jobs on the twin of NeuronCores, beside CPU devices", [r"\d+ cores of \S+: \d+ jobs with .*"]),
    Kind("failures of Neuron's runtime and compiler, injected", [r"\d+ statuses and \d+ codes: .*"]),
    Kind(
        "a first contact with the twin of NeuronCores", [r"a whole report in \d+ s: .*", r"\d+ options of the twin: .*"]
    ),
    Kind("all tests, while each processor has other work", [r"\d+ runs of all tests under load: .*"]),
]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("outputs", type=Path, nargs="+", help="files with the outputs of soak tests")
    parser.add_argument("--page", type=Path, default=PAGE)
    parser.add_argument("--version", default=version(), help="that was measured")
    parser.add_argument("--note", help="about the machine, such as what else it did")
    arguments = parser.parse_args()
    text = "\n".join(path.read_text(encoding="utf-8") for path in arguments.outputs)
    found = figures(text)
    host = "; ".join(filter(None, [machine.summary(), arguments.note]))
    rows = {what: row(what, figure, arguments.version, host) for what, figure in found.items()}
    page = arguments.page.read_text(encoding="utf-8")
    arguments.page.write_text(with_rows(page, rows), encoding="utf-8")
    print(f"wrote {len(rows)} figures to {arguments.page}")


def figures(output: str) -> dict[str, str]:
    """The figures in an output, by what they are of."""
    # The test runner writes its own words in front of the first line of a test.
    lines = [re.sub(r"^test \S+ \.\.\. ", "", line.strip()) for line in output.splitlines()]
    found = {}
    for kind in KINDS:
        parts = [matches(lines, pattern) for pattern in kind.lines]
        if all(parts):
            found[kind.what] = "; ".join(summary(part) for part in parts)
    return found


def matches(lines: list[str], pattern: str) -> list[str]:
    return [line for line in lines if re.fullmatch(pattern, line)]


def summary(lines: list[str]) -> str:
    """One line, or the sums of several that count the same for different files or sizes."""
    lines = [re.sub(" +", " ", line) for line in lines]
    if len(lines) == 1:
        return lines[0]
    meshes = [re.fullmatch(r"(\d+) jobs on (\d+) meshes: (\d+) are clean, .*", line) for line in lines]
    if all(meshes):
        jobs, count, clean = (sum(int(found[group]) for found in meshes) for group in (1, 2, 3))
        return f"{jobs} jobs on {count} meshes: {clean} are clean, the others have another mesh for a reason of their models"
    jobs = [re.fullmatch(r"(\d+) cores of (\S+): (\d+) jobs with (\d+) sets of options", line) for line in lines]
    if all(jobs):
        count = sum(int(found[3]) * int(found[4]) for found in jobs)
        machines = sorted({f"{found[1]} of {found[2]}" for found in jobs}, key=lambda it: int(it.split()[0]))
        return f"{count} jobs with the same losses and metrics to 1e-6; cores: {', '.join(machines)}"
    cases = [re.fullmatch(r"\S+: (\d+) cases, (\d+) refused, (\d+) MB, .*", line) for line in lines]
    if all(cases):
        count, refused = (sum(int(case[group]) for case in cases) for group in (1, 2))
        grown = max(int(case[3]) for case in cases)
        return (
            f"{count} files of {len(cases)} kinds: {refused} refused, the others read; at most {grown} MB more memory"
        )
    return f"{len(lines)} times, at last: {lines[-1]}"


def row(what: str, figure: str, version: str, host: str) -> str:
    date = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    cells = [what, rounded(figure), version, host, date]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def rounded(figure: str) -> str:
    """The figure with its times to three digits, as in `230 ms`."""
    return re.sub(r"\b(\d+(?:\.\d+)?)(ms|s|µs)\b", lambda time: f"{float(time[1]):.3g} {time[2]}", figure)


def version() -> str:
    manifest = (REPOSITORY / "Cargo.toml").read_text(encoding="utf-8")
    number = re.search(r'^version = "(.*)"', manifest, re.MULTILINE)[1]
    command = ["git", "-C", str(REPOSITORY), "rev-parse", "--short=8", "HEAD"]
    commit = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    return f"{number} ({commit})"


def with_rows(page: str, rows: dict[str, str]) -> str:
    """The page with rows in the place of those of the same names, in the order of `KINDS`."""
    before, rest = page.split(BEGIN)
    table, after = rest.split(END)
    known = {line.split("|")[1].strip(): line for line in table.splitlines() if line.startswith("| ")}
    known.update(rows)
    ordered = [known[kind.what] for kind in KINDS if kind.what in known]
    return before + "\n".join([BEGIN, "", *HEAD, *ordered, "", END]) + after


if __name__ == "__main__":
    main()
