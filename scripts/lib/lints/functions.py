#!/usr/bin/env python3
"""Checks that no function of the programs has more than LINES_MAX lines. Those of tests may: a table of cases is long.

usage: functions.py [FOLDER]     checks the tracked files of a repository, by default the current folder's

Rust is read as rustfmt writes it: a function ends at the first brace that stands where the function began.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import checks

LINES_MAX = 70
START = re.compile(r"(?P<margin> *)(pub(\([^)]*\))? )?((const|async|unsafe|extern \"C\") )*fn (?P<name>\w+)")
#: Folders of tests, and files of them beside what they test.
TESTS = re.compile(r"(^|/)(tests|fuzz)/|(^|/)(tests?|testing|fixture)\.rs$")


def main() -> None:
    checks.run(__doc__, problems)


def problems(folder: Path, names: list[str]) -> Iterator[str]:
    for name in names:
        if name.endswith(".rs") and not TESTS.search(name) and (folder / name).is_file():
            yield from problems_of(name, (folder / name).read_text())


def problems_of(name: str, text: str) -> Iterator[str]:
    """The functions of a file that are too long, but not those of its tests, which stand at its end."""
    lines = text.split("#[cfg(test)]\nmod tests {")[0].splitlines()
    for place, line in enumerate(lines):
        if start := START.match(line):
            end = start["margin"] + "}"
            length = next((count for count, line in enumerate(lines[place:], 1) if line == end), 1)
            if length > LINES_MAX and not is_short(lines[place:], length):
                yield f"{name}:{place + 1}: {start['name']} has {length} lines of {LINES_MAX}: divide it"


def is_short(lines: list[str], length: int) -> bool:
    """Whether the first function ends before the brace, on its line or without a body."""
    opened = next((line for line in lines[:length] if line.rstrip().endswith(("{", "}", ";"))), "")
    return not opened.rstrip().endswith("{")


if __name__ == "__main__":
    main()
