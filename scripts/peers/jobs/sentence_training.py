"""Trainers of sentence-transformers for the jobs of embeddings and rerankers."""

import sys
from pathlib import Path

from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.cross_encoder import CrossEncoder, CrossEncoderTrainer, CrossEncoderTrainingArguments
from sentence_transformers.sentence_transformer import losses, modules

sys.path.append(str(Path(__file__).parents[2] / "fixtures"))

import embeddings
import rerankers

MAX_LENGTH = 64


def of_embeddings(case, job, folder, rows, given, counting):
    """`given` are arguments of training, and `counting` a trainer's class whose norms of gradients are comparable."""
    section = job["embedding"]
    model = embedder(case, job, folder)
    guide = guide_of(job, folder)
    loss = embeddings.loss_of(section, model, guide)
    if "mini_batch_size" in section:
        loss = in_parts(loss, model, section, guide)
    if "matryoshka_dims" in section:
        loss = losses.MatryoshkaLoss(model, loss, section["matryoshka_dims"], section["matryoshka_weights"])
    arguments = SentenceTransformerTrainingArguments(batch_sampler=embeddings.in_order, **given)
    trainer = counting(SentenceTransformerTrainer)
    return trainer(model, arguments, train_dataset=rows["train"], eval_dataset=rows.get("validation"), loss=loss)


def in_parts(loss, model, section, guide):
    """The loss with a cache of gradients."""
    if guide is not None:
        names, kind = embeddings.OF_GIST, losses.CachedGISTEmbedLoss
        first = [model, guide]
    else:
        names, kind = embeddings.OF_RANKING, losses.CachedMultipleNegativesRankingLoss
        first = [model, loss.scale, loss.similarity_fct]
    given = {name: section[name] for name in names if name in section}
    return kind(*first, mini_batch_size=section["mini_batch_size"], **given)


def guide_of(job, folder):
    section = job["embedding"]
    if "guide" not in section:
        return None
    length = job["data"].get("max_length", MAX_LENGTH)
    transformer = modules.Transformer(str(folder / section["guide"]), max_seq_length=length)
    return SentenceTransformer(modules=[transformer, modules.Pooling(transformer.get_word_embedding_dimension())])


def embedder(case, job, folder):
    section, length = job["embedding"], job["data"].get("max_length", MAX_LENGTH)
    if case.is_drawn:
        # The layer behind the pooling is new.
        model = SentenceTransformer(str(folder / "drawn"), device="cpu")
        model.max_seq_length = length
        return model
    transformer = modules.Transformer(str(folder / "model"), max_seq_length=length)
    width = transformer.get_word_embedding_dimension()
    parts = [transformer, modules.Pooling(width, pooling_mode=section.get("pooling_mode", "mean"))]
    parts += [modules.Normalize()] if section.get("normalize") else []
    return SentenceTransformer(modules=parts, device="cpu")


def of_rerankers(case, job, folder, rows, given, counting):
    model = CrossEncoder(str(folder / "model"), max_length=job["data"].get("max_length", MAX_LENGTH), device="cpu")
    loss = rerankers.loss_of(job["reranker"], model)
    arguments = CrossEncoderTrainingArguments(batch_sampler=embeddings.in_order, **given)
    trainer = counting(CrossEncoderTrainer)
    return trainer(model, arguments, train_dataset=rows["train"], eval_dataset=rows.get("validation"), loss=loss)


TASKS = {"embedding": of_embeddings, "reranker": of_rerankers}
