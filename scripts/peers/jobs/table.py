"""All habits by name."""

from tables import adapters, chats, encoders, images, layouts, preferences, sentences, sequences

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
