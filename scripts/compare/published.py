"""Converts published example files, and counts the results by reason.

usage: published.py TRAIND AXOLOTL LLAMA_FACTORY [--files]
"""

import collections
import re
import subprocess
import sys
from pathlib import Path

# Keys of examples that ask for what traind does not do: weights in fewer bits, methods other than fine-tuning on rows, and
# models that read pictures or sound.
UNSUPPORTED = {
    "quantized weights": r"^\s*(load_in_[48]bit: *true|adapter: *qlora|quantization(_bit)?:|quantize_moe_experts: *true|gptq: *true|fp8: *true|quant_type:)|^quantization_bit",
    "another method": r"^(rl: *(?!dpo\b|ipo\b)\w|reward_model: *true|process_reward_model: *true|stage: *(rm|ppo|kto)\b|"
    r"adapter: *(llama-adapter|ia3)|finetuning_type: *(oft|freeze)|do_predict: *true|use_dft|use_eaft|use_asft|diffusion:|ebft:|"
    r"kd_trainer: *true|relora|use_badam: *true|use_galore: *true|use_apollo: *true|mixture_of_depths|pissa_init: *true)",
    "pictures or sound": r"^(processor_type: *AutoProcessor|image_(max_pixels|size)|is_multimodal: *true|video_max_pixels)|mllm_|llava|rlhf_v",
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
    for reason, pattern in UNSUPPORTED.items():
        if re.search(pattern, text, re.M):
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
    results, reasons, supported = collections.Counter(), collections.Counter(), 0
    for file, text in files:
        out_of_scope = unsupported(text)
        lines = converted(traind, tool, file)
        supported += out_of_scope is None
        result = "converted" if not lines else out_of_scope or "refused"
        results[result] += 1
        if lines and out_of_scope is None:
            reasons.update({line for line in lines})
        if show:
            print(f"  {result:20} {file}", *(f"\n      {line}" for line in lines if result == "refused"), sep="")
    share = results["converted"] / max(supported, 1)
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
