"""What the models in JAX share."""

import jax
import jax.numpy as jnp


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
    centred = x - x.mean(-1, keepdims=True)
    scale = jax.lax.rsqrt((centred**2).mean(-1, keepdims=True) + epsilon)
    return centred * scale * params[f"{name}.weight"] + params[f"{name}.bias"]
