#!/usr/bin/env python3
"""Checks that no folder has more than FILES_MAX files of its own, unless it is a list of things of one kind.

usage: folders.py [FOLDER]     checks the tracked files of a repository, by default the current folder's

A folder that grows is divided by what its files are about. In a list, each file is one entry, which is found by its name,
and a folder in between would only hide it.
"""

from collections import Counter
from pathlib import PurePosixPath

import checks

FILES_MAX = 20
#: The lists, with the entries that they have.
LISTS = {
    "daemon/src/cli": "a file for each command",
    "docs": "the pages of the book, which docs/README.md lists",
    "docs/examples": "job files, which their README lists",
    "loader/tests/fixtures/images": "an image for each format and mode",
    "scripts/bench": "benchmarks: a script each, and its program",
    "scripts/compare": "comparisons: a script each, and its program",
    "scripts/fixtures": "a program for the fixtures of each subject, which `make` lists",
    "scripts/lib/requirements": "the packages of each environment",
    "scripts/peers": "programs that are run in the environments of other libraries",
    "scripts/soak": "soak tests: a script each, and its program",
    "xla-backend/src/ops": "a file for each operation",
}


def main() -> None:
    checks.run(__doc__, lambda _, names: problems_of(names, LISTS))


def problems_of(files: list[str], lists: dict[str, str]) -> list[str]:
    """The folders that have too many files, and the lists that are none."""
    counts = Counter(str(PurePosixPath(file).parent) for file in files)
    large = {folder: count for folder, count in counts.items() if count > FILES_MAX}
    found = [
        f"{folder}: {count} files, at most {FILES_MAX}: divide it by what they are about, or list it in folders.py"
        for folder, count in large.items()
        if folder not in lists
    ]
    found += [
        f"{folder}: has no more than {FILES_MAX} files; remove it from folders.py" for folder in lists.keys() - large
    ]
    return sorted(found)


if __name__ == "__main__":
    main()
