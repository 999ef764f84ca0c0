"""Converts published example files, and counts the results by reason.

usage: published.py TRAIND AXOLOTL LLAMA_FACTORY [--files]
"""

import collections
import re
import subprocess
import sys
from pathlib import Path

# What examples ask for that traind does not do, by lines of their files: weights in fewer bits, other methods than
# fine-tuning on rows that are there, model families that it lacks, and models that read pictures or sound.
UNSUPPORTED = {
    "quantized weights": [
        r"load_in_[48]bit: *true",
        r"adapter: *qlora",
        r"quantization(_bit)?:",
        r"quantize_moe_experts: *true",
        r"(gptq|fp8): *true",
        r"(qat|model_quantization_config|llmcompressor|use_onebitllms|peft|quant_type):",
    ],
    "another method": [
        r"rl: *(?!dpo\b|ipo\b)\w",
        r"(reward_model|process_reward_model|kd_trainer|do_predict): *true",
        r"stage: *(rm|ppo|kto)\b",
        r"adapter: *(llama-adapter|ia3)",
        r"finetuning_type: *(oft|freeze)",
        r"((use_dft|use_eaft|use_asft)(_loss)?|use_badam|use_galore|use_apollo|use_adam_mini|use_muon|use_kt|pissa_init): *true",
        r"(relora|lisa_n_layers|diffusion|ebft|mixture_of_depths|pretraining_dataset|context_parallel_size|unfrozen_parameters):",
        r"(loraplus_lr_ratio|use_v1_kernels|expert_parallel_size|tensor_model_parallel_size|mixed_precision|use_ray):",
        r"type: *(jeopardy|chatml\.ultra|llama3\.ultra|rwd|ebft)",
    ],
    "another model family": [
        r"(base_model|model_name_or_path): *.*(dbrx|moe|mixtral|gpt-oss|deepseek-v|glm-?[45]|gemma-?4|gemma-?3n|qwen3[._]5|"
        r"qwen3-next|falcon|mpt|replit|btlm|jamba|mamba|granite-4|minimax|llama-4|kimi|nemotron|ernie|hunyuan|lfm|"
        r"-a\d+b|scout|maverick|command|olmoe|trinity|arcee|plano|laguna|smolvlm|xgen|stablelm)",
    ],
    "pictures or sound": [
        r"processor_type: *AutoProcessor",
        r"(image_max_pixels|image_size|video_max_pixels):",
        r"is_multimodal: *true",
        r".*(mllm_|llava|rlhf_v)",
    ],
}


def examples(folder, files):
    """The files that train, of a checkout."""
    for file in sorted(folder.glob(files)):
        text = file.read_text()
        if re.search(r"^(base_model|model_name_or_path):", text, re.M) and re.search(
            r"^(datasets|dataset|pretraining_dataset|stage):", text, re.M
        ):
            yield file, text


def unsupported(text):
    for reason, lines in UNSUPPORTED.items():
        if any(re.search(rf"^ *{line}", text, re.M | re.I) for line in lines):
            return reason
    return None


def converted(traind, tool, file):
    """The lines of reasons why a file is not converted; none where it is."""
    command = [traind, "convert", "--from", tool, str(file)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode == 0:
        return []
    lines = [line.strip() for line in done.stderr.splitlines() if line.startswith("  ")]
    return lines or [done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "no reason"]


def report(traind, name, tool, files, show):
    results, reasons = collections.Counter(), collections.Counter()
    supported = converted_of_supported = 0
    for file, text in files:
        out_of_scope = unsupported(text)
        lines = converted(traind, tool, file)
        supported += out_of_scope is None
        converted_of_supported += out_of_scope is None and not lines
        result = "converted" if not lines else out_of_scope or "refused"
        results[result] += 1
        if lines and out_of_scope is None:
            reasons.update({line for line in lines})
        if show:
            print(f"  {result:20} {file}", *(f"\n      {line}" for line in lines if result == "refused"), sep="")
    share = converted_of_supported / max(supported, 1)
    print(f"{name}: {sum(results.values())} files, {supported} with supported models and methods")
    for result, count in results.most_common():
        print(f"  {count:4} {result}")
    print(f"  converted, of the supported ones: {share:.0%}")
    for reason, count in reasons.most_common():
        print(f"    {count:4} {reason}")


def main():
    match sys.argv[1:]:
        case [traind, axolotl, llama_factory, *show] if show in ([], ["--files"]):
            report(traind, "axolotl", "axolotl", examples(Path(axolotl) / "examples", "**/*.y*ml"), bool(show))
            files = examples(Path(llama_factory) / "examples", "**/*.yaml")
            report(traind, "LLaMA-Factory", "llama-factory", files, bool(show))
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
