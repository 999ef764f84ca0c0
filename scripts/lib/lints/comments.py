#!/usr/bin/env python3
"""Checks what can be counted of the comments: their width, and the first words of documentation.

usage: comments.py [FOLDER]     checks the tracked files of a repository, by default the current folder's

Documentation of an item begins with a verb or with a noun phrase that defines it, so that it reads as a sentence in a
list of items. A first line that begins with one of OPENINGS is a fragment of the sentence that its writer thought of,
or says nothing without the item before. No sentence of any comment begins with "Of".
"""

import re
from collections.abc import Iterator
from pathlib import Path

import checks

WIDTH = 120
SUFFIXES = (".rs", ".py", ".js", ".proto")
#: A comment that stands alone on its line; `#!` and Rust's `#[...]` are none.
COMMENT = re.compile(r"\s*(//[/!]?|#(?![!\[]))(?P<text>.*)")
DOCUMENTATION = re.compile(r"\s*//[/!]\s*(?P<text>.*)")
OPENINGS = re.compile(
    r"(What|That of|Those of|Such a|The same(?=[,.]| (of|for|with|where|as|in|from|on|at|without)\b))\b"
)
#: The sentence of a comment that names first what it is about, and leaves its subject to be guessed.
TOPIC = re.compile(r"(?:^|[.:] )\s*(Of)\b")
#: Addresses cannot be broken.
ADDRESS = re.compile(r"https?://\S{60}")


def main() -> None:
    checks.run(
        __doc__, lambda folder, names: (it for path in sources(folder, names) for it in problems_of(path, folder))
    )


def sources(folder: Path, names: list[str]) -> Iterator[Path]:
    """The files that have comments of ours."""
    for name in names:
        path = folder / name
        if path.is_file() and not path.is_symlink() and (path.suffix in SUFFIXES or is_script(path)):
            yield path


def is_script(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(2) == b"#!"


def problems_of(path: Path, folder: Path) -> Iterator[str]:
    place = path.relative_to(folder)
    was_documentation = False
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        comment = COMMENT.match(line)
        if comment and len(line) > WIDTH and not ADDRESS.search(line):
            yield f"{place}:{number}: the comment has {len(line)} columns of {WIDTH}"
        if comment and (topic := TOPIC.search(comment["text"])):
            yield f"{place}:{number}: a sentence begins with `{topic[1]}`; begin with its subject"
        found = DOCUMENTATION.match(line) if path.suffix == ".rs" else None
        if found and not was_documentation and (opening := OPENINGS.match(found["text"])):
            yield f"{place}:{number}: documentation begins with `{opening[0]}`; begin with a verb or a noun"
        was_documentation = found is not None


if __name__ == "__main__":
    main()
