"""All habits by name, and the runs of every loss."""

from tables import adapters, chats, encoders, images, layouts, losses, preferences, sentences, sequences

TABLES = {
    "sft": chats,
    "rows": layouts,
    "lora": adapters,
    "dpo": preferences,
    "seq2seq": sequences,
    "encoder": encoders,
    "image": images,
    "sentence": sentences,
}
CASES = {f"{kind}-{name}": case for kind, table in TABLES.items() for name, case in table.CASES.items()}
LOSSES = losses.CASES
assert not CASES.keys() & LOSSES.keys()
