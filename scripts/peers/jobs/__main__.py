"""Jobs that both traind and the tools that its users come from run: the Trainer, Seq2SeqTrainer, TRL, PEFT and
sentence-transformers.

A case is a folder with a small model, files of rows, `job.json` (what traind is given), `trainer.json` (what the peer
logged, or its error) and the peer's output in `theirs`; traind's are `ours.json` and `ours`.

usage: jobs list [kinds|losses]      names of the habits, of kinds of random jobs, or of the runs of every loss
       jobs write OUT_DIR NAME...    a habit's, KIND@SEED for a random job, or `real` for the model that
                                     the environment names
       jobs train OUT_DIR NAME...    trains what `write` wrote, with the weights that traind drew
       jobs check OUT_DIR NAME...    compares, and writes what differs into `differences.json`
"""

import json
import os
import sys
import traceback
import warnings
from pathlib import Path

os.environ.update(USE_TORCH_XLA="0", HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error", TQDM_DISABLE="1")
warnings.simplefilter("ignore")

import models
import real
import table
import torch
import transformers
from kinds import KINDS, drawn

from folder import write_json

NAME, LOSSES = 34, 44
LISTS = {"kinds": KINDS, "losses": table.LOSSES}


def main():
    torch.set_num_threads(1)
    command, *arguments = sys.argv[1:]
    if command == "list":
        print("\n".join(LISTS[arguments[0]] if arguments else table.CASES))
        return
    out, *names = arguments
    for name in names:
        COMMANDS[command](case_of(name), Path(out) / name)


def case_of(name):
    if name == "real":
        return real.case()
    kind, _, seed = name.partition("@")
    return drawn(kind, int(seed)) if seed else (table.CASES | table.LOSSES)[name]


def write(case, folder):
    if "folder" in case.model:
        folder.mkdir(parents=True)
        (folder / "model").symlink_to(case.model["folder"])
    else:
        models.write(folder / "model", case.model, case.task)
    for name, spec in case.model.get("others", {}).items():
        models.write(folder / name, case.model | spec, case.task, seed=1)
    case.write_files(folder)
    write_json(folder / "job.json", case.sections())
    write_json(folder / "case.json", {"is_drawn": case.is_drawn, "resume": case.resume, "refusal": case.refusal})


def train(case, folder):
    import training

    if case.refusal:
        write_json(folder / "trainer.json", {"log_history": []})
        return
    transformers.set_seed(0)
    try:
        state = training.run(case, folder)
    except BaseException as error:  # tokenizers panics
        if isinstance(error, KeyboardInterrupt):
            raise
        (folder / "trainer.txt").write_text(traceback.format_exc())
        state = {"error": f"{type(error).__name__}: {error}"}
    write_json(folder / "trainer.json", state)


def check(case, folder):
    import check

    found = list(check.complaints(case, folder))
    write_json(folder / "differences.json", found)
    theirs, ours = (json.loads((folder / name).read_text()) for name in ["trainer.json", "ours.json"])
    is_refused = case.refusal or case.may_fail and "error" in ours
    verdict = "differs" if found else "refused" if is_refused else "equal"
    print(
        f"{folder.name:{NAME}} {check.summary(theirs):{LOSSES}} {check.summary(ours):{LOSSES}} {verdict} {case.about}"
    )
    for line in found[:6]:
        print(f"    {line[:400]}")
    sys.stdout.flush()


COMMANDS = {"write": write, "train": train, "check": check}

if __name__ == "__main__":
    main()
