"""PyTorch's AdamW with clipping by global norm and a linear schedule, as a pure step in JAX."""

import functools

import jax
import jax.numpy as jnp

BETA1, BETA2, EPSILON, MAX_GRAD_NORM = 0.9, 0.999, 1e-8, 1.0


def init(params):
    zeros = jax.tree.map(jnp.zeros_like, params)
    return {"mean": zeros, "square": jax.tree.map(jnp.zeros_like, params), "step": jnp.zeros(())}


def update(params, state, gradients, learning_rate, max_steps):
    rate = learning_rate * (1 - state["step"] / max_steps)
    step = state["step"] + 1
    gradients = clip(gradients)
    mean = jax.tree.map(lambda m, g: BETA1 * m + (1 - BETA1) * g, state["mean"], gradients)
    square = jax.tree.map(lambda v, g: BETA2 * v + (1 - BETA2) * g * g, state["square"], gradients)
    scale, root = rate / (1 - BETA1**step), jnp.sqrt(1 - BETA2**step)
    params = jax.tree.map(lambda p, m, v: p - scale * m / (jnp.sqrt(v) / root + EPSILON), params, mean, square)
    return params, {"mean": mean, "square": square, "step": step}


def make_step(loss, config, dropout, learning_rate, max_steps):
    """A compiled step of training by `loss(params, config, batch, dropout, key)`, whose parameters may also be frozen."""

    @functools.partial(jax.jit, donate_argnums=(0, 1))
    def step(params, state, batch, key, frozen=None):
        whole = lambda params: loss((frozen or {}) | params, config, batch, dropout, key)
        value, gradients = jax.value_and_grad(whole)(params)
        return *update(params, state, gradients, learning_rate, max_steps), value

    return step


def clip(gradients):
    norm = jnp.sqrt(sum((leaf**2).sum() for leaf in jax.tree.leaves(gradients)))
    factor = jnp.minimum(1.0, MAX_GRAD_NORM / (norm + 1e-6))
    return jax.tree.map(lambda leaf: leaf * factor, gradients)
