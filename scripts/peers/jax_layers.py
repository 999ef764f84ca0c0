"""Layers that the models in JAX share."""

import jax
import jax.numpy as jnp
from safetensors.flax import load_file


def read(folder):
    """The weights of a model's folder, by Hugging Face's names and in the types that they are saved in."""
    return load_file(folder / "model.safetensors")


class Dropout:
    """Dropout with a new mask at every call."""

    def __init__(self, rate, key):
        self.rate, self.key, self.place = rate, key, 0

    def __call__(self, x):
        if self.rate == 0.0:
            return x
        self.place += 1
        kept = jax.random.bernoulli(jax.random.fold_in(self.key, self.place), 1 - self.rate, x.shape)
        return jnp.where(kept, x / (1 - self.rate), 0.0)


def layer_norm(params, name, x, epsilon):
    """In float32, whatever the type of `x` is, as PyTorch's autocast has it."""
    wide = x.astype(jnp.float32)
    centred = wide - wide.mean(-1, keepdims=True)
    scale = jax.lax.rsqrt((centred**2).mean(-1, keepdims=True) + epsilon)
    return (centred * scale * params[f"{name}.weight"] + params[f"{name}.bias"]).astype(x.dtype)


def softmax(scores):
    """In float32 too."""
    return jax.nn.softmax(scores.astype(jnp.float32), axis=-1).astype(scores.dtype)


def log_softmax(scores):
    return jax.nn.log_softmax(scores.astype(jnp.float32))


def next_token_loss(scores, ids):
    """Mean cross entropy of each next token [B, S - 1] over all, from the scores [B, S - 1, V] of its place."""
    return -jnp.take_along_axis(log_softmax(scores), ids[:, 1:, None], axis=2).mean()
