"""Small jobs of a first contact: families on NeuronCores beside CPU devices, on several cores, and resumed."""

import json
import struct
import subprocess
import tempfile
import time
import zlib
from pathlib import Path

FIXTURES = Path(__file__).resolve().parents[2] / "xla-backend/models/fixtures"
SPECIAL_TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = ["pear", "plum", "fig", "oak", "elm", "ash", "wolf", "lynx", "hare", "saw", "file", "awl"]
STEPS = 20
BRIEF_STEPS = 4
ROWS = 40
BATCH_ROWS = 8
# Families by their fixtures, each with what its job file has besides. One layer: a compile takes minutes.
FAMILIES = {
    "bert-sequence-classification": {
        "model": {"config_overrides": {"num_hidden_layers": 1, "hidden_dropout_prob": 0.1}},
        "data": {"train": "train.jsonl", "label": "label"},
    },
    "gpt2-causal-lm": {
        "model": {"config_overrides": {"n_layer": 1}},
        "data": {"train": "train.jsonl", "block_size": 8},
    },
    "llama-causal-lm": {
        "model": {"config_overrides": {"num_hidden_layers": 1}},
        "data": {"train": "train.jsonl", "block_size": 8},
        "peft": {"method": "lora", "target_modules": "all-linear", "lora_dropout": 0.1},
    },
}
FIRST = "bert-sequence-classification"
# Tasks of which one for each further family is tried, in this order.
TASKS = ["sequence-classification", "causal-lm", "masked-lm", "seq2seq-lm", "image-classification"]
# Families that come before others.
IMPORTANT = ["bert", "gpt2", "llama", "t5", "vit", "roberta", "distilbert", "qwen3", "mistral", "gemma3"]


class Jobs:
    """Runs jobs with `traind-runner`, without a daemon, in a folder."""

    def __init__(self, contact, folder):
        self.contact = contact
        self.folder = Path(folder)
        self.steps = BRIEF_STEPS if contact.brief else STEPS
        lines = [json.dumps(example(row)) for row in range(ROWS)]
        (self.folder / "train.jsonl").write_text("\n".join(lines) + "\n")
        for label in range(3):
            images = self.folder / "images" / f"class{label}"
            images.mkdir(parents=True)
            for number in range(BATCH_ROWS):
                (images / f"{number}.png").write_bytes(image(40 * number, 80 * label))

    def losses(self, name, fixture, platform, cores=1, **train):
        """The losses of a job's steps; its output folder is called `name`."""
        model = write_model(self.folder / fixture, fixture)
        of_family = FAMILIES.get(fixture) or {"data": data(task(fixture))}
        job = {
            "name": name,
            "model": {"name_or_path": str(model), "task": task(fixture), **of_family.get("model", {})},
            "data": of_family["data"],
            "train": {
                "max_steps": self.steps,
                "per_device_train_batch_size": BATCH_ROWS // cores,
                "learning_rate": 1e-3,
                "logging_steps": 1,
                **train,
            },
            "resources": {"platform": platform, "cores": cores},
            "output_dir": name,
        }
        if "peft" in of_family:
            job["peft"] = of_family["peft"]
        # JSON is YAML.
        (self.folder / f"{name}.yaml").write_text(json.dumps(job))
        self.contact.run_job(self.folder, f"{name}.yaml", platform, cores)
        return logged_losses(self.folder / name)

    def quickstart(self):
        """Writes the quickstart's job with its model and texts. Returns what the texts are."""
        demo = [self.contact.programs["traind"], "demo", "--no-train", "--cores", "1"]
        demo += ["--output", str(self.folder / "quickstart")]
        if self.contact.cache_dir:
            demo += ["--cache-dir", str(self.contact.cache_dir)]
        said = self.contact.run(demo).stderr.strip().splitlines()
        return said[-1].rpartition(": ")[2] if said else None

    def quickstart_losses(self, platform):
        """The losses of the first steps of the quickstart's job on one core."""
        folder, name = self.folder / "quickstart", f"quickstart-{platform}"
        text = (folder / "job.yaml").read_text()
        for line, other in [
            ("platform: cpu", f"platform: {platform}"),
            ("num_train_epochs: 2", f"max_steps: {self.steps}"),
            ("eval_strategy: epoch", "do_eval: false"),
            ("logging_steps: 10", "logging_steps: 1"),
            ("output_dir: package-sections", f"output_dir: {name}"),
        ]:
            if line not in text:
                raise RuntimeError(f"the quickstart's job has no {line}")
            text = text.replace(line, other)
        (folder / f"{name}.yaml").write_text(text)
        self.contact.run_job(folder, f"{name}.yaml", platform, 1)
        return logged_losses(folder / name)


def logged_losses(output):
    """The losses in the output folder of a job."""
    state = json.loads((output / "trainer_state.json").read_text())
    return [entry["loss"] for entry in state["log_history"] if "loss" in entry]


def task(fixture):
    return next(task for task in TASKS if fixture.endswith(task))


def data(task):
    """The section `data` of a job for a task."""
    if task == "image-classification":
        return {"train": "images"}
    if task == "seq2seq-lm":
        return {
            "train": "train.jsonl",
            "source": "text",
            "target": "first",
            "max_source_length": 8,
            "max_target_length": 8,
        }
    if task == "sequence-classification":
        return {"train": "train.jsonl", "label": "label", "max_length": 8}
    return {"train": "train.jsonl", "block_size" if task == "causal-lm" else "max_length": 8}


def image(*brightness):
    """A PNG of 14 by 14 pixels of one colour."""
    size = 14
    rows = (b"\0" + bytes([*(value % 256 for value in brightness), 90]) * size) * size

    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)
    parts = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + parts


def words(row):
    return [WORDS[(row * 5 + place * place) % len(WORDS)] for place in range(3 + row % 4)]


def example(row):
    return {"text": " ".join(words(row)), "label": row % 3, "first": words(row)[0]}


def write_model(folder, fixture):
    """A fixture with a tokenizer of whole words."""
    folder.mkdir(exist_ok=True)
    for name in ["config.json", "model.safetensors"]:
        (folder / name).write_bytes((FIXTURES / fixture / name).read_bytes())
    if fixture.endswith("image-classification"):
        height, width = json.loads((folder / "config.json").read_text())["image_size"]
        size = {"image_processor_type": "ViTImageProcessor", "size": {"height": height, "width": width}}
        (folder / "preprocessor_config.json").write_text(json.dumps(size))
        return folder
    tokens = SPECIAL_TOKENS + WORDS
    special = [
        {"id": number, "content": token, "special": True}
        | dict.fromkeys(["single_word", "lstrip", "rstrip", "normalized"], False)
        for number, token in enumerate(SPECIAL_TOKENS)
    ]
    tokenizer = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": special,
        "normalizer": None,
        "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": None,
        "decoder": None,
        "model": {
            "type": "WordLevel",
            "vocab": {token: number for number, token in enumerate(tokens)},
            "unk_token": "[UNK]",
        },
    }
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": "[PAD]", "model_max_length": 16}
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder


def difference(some, others):
    """The largest difference of losses, as a share."""
    if len(some) != len(others):
        raise RuntimeError(f"{len(some)} and {len(others)} losses")
    return max(abs(one - other) / abs(other) for one, other in zip(some, others, strict=True))


def one_of_each_family():
    """A fixture of each family, the most important first."""
    found = {}
    for task in TASKS:
        for config in sorted(FIXTURES.glob(f"*-{task}/config.json")):
            found.setdefault(json.loads(config.read_text())["model_type"], config.parent.name)
    order = [*IMPORTANT, *sorted(found)]
    return [found[family] for family in sorted(found, key=order.index)]


def families(contact):
    """Two steps of each family on both platforms; `left` are those for which there was no time."""
    fixtures = one_of_each_family()
    report = {"differences": {}, "errors": {}}
    with tempfile.TemporaryDirectory(prefix="traind-contact-") as folder:
        jobs = Jobs(contact, folder)
        jobs.steps = 2
        while fixtures and time.monotonic() < contact.end:
            fixture = fixtures.pop(0)
            try:
                found = family(jobs, fixture)
            except (OSError, RuntimeError, ValueError) as error:
                report["errors"][fixture] = str(error)
                continue
            report["differences"][fixture] = found.get("difference")
    return report | {"left": fixtures}


def train(contact):
    """Families, collectives and one resumed job, each with its losses."""
    with tempfile.TemporaryDirectory(prefix="traind-contact-") as folder:
        jobs = Jobs(contact, folder)
        families = [FIRST] if contact.brief else FAMILIES
        report = {"families": {fixture: family(jobs, fixture) for fixture in families}}
        one = report["families"][FIRST]["losses"]
        report["collectives"] = {
            str(cores): difference(jobs.losses(f"cores-{cores}", FIRST, "neuron", cores), one)
            for cores in contact.core_counts()
        }
        report["resume"] = resume(jobs, one)
        return report


def family(jobs, fixture):
    return beside(jobs, lambda platform: jobs.losses(f"{fixture}-{platform}", fixture, platform))


def beside(jobs, losses):
    """The losses on NeuronCores, beside those of CPU devices."""
    found = {"losses": losses("neuron")}
    if jobs.contact.cpu_plugin:
        found["cpu_losses"] = losses("cpu")
        found["difference"] = difference(found["losses"], found["cpu_losses"])
    return found


def quickstart(contact):
    """The first steps of the quickstart's job; of a fixture where its model cannot be had."""
    with tempfile.TemporaryDirectory(prefix="traind-contact-") as folder:
        jobs = Jobs(contact, folder)
        try:
            texts = jobs.quickstart()
        except (OSError, RuntimeError, subprocess.SubprocessError) as error:
            return {"model": FIRST, "why": str(error), **family(jobs, FIRST)}
        return {"model": "the quickstart's", "texts": texts, **beside(jobs, jobs.quickstart_losses)}


def resume(jobs, whole):
    """Whether the second half of a job has the bits of an uninterrupted one."""
    half = jobs.steps // 2
    jobs.losses("saved", FIRST, "neuron", save_steps=half)
    checkpoint = str(jobs.folder / "saved" / f"checkpoint-{half}")
    resumed = jobs.losses("resumed", FIRST, "neuron", resume_from_checkpoint=checkpoint)
    weights = [(jobs.folder / name / "model.safetensors").read_bytes() for name in ("saved", "resumed")]
    return {"same_losses": resumed[-half:] == whole[-half:], "same_weights": weights[0] == weights[1]}
