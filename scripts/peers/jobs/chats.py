"""Random jobs of conversations that the chat templates of published models render."""

import importlib.util
from pathlib import Path

import texts
from drawn import arguments, decoder, lora
from tables.base import of

TOOL = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather at a place.",
        "parameters": {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]},
    },
}


def templates():
    """Those that come with TRL, by name. Importing TRL takes long."""
    folder = Path(importlib.util.find_spec("trl").origin).parent / "chat_templates"
    return sorted(folder.glob("*.jinja"))


def chat(choose):
    path = choose.choice(templates())
    template = path.read_text()
    family, config = decoder(choose)
    kind = choose.choice(["messages", "messages", "prompted", "pairs"])
    make = {"messages": conversation, "prompted": prompted, "pairs": compared}[kind]
    # Most templates have no place for tools, and many refuse roles.
    style = {"system": choose.choice([0.0, 0.4]), "tools": choose.random() < 0.2, "turns": choose.randint(1, 3)}
    rows = [make(choose, style) for _ in range(choose.randint(8, 12))]
    data = {"max_length": choose.choice([128, 512])}
    if kind == "messages" and "endgeneration" in template:
        data |= choose.some(0.7, assistant_only_loss=[True])
    if kind != "pairs":
        data |= choose.some(0.2, packing=[True])
    if kind == "prompted":
        data |= choose.some(0.3, completion_only_loss=[False])
    train = arguments(choose, rows, None, smoothing=False) | {"per_device_train_batch_size": choose.choice([2, 4])}
    config.pop("sliding_window", None)
    peft = lora(choose, family) if choose.random() < 0.2 else {}
    peft.pop("bias", None)
    case = of(
        "dpo" if kind == "pairs" else "sft", rows, family, spec={"config": config, "template": template}, data=data,
        train=train, peft=peft,
    )  # fmt: skip
    case.about = path.stem
    case.may_fail = True
    return case


def conversation(choose, style):
    messages = begun(choose, style)
    for _ in range(style["turns"]):
        messages += [{"role": "user", "content": texts.odd(choose, 4)}, answer(choose, style)]
    return {"messages": messages} | ({"tools": [TOOL]} if style["tools"] else {})


def prompted(choose, style):
    messages = conversation(choose, style)["messages"]
    return {"prompt": messages[:-1], "completion": messages[-1:]} | ({"tools": [TOOL]} if style["tools"] else {})


def compared(choose, style):
    row = prompted(choose, style)
    return {"prompt": row["prompt"], "chosen": row["completion"], "rejected": [answer(choose, style)]}


def begun(choose, style):
    is_told = choose.random() < style["system"]
    return [{"role": "system", "content": texts.odd(choose, 3)}] if is_told else []


def answer(choose, style):
    content = texts.odd(choose, 4)
    if choose.random() < 0.1:
        content = f"<think>\n{texts.words(choose, 3)}\n</think>\n\n{content}"
    return {"role": "assistant", "content": content}
