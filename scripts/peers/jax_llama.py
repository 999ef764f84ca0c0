"""LlamaForCausalLM with LoRA in JAX: parameters by Hugging Face's names, forward and loss. The base is frozen.

B batch, S sequence, H hidden, N query heads, K heads of keys and values, D head size, R rank, V vocabulary.
"""

import jax
import jax.numpy as jnp

from jax_layers import next_token_loss, read


def load(folder, labels, key):
    """The weights, with a head of their own if the model's are not tied."""
    params = read(folder)
    table = params["embed_tokens.weight"]
    return params | {"lm_head.weight": 0.02 * jax.random.normal(key, table.shape, table.dtype)}


def adapters(params, lora, key):
    """LoRA's matrices [R, inputs] and [outputs, R], the second ones zero."""
    chosen = [name for name in params if name.split(".")[-2] in lora["target_modules"]]
    found = {}
    for index, name in enumerate(chosen):
        outputs, inputs = params[name].shape
        found[f"{name}.A"] = jax.random.normal(jax.random.fold_in(key, index), (lora["r"], inputs)) / inputs**0.5
        found[f"{name}.B"] = jnp.zeros((outputs, lora["r"]))
    return found


def loss(params, config, batch, dropout, key):
    """The model has no dropout; `dropout` and `key` are those of models that do."""
    ids = batch["ids"]
    angles = rotary(config, ids.shape[1])
    x = params["embed_tokens.weight"][ids]
    for index in range(config["num_hidden_layers"]):
        x = layer(params, f"layers.{index}", x, config, angles)
    x = rms_norm(params, "norm", x, config["rms_norm_eps"])
    return next_token_loss(dense(params, config, "lm_head", x[:, :-1]), ids)


def layer(params, name, x, config, angles):
    normed = rms_norm(params, f"{name}.input_layernorm", x, config["rms_norm_eps"])
    x = x + attention(params, f"{name}.self_attn", normed, config, angles)
    normed = rms_norm(params, f"{name}.post_attention_layernorm", x, config["rms_norm_eps"])
    part = lambda which, of: dense(params, config, f"{name}.mlp.{which}_proj", of)
    return x + part("down", jax.nn.silu(part("gate", normed)) * part("up", normed))


def attention(params, name, x, config, angles):
    rows, length, hidden = x.shape
    size = hidden // config["num_attention_heads"]
    split = lambda part: dense(params, config, f"{name}.{part}_proj", x).reshape(rows, length, -1, size)
    query, key = rotated(split("q"), angles), rotated(split("k"), angles)
    seen = jax.nn.dot_product_attention(query, key, split("v"), is_causal=True)
    return dense(params, config, f"{name}.o_proj", seen.reshape(rows, length, hidden))


def dense(params, config, name, x):
    weight = f"{name}.weight"
    y = x @ params[weight].T
    if f"{weight}.A" not in params:
        return y
    lora = config["lora"]
    return y + (x @ params[f"{weight}.A"].T) @ params[f"{weight}.B"].T * (lora["lora_alpha"] / lora["r"])


def rms_norm(params, name, x, epsilon):
    wide = x.astype(jnp.float32)
    scale = jax.lax.rsqrt((wide**2).mean(-1, keepdims=True) + epsilon)
    return (wide * scale * params[f"{name}.weight"]).astype(x.dtype)


def rotary(config, length):
    """Cosines and sines [S, D / 2] of each position."""
    size = config["hidden_size"] // config["num_attention_heads"]
    base = config.get("rope_theta") or config["rope_parameters"]["rope_theta"]
    angles = jnp.outer(jnp.arange(length), base ** -(jnp.arange(0, size, 2) / size))
    return jnp.cos(angles), jnp.sin(angles)


def rotated(x, angles):
    """Rotates each pair of halves of [B, S, N, D] by its position's angle."""
    cosine, sine = (part[None, :, None, :].astype(x.dtype) for part in angles)
    first, second = jnp.split(x, 2, axis=-1)
    return jnp.concatenate([first * cosine - second * sine, second * cosine + first * sine], axis=-1)
