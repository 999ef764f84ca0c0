"""GPT2LMHeadModel in JAX: parameters by Hugging Face's names, forward and loss.

B batch, S sequence, H hidden, N heads, D head size, V vocabulary.
"""

import jax
import jax.numpy as jnp

from jax_layers import Dropout, layer_norm, next_token_loss, read, softmax

IGNORED = -1e9


def load(folder, labels, key):
    """The weights, whose head is the embedding of tokens; `labels` and `key` are those of models with heads of their own."""
    return read(folder)


def loss(params, config, batch, dropout, key):
    ids, drop = batch["ids"], Dropout(dropout, key)
    x = drop(params["wte.weight"][ids] + params["wpe.weight"][: ids.shape[1]])
    causal = jnp.tril(jnp.ones((ids.shape[1],) * 2, bool))
    bias = jnp.where(causal & (batch["mask"][:, None, None, :] == 1), 0.0, IGNORED).astype(x.dtype)
    for index in range(config["n_layer"]):
        x = layer(params, f"h.{index}", x, bias, config["n_head"], drop)
    x = layer_norm(params, "ln_f", x, 1e-5)
    return next_token_loss(x[:, :-1] @ params["wte.weight"].T, ids)


def layer(params, name, x, bias, heads, drop):
    x = x + drop(attention(params, f"{name}.attn", layer_norm(params, f"{name}.ln_1", x, 1e-5), bias, heads, drop))
    inner = dense(params, f"{name}.mlp.c_fc", layer_norm(params, f"{name}.ln_2", x, 1e-5))
    return x + drop(dense(params, f"{name}.mlp.c_proj", jax.nn.gelu(inner, approximate=True)))


def attention(params, name, x, bias, heads, drop):
    rows, length, hidden = x.shape
    split = lambda part: part.reshape(rows, length, heads, hidden // heads)
    query, key, value = map(split, jnp.split(dense(params, f"{name}.c_attn", x), 3, axis=-1))
    scores = jnp.einsum("bqnd,bknd->bnqk", query, key) * (hidden // heads) ** -0.5
    shares = drop(softmax(scores + bias))
    return dense(params, f"{name}.c_proj", jnp.einsum("bnqk,bknd->bqnd", shares, value).reshape(rows, length, hidden))


def dense(params, name, x):
    """GPT-2 keeps its weights as [inputs, outputs]."""
    return x @ params[f"{name}.weight"] + params[f"{name}.bias"]
