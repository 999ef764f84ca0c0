"""BertForSequenceClassification in JAX: parameters by Hugging Face's names, forward and loss.

B batch, S sequence, H hidden, N heads, D head size, C classes.
"""

import jax
import jax.numpy as jnp

from jax_layers import Dropout, layer_norm, log_softmax, read, softmax

EPSILON = 1e-12


def load(folder, labels, key):
    """The encoder's weights, with a head initialized as in transformers."""
    params = read(folder)
    params.pop("embeddings.position_ids", None)
    hidden = params["pooler.dense.weight"].shape[0]
    params["classifier.weight"] = 0.02 * jax.random.normal(key, (labels, hidden))
    params["classifier.bias"] = jnp.zeros(labels)
    return params


def logits(params, config, ids, mask, dropout=0.0, key=None):
    """[B, C] from token ids and attention mask [B, S]."""
    drop = Dropout(dropout, key)
    x = embed(params, ids)
    x = drop(layer_norm(params, "embeddings.LayerNorm", x, EPSILON))
    bias = jnp.where(mask[:, None, None, :] == 1, 0.0, -1e9).astype(x.dtype)
    for index in range(config["num_hidden_layers"]):
        x = layer(params, f"encoder.layer.{index}", x, bias, config["num_attention_heads"], drop)
    pooled = jnp.tanh(dense(params, "pooler.dense", x[:, 0]))
    return dense(params, "classifier", drop(pooled))


def loss(params, config, batch, dropout, key):
    """Mean cross entropy over the rows of weight 1; empty slots have weight 0."""
    scores = log_softmax(logits(params, config, batch["ids"], batch["mask"], dropout, key))
    chosen = jnp.take_along_axis(scores, batch["labels"][:, None], axis=1)[:, 0]
    return -(chosen * batch["weights"]).sum() / batch["weights"].sum()


def embed(params, ids):
    table = lambda name: params[f"embeddings.{name}_embeddings.weight"]
    return table("word")[ids] + table("position")[: ids.shape[1]] + table("token_type")[0]


def layer(params, name, x, bias, heads, drop):
    attended = attention(params, f"{name}.attention.self", x, bias, heads, drop)
    attended = drop(dense(params, f"{name}.attention.output.dense", attended))
    x = layer_norm(params, f"{name}.attention.output.LayerNorm", x + attended, EPSILON)
    inner = jax.nn.gelu(dense(params, f"{name}.intermediate.dense", x), approximate=False)
    outer = drop(dense(params, f"{name}.output.dense", inner))
    return layer_norm(params, f"{name}.output.LayerNorm", x + outer, EPSILON)


def attention(params, name, x, bias, heads, drop):
    rows, length, hidden = x.shape
    split = lambda part: dense(params, f"{name}.{part}", x).reshape(rows, length, heads, hidden // heads)
    scores = jnp.einsum("bqnd,bknd->bnqk", split("query"), split("key")) * (hidden // heads) ** -0.5
    shares = drop(softmax(scores + bias))
    return jnp.einsum("bnqk,bknd->bqnd", shares, split("value")).reshape(rows, length, hidden)


def dense(params, name, x):
    return x @ params[f"{name}.weight"].T + params[f"{name}.bias"]
