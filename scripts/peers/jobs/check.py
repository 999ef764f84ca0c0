"""Compares what both wrote for a job: the log, trainer_state.json, checkpoints, weights and adapters."""

import json

from safetensors import safe_open

# Fields of this machine and this run; `num_input_tokens_seen` is the Trainer's only where it is asked to count.
OWN_FIELDS = {"best_model_checkpoint", "log_history", "stateful_callbacks", "num_input_tokens_seen", "total_flos"}
OWN_ENTRIES = {"runtime", "per_second", "preparation_time", "total_flos"}
# Limit of differences, as a share of a weight's change over the whole run.
WEIGHTS_LIMIT = 2e-2
# The least norm that differences are a share of.
SMALL = 1e-6
# PEFT saves them, too, where adapters concern embeddings or the head, or embeddings were resized.
OF_THE_BASE = (".base_layer.", ".original_module.", ".modules_to_save.")


# The error of a job without a row to train on, of which the peers say something else each.
NOTHING = "DATA_EMPTY"


def complaints(case, folder):
    """Yields what differs."""
    ours, theirs = (json.loads((folder / name).read_text()) for name in ["ours.json", "trainer.json"])
    if case.refusal:
        if case.refusal not in ours.get("error", ""):
            yield f"expected an error with {case.refusal!r}, not {ours.get('error', 'success')}"
        return
    if "error" in theirs and (case.may_fail and "error" in ours or NOTHING in ours.get("error", "")):
        return
    if "error" in ours or "error" in theirs:
        yield f"the peer: {theirs.get('error', 'trains')}; traind: {ours.get('error', 'trains')}"
        return
    yield from entry_complaints(theirs, ours, case)
    yield from field_complaints(theirs, ours, case)
    yield from checkpoint_complaints(folder)
    yield from weight_complaints(folder, case)


def entry_complaints(theirs, ours, case):
    first = [
        next((entry["loss"] for entry in state["log_history"] if "loss" in entry), 0.0) for state in (theirs, ours)
    ]
    if not difference(*first) <= case.first_limit:
        yield f"the first loss is {first[1]}, the peer's {first[0]}"
    theirs, ours = (list(map(compared, state["log_history"])) for state in (theirs, ours))
    if len(theirs) != len(ours):
        yield f"{len(ours)} entries of the log, the peer has {len(theirs)}"
    for one, other in zip(theirs, ours, strict=False):
        # Known differences of the closing entry: see docs/compatibility.md.
        known = {"num_input_tokens_seen"} | ({"train_loss"} if case.resume else set()) if "train_loss" in one else set()
        for key in sorted(one.keys() - known):
            if key == "rewards/accuracies" and begins_with_rounding(one, case):
                continue
            if key in other and not difference(one[key], other[key], floor(key)) <= case.limit:
                yield f"step {one.get('step')}: {key} {other[key]}, the peer has {one[key]}"
            if key not in other and key not in MORE:
                yield f"step {one.get('step')}: no {key}"


def begins_with_rounding(entry, case):
    """Whether the first step counts, whose rewards DoRA's norms make rounding in place of zeros."""
    first = case.job.get("train", {}).get("logging_steps", 1)
    return bool((case.job.get("peft") or {}).get("use_dora")) and entry.get("step", 0) <= first


# Logged by TRL alone.
MORE = {"entropy", "num_tokens", "mean_token_accuracy", "logits/chosen", "logits/rejected"}
MORE |= {f"eval_{name}" for name in MORE}


def compared(entry):
    return {key: value for key, value in entry.items() if not any(own in key for own in OWN_ENTRIES)}


def difference(theirs, ours, least=1e-2):
    """Relative to the peer's, or to `least` where that is larger."""
    return abs(ours - theirs) / max(abs(theirs), least)


def floor(key):
    """Rewards and divergences are differences of sums over tokens, which round by their size."""
    return 1.0 if "rewards/" in key or key in ("kl", "eval_kl") else 1e-2


def field_complaints(theirs, ours, case):
    theirs["train_batch_size"] //= case.job.get("resources", {}).get("cores", 1)
    for key in sorted(theirs.keys() | ours.keys()):
        if key in OWN_FIELDS:
            continue
        one, other = theirs.get(key), ours.get(key)
        near = isinstance(one, float) and isinstance(other, float) and difference(one, other) <= case.limit
        if one != other and not near:
            yield f"trainer_state.json: {key} {other}, the peer has {one}"
    best = [(state.get("best_model_checkpoint") or "").rpartition("/")[2] for state in (theirs, ours)]
    if best[0] != best[1]:
        yield f"trainer_state.json: best_model_checkpoint {best[1]}, the peer has {best[0]}"


def checkpoint_complaints(folder):
    theirs, ours = (sorted(path.name for path in (folder / side).glob("checkpoint-*")) for side in ["theirs", "ours"])
    if theirs != ours:
        yield f"checkpoints {ours}, the peer has {theirs}"


def weight_complaints(folder, case):
    """Names, shapes and values of what was saved."""
    file = "adapter_model.safetensors" if case.job.get("peft") else "model.safetensors"
    yield from file_complaints(folder, file, case)
    if "dense_out_features" in case.job.get("embedding", {}):
        yield from file_complaints(folder, "2_Dense/model.safetensors", case)


def file_complaints(folder, file, case):
    theirs, ours = (weights(folder / side / file) for side in ["theirs", "ours"])
    for name in sorted(theirs.keys() | ours.keys()):
        if any(part in name for part in OF_THE_BASE) or is_without_gradient(name, case):
            continue
        if name not in ours:
            yield f"{file} lacks {name}"
        elif name not in theirs:
            yield f"{file} has {name}, the peer's has not"
        elif theirs[name].shape != ours[name].shape:
            yield f"{file}: {name} is {list(ours[name].shape)}, the peer's {list(theirs[name].shape)}"
        else:
            one, other = theirs[name].double(), ours[name].double()
            if not (one - other).norm() <= WEIGHTS_LIMIT * case.limit / 1e-4 * max(one.norm(), SMALL):
                yield f"{file}: {name} is {(one - other).norm() / one.norm():.1e} from the peer's"


def compares_distances(section):
    """Whether the loss knows embeddings by their differences alone."""
    usual = "euclidean" if "triplet" in section["loss"] else "cosine"
    is_direct = not section.get("normalize") and "dense_out_features" not in section
    return is_direct and section.get("distance_metric", usual) != "cosine"


def is_without_gradient(name, case):
    """Whether softmax takes what this adds away again, so that optimizers divide rounding by rounding."""
    if case.task == "question-answering":
        return name.endswith(".bias")
    # Losses that compare scores, or distances of embeddings, do not change where all of them move alike.
    if case.task == "reranker" and case.job["reranker"]["loss"] in ("margin_mse", "list_net", "lambda"):
        if name.endswith(("classifier.bias", "out_proj.bias")):
            return True
    if case.task == "embedding" and compares_distances(case.job["embedding"]):
        # The bias of the last layer moves all embeddings.
        return name.endswith(("LayerNorm.bias", "layer_norm.bias", "key.bias", "k_lin.bias"))
    return name.endswith(("key.bias", "k_proj.bias", "k_lin.bias"))


def weights(path):
    if not path.exists():
        return {}
    with safe_open(path, "pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 it is no dictionary


def summary(state):
    """The first two and the last of the steps, and the last evaluation; or the error."""
    if "error" in state:
        return state["error"].split(":")[0][:40]
    found = [entry["loss"] for entry in state["log_history"] if "loss" in entry]
    evaluated = [entry["eval_loss"] for entry in state["log_history"] if "eval_loss" in entry]
    shown = " ".join(f"{loss:.5f}" for loss in [*found[:2], *found[2:][-1:]])
    return shown + (f" eval {evaluated[-1]:.5f}" if evaluated else "")
