//! LLaMA-Factory's YAML.

use traind_convert::Source;

use super::{check, check_refused, text};

const PRETRAINING: &str = "
model_name_or_path: openai-community/gpt2
trust_remote_code: true
stage: pt
do_train: true
finetuning_type: full
dataset: data/c4_demo.jsonl
cutoff_len: 1024
overwrite_cache: true
preprocessing_num_workers: 16
dataloader_num_workers: 4
output_dir: saves/gpt2/full/pt
logging_steps: 10
save_steps: 500
plot_loss: true
overwrite_output_dir: true
save_only_model: false
report_to: none
per_device_train_batch_size: 1
gradient_accumulation_steps: 8
learning_rate: 1.0e-4
num_train_epochs: 3.0
lr_scheduler_type: cosine
warmup_ratio: 0.1
bf16: true
ddp_timeout: 180000000
resume_from_checkpoint: null
val_size: 0.1
per_device_eval_batch_size: 1
eval_strategy: steps
eval_steps: 500
";

const NOTES: [&str; 6] = [
    "trust_remote_code",
    "overwrite_cache",
    "preprocessing_num_workers",
    "dataloader_num_workers",
    "plot_loss",
    "ddp_timeout",
];

#[test]
fn pretraining_of_all_weights() {
    let expect = [
        ("name", "pt"),
        ("model.task", "causal-lm"),
        ("data.block_size", "1024"),
        ("data.validation_split", "0.1"),
        ("train.warmup_steps", "0.1"),
        ("train.bf16", "true"),
        ("train.report_to", "none"),
        ("train.eval_steps", "500"),
    ];
    check(text(Source::LlamaFactory, PRETRAINING, &[]), &expect, &NOTES);
}

#[test]
fn adapters_become_a_section() {
    let lora = "finetuning_type: lora\nlora_rank: 16\nlora_target: q_proj, v_proj";
    let lora = PRETRAINING.replace("finetuning_type: full", lora);
    let expect = [
        ("peft.method", "lora"),
        ("peft.r", "16"),
        ("peft.lora_alpha", "32.0"),
        ("peft.target_modules", "[\"q_proj\",\"v_proj\"]"),
    ];
    check(text(Source::LlamaFactory, &lora, &[]), &expect, &NOTES);
    let more = lora.replace("lora_rank: 16", "adapter_name_or_path: saves/first");
    let converted = text(Source::LlamaFactory, &more, &[]).unwrap();
    assert!(converted.job_file.contains("adapter_name_or_path: saves/first"), "{converted:?}");
    assert!(converted.notes.iter().any(|note| note.key == "lora_target"), "{converted:?}");
}

#[test]
fn messages_are_fine_tuned_on() {
    let sft = PRETRAINING.replace("stage: pt", "stage: sft\ntemplate: llama3\nneat_packing: true");
    let expect = [
        ("model.task", "sft"),
        ("data.max_length", "1024"),
        ("data.packing", "true"),
        ("data.assistant_only_loss", "true"),
    ];
    let converted = text(Source::LlamaFactory, &sft, &[]).unwrap();
    let notes: Vec<&str> = converted.notes.iter().map(|note| note.key.as_str()).collect();
    assert!(notes.contains(&"template") && notes.contains(&"assistant_only_loss"), "{notes:?}");
    check(Ok(converted.clone()), &expect, &notes);
    let mixed = sft.replace("neat_packing", "packing");
    check_refused(text(Source::LlamaFactory, &mixed, &[]), &[("packing", "neat_packing")]);
}

#[test]
fn preferences_are_trained_on() {
    let keys = "stage: dpo\npref_beta: 0.3\npref_loss: hinge\nsimpo_gamma: 0.5\ntemplate: llama3\n\
                ref_model: org/name";
    let dpo = PRETRAINING.replace("stage: pt", keys);
    let expect = [
        ("model.task", "dpo"),
        ("dpo.beta", "0.3"),
        ("dpo.loss_type", "hinge"),
        ("dpo.ref_model_name_or_path", "org/name"),
        ("data.max_length", "1024"),
    ];
    let mut notes = vec!["template", "dataset", "trust_remote_code", "simpo_gamma"];
    notes.extend(&NOTES[1..]);
    check(text(Source::LlamaFactory, &dpo, &[]), &expect, &notes);
}

#[test]
fn preferences_of_other_kinds_are_refused() {
    let simpo = PRETRAINING.replace(
        "stage: pt",
        "stage: dpo\npref_loss: simpo\npref_ftx: 1.0\nref_model_adapters: x/y\npacking: true",
    );
    let expect = [
        ("pref_loss", "`sigmoid`, `hinge` and `ipo`"),
        ("packing", "not packed"),
        ("pref_ftx", "preferences alone"),
        ("ref_model_adapters", "whole model"),
    ];
    check_refused(text(Source::LlamaFactory, &simpo, &[]), &expect);
    let rewards = PRETRAINING.replace("stage: pt", "stage: rm\npref_beta: 0.1");
    check_refused(text(Source::LlamaFactory, &rewards, &[]), &[("stage", "`dpo` on pairs")]);
    let frozen = PRETRAINING.replace("finetuning_type: full", "finetuning_type: freeze");
    let expect = [("finetuning_type", "train.freeze")];
    check_refused(text(Source::LlamaFactory, &frozen, &[]), &expect);
}

#[test]
fn an_entry_of_its_data_sets_is_asked_for() {
    let entry = PRETRAINING.replace("data/c4_demo.jsonl", "c4_demo");
    check_refused(text(Source::LlamaFactory, &entry, &[]), &[("dataset", "--set data.train=")]);
    let given = [("data.train", "c4.jsonl")];
    check(text(Source::LlamaFactory, &entry, &given), &[("data.block_size", "1024")], &NOTES);
}
