"""The rules by which axolotl and LLaMA-Factory train on a file: rows of tokens with their targets, steps, warmup and
rows of a step. An independent account of both tools for the layouts of their published examples."""

import math
from dataclasses import dataclass

IGNORED = -100
# Alpaca's introductions, with and without an input.
WITH_INPUT = (
    "Below is an instruction that describes a task, paired with an input that provides further context. "
    "Write a response that appropriately completes the request."
)
WITHOUT_INPUT = (
    "Below is an instruction that describes a task. Write a response that appropriately completes the request."
)
QWEN_SYSTEM = "You are Qwen, created by Alibaba Cloud. You are a helpful assistant."
ROLES = {"human": "user", "gpt": "assistant"}
# Limits of axolotl's warmup, where a file has neither of its keys.
WARMUP_SHARE, WARMUP_STEPS_MAX = 0.03, 100


@dataclass
class Row:
    """The tokens of a row, and the target of each."""

    tokens: list
    targets: list

    def cut(self, length):
        return Row(self.tokens[:length], self.targets[:length])


@dataclass
class Expected:
    """A training as the tool has it."""

    #: Rows of each data set, in order; several where a row becomes several, none where it is dropped.
    rows: list
    #: Rows of a batch of one core, and batches of a step.
    batch: int
    accumulation: int
    epochs: float
    #: Steps of the whole run, from the number of rows to train on.
    steps: object
    #: Steps of warmup, from the number of all steps.
    warmup: object
    packs: bool
    #: The share of rows that the file keeps aside.
    validation_share: float = 0.0


class Words:
    """A tokenizer with the ids that rules need."""

    def __init__(self, tokenizer, bos, eos):
        self.tokenizer, self.bos, self.eos = tokenizer, bos, eos

    def plain(self, text):
        return self.tokenizer.encode(text, add_special_tokens=False).ids

    def begun(self, text):
        """With the token that begins texts, where the tokenizer adds it."""
        return self.tokenizer.encode(text).ids

    def id(self, token):
        return self.tokenizer.token_to_id(token)


def of(tool, settings, words, sets):
    """The training of a file; `sets` are the rows of each of its data sets."""
    return (of_axolotl if tool == "axolotl" else of_llama_factory)(settings, words, sets)


def of_axolotl(settings, words, sets):
    given = {key: value for key, value in settings.items() if value is not None}
    length = given.get("sequence_len", 512)
    batch = given.get("micro_batch_size", 1)
    accumulation = given.get("gradient_accumulation_steps") or given.get("batch_size", batch) // batch
    epochs = given.get("num_epochs", 1)
    eos_token = (given.get("special_tokens") or {}).get("eos_token")
    eos = words.id(eos_token) if eos_token else words.eos
    rows = []
    for entry, content in zip(given["datasets"], sets, strict=True):
        encode = axolotl_encoder(given, entry, words, eos, length)
        made = [encode(row) for row in content[: first_rows(entry.get("split"), len(content))]]
        rows.append([[row] if len(row.tokens) <= length and any_target(row) else [] for row in made])
    packs = bool(given.get("sample_packing"))

    def steps(count, lengths):
        if given.get("max_steps"):
            return given["max_steps"]
        if packs:
            bins = first_fit_decreasing(lengths, batch * length)
            return math.floor(max(1, bins // accumulation) * epochs)
        return math.ceil(count * epochs / (batch * accumulation))

    def warmup(steps):
        if given.get("warmup_steps") is not None:
            wanted = given["warmup_steps"]
        elif given.get("warmup_ratio") is not None:
            wanted = int(given["warmup_ratio"] * steps)
        else:
            wanted = min(int(WARMUP_SHARE * steps), WARMUP_STEPS_MAX)
        return 2 if wanted == 1 else wanted

    share = given.get("val_set_size") or 0.0
    return Expected(rows, batch, accumulation, epochs, steps, warmup, packs, share)


def any_target(row):
    return any(target != IGNORED for target in row.targets)


def first_rows(split, count):
    """The end of a split such as `train[:20%]`."""
    share = (split or "").removeprefix("train[:").removesuffix("%]")
    return round(count * int(share) / 100) if share.isdigit() else count


def axolotl_encoder(given, entry, words, eos, length):
    kind = entry.get("type")
    if given.get("rl"):
        return lambda row: axolotl_pair(given["chat_template"], entry, row, words, eos)
    if kind == "completion":
        return lambda row: ended(words.begun(row[entry.get("field", "text")]), eos)
    if kind == "chat_template":
        return lambda row: axolotl_turns(
            given["chat_template"], entry, row, words, eos, bool(given.get("train_on_inputs"))
        )
    style = kind.partition(":")[2] or "instruct"
    return lambda row: axolotl_instruction(style, row, words, eos, length, bool(given.get("train_on_inputs")))


def ended(tokens, eos):
    tokens = tokens if tokens[-1:] == [eos] else [*tokens, eos]
    return Row(tokens, list(tokens))


def axolotl_instruction(style, row, words, eos, length, trains_on_prompt):
    """Prompt and answer are tokenized by themselves; the answer ends with the token for that."""
    prompt = words.begun(instruction_prompt(style, row["instruction"], row.get("input", "")))[:length]
    answer = ended(words.begun(row["output"])[:length], eos).tokens
    answer = answer[1:] if answer[0] == words.bos else answer
    return Row(prompt + answer, (prompt if trains_on_prompt else [IGNORED] * len(prompt)) + answer)


def instruction_prompt(style, instruction, given):
    introduction = WITH_INPUT if given else WITHOUT_INPUT
    if style == "phi":
        turn = f"<|user|>\n{instruction}<|end|>{given}<|assistant|>"
        turn = turn if given else f"<|user|>\n{instruction}<|end|>\n<|assistant|>\n"
        return f"<|system|>\n{introduction}<|end|>\n{turn}"
    context = f"### Input:\n{given}\n\n" if given else ""
    return f"{introduction}\n\n### Instruction:\n{instruction}\n\n{context}### Response:\n"


def axolotl_turns(template, entry, row, words, eos, trains_on_inputs):
    """A conversation by a chat template; targets are the answers, and the token that ends one where it is `eos`."""
    names = entry.get("message_property_mappings") or {"role": "role", "content": "content"}
    turns = [
        (ROLES.get(message[names["role"]], message[names["role"]]), message[names["content"]])
        for message in row[entry.get("field_messages", "messages")]
    ]
    tokens, targets = [], []
    for role, text, is_content in rendered(template, turns, words):
        part = words.plain(text)
        is_target = (role == "assistant" or trains_on_inputs) and (is_content or part == [eos])
        tokens += part
        targets += part if is_target else [IGNORED] * len(part)
    return Row(tokens, targets)


def axolotl_pair(template, entry, row, words, eos):
    """The chosen answer, which TRL gets as a text: without the line end after its turn, and with the token that ends it."""
    turns = [(message["role"], message["content"]) for message in row[entry["field_messages"]]]
    prompt = [token for _, text, _ in rendered(template, turns, words) for token in words.plain(text)]
    prompt += words.plain("<|im_start|>assistant\n")
    answer = [*words.plain(row["chosen"]["content"] + "<|im_end|>"), eos]
    return Row(prompt + answer, [IGNORED] * len(prompt) + answer)


def rendered(template, turns, words):
    """Parts of a conversation's text: role, text, and whether it is the content of a turn. No part ends within a token,
    since all are separated by special tokens or line ends after them."""
    if template == "llama3":
        yield "", words.tokenizer.id_to_token(words.bos), False
        for role, content in turns:
            yield role, f"<|start_header_id|>{role}<|end_header_id|>\n\n", False
            yield role, content.strip(), True
            yield role, "<|eot_id|>", False
        return
    if turns[0][0] != "system":
        turns = [("system", QWEN_SYSTEM), *turns]
    for role, content in turns:
        yield role, f"<|im_start|>{role}\n", False
        yield role, content, True
        yield role, "<|im_end|>", False
        yield role, "\n", False


def first_fit_decreasing(lengths, capacity):
    """Number of bins, none of which has more than `capacity` tokens."""
    bins = []
    for length in sorted(lengths, reverse=True):
        for index, used in enumerate(bins):
            if used + length <= capacity:
                bins[index] += length
                break
        else:
            bins.append(length)
    return len(bins)


def of_llama_factory(settings, words, sets):
    given = {key: value for key, value in settings.items() if value is not None}
    length = given.get("cutoff_len", 2048)
    batch = given.get("per_device_train_batch_size", 8)
    accumulation = given.get("gradient_accumulation_steps", 1)
    epochs = given.get("num_train_epochs", 3.0)
    stage = given["stage"]
    limit = given.get("max_samples")
    sets = [content[:limit] for content in sets]
    if stage == "pt":
        rows = [[[row] for row in blocks(content, words, length)] for content in sets]
    else:
        encode = llama_factory_pair if stage == "dpo" else llama_factory_instruction
        rows = [[[encode(row, words, length)] for row in content] for content in sets]

    def steps(count, _):
        if given.get("max_steps", -1) > 0:
            return given["max_steps"]
        batches = math.ceil(count / batch)
        return math.ceil(epochs * max(math.ceil(batches / accumulation), 1))

    def warmup(steps):
        share = given.get("warmup_ratio", 0.0)
        return given.get("warmup_steps") or math.ceil(share * steps)

    return Expected(rows, batch, accumulation, epochs, steps, warmup, False)


def blocks(content, words, length):
    """Texts that end with their token, put end to end, a thousand at a time. The rest of them is dropped."""
    for start in range(0, len(content), 1000):
        texts = content[start : start + 1000]
        stream = [token for row in texts for token in [*words.plain(row["text"]), words.eos]]
        for at in range(0, len(stream) - length + 1, length):
            part = stream[at : at + length]
            yield Row(part, list(part))


def llama_factory_instruction(row, words, length):
    prompt = words.plain(nothink_prompt("\n".join(filter(None, [row["instruction"], row.get("input")]))))
    answer = words.plain(f"{row['output']}<|im_end|>\n")
    prompt_length, answer_length = shares(len(prompt), len(answer), length)
    prompt, answer = prompt[:prompt_length], answer[:answer_length]
    return Row(prompt + answer, [IGNORED] * len(prompt) + answer)


def llama_factory_pair(row, words, length):
    """The chosen answer, cut as the longer one of both is."""
    prompt = words.plain(nothink_prompt(row["conversations"][0]["value"]))
    answers = [words.plain(f"{row[name]['value']}<|im_end|>\n") for name in ("chosen", "rejected")]
    prompt_length, answer_length = shares(len(prompt), max(map(len, answers)), length)
    prompt, answer = prompt[:prompt_length], answers[0][:answer_length]
    return Row(prompt + answer, [IGNORED] * len(prompt) + answer)


def nothink_prompt(text):
    return f"<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n"


def shares(source, target, length):
    """How much of a prompt and of its answer is kept, where both are longer than a row."""
    if target * 2 < length:
        most = length
    elif source * 2 < length:
        most = length - source
    else:
        most = int(length * (target / (source + target)))
    target = min(most, target)
    return min(max(length - target, 0), source), target
