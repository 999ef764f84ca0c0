"""Descriptions of Debian's packages, in English and in the languages that volunteers have translated them to.

They are in files beside the package index, which apt fetches into a folder of ours.

usage: descriptions.py FOLDER LANGUAGE...    fetches the files
"""

import os
import sys
from dataclasses import dataclass
from pathlib import Path

import package_index

FIELD = "Description-"
# The part of a file's name before the language, and apt's spelling of an underscore there.
TRANSLATION = "_i18n_Translation-"
UNDERSCORE = "%5f"


@dataclass(frozen=True)
class Description:
    """The first line of a package's description, and the text behind it, a line for each paragraph."""

    package: str
    synopsis: str
    body: str = ""


def fetch(folder, languages):
    """Plain files, whatever the machine's settings: Python reads neither LZ4 nor Zstandard."""
    package_index.fetch(folder, f"Acquire::Languages={','.join(languages)}", "Acquire::GzipIndexes=false")


def read(folder, language):
    """Descriptions by the checksum of the English one, under which a translation is filed."""
    found = {}
    for file in sorted((folder / "lists").glob(f"*{TRANSLATION}{language.replace('_', UNDERSCORE)}")):
        found |= parse(file.read_text(errors="replace"))
    return found


def languages(folder):
    """The languages that were fetched into `folder`."""
    files = (folder / "lists").glob(f"*{TRANSLATION}*")
    return sorted({file.name.rsplit(TRANSLATION)[-1].replace(UNDERSCORE, "_") for file in files})


def parse(text):
    found = {}
    for stanza in text.split("\n\n"):
        fields = fields_of(stanza)
        synopsis = next((value for name, value in fields.items() if is_synopsis(name)), "").strip()
        if synopsis and "Description-md5" in fields:
            found[fields["Description-md5"]] = Description(fields["Package"], synopsis, body_of(stanza))
    return found


def body_of(stanza):
    """The lines that continue a field, of which these files have one. A dot stands for an empty line."""
    lines = [line.strip() for line in stanza.split("\n") if line.startswith(" ")]
    return " ".join("\n" if line == "." else line for line in lines).replace(" \n ", "\n")


def is_synopsis(name):
    return name.startswith(FIELD) and name != "Description-md5"


def stanzas(text):
    """The fields of each stanza by their names, without the lines that continue them."""
    for stanza in text.split("\n\n"):
        yield fields_of(stanza)


def fields_of(stanza):
    return dict(line.split(": ", 1) for line in stanza.split("\n") if ": " in line and line[0] != " ")


def sources(folder):
    """The source package of each package. Those of one source have synopses in common."""
    found = {}
    for file in sorted((folder / "lists").glob("*_Packages")):
        for fields in stanzas(file.read_text(errors="replace")):
            if "Package" in fields:
                found[fields["Package"]] = fields.get("Source", fields["Package"]).split(" ")[0]
    return found


def main():
    folder, languages = Path(sys.argv[1]), sys.argv[2:]
    if not package_index.available():
        sys.exit("apt-get is needed, which fetches the descriptions")
    fetch(folder, languages)
    missing = [language for language in languages if not read(folder, language)]
    if missing:
        sys.exit(f"no descriptions could be fetched in {', '.join(missing)}")


if __name__ == "__main__":
    os.environ["LC_ALL"] = "C"
    main()
