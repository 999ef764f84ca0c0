"""Renders conversations with published chat templates, here and with transformers' `apply_chat_template`, and compares
texts, tokens and masks of the assistant's tokens. The templates are those that come with TRL, and *.jinja in the folders
given. Prints a line for each template.

Exits with 1 where anything differs, or where only one of the two refuses a conversation.
"""

import argparse
import importlib.util
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

SPECIAL_TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
DATE = {"date_string": "22 Nov 2026"}


def message(role, content, **fields):
    return {"role": role, "content": content, **fields}


def user(content):
    return message("user", content)


def assistant(content, **fields):
    return message("assistant", content, **fields)


def call(name, arguments, **fields):
    return {"type": "function", "function": {"name": name, "arguments": arguments}, **fields}


def tool(name, description, **parameters):
    parameters = {"type": "object", "properties": parameters, "required": list(parameters)[:1]}
    function = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": function}


def parts(*texts):
    return [{"type": "text", "text": text} for text in texts]


TOOLS = [
    tool(
        "weather",
        'The "weather" at a place – <now> & later.',
        place={"type": "string", "description": "A city\nof Europe", "enum": ["Zürich", "Rome"]},
        days={"type": "integer", "description": "How many", "default": 3},
    ),
    tool("time", "The time.", zone={"type": ["string", "null"], "nullable": True}),
]
LOOK_UP = [
    message("system", "You know the weather."),
    user("How is it in Zürich?"),
    assistant(None, tool_calls=[call("weather", {"place": "Zürich", "days": 2, "exact": True}, id="abcdefgh1")]),
    message("tool", '{"degrees": -3.5}', name="weather", tool_call_id="abcdefgh1"),
    assistant("Cold."),
    user("And the time there?"),
]
THOUGHT = "First this,\n\nthen that."
# Conversations, each with the fields of its row beside the messages.
CONVERSATIONS = {
    "turn": ([user("What is it?"), assistant("A test.")], {}),
    "turns": ([user("One?"), assistant("Yes, one."), user("Two?"), assistant("No.\n"), user("Three?")], {}),
    "system": ([message("system", "Be brief."), user("Who?"), assistant("Me."), user("Where?"), assistant("Here.")], {}),
    "developer": ([message("developer", "Be brief."), user("Who?"), assistant("Me.")], {}),
    "empty": ([message("system", ""), user(""), assistant("")], {}),
    "spaces": ([user("\n  indented\n\ttext \n"), assistant("  answer\n\n"), user(" again")], {}),
    "unicode": ([user("日本語 😀 – é?"), assistant("ünïcode 👩‍👩‍👧\u00a0end")], {}),
    "tags": ([user("{{ 1 }} {% x %} <|im_end|>"), assistant("</s> [/INST] <think>a</think> b")], {}),
    "two_users": ([user("One."), user("Two."), assistant("Both.")], {}),
    "begun_by_assistant": ([assistant("Hello."), user("Hello."), assistant("So?")], {}),
    "two_systems": ([message("system", "A."), user("a"), message("system", "B."), user("b"), assistant("c")], {}),
    "other_role": ([user("a"), message("critic", "b"), assistant("c")], {}),
    "thoughts": ([user("Why?"), assistant("So.", reasoning_content=THOUGHT), user("Why?"), assistant("So.", thinking="x")], {}),
    "inline_thoughts": ([user("Why?"), assistant(f"<think>\n{THOUGHT}\n</think>\n\nSo."), user("And?"), assistant("<think></think>b")], {}),
    "no_thinking": ([user("Why?"), assistant("So."), user("And?")], {"chat_template_kwargs": {"enable_thinking": False}}),
    "thinking": ([user("Why?"), assistant("So."), user("And?")], {"chat_template_kwargs": {"enable_thinking": True}}),
    "parts": ([message("system", parts("A", "B")), user(parts("What", " else?")), assistant(parts("This.", "That."))], {}),
    "picture": ([user([{"type": "image"}, *parts("What is it?")]), assistant(parts("A cat."))], {}),
    "tools": (LOOK_UP, {"tools": TOOLS}),
    "tools_unused": ([user("Hello."), assistant("Hello.")], {"tools": TOOLS}),
    "tools_answered": ([*LOOK_UP[:-1]], {"tools": TOOLS[:1]}),
    "calls": (
        [
            user("Both?"),
            assistant("Let me see.", tool_calls=[call("weather", {"place": "Rome"}), call("time", {"zone": None})]),
            message("tool", "warm"),
            message("tool", "noon"),
            assistant("Warm at noon.", reasoning_content=THOUGHT),
        ],
        {"tools": TOOLS},
    ),
    "call_of_text": ([user("When?"), assistant("", tool_calls=[call("time", '{"zone": "UTC"}')])], {"tools": TOOLS}),
    "call_with_values": (
        [user("x"), assistant("", tool_calls=[call("f", {"a": [1, 2.5, 1e20], "b": {"c": "d\"e"}, "f": False})])],
        {},
    ),
}  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--renderer", required=True, type=Path, help="the example render_chats of traind-loader")
    parser.add_argument("--verbose", action="store_true", help="print each difference")
    parser.add_argument("folders", nargs="*", type=Path)
    options = parser.parse_args()
    templates = [path for folder in [trl_templates(), *options.folders] for path in sorted(folder.glob("*.jinja"))]
    with tempfile.TemporaryDirectory(prefix="compare.") as scratch:
        tokenizer = make_tokenizer(Path(scratch))
        wrong = [path for path in templates if compare(options, tokenizer, Path(scratch), path)]
    print(f"{len(templates) - len(wrong)} of {len(templates)} templates render as in transformers")
    sys.exit(1 if wrong or not templates else 0)


def trl_templates():
    """The folder of TRL's templates. Importing TRL takes long."""
    return Path(importlib.util.find_spec("trl").origin).parent / "chat_templates"


def make_tokenizer(folder):
    """Saves a tokenizer whose tokens are bytes, beside a few special ones."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE(vocab={letter: number for number, letter in enumerate(alphabet)}, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    PreTrainedTokenizerFast(tokenizer_object=made, **SPECIAL_TOKENS).save_pretrained(folder)
    return PreTrainedTokenizerFast.from_pretrained(folder)


def rows():
    """The name and the row of each conversation, as it is and with the beginning of an answer."""
    for name, (messages, fields) in CONVERSATIONS.items():
        for prompts in [False, True]:
            variables = DATE | fields.get("chat_template_kwargs", {})
            row = {"messages": messages, **fields, "chat_template_kwargs": variables, "add_generation_prompt": prompts}
            yield f"{name}{' + prompt' if prompts else ''}", row


def compare(options, tokenizer, folder, template):
    """Prints a line for a template; returns whether anything differs."""
    source = template.read_text()
    (folder / "chat_template.jinja").write_text(source)
    tokenizer.chat_template = source
    lines = "".join(json.dumps(row) + "\n" for _, row in rows())
    ran = subprocess.run([options.renderer, folder], input=lines, capture_output=True, text=True, check=True)
    ours = map(json.loads, ran.stdout.splitlines())
    counts, differences = {"rendered": 0, "refused": 0}, []
    for (name, row), found in zip(rows(), ours, strict=True):
        expected = rendered(tokenizer, source, row)
        counts["refused" if "error" in expected else "rendered"] += 1
        if difference := difference_of(expected, found):
            differences.append(f"{name}: {difference}")
    marks = "with masks" if has_marks(source) else "no masks"
    print(f"{template.stem:40} {counts['rendered']:3} rendered, {counts['refused']:3} refused, {marks}: ", end="")
    print(f"{len(differences)} differ" if differences else "equal", flush=True)
    for difference in differences[: None if options.verbose else 3]:
        print(f"    {difference}")
    return bool(differences)


def has_marks(source):
    return "endgeneration" in source


def rendered(tokenizer, source, row):
    """A row by transformers: text, tokens and masks, or the error."""
    settings = {**row, **row["chat_template_kwargs"], "return_assistant_tokens_mask": has_marks(source)}
    messages = settings.pop("messages")
    del settings["chat_template_kwargs"]
    try:
        tokens = tokenizer.apply_chat_template(messages, return_dict=True, **settings)
        del settings["return_assistant_tokens_mask"]
        text = tokenizer.apply_chat_template(messages, tokenize=False, **settings)
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}
    masks = tokens.get("assistant_masks", [0] * len(tokens["input_ids"]))
    return {"text": text, "input_ids": tokens["input_ids"], "assistant_masks": masks}


def difference_of(expected, found):
    """How two rendered conversations differ; None where they are equal, or where both are refused."""
    if "error" in expected or "error" in found:
        refusals = [result.get("error", "renders") for result in (expected, found)]
        return None if "renders" not in refusals else f"transformers: {refusals[0]}; here: {refusals[1]}"
    for key in ["text", "input_ids", "assistant_masks"]:
        if expected[key] != found[key]:
            place = first_difference(expected[key], found[key])
            beginning = max(0, place - 20)
            excerpts = [result[key][beginning : place + 20] for result in (expected, found)]
            return f"{key} from {beginning}: {excerpts[0]!r}; here {excerpts[1]!r}"
    return None


def first_difference(first, second):
    pairs = zip(first, second, strict=False)
    return next((place for place, (a, b) in enumerate(pairs) if a != b), min(len(first), len(second)))


if __name__ == "__main__":
    main()
