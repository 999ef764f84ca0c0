"""The kinds of random jobs."""

import chats
import drawn as of
import files
import newer
import sentences

# Scores of attention that are as large as these amplify rounding: the peer's own losses in float64 are as far away.
LARGE_SCORES = 64.0

KINDS = {
    "decoder": of.causal,
    "classifier": of.classified_by_decoder,
    "lora": lambda choose: of.sft(choose, adapters=True),
    "sft": of.sft,
    "dpo": of.dpo,
    "reward": of.reward,
    "orpo": of.orpo,
    "cpo": of.cpo,
    "kto": of.kto,
    "seq2seq": of.seq2seq,
    "image": of.image,
    "encoder": of.encoder,
    "embedding": sentences.embedding,
    "reranker": sentences.reranker,
    "table": files.table,
    "mixture": files.mixture,
    "chat": chats.chat,
} | newer.KINDS


def drawn(kind, seed):
    case = KINDS[kind](of.Choose(f"{kind} {seed}"))
    config = case.model.get("config", {})
    # Queries and keys of Gemma 3 have the length of the square root of their size.
    if case.model["family"] == "gemma3_text":
        size, scalar = config.get("head_dim", 256), config.get("query_pre_attn_scalar", 256)
        if size / scalar**0.5 > LARGE_SCORES:
            case.limit = max(case.limit, 1e-2)
    return case
