"""Converts published example files, plans the jobs, and counts the results by reason. With small models and made data, runs
them and compares steps, rows of a step, warmup, lengths and targets with the tools' own rules.

usage: published.py TRAIND AXOLOTL LLAMA_FACTORY [--files] [--only NAME]
"""

import argparse
import collections
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

sys.path.insert(0, str(Path(__file__).parents[1] / "lib"))

import published_jobs as made
import published_rules as rules

import service

# Requests of examples that traind does not serve, by lines of their files: weights in fewer bits, other methods than
# fine-tuning on rows that are there, model families that it lacks, and models that read pictures or sound.
UNSUPPORTED = {
    "quantized weights": [
        r"load_in_[48]bit: *true",
        r"adapter: *qlora",
        r"quantization(_bit)?:",
        r"quantize_moe_experts: *true",
        r"(gptq|fp8): *true",
        r"(qat|model_quantization_config|llmcompressor|use_onebitllms|peft|quant_type):",
        r"model_name_or_path: .*(aqlm|gptq|awq)",
    ],
    "another method": [
        r"rl: *(?!dpo\b|ipo\b|simpo\b|orpo\b|kto\b)\w",
        r"(process_reward_model|kd_trainer|do_predict): *true",
        r"stage: *ppo\b",
        r"adapter: *(llama-adapter|ia3)",
        r"finetuning_type: *(oft|freeze)",
        r"((use_dft|use_eaft|use_asft)(_loss)?|use_badam|use_galore|use_apollo|use_adam_mini|use_muon|use_kt|pissa_init): *true",
        r"(relora|lisa_n_layers|diffusion|ebft|mixture_of_depths|pretraining_dataset|context_parallel_size|unfrozen_parameters):",
        r"(loraplus_lr_ratio|use_v1_kernels|expert_parallel_size|tensor_model_parallel_size|mixed_precision|use_ray):",
        r"type: *(jeopardy|chatml\.ultra|llama3\.ultra|rwd|ebft)",
    ],
    "another model family": [
        r"(base_model|model_name_or_path): *.*(dbrx|moe|mixtral|gpt-oss|deepseek-v|glm-?[45]|gemma-?4|gemma-?3n|qwen3[._]5|"
        r"qwen3-next|falcon|mpt|replit|btlm|jamba|mamba|granite-4|minimax|llama-4|kimi|nemotron|ernie|hunyuan|lfm|"
        r"-a\d+b|scout|maverick|command|olmoe|trinity|arcee|plano|laguna|smolvlm|xgen|stablelm|pythia|redpajama|"
        r"phi-1|phi-2)",
    ],
    "pictures or sound": [
        r"processor_type: *AutoProcessor",
        r"(image_max_pixels|image_size|video_max_pixels):",
        r"is_multimodal: *true",
        r".*(mllm_|llava|rlhf_v)",
        r"base_model: .*gemma-3-(4|12|27)b",
    ],
}
# Tasks whose rows and losses are compared with the tools' own rules; other jobs are planned.
COMPARED = ("sft", "dpo")
# Values of files that are made small, with those that take their place.
SMALL = {"sequence_len": 384, "cutoff_len": 160, "max_steps": 20}
LOSS_LIMIT = 2e-4
# Cores of the largest job.
CORES = 16


class Loader(yaml.SafeLoader):
    """Reads numbers such as 5e-6, which YAML 1.2 and both tools take for numbers."""


Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)$"), list("-+.0123456789")
)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("traind")
    parser.add_argument("axolotl", type=Path)
    parser.add_argument("llama_factory", type=Path)
    parser.add_argument("--files", action="store_true", help="name each file with its result")
    parser.add_argument("--only", default="", help="a part of the names of files to look at")
    options = parser.parse_args()
    tools = [
        ("axolotl", options.axolotl / "examples", "**/*.y*ml"),
        ("llama-factory", options.llama_factory / "examples", "**/*.yaml"),
    ]
    unlike = compared = 0
    with (
        tempfile.TemporaryDirectory(prefix="published.") as scratch,
        service.Daemon(options.traind, cores=CORES) as daemon,
    ):
        for tool, folder, pattern in tools:
            files = [(file, text) for file, text in examples(folder, pattern) if options.only in str(file)]
            ready = report(options, daemon, Path(scratch), tool, files)
            for file, task in ready:
                if task not in COMPARED:
                    continue
                complaints = compare(options, daemon, Path(scratch) / "run", tool, file)
                compared += 1
                unlike += bool(complaints)
    print(f"{compared} files compared with their tools' rules, {unlike} of which differ")
    sys.exit(bool(unlike))


def examples(folder, files):
    """The files that train, of a checkout."""
    for file in sorted(folder.glob(files)):
        text = file.read_text()
        if re.search(r"^(base_model|model_name_or_path):", text, re.M) and re.search(
            r"^(datasets|dataset|pretraining_dataset|stage):", text, re.M
        ):
            yield file, text


def unsupported(text):
    for reason, lines in UNSUPPORTED.items():
        if any(re.search(rf"^ *{line}", text, re.M | re.I) for line in lines):
            return reason
    return None


def converted(traind, tool, file):
    """The job file of a file, its comments, and the lines of reasons why there is none."""
    command = [traind, "convert", "--from", tool, str(file)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode == 0:
        return yaml.load(done.stdout, Loader), done.stdout, []
    lines = [line.strip() for line in done.stderr.splitlines() if line.startswith("  ")]
    return None, "", lines or [done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "no reason"]


def report(options, daemon, scratch, tool, files):
    """Prints what becomes of the files; returns those that can be planned."""
    results, reasons, ready = collections.Counter(), collections.Counter(), []
    supported = 0
    for number, (file, text) in enumerate(files):
        out_of_scope = unsupported(text)
        job, _, lines = converted(options.traind, tool, file)
        if job is not None and out_of_scope is None:
            lines = planned(options.traind, daemon, scratch / f"{tool}-{number}", file, job)
        supported += out_of_scope is None
        result = out_of_scope or ("refused" if job is None else "planned" if not lines else "not planned")
        results[result] += 1
        if out_of_scope is None:
            reasons.update(lines)
            if not lines:
                ready.append((file, job["model"]["task"]))
        if options.files:
            print(f"  {result:20} {file}", *(f"\n      {line}" for line in lines if out_of_scope is None), sep="")
    print(f"{tool}: {len(files)} files, {supported} with supported models and methods")
    for result, count in results.most_common():
        print(f"  {count:4} {result}")
    print(f"  converted and planned, of the supported ones: {len(ready) / max(supported, 1):.0%}")
    for reason, count in reasons.most_common():
        print(f"    {count:4} {reason}")
    return ready


def planned(traind, daemon, folder, file, job):
    """The reasons why a job has no plan with a small model of its kind and made data."""
    kind = made.kind_of(job["model"]["name_or_path"])
    if kind is None:
        return [f"{job['model']['name_or_path']}: no small model of this kind is known here"]
    made.write_model(folder / "model", kind, tokens_of(job))
    give(job, folder, "model")
    # Several hosts have a scheduler that is not here: the plan is for one.
    job["resources"] = {key: value for key, value in job.get("resources", {}).items() if key == "cores"}
    path = folder / "job.yaml"
    path.write_text(json.dumps(job, indent=1))
    command = [traind, "plan", "--socket", str(daemon.scratch / "socket"), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    return [] if done.returncode == 0 else [line for line in done.stderr.strip().splitlines() if line] or ["no plan"]


def give(job, folder, model):
    """Replaces the model and the files of a job by small ones; returns the rows of each of its sets."""
    job["model"]["name_or_path"] = str(folder / model)
    sets = []
    entries = job["data"]["train"]
    entries = entries if isinstance(entries, list) else [entries]
    for number, entry in enumerate(entries):
        rows = made.rows_of(job, number)
        rows = [made.row_for(job, row, index) for index, row in enumerate(rows)]
        file = folder / f"rows-{number}.jsonl"
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
        sets.append((str(file), rows))
        entries[number] = {**entry, "path": str(file)} if isinstance(entry, dict) else str(file)
    job["data"].pop("dataset_config_name", None)
    job["data"]["train"] = entries
    job["output_dir"] = str(folder / "out")
    return sets


def tokens_of(job):
    """The tokens that a job adds, which the small model has already."""
    special = job["model"].get("add_special_tokens", {}).values()
    added = [token for tokens in special for token in (tokens if isinstance(tokens, list) else [tokens])]
    return [*added, *job["model"].get("add_tokens", []), *job["data"].get("eot_tokens", [])]


def compare(options, daemon, folder, tool, file):
    """Runs the job of a file with small lengths; prints and returns what differs from the tool's rules."""
    with tempfile.TemporaryDirectory(prefix="case.", dir=folder.parent) as scratch:
        return compare_in(Path(scratch), options, daemon, tool, file)


def compare_in(folder, options, daemon, tool, file):
    settings = yaml.load(file.read_text(), Loader)
    settings |= {key: small for key, small in SMALL.items() if settings.get(key)}
    short = folder / file.name
    short.write_text(yaml.safe_dump(settings, sort_keys=False))
    job, text, lines = converted(options.traind, tool, short)
    if lines:
        return lines
    kind = made.kind_of(job["model"]["name_or_path"])
    tokenizer, embeddings, head = made.write_model(folder / "model", kind, tokens_of(job))
    sets = give(job, folder, "model")
    begin = tokenizer.token_to_id(made.BOS_TOKEN)
    words = rules.Words(tokenizer, begin, tokenizer.token_to_id(made.small_models.END))
    expected = rules.of(tool, settings, words, [rows for _, rows in sets])
    try:
        found = made.Figures(daemon, plain(job))
        first = made.Figures(daemon, first_step(job)) if job["data"].get("packing") else found
    except service.JobFailed as failure:
        print(f"fails    {file.parent.name}/{file.name}\n      {failure}")
        return [str(failure)]
    complaints = list(differences(expected, found, first, sets, job, text, (embeddings, head), words.plain("\n")))
    verdict = "differs" if complaints else "equal"
    batch = expected.batch * expected.accumulation
    print(
        f"{verdict:8} {found.steps:4} steps of {batch:2} rows, warmup {found.warmup}, {found.rows} rows of up to "
        f"{found.longest} tokens, loss {found.loss:.4f}  {file.parent.name}/{file.name}",
        *(f"\n      {line}" for line in complaints),
        sep="",
        flush=True,
    )
    return complaints


def plain(job):
    """A job on one core, in float32, without what takes time and changes no figure."""
    job = {key: value for key, value in job.items() if key not in ("parallel", "resources", "checkpoint_dir")}
    job["model"] = {key: value for key, value in job["model"].items() if key != "dtype"}
    without = ("bf16", "fp16", "tf32", "gradient_checkpointing", "load_best_model_at_end", "early_stopping_patience",
               "save_steps", "eval_steps", "eval_on_start", "push_to_hub", "hub_model_id", "hub_private_repo", "report_to",
               "project", "metric_for_best_model")  # fmt: skip
    train = {key: value for key, value in job["train"].items() if key not in without}
    job["train"] = train | {"save_strategy": "no", "eval_strategy": "no", "do_eval": False, "logging_steps": 1}
    job["name"] = "published"
    job["resources"] = {"platform": "cpu", "cores": 1}
    return job


def first_step(job):
    """One step of the job whose rows are not packed, so that each row of a batch is one of the file's."""
    job = plain(job)
    job["data"] = {key: value for key, value in job["data"].items() if "packing" not in key}
    job["train"] = job["train"] | {"max_steps": 1}
    return job


def differences(expected, found, first, sets, job, text, weights, line_end):
    """The differences from the tool's rules that the job file's comments do not name."""
    per_set = [[made_of for made_of in rows if made_of] for rows in expected.rows]
    rows = [row for made_of in per_set for parts in made_of for row in parts]
    kept = len(rows)
    is_blocks = job["data"].get("packing_strategy") == "wrapped"
    if not is_blocks and first.rows != kept:
        yield f"{first.rows} rows, with those that are kept aside, not {kept}"
    # The last block of texts, which LLaMA-Factory drops, is a row here, as the job file says.
    if is_blocks and found.rows - kept not in (0, 1):
        yield f"{found.rows} blocks, not {kept}"
    longest = max(len(row.tokens) for row in rows)
    is_pair = job["model"]["task"] == "dpo"
    if not is_pair and not expected.validation_share and not is_blocks and first.longest != longest:
        yield f"rows of up to {first.longest} tokens, not {longest}"
    yield from step_differences(expected, found, rows, kept - held_out(expected, kept), text, is_blocks)
    yield from loss_differences(expected, first, sets, job, text, weights, line_end, is_blocks)


def held_out(expected, kept):
    """Rows that are kept aside, as train_test_split counts them."""
    return math_ceil(kept * expected.validation_share)


def step_differences(expected, found, rows, count, text, is_blocks):
    train = [len(row.tokens) for row in rows]
    steps = expected.steps(found.rows if is_blocks else count, train)
    apart = abs(found.steps - steps)
    if expected.packs or "rounded up once" in text:
        # Rows here are as long as packs; axolotl packs into a whole batch, of which more is filled.
        allowed = max(expected.epochs, 0.25 * steps)
    else:
        allowed = 0
    if apart > allowed:
        yield f"{found.steps} steps, not {steps}"
    warmup = expected.warmup(found.steps)
    # A ratio is rounded up, and the job file says so; one step of it becomes two in axolotl.
    allowed = 2 if "in axolotl down" in text else 0
    if abs(found.warmup - warmup) > allowed:
        yield f"{found.warmup} steps of warmup, not {warmup}"


def ended_by_template(row, line_end):
    """An answer as the job file's comment says that it ends here."""
    return rules.Row([*row.tokens[:-1], *line_end], [*row.targets[:-1], *line_end])


def loss_differences(expected, found, sets, job, text, weights, line_end, is_blocks):
    """The loss of the first step, from the rows that it trained on."""
    files = {file: number for number, (file, _) in enumerate(sets)}
    batch = expected.batch * expected.accumulation
    if not is_blocks and len(found.samples) != min(batch, found.rows):
        yield f"{len(found.samples)} rows in the first step, not {batch}"
    if is_blocks:
        return
    chosen = [part for file, row in found.samples for part in expected.rows[files[file]][row]]
    if job["model"]["task"] == "dpo":
        if "adds the end-of-sequence token" in text:
            chosen = [ended_by_template(row, line_end) for row in chosen]
        logps = made.mean([-sum(made.losses(*weights, row)) for row in chosen])
        ours = found.metrics.get("logps/chosen")
        if ours is None or abs(ours - logps) > LOSS_LIMIT * abs(logps):
            yield f"logps/chosen is {ours} in the first step, not {logps:.5f}"
        return
    loss = made.mean([loss for row in chosen for loss in made.losses(*weights, row)])
    if not abs(found.loss - loss) <= LOSS_LIMIT * loss:
        yield f"the loss of the first step is {found.loss:.5f}, not {loss:.5f}"


def math_ceil(value):
    return -int(-value // 1)


if __name__ == "__main__":
    main()
