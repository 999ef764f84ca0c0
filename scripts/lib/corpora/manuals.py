"""Manual pages as plain text: names, the line that describes them, and paragraphs.

Pages are read in both languages that there are for them: man(7), with `.SH` and `.PP`, and mdoc(7), with `.Sh` and `.Pp`.
"""

import gzip
import re
from dataclasses import dataclass

# Requests whose arguments are text: fonts of man(7), and what mdoc(7) calls macros of content.
FONTS = {"B", "I", "BI", "BR", "IB", "IR", "RB", "RI", "SM", "SB", "SS"}
# Their arguments stand side by side without a space between them.
ALTERNATING = {"BI", "BR", "IB", "IR", "RB", "RI"}
BREAKS = {"PP", "P", "LP", "Pp", "TP", "IP", "HP", "br", "sp"}
# From the first to the second, nothing is text.
BLOCKS = {"TS": "TE", "EQ": "EN", "de": ".", "ig": ".", "nf": "fi", "Vb": "Ve", "EX": "EE"}
CHARACTERS = {
    "aq": "'",
    "cq": "'",
    "oq": "'",
    "dq": '"',
    "lq": '"',
    "rq": '"',
    "em": "-",
    "en": "-",
    "hy": "-",
    "bu": "*",
}
WORDS_MIN = 5


@dataclass(frozen=True)
class Page:
    """A manual page: its own name, all names it describes, their description, and paragraphs."""

    name: str
    names: tuple
    description: str
    paragraphs: tuple


def read(folders):
    """The pages in folders of unpacked packages, each description once: several names may have the same page."""
    pages = {}
    for folder in folders:
        for file in sorted(folder.glob("usr/share/man/man*/*.gz")):
            if not file.is_symlink():
                page = parse(file.name.rsplit(".", 2)[0], gzip.decompress(file.read_bytes()).decode(errors="replace"))
                if page:
                    pages.setdefault(page.description, page)
    return list(pages.values())


def parse(name, source):
    """Returns nothing for a page that is not English text of this form, such as one that refers to another."""
    sections = {}
    for title, lines in sections_of(source):
        sections.setdefault(title, lines)
    names, dash, description = " ".join(paragraphs(sections.get("NAME", []))).partition(" - ")
    names = tuple(part.strip() for part in names.split(",") if part.strip())
    if not (dash and names and description.strip()):
        return None
    text = [part for title, lines in sections.items() if title != "NAME" for part in paragraphs(lines)]
    text = tuple(part for part in text if len(part.split()) >= WORDS_MIN)
    return Page(name, names, description.strip().rstrip("."), text)


def sections_of(source):
    """Titles of sections with the lines below them, without blocks of code, tables and definitions."""
    title, lines, end = None, [], None
    for line in source.split("\n"):
        request, arguments = request_of(line)
        if end is not None:
            end = None if request == end or line == ".." else end
        elif request in BLOCKS:
            end = BLOCKS[request]
        elif request in ("SH", "Sh"):
            if title is not None:
                yield title, lines
            title, lines = plain(arguments.strip('"')).upper(), []
        else:
            lines.append(line)
    if title is not None:
        yield title, lines


def request_of(line):
    """The name of a request and its arguments; no name for a line of text."""
    match = re.match(r"[.'][ \t]*([A-Za-z]*|\.)[ \t]*(.*)", line)
    return match.groups() if match else (None, line)


def paragraphs(lines):
    """Joins lines of text; a request that breaks them, or an empty line, ends a paragraph."""
    found = [[]]
    for line in lines:
        request, arguments = request_of(line)
        if request in BREAKS or not line.strip():
            found.append([])
        else:
            found[-1].append(text_of(request, arguments))
    joined = (re.sub(r"\s+", " ", " ".join(part)).strip() for part in found)
    return [part for part in joined if part]


def text_of(request, arguments):
    if request is None:
        return plain(arguments)
    if request == "Nd":
        return "- " + plain(arguments)
    if request == "Nm":
        return plain(arguments)
    if request in FONTS:
        separator = "" if request in ALTERNATING else " "
        return plain(separator.join(bare or quoted for quoted, bare in re.findall(r'"([^"]*)"|(\S+)', arguments)))
    return ""


def plain(text):
    """The text without escapes of roff."""
    text = re.sub(r'\\".*', "", text)
    text = re.sub(r"\\\*?\(([^\s]{2})", lambda match: CHARACTERS.get(match[1], ""), text)
    text = re.sub(r"\\\*?\[([^\]]*)\]", lambda match: CHARACTERS.get(match[1], ""), text)
    text = re.sub(r"\\f(\[[^\]]*\]|\(..|.)", "", text)
    text = re.sub(r"\\s[-+]?\d+", "", text)
    text = re.sub(r"\\[%&/,|^:)]", "", text)
    text = re.sub(r"\\[ ~0]", " ", text)
    text = re.sub(r"\\([-.'`_])", r"\1", text)
    return text.replace("\\e", "\\")
