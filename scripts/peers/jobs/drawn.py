"""Random jobs of every kind: family, config, rows and arguments from a seed."""

import random

import texts
from tables import images
from tables.base import of, pictures

DECODERS = [
    *["llama", "mistral", "qwen2", "qwen3", "gemma", "phi3", "gemma2", "gemma3_text", "smollm3", "granite", "olmo2"],
    "olmo3",
    "gpt2",
]
ACTIVATIONS = ["silu", "gelu", "relu", "gelu_pytorch_tanh", "gelu_new", "quick_gelu"]

# Positions of rotary embeddings, plain and scaled.
OF_LLAMA_3 = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 32}
ROPES = [
    {"rope_type": "default", "rope_theta": 500.0},
    {"rope_type": "linear", "factor": 2.0, "rope_theta": 10000.0},
    {"rope_type": "llama3", "factor": 8.0, "rope_theta": 10000.0, **OF_LLAMA_3},
    {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128, "rope_theta": 10000.0},
]


class Choose(random.Random):
    """Choices that leave a key out, as most jobs do."""

    def some(self, share, **keys):
        """Each of the keys with this probability, with one of its values."""
        return {key: self.choice(values) for key, values in keys.items() if self.random() < share}


def decoder(choose, families=DECODERS):
    family = choose.choice(families)
    if family == "gpt2":
        return family, choose.some(
            0.3, activation_function=ACTIVATIONS[1:], n_layer=[1, 3], n_inner=[24, 48], scale_attn_weights=[False],
            scale_attn_by_inverse_layer_idx=[True], layer_norm_epsilon=[1e-6],
        )  # fmt: skip
    config = choose.some(
        0.3, num_hidden_layers=[1, 3], intermediate_size=[24, 40], num_key_value_heads=[1, 2], hidden_size=[32], rms_norm_eps=[1e-5, 1e-3],
        tie_word_embeddings=[True, False],
    )  # fmt: skip
    if family.startswith("gemma"):
        config |= choose.some(0.3, hidden_activation=ACTIVATIONS, head_dim=[4, 16])
    else:
        config |= choose.some(0.3, hidden_act=ACTIVATIONS)
    if family in ("gemma2", "gemma3_text"):
        config |= choose.some(0.4, query_pre_attn_scalar=[8, 64])
    if family == "gemma2":
        config |= choose.some(0.4, final_logit_softcapping=[5.0], attn_logit_softcapping=[3.0])
    if family in ("llama", "mistral", "qwen3", "smollm3"):
        config |= choose.some(0.3, head_dim=[4, 16])
    # More rows than the tokenizer has tokens, in numbers that nothing divides.
    config |= choose.some(0.15, vocab_size=[277, 311])
    if family in ("llama", "granite"):
        config |= choose.some(0.3, attention_bias=[True], mlp_bias=[True])
    if family in ("qwen3", "olmo2", "olmo3", "smollm3"):
        config |= choose.some(0.3, attention_bias=[True])
    if family in ("mistral", "gemma2", "phi3", "olmo3"):
        config |= choose.some(0.4, sliding_window=[6, 16])
    if family in ("llama", "mistral", "qwen2", "qwen3", "olmo2", "granite"):
        config |= choose.some(0.3, rope_parameters=ROPES)
    if family == "granite":
        config |= choose.some(
            0.4, embedding_multiplier=[3.0], logits_scaling=[2.0], residual_multiplier=[0.5], attention_multiplier=[0.2]
        )
    return family, config


def arguments(choose, rows, evaluated, smoothing=True):
    """Arguments of training that do not exclude each other."""
    train = choose.some(
        # The largest shows which weights it reaches.
        0.25, weight_decay=[0.1, 0.01, 30.0], max_grad_norm=[0.0, 0.1], adam_beta1=[0.8], adam_beta2=[0.95],
        warmup_steps=[2, 0.4], logging_first_step=[True], gradient_checkpointing=[True],
        **({"label_smoothing_factor": [0.1, 0.3]} if smoothing else {}),
    )  # fmt: skip
    train["learning_rate"] = choose.choice([1e-3, 3e-3])
    train["per_device_train_batch_size"] = choose.choice([1, 2, 3, 4, 5])
    train["logging_steps"] = choose.choice([1, 1, 1, 2, 3])
    if choose.random() < 0.2:
        # Others divide gradients that nearly vanish by themselves, and so rounding by rounding.
        train["optim"] = choose.choice(["adafactor", "sgd"])
    train |= schedule(choose)
    if choose.random() < 0.3:
        train["gradient_accumulation_steps"] = choose.choice([2, 3])
    if choose.random() < 0.5:
        train |= {"max_steps": None, "num_train_epochs": choose.choice([1, 1.5, 2])}
    else:
        train["max_steps"] = choose.choice([3, 6])
    if choose.random() < 0.1:
        train |= choose.choice([{"logging_strategy": "epoch"}, {"logging_steps": 0.4}])
    if evaluated:
        train |= evaluations(choose)
    elif choose.random() < 0.2:
        train["dataloader_drop_last"] = True
    return train


def schedule(choose):
    return choose.choice(
        [
            {},
            {},
            {"lr_scheduler_type": "cosine"},
            {"lr_scheduler_type": "constant"},
            {"lr_scheduler_type": "constant_with_warmup"},
            {"lr_scheduler_type": "inverse_sqrt"},
            {"lr_scheduler_type": "polynomial", "lr_scheduler_kwargs": {"power": 2.0}},
            {"lr_scheduler_type": "cosine_with_min_lr", "lr_scheduler_kwargs": {"min_lr": 1e-4}},
            {"lr_scheduler_type": "cosine_with_restarts", "lr_scheduler_kwargs": {"num_cycles": 2}},
            {"lr_scheduler_type": "cosine_with_min_lr", "lr_scheduler_kwargs": {"min_lr_rate": 0.2, "num_cycles": 0.7}},
            {"lr_scheduler_type": "cosine_warmup_with_min_lr", "lr_scheduler_kwargs": {"min_lr_rate": 0.2}},
            {"lr_scheduler_type": "polynomial", "lr_scheduler_kwargs": {"lr_end": 1e-5}},
            {"lr_scheduler_type": "inverse_sqrt", "lr_scheduler_kwargs": {"timescale": 3}},
            {"lr_scheduler_type": "warmup_stable_decay", "lr_scheduler_kwargs": stable_decay(choose)},
        ]
    )


def stable_decay(choose):
    shapes = ["linear", "cosine", "1-sqrt"]
    return {"num_decay_steps": choose.choice([1, 2])} | choose.some(
        0.4, min_lr_ratio=[0.1], num_stable_steps=[0, 1], warmup_type=shapes, decay_type=shapes
    )


def evaluations(choose):
    """Evaluations, and perhaps checkpoints in their rhythm, which end a training early."""
    every = choose.choice([1, 2, 3])
    train = {"eval_strategy": "steps", "eval_steps": every, "per_device_eval_batch_size": choose.choice([2, 4, 8])}
    if choose.random() < 0.3:
        train = {"eval_strategy": "epoch"}
    if choose.random() < 0.4:
        saved = {"save_strategy": train["eval_strategy"], "save_steps": every}
        train |= saved | choose.some(0.5, save_total_limit=[1, 2, 3], load_best_model_at_end=[True])
        if "load_best_model_at_end" in train:
            train |= choose.some(0.4, early_stopping_patience=[1, 2], greater_is_better=[True, False])
            train |= choose.some(0.2, early_stopping_threshold=[0.01]) if "early_stopping_patience" in train else {}
        elif choose.random() < 0.2:
            train |= {"save_strategy": "best", "metric_for_best_model": "loss"} | choose.some(
                0.5, save_only_model=[True]
            )
    if choose.random() < 0.1:
        train |= {"lr_scheduler_type": "reduce_lr_on_plateau", "lr_scheduler_kwargs": {"patience": 0, "factor": 0.5}}
        train.pop("warmup_steps", None)
    train |= choose.some(0.2, eval_on_start=[True], eval_accumulation_steps=[1])
    if train["eval_strategy"] == "steps" and "load_best_model_at_end" not in train:
        # Where it leaves no evaluation, traind evaluates in the end.
        train |= choose.some(0.2, eval_delay=[1, 2])
    return train


def lora(choose, family):
    """Options of adapters; PEFT has no default modules for some families."""
    suffixes = suffixes_of(family)
    if choose.random() < 0.5 and family not in ("phi3", "smollm3", "granite", "olmo2", "olmo3"):
        targets = {}
    else:
        targets = {
            "target_modules": choose.choice(["all-linear", choose.sample(suffixes, choose.randint(1, len(suffixes)))])
        }
    options = choose.some(
        0.3, r=[1, 4, 16], lora_alpha=[4, 32], use_rslora=[True], use_dora=[True], bias=["all", "lora_only"]
    )
    if isinstance(targets.get("target_modules"), list):
        options |= choose.some(0.2, layers_to_transform=[[0], 0])
    return {"method": "lora", **targets, **options}


def suffixes_of(family):
    if family == "gpt2":
        return ["c_attn", "c_fc", "c_proj"]
    if family == "phi3":
        return ["qkv_proj", "o_proj", "gate_up_proj", "down_proj"]
    return ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


def evaluation_rows(choose, make):
    return make(choose.randint(3, 9), choose.randrange(1000)) if choose.random() < 0.5 else None


def cores(choose):
    return {"cores": 2} if choose.random() < 0.15 else {}


def causal(choose, model=None):
    family, config = model or decoder(choose)
    block = choose.choice([8, 16, 24])
    held = evaluation_rows(choose, lambda count, seed: texts.plain(count + 6, seed))
    rows = texts.plain(choose.randint(12, 24), choose.randrange(1000), 12)
    return of(
        "causal-lm", rows, family, spec={"config": config}, data={"block_size": block}, evaluated=held,
        train=arguments(choose, rows, held), resources=cores(choose),
    )  # fmt: skip


def sft(choose, adapters=False, model=None):
    family, config = model or decoder(choose)
    make = choose.choice([texts.talks, texts.talks, texts.prompted, texts.prompted_talks, texts.plain])
    rows, held = make(choose.randint(9, 16), choose.randrange(1000)), evaluation_rows(choose, make)
    data = {"max_length": choose.choice([24, 40, 64])} | choose.some(0.2, pad_to_multiple_of=[8], packing=[True])
    if "packing" in data:
        data |= choose.some(0.4, packing_strategy=["wrapped"], eval_packing=[False])
        data.pop("pad_to_multiple_of", None)
    if make is texts.talks:
        data |= choose.some(0.5, assistant_only_loss=[True])
    if make in (texts.prompted, texts.prompted_talks):
        data |= choose.some(0.4, completion_only_loss=[False])
    train = arguments(choose, rows, held, smoothing=False)
    peft = {}
    if adapters:
        peft = lora(choose, family)
        train["learning_rate"] = 1e-2
    return of(
        "sft", rows, family, spec={"config": config}, data=data, evaluated=held, train=train, peft=peft,
        resources=cores(choose),
    )  # fmt: skip


def dpo(choose):
    family, config = decoder(choose)
    kind = choose.choice(["texts", "messages", "implicit"])
    make = lambda count, seed: texts.compared(count, seed, kind)
    rows, held = make(choose.randint(8, 14), choose.randrange(1000)), evaluation_rows(choose, make)
    losses = ["sigmoid", "hinge", "ipo", "nca_pair", "bco_pair", "sppo_hard", "apo_zero", "apo_down", "discopop"]
    section = choose.some(0.4, loss_type=losses, beta=[0.05, 0.5, 1.0])
    spec = {"config": config}
    if choose.random() < 0.5:
        section["ref_model_name_or_path"] = "reference"
        spec["others"] = {"reference": {}}
    train = arguments(choose, rows, held, smoothing=False)
    peft = lora(choose, family) if choose.random() < 0.3 else {}
    # PEFT has biases in one adapter alone, and TRL makes two.
    peft.pop("bias", None)
    return of(
        "dpo", rows, family, spec=spec, data={"max_length": choose.choice([32, 64])}, dpo=section, evaluated=held,
        train=train, peft=peft, resources=cores(choose),
    )  # fmt: skip


def reward(choose):
    # TRL pads by a token that the configs of these have.
    family, config = decoder(choose, [family for family in DECODERS if family != "granite"])
    kind = choose.choice(["texts", "messages", "implicit"])
    return preferences(choose, "reward", family, config, kind, choose.some(0.4, center_rewards_coefficient=[0.01, 0.1]))


def orpo(choose):
    return preferences(choose, "orpo", *decoder(choose), kind_of(choose), choose.some(0.5, beta=[0.05, 0.5, 1.0]))


def cpo(choose):
    section = choose.some(0.4, beta=[0.05, 0.5, 1.0])
    section |= choose.choice(
        [{}, {"label_smoothing": 0.1}, {"cpo_alpha": 0.5}, {"loss_type": "hinge"}, {"loss_type": "ipo"}, {"loss_type": "simpo", "simpo_gamma": 0.8},
         {"loss_type": "simpo", "cpo_alpha": 0.0}, {"loss_type": "alphapo", "alpha": 0.25}]
    )  # fmt: skip
    return preferences(choose, "cpo", *decoder(choose), kind_of(choose), section)


def kto(choose):
    section = choose.some(0.4, beta=[0.05, 0.5, 1.0], desirable_weight=[0.5, 1.5], undesirable_weight=[1.3])
    section |= choose.some(0.3, loss_type=["apo_zero_unpaired"])
    made = preferences(choose, "kto", *decoder(choose), kind_of(choose), section, texts.judged)
    # A row needs another one of its core's batch.
    train = made.job["train"]
    train["per_device_train_batch_size"] = max(2, train["per_device_train_batch_size"])
    return made


def kind_of(choose):
    return choose.choice(["texts", "messages"])


def preferences(choose, task, family, config, kind, section, rows_of=texts.compared):
    make = lambda count, seed: rows_of(count, seed, kind)
    rows, held = make(choose.randint(8, 14), choose.randrange(1000)), evaluation_rows(choose, make)
    train = arguments(choose, rows, held, smoothing=False)
    peft = lora(choose, family) if choose.random() < 0.3 else {}
    peft.pop("bias", None)
    # Rows without a token to train on have no loss, and TRL's experimental trainers then make all weights NaN.
    lengths = [64, 96] if task in ("orpo", "cpo") else [32, 64]
    return of(
        task, rows, family, spec={"config": config}, data={"max_length": choose.choice(lengths)}, evaluated=held,
        train=train, peft=peft, **{task: section},
    )  # fmt: skip


def seq2seq(choose):
    family = choose.choice(["t5", "mt5", "bart", "mbart"])
    if family.endswith("t5"):
        config = choose.some(
            0.3, num_decoder_layers=[1, 3], d_ff=[24], tie_word_embeddings=[False], layer_norm_epsilon=[1e-5],
            relative_attention_num_buckets=[4, 16], relative_attention_max_distance=[32],
        )  # fmt: skip
        suffixes = ["q", "k", "v", "o", "wo"]
    else:
        config = choose.some(
            0.3, encoder_layers=[1], decoder_layers=[3], decoder_ffn_dim=[24], scale_embedding=[True],
            activation_function=ACTIVATIONS,
        )  # fmt: skip
        suffixes = ["q_proj", "k_proj", "v_proj", "out_proj", "fc1", "fc2"]
    rows, held = (
        texts.translated(choose.randint(9, 16), choose.randrange(1000)),
        evaluation_rows(choose, texts.translated),
    )
    data = choose.some(0.3, source_prefix=["summarize: "], pad_to_multiple_of=[8], ignore_pad_token_for_loss=[False])
    data |= {"max_source_length": choose.choice([12, 40, 60]), "max_target_length": choose.choice([6, 30, 60])}
    train = arguments(choose, rows, held)
    if held and choose.random() < 0.3:
        train |= {"predict_with_generate": True, "generation_max_length": choose.choice([6, 12])}
        train |= choose.some(0.5, generation_num_beams=[2, 3])
        train["label_smoothing_factor"] = None
        # transformers has no cache for more layers than the encoder's.
        config.pop("num_decoder_layers", None)
    peft = {"method": "lora", "target_modules": choose.sample(suffixes, 2)} if choose.random() < 0.3 else {}
    return of(
        "seq2seq-lm", rows, family, spec={"config": config}, data=data, evaluated=held, train=train, peft=peft,
        resources=cores(choose),
    )  # fmt: skip


def image(choose):
    mode = choose.choice(["RGB", "RGB", "RGB", "L", "RGBA", "P"])
    form = "WEBP" if mode == "RGB" and choose.random() < 0.3 else "PNG"
    sizes = [(choose.randint(4, 120), choose.randint(4, 120)) for _ in range(6)]
    processor = choose.some(
        0.25,
        resample=[0, 1, 2, 3, 4, 5],
        do_normalize=[False],
        image_mean=[[0.4, 0.5, 0.6]],
        image_std=[[0.2, 0.3, 0.4]],
    )
    config = choose.some(
        0.3, num_hidden_layers=[1], hidden_act=ACTIVATIONS[1:], qkv_bias=[False], layer_norm_eps=[1e-6]
    )
    files = {f"pictures/{number}.{form.lower()}": images.image(number, mode, form, sizes) for number in range(12)}
    labels = [choose.randrange(3) for _ in files]
    return pictures(
        files, labels, family=choose.choice(["vit", "deit"]), spec={"processor": processor, "config": config},
        train=arguments(choose, labels, None), resources=cores(choose),
    )  # fmt: skip


def encoder(choose):
    family = choose.choice(ENCODERS)
    return encoder_of(choose, family, encoder_config(choose, family))


def encoder_of(choose, family, config):
    held = choose.random() < 0.5
    count, seed = choose.randint(10, 22), choose.randrange(1000)
    task, make, given = choose.choice(ENCODED)
    if task == "question-answering" and family in WITHOUT_ANSWERS:
        task, make, given = ENCODED[0]
    if task == "token-classification" and family == "roberta":
        # Whose words have spaces before them, and whose words are what the file says.
        kind = choose.choice(["RobertaTokenizer", "PreTrainedTokenizerFast"])
        given = {**given, "spec": {"tokenizer": {"tokenizer_class": kind}}}
    rows, evaluated = make(count, seed), make(choose.randint(3, 9), seed + 1) if held else None
    spec = {"config": config, **given.get("spec", {})}
    train = arguments(
        choose, rows, evaluated, smoothing="problem_type" not in given.get("model", {}) and task != "question-answering"
    )
    if task == "question-answering":
        train.pop("gradient_accumulation_steps", None)
    # Which transformers refuses for these families, and for numbers.
    if family in ("mpnet", "albert"):
        train.pop("gradient_checkpointing", None)
    if given.get("model", {}).get("num_labels") == 1:
        train.pop("label_smoothing_factor", None)
    given = {key: value for key, value in given.items() if key != "spec"}
    return of(task, rows, family, evaluated=evaluated, spec=spec, train=train, resources=cores(choose), **given)


# The first four are those of most jobs.
USUAL_ENCODERS = ["bert", "distilbert", "roberta", "xlm-roberta"]
ENCODERS = [
    *USUAL_ENCODERS, *USUAL_ENCODERS, "electra", "mpnet", "albert", "xlm-roberta-xl", "deberta-v2", "modernbert", "nomic_bert",
    "gte", "jina_embeddings_v3", "eurobert",
]  # fmt: skip
WITHOUT_ANSWERS = ["nomic_bert", "gte", "eurobert"]


def encoder_config(choose, family):
    """Changes of an encoder's config."""
    sizes = choose.some(0.3, num_hidden_layers=[1, 3], intermediate_size=[24]) | choose.some(
        0.15, vocab_size=[277, 311]
    )
    if family == "distilbert":
        return choose.some(
            0.3, n_layers=[1, 3], hidden_dim=[24], activation=["gelu", "relu"], sinusoidal_pos_embds=[True],
            tie_word_embeddings=[False],
        )  # fmt: skip
    if family == "eurobert":
        return sizes | choose.some(0.3, rms_norm_eps=[1e-4], hidden_act=ACTIVATIONS, tie_word_embeddings=[True, False])
    if family == "modernbert":
        return sizes | choose.some(0.3, hidden_activation=ACTIVATIONS, norm_eps=[1e-6], tie_word_embeddings=[False])
    sizes |= choose.some(0.3, layer_norm_eps=[1e-6], num_attention_heads=[1, 4])
    if family in ("nomic_bert", "gte", "jina_embeddings_v3"):
        return sizes
    if family == "albert":
        sizes |= choose.some(0.3, num_hidden_groups=[1], embedding_size=[8])
    if family == "electra":
        sizes |= choose.some(0.3, embedding_size=[16])
    if family == "deberta-v2":
        sizes |= choose.some(
            0.4, pos_att_type=[["c2p"], ["p2c"], []], share_att_key=[False], position_biased_input=[True]
        )
    return sizes | choose.some(0.3, hidden_act=ACTIVATIONS, tie_word_embeddings=[False])


MANY = {"num_labels": 4, "problem_type": "multi_label_classification"}
WHOLE = {"whole_word_mask": True, "mlm_probability": 1.0}
ENCODED = [
    ("sequence-classification", texts.classified, {"model": {"num_labels": 3}, "data": {"max_length": 24}}),
    (
        "sequence-classification",
        texts.pairs,
        {"model": {"num_labels": 3}, "data": {"text_pair": "pair", "max_length": 12}},
    ),
    ("sequence-classification", texts.several, {"model": MANY, "spec": {"labels": 4}}),
    ("sequence-classification", texts.valued, {"model": {"num_labels": 1}, "spec": {"labels": 1}}),
    ("token-classification", texts.tagged, {"model": {"num_labels": 3}}),
    (
        "token-classification",
        texts.tagged,
        {"model": {"num_labels": 3}, "data": {"label_all_tokens": True, "max_length": 10}},
    ),
    ("question-answering", texts.questions, {"data": {"max_length": 60, "doc_stride": 4}}),
    ("masked-lm", texts.lines, {"data": {"line_by_line": True, "max_length": 24, **WHOLE}}),
]


def classified_by_decoder(choose, model=None):
    family, config = model or decoder(choose, [family for family in DECODERS if family != "granite"])
    rows, held = (
        texts.classified(choose.randint(10, 20), choose.randrange(1000)),
        evaluation_rows(choose, texts.classified),
    )
    return of(
        "sequence-classification", rows, family, spec={"config": config}, model={"num_labels": 3}, evaluated=held,
        train=arguments(choose, rows, held), resources=cores(choose), data={"max_length": 48},
        peft=lora(choose, family) if choose.random() < 0.3 else {},
    )  # fmt: skip
