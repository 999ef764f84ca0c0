"""Small jobs of a first contact: fixtures of families on NeuronCores beside CPU devices, on several cores, and resumed."""

import json
import tempfile
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


class Jobs:
    """Runs jobs with `traind-runner`, without a daemon, in a folder."""

    def __init__(self, contact, folder):
        self.contact = contact
        self.folder = Path(folder)
        self.steps = BRIEF_STEPS if contact.brief else STEPS
        lines = [json.dumps({"text": " ".join(words(row)), "label": row % 3}) for row in range(ROWS)]
        (self.folder / "train.jsonl").write_text("\n".join(lines) + "\n")

    def losses(self, name, fixture, platform, cores=1, **train):
        """The losses of a job's steps; its output folder is called `name`."""
        model = write_model(self.folder / fixture, fixture)
        of_family = FAMILIES[fixture]
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
        state = json.loads((self.folder / name / "trainer_state.json").read_text())
        return [entry["loss"] for entry in state["log_history"] if "loss" in entry]


def task(fixture):
    return "sequence-classification" if fixture.endswith("classification") else "causal-lm"


def words(row):
    return [WORDS[(row * 5 + place * place) % len(WORDS)] for place in range(3 + row % 4)]


def write_model(folder, fixture):
    """A fixture with a tokenizer of whole words."""
    folder.mkdir(exist_ok=True)
    for name in ["config.json", "model.safetensors"]:
        (folder / name).write_bytes((FIXTURES / fixture / name).read_bytes())
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
    losses = jobs.losses(f"{fixture}-neuron", fixture, "neuron")
    found = {"losses": losses}
    if jobs.contact.cpu_plugin:
        found["cpu_losses"] = jobs.losses(f"{fixture}-cpu", fixture, "cpu")
        found["difference"] = difference(losses, found["cpu_losses"])
    return found


def resume(jobs, whole):
    """Whether the second half of a job has the bits of an uninterrupted one."""
    half = jobs.steps // 2
    jobs.losses("saved", FIRST, "neuron", save_steps=half)
    checkpoint = str(jobs.folder / "saved" / f"checkpoint-{half}")
    resumed = jobs.losses("resumed", FIRST, "neuron", resume_from_checkpoint=checkpoint)
    weights = [(jobs.folder / name / "model.safetensors").read_bytes() for name in ("saved", "resumed")]
    return {"same_losses": resumed[-half:] == whole[-half:], "same_weights": weights[0] == weights[1]}
