"""The jobs whose speed is compared on a GPU."""

from work import Work

LORA = {"r": 16, "lora_alpha": 32, "target_modules": ["q_proj", "k_proj", "v_proj", "o_proj"]}
# Steps of a run that only compiles.
COLD_STEPS = 5
CLASSIFY, WRITE = "sequence-classification", "causal-lm"
WORKS = [
    Work("minilm-128-fp32", "bert", "small", CLASSIFY, 32, 128, 200, bf16=False, sampling="group_by_length"),
    Work("bert-large-512", "bert", "bert-large", CLASSIFY, 16, 512, 60, texts=80),
    Work("gpt2-1024", "gpt2", "gpt2", WRITE, 8, 1024, 60, texts=80),
    Work("llama-1b-lora-1024", "llama", "llama-1b", WRITE, 4, 1024, 40, texts=80, lora=LORA),
]
# The work on a host without a GPU.
BRIEF = [
    Work("bert-tiny-64", "bert", "small", CLASSIFY, 4, 64, 20, bf16=False, texts=4),
    Work("llama-tiny-lora-64", "llama", "small", WRITE, 4, 64, 20, bf16=False, texts=4, lora=LORA),
]
