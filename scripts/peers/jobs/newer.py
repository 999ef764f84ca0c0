"""Random configs of the encoders and decoders of these years, each with many of its settings."""

import drawn
from drawn import ACTIVATIONS, ROPES

LOCAL, GLOBAL = "sliding_attention", "full_attention"
THETAS = [100.0, 5000.0, 160000.0]


def kinds(choose, layers):
    """Layers that attend locally or globally, in no pattern."""
    return [choose.choice([LOCAL, GLOBAL]) for _ in range(layers)]


def of_two_bases(choose, *more):
    """Positions of global and local layers."""
    return {
        GLOBAL: choose.choice([{"rope_type": "default", "rope_theta": 500.0}, *more]),
        LOCAL: {"rope_type": "default", "rope_theta": choose.choice(THETAS)},
    }


def layers_of(choose, config):
    config["num_hidden_layers"] = choose.choice([1, 2, 3, 4])
    return config["num_hidden_layers"]


def modernbert(choose):
    config = choose.some(
        0.4, hidden_activation=ACTIVATIONS, norm_eps=[1e-6, 1e-3], norm_bias=[True], attention_bias=[True], mlp_bias=[True],
        decoder_bias=[False], classifier_bias=[True], classifier_pooling=["mean"], classifier_activation=["silu", "relu"],
        local_attention=[2, 6, 64], tie_word_embeddings=[False], intermediate_size=[24], num_attention_heads=[1, 4],
    )  # fmt: skip
    layers = layers_of(choose, config)
    if choose.random() < 0.5:
        config["layer_types"] = kinds(choose, layers)
    if choose.random() < 0.5:
        config["rope_parameters"] = of_two_bases(choose)
    return config


def deberta_v2(choose):
    config = choose.some(
        0.4, pos_att_type=[["c2p"], ["p2c"], [], ["c2p", "p2c"], "c2p|p2c"], share_att_key=[False], position_biased_input=[True],
        norm_rel_ebd=["none"], position_buckets=[-1, 4, 32], max_relative_positions=[8, 32, -1], type_vocab_size=[2],
        hidden_act=ACTIVATIONS, pooler_hidden_act=["tanh", "relu"], layer_norm_eps=[1e-5], num_attention_heads=[1, 4],
        num_hidden_layers=[1, 3], legacy=[False], intermediate_size=[24], relative_attention=[False],
        tie_word_embeddings=[False],
    )  # fmt: skip
    if config.get("relative_attention") is False:
        config = {key: value for key, value in config.items() if key not in ("pos_att_type", "position_buckets")}
        config["norm_rel_ebd"] = "none"
    return config


def electra(choose):
    return choose.some(
        0.4, embedding_size=[8, 16, 24], type_vocab_size=[1, 3], hidden_act=ACTIVATIONS, layer_norm_eps=[1e-6, 1e-3],
        num_attention_heads=[1, 4], num_hidden_layers=[1, 3], intermediate_size=[24], tie_word_embeddings=[False],
        summary_activation=["relu", "tanh"],
    )  # fmt: skip


def mpnet(choose):
    return choose.some(
        0.4, relative_attention_num_buckets=[32, 40], hidden_act=ACTIVATIONS, layer_norm_eps=[1e-6, 1e-3],
        num_attention_heads=[1, 4], num_hidden_layers=[1, 3], intermediate_size=[24], tie_word_embeddings=[False],
    )  # fmt: skip


def albert(choose):
    config = choose.some(
        0.4, embedding_size=[8, 24], inner_group_num=[2], hidden_act=ACTIVATIONS, layer_norm_eps=[1e-6, 1e-3],
        num_attention_heads=[1, 4], intermediate_size=[24], type_vocab_size=[3], tie_word_embeddings=[False],
    )  # fmt: skip
    layers = layers_of(choose, config)
    config["num_hidden_groups"] = choose.choice([1, layers, max(1, layers // 2)])
    return config


def xlm_roberta_xl(choose):
    return choose.some(
        0.4, hidden_act=ACTIVATIONS, layer_norm_eps=[1e-6, 1e-3], num_attention_heads=[1, 4], num_hidden_layers=[1, 3],
        intermediate_size=[24], type_vocab_size=[2], tie_word_embeddings=[False],
    )  # fmt: skip


def rotary_bert(choose):
    config = choose.some(
        0.4, hidden_act=ACTIVATIONS, layer_norm_eps=[1e-6, 1e-3], num_attention_heads=[1, 4], num_hidden_layers=[1, 3],
        intermediate_size=[24], rope_parameters=ROPES[:2], type_vocab_size=[1, 2],
    )  # fmt: skip
    return config


def nomic_bert(choose):
    return rotary_bert(choose) | choose.some(0.3, head_dim=[4, 16])


def gemma(choose, **more):
    config = choose.some(
        0.4, hidden_activation=ACTIVATIONS, head_dim=[4, 16], query_pre_attn_scalar=[8, 64], sliding_window=[3, 9],
        num_key_value_heads=[1, 2], intermediate_size=[24, 40], rms_norm_eps=[1e-5, 1e-3], attention_bias=[True],
        tie_word_embeddings=[False], final_logit_softcapping=[None, 5.0], **more,
    )  # fmt: skip
    layers = layers_of(choose, config)
    if choose.random() < 0.5:
        config["layer_types"] = kinds(choose, layers)
    return config


def gemma2(choose):
    return gemma(choose, attn_logit_softcapping=[None, 3.0], rope_parameters=ROPES[:3])


def gemma3(choose):
    config = gemma(choose)
    # transformers has the key, and no caps in this model.
    config.pop("final_logit_softcapping", None)
    if choose.random() < 0.5:
        config["rope_parameters"] = of_two_bases(choose, *ROPES[1:3])
    return config


def dense(choose, **more):
    """Settings of the Llama-like."""
    return choose.some(
        0.4, hidden_act=ACTIVATIONS, num_key_value_heads=[1, 2], intermediate_size=[24, 40], rms_norm_eps=[1e-5, 1e-3],
        attention_bias=[True], tie_word_embeddings=[True, False], **more,
    )  # fmt: skip


def eurobert(choose):
    config = dense(
        choose, mlp_bias=[True], head_dim=[4, 16], classifier_pooling=["bos", "mean", "late"], rope_parameters=ROPES,
    )  # fmt: skip
    layers_of(choose, config)
    return config


def smollm3(choose):
    config = dense(choose, mlp_bias=[True], head_dim=[4, 16], no_rope_layer_interval=[1, 2, 3], rope_parameters=ROPES)
    layers = layers_of(choose, config)
    if choose.random() < 0.4:
        config["no_rope_layers"] = [choose.randint(0, 1) for _ in range(layers)]
    if choose.random() < 0.4:
        config |= {"use_sliding_window": True, "sliding_window": choose.choice([4, 12])}
    return config


def granite(choose):
    config = dense(
        choose, mlp_bias=[True], embedding_multiplier=[3.0, 12], logits_scaling=[2.0, 8], residual_multiplier=[0.22],
        attention_multiplier=[0.2, 0.015625], rope_parameters=ROPES,
    )  # fmt: skip
    layers_of(choose, config)
    return config


def olmo2(choose):
    config = dense(choose, rope_parameters=ROPES)
    layers_of(choose, config)
    return config


def olmo3(choose):
    config = dense(choose, sliding_window=[3, 9])
    layers = layers_of(choose, config)
    if choose.random() < 0.5:
        config["layer_types"] = kinds(choose, layers)
    if choose.random() < 0.5:
        config["rope_parameters"] = of_two_bases(choose, ROPES[3])
    return config


def longrope(choose, pairs, positions):
    """Factors of each pair of a head, for short and for long rows."""
    factors = lambda least, most: [round(choose.uniform(least, most), 3) for _ in range(pairs)]
    return {
        "rope_type": "longrope",
        "rope_theta": 10000.0,
        "short_factor": factors(0.8, 1.2),
        "long_factor": factors(1.0, 4.0),
        "original_max_position_embeddings": positions,
    }


def phi3(choose):
    config = dense(choose, sliding_window=[5, 16])
    config.pop("attention_bias", None)
    layers_of(choose, config)
    share = choose.choice([1.0, 0.5, 0.75])
    positions = choose.choice([16, 512])
    rope = {"rope_type": "default", "rope_theta": choose.choice(THETAS)}
    if choose.random() < 0.6:
        # The heads have 8 numbers.
        rope = longrope(choose, int(8 * share) // 2, positions)
    config |= {
        "rope_parameters": rope | {"partial_rotary_factor": share},
        "original_max_position_embeddings": positions,
    }
    return config | choose.some(0.3, tie_word_embeddings=[True])


ENCODERS = {
    "modernbert": modernbert,
    "deberta-v2": deberta_v2,
    "electra": electra,
    "mpnet": mpnet,
    "albert": albert,
    "xlm-roberta-xl": xlm_roberta_xl,
    "nomic_bert": nomic_bert,
    "gte": rotary_bert,
    "jina_embeddings_v3": rotary_bert,
    "eurobert": eurobert,
}
DECODERS = {
    "gemma2": gemma2,
    "gemma3_text": gemma3,
    "smollm3": smollm3,
    "granite": granite,
    "olmo2": olmo2,
    "olmo3": olmo3,
    "phi3": phi3,
}


def encoder(family):
    return lambda choose: drawn.encoder_of(choose, family, ENCODERS[family](choose))


def decoder(family):
    def draw(choose):
        model = family, DECODERS[family](choose)
        make = choose.choice([drawn.causal, drawn.sft, drawn.classified_by_decoder])
        if family == "granite" and make is drawn.classified_by_decoder:
            make = drawn.causal
        return make(choose, model=model)

    return draw


KINDS = {family: encoder(family) for family in ENCODERS} | {family: decoder(family) for family in DECODERS}
