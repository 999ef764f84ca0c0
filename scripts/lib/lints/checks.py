"""The command line of a check of the tracked files of a repository, which prints each problem that it finds."""

import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path


def run(usage: str, problems: Callable[[Path, list[str]], Iterable[str]]) -> None:
    """Checks the folder that the command line names. `problems` gets it with the names of its tracked files."""
    if sys.argv[1:] in (["-h"], ["--help"]):
        print(usage)
        sys.exit()
    if sys.argv[1:2] and sys.argv[1].startswith("-"):
        print(usage, file=sys.stderr)
        sys.exit(2)
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    listed = subprocess.run(["git", "-C", folder, "ls-files"], check=True, capture_output=True, text=True).stdout
    found = list(problems(folder, listed.splitlines()))
    print("".join(f"{problem}\n" for problem in found), end="")
    sys.exit(bool(found))
