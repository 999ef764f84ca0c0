"""Jobs as users of TRL's DPOTrainer run them."""

import texts

from tables.base import ACCUMULATED, dpo

MESSAGES, IMPLICIT = texts.compared(14, 41, "messages"), texts.compared(14, 42, "implicit")
LOSSES = {
    "hinge": {"loss_type": "hinge"},
    "ipo": {"loss_type": "ipo", "beta": 0.3},
    "robust": {"loss_type": "robust", "label_smoothing": 0.1},
    "exo": {"loss_type": "exo_pair", "label_smoothing": 1e-3},
    "nca": {"loss_type": "nca_pair"},
    "bco": {"loss_type": "bco_pair"},
    "sppo": {"loss_type": "sppo_hard"},
    "aot": {"loss_type": "aot"},
    "apo-zero": {"loss_type": "apo_zero"},
    "apo-down": {"loss_type": "apo_down"},
    "discopop": {"loss_type": "discopop", "discopop_tau": 0.1},
    "sigmoid-norm": {"loss_type": "sigmoid_norm"},
    "mixed": {"loss_type": ["sigmoid", "bco_pair", "sft"], "loss_weights": [0.8, 0.2, 1.0]},
    "length-desensitized": {"ld_alpha": 0.5},
    "weighted": {"use_weighting": True},
    "forward-kl": {"f_divergence_type": "forward_kl"},
    "js-divergence": {"f_divergence_type": "js_divergence"},
    "alpha-divergence": {"f_divergence_type": "alpha_divergence", "f_alpha_divergence_coef": 0.7},
    "strong-beta": {"beta": 2.0},
}
# A reference apart from the model, so that the first step is not that of equal models.
OTHER = {"spec": {"others": {"reference": {}}}}
CASES = {
    "texts": dpo(),
    "messages": dpo(MESSAGES),
    "implicit-prompts": dpo(IMPLICIT),
    "truncated": dpo(MESSAGES, data={"max_length": 24}),
    "evaluated": dpo(evaluated=texts.compared(6, 43), train={"eval_strategy": "steps", "eval_steps": 2}),
    "accumulated": dpo(train=ACCUMULATED),
    "accumulated-evaluated": dpo(MESSAGES, train=ACCUMULATED, evaluated=texts.compared(5, 44, "messages")),
    "two-cores": dpo(resources={"cores": 2}, train={"per_device_train_batch_size": 2}),
    "lora": dpo(peft={"method": "lora", "r": 4}, train={"learning_rate": 1e-2}),
    "of-gpt2": dpo(family="gpt2"),
    "of-qwen2": dpo(MESSAGES, family="qwen2"),
    "another-reference": dpo(dpo={"ref_model_name_or_path": "reference"}, **OTHER),
    **{name: dpo(dpo={"ref_model_name_or_path": "reference", **section}, **OTHER) for name, section in LOSSES.items()},
}
# It multiplies the rounding of sums over tokens.
CASES["strong-beta"].first_limit = 1e-4
