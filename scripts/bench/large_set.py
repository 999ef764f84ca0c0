"""Memory and time that the loader takes for sets of two sizes."""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "lib"))
import generated_text

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
TEXTS_A_ROW = 4
# What a row may keep in memory, by the loader's own word "some bytes a row", with room for a sampler and an allocator.
BYTES_A_ROW_MAX = 160
MEGABYTE = 1 << 20


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tokenizer", required=True, help="a folder with a tokenizer.json")
    parser.add_argument("--megabytes", default="200,2000", help="text of the small set and of the large one")
    parser.add_argument("--program", help="the loader's example `prepare`; built where it is left out")
    arguments = parser.parse_args()
    small, large = (int(size) for size in arguments.megabytes.split(","))
    program = arguments.program or build()
    with tempfile.TemporaryDirectory(prefix="traind-large-set-") as folder:
        figures = [measure(program, arguments.tokenizer, pathlib.Path(folder), size) for size in (small, large)]
    more = (figures[1]["peak"] - figures[0]["peak"]) / (figures[1]["rows"] - figures[0]["rows"])
    print(f"{more:.1f} bytes of memory for each row more")
    if more > BYTES_A_ROW_MAX:
        sys.exit(f"more than {BYTES_A_ROW_MAX} bytes a row")


def build():
    command = ["cargo", "build", "--release", "--locked", "--package", "traind-loader", "--example", "prepare"]
    output = subprocess.run(
        [*command, "--message-format", "json"], cwd=REPOSITORY, check=True, stdout=subprocess.PIPE, text=True
    )
    messages = (json.loads(line) for line in output.stdout.splitlines())
    programs = [message["executable"] for message in messages if message.get("executable")]
    return programs[-1]


def measure(program, tokenizer, folder, megabytes):
    """Prepares a set in a process of its own; prints and returns its figures."""
    file = folder / f"{megabytes}.jsonl"
    rows = write(file, megabytes * MEGABYTE)
    command = [program, tokenizer, str(folder / "cache"), "text", "label", str(file)]
    said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    figures = dict(line.split(": ", 1) for line in said.splitlines() if line.startswith(("prepared", "epoch", "peak")))
    file.unlink()
    print(f"{megabytes} MB of text, {rows} rows: {', '.join(f'{name} {text}' for name, text in figures.items())}")
    return {"rows": rows, "peak": float(figures["peak"].removesuffix(" MB")) * MEGABYTE}


def write(file, size):
    """Rows until the file has `size` bytes; tells how many."""
    sample = generated_text.rows(20_000)
    texts = [" ".join(text for text, _ in sample[at : at + TEXTS_A_ROW]) for at in range(0, 20_000 - TEXTS_A_ROW)]
    rows = 0
    with file.open("w") as lines:
        written = 0
        while written < size:
            text, (_, topic) = texts[rows % len(texts)], sample[rows % len(texts)]
            written += lines.write(json.dumps({"text": f"{rows} {text}", "label": topic}) + "\n")
            rows += 1
    return rows


if __name__ == "__main__":
    main()
