"""The loader's memory and time for data sets of two sizes."""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "lib" / "corpora"))
import generated_text

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
TEXTS_A_ROW = 4
# Limit on the memory per row, including the sampler and the allocator.
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
        measurements = [measure(program, arguments.tokenizer, pathlib.Path(folder), size) for size in (small, large)]
    more = (measurements[1]["peak"] - measurements[0]["peak"]) / (measurements[1]["rows"] - measurements[0]["rows"])
    print(f"{more:.1f} bytes of memory for each row more")
    if more > BYTES_A_ROW_MAX:
        sys.exit(f"more than {BYTES_A_ROW_MAX} bytes per row")


def build():
    command = ["cargo", "build", "--release", "--locked", "--package", "traind-loader", "--example", "prepare"]
    output = subprocess.run(
        [*command, "--message-format", "json"], cwd=REPOSITORY, check=True, stdout=subprocess.PIPE, text=True
    )
    messages = (json.loads(line) for line in output.stdout.splitlines())
    programs = [message["executable"] for message in messages if message.get("executable")]
    return programs[-1]


def measure(program, tokenizer, folder, megabytes):
    """Prepares a set in a separate process; prints and returns its measurements."""
    file = folder / f"{megabytes}.jsonl"
    rows = write(file, megabytes * MEGABYTE)
    command = [program, tokenizer, str(folder / "cache"), "text", "label", str(file)]
    said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    measurements = dict(
        line.split(": ", 1) for line in said.splitlines() if line.startswith(("prepared", "epoch", "peak"))
    )
    file.unlink()
    print(f"{megabytes} MB of text, {rows} rows: {', '.join(f'{name} {text}' for name, text in measurements.items())}")
    return {"rows": rows, "peak": float(measurements["peak"].removesuffix(" MB")) * MEGABYTE}


def write(file, size):
    """Writes rows until the file has `size` bytes; returns their number."""
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
