//! axolotl's YAML.

use traind_convert::Source;

use super::{check, check_refused, text};

const PLAIN: &str = "
base_model: openai-community/gpt2
model_type: AutoModelForCausalLM
tokenizer_type: AutoTokenizer
load_in_8bit: false
load_in_4bit: false
strict: false
datasets:
  - path: wikitext
    name: wikitext-2-raw-v1
    type: completion
    field: text
dataset_prepared_path: last_run_prepared
val_set_size: 0.05
output_dir: ./outputs/out
sequence_len: 512
sample_packing: true
pad_to_sequence_len: true
adapter:
lora_r:
wandb_project: texts
wandb_name:
gradient_accumulation_steps: 4
micro_batch_size: 2
num_epochs: 2
optimizer: adamw_torch_fused
lr_scheduler: cosine
learning_rate: 0.0002
train_on_inputs: false
group_by_length: false
bf16: auto
fp16:
tf32: false
gradient_checkpointing: true
early_stopping_patience:
resume_from_checkpoint:
logging_steps: 1
flash_attention: true
warmup_steps: 10
evals_per_epoch: 4
saves_per_epoch: 1
weight_decay: 0.0
special_tokens:
  pad_token: <|endoftext|>
";

#[test]
fn plain_text_is_a_causal_language_model() {
    let expect = [
        ("name", "out"),
        ("model.task", "causal-lm"),
        ("data.dataset_config_name", "wikitext-2-raw-v1"),
        ("data.validation_split", "0.05"),
        ("train.report_to", "wandb"),
        ("train.project", "texts"),
        ("data.block_size", "512"),
        ("train.per_device_train_batch_size", "2"),
        ("train.gradient_accumulation_steps", "4"),
        ("train.optim", "adamw_torch"),
        ("train.lr_scheduler_type", "cosine"),
        ("train.bf16", "true"),
        ("train.eval_strategy", "steps"),
        ("train.eval_steps", "0.125"),
        ("train.save_strategy", "epoch"),
    ];
    let notes = [
        "model_type",
        "tokenizer_type",
        "dataset_prepared_path",
        "pad_to_sequence_len",
        "flash_attention",
        "special_tokens",
        "sample_packing",
        "bf16",
        "optim",
        "evals_per_epoch",
    ];
    check(text(Source::Axolotl, PLAIN, &[]), &expect, &notes);
}

#[test]
fn files_are_data_too() {
    let files = PLAIN.replace(
        "path: wikitext\n    name: wikitext-2-raw-v1",
        "path: json\n    data_files: [a.jsonl, b.jsonl]",
    );
    let expect = [("data.train", "[/base/a.jsonl, /base/b.jsonl]")];
    let converted = text(Source::Axolotl, &files, &[]).unwrap();
    assert!(
        converted.job_file.contains("train: [\"a.jsonl\",\"b.jsonl\"]"),
        "{}",
        converted.job_file
    );
    check(
        Ok(converted.clone()),
        &expect,
        &converted.notes.iter().map(|n| n.key.as_str()).collect::<Vec<_>>(),
    );
}

#[test]
fn adapters_become_a_section() {
    let lora = PLAIN.replace(
        "adapter:\n",
        "adapter: lora\nlora_target_linear: true\nlora_modules_to_save: [embed_tokens]\n\
         peft_use_dora: true\n",
    );
    let lora = lora.replace("lora_r:\n", "lora_r: 16\n");
    let expect = [
        ("peft.method", "lora"),
        ("peft.r", "16"),
        ("peft.target_modules", "all-linear"),
        ("peft.use_dora", "true"),
    ];
    let converted = text(Source::Axolotl, &lora, &[]).unwrap();
    let notes: Vec<&str> = converted.notes.iter().map(|note| note.key.as_str()).collect();
    assert!(!notes.iter().any(|key| key.contains("lora")), "{notes:?}");
    check(Ok(converted.clone()), &expect, &notes);
}

#[test]
fn a_repository_of_the_hub_is_pushed_to() {
    let pushed = format!("{PLAIN}hub_model_id: ann/tiny\nhub_strategy: end\n");
    let expect = [
        ("train.push_to_hub", "true"),
        ("train.hub_model_id", "ann/tiny"),
        ("train.hub_strategy", "end"),
    ];
    let converted = text(Source::Axolotl, &pushed, &[]).unwrap();
    let notes: Vec<&str> = converted.notes.iter().map(|note| note.key.as_str()).collect();
    check(Ok(converted.clone()), &expect, &notes);
}

#[test]
fn quantized_weights_and_instructions_are_not_supported() {
    let lora = PLAIN
        .replace("adapter:\n", "adapter: qlora\n")
        .replace("load_in_4bit: false", "load_in_4bit: true");
    check_refused(
        text(Source::Axolotl, &lora, &[]),
        &[("load_in_4bit", "float32"), ("adapter", "qlora")],
    );
    let alpaca = PLAIN.replace("type: completion", "type: alpaca");
    check_refused(text(Source::Axolotl, &alpaca, &[]), &[("datasets.type", "chat_template")]);
    let preference = format!("{PLAIN}rl: dpo\ndeepspeed: zero3.json\n");
    let expect = [("rl", "preferences"), ("deepspeed", "parallel.fsdp")];
    check_refused(text(Source::Axolotl, &preference, &[]), &expect);
}

#[test]
fn messages_are_fine_tuned_on() {
    let chat = PLAIN
        .replace(
            "type: completion\n    field: text",
            "type: chat_template\n    field_messages: chat",
        )
        .replace("\nsequence_len", "\nchat_template: tokenizer_default\nsequence_len");
    let expect = [
        ("model.task", "sft"),
        ("data.messages", "chat"),
        ("data.max_length", "512"),
        ("data.packing", "true"),
        ("data.assistant_only_loss", "true"),
    ];
    let converted = text(Source::Axolotl, &chat, &[]).unwrap();
    let notes: Vec<&str> = converted.notes.iter().map(|note| note.key.as_str()).collect();
    assert!(notes.contains(&"assistant_only_loss") && notes.contains(&"sequence_len"), "{notes:?}");
    check(Ok(converted.clone()), &expect, &notes);
    let inputs = chat.replace("train_on_inputs: false", "train_on_inputs: true");
    let converted = text(Source::Axolotl, &inputs, &[]).unwrap();
    assert!(!converted.job_file.contains("assistant_only_loss"), "{}", converted.job_file);
    let other = chat
        .replace("tokenizer_default", "llama3")
        .replace("field_messages: chat", "roles_to_train: [user]");
    let expect = [("chat_template", "tokenizer_default"), ("datasets.roles_to_train", "assistant")];
    check_refused(text(Source::Axolotl, &other, &[]), &expect);
}

#[test]
fn an_optimizer_of_8_bits_is_refused_by_the_job_file() {
    let small = PLAIN.replace("adamw_torch_fused", "adamw_bnb_8bit");
    check_refused(text(Source::Axolotl, &small, &[]), &[("train.optim", "use adamw_torch")]);
}

#[test]
fn a_key_that_no_table_has_is_not_lost() {
    let unknown = format!("{PLAIN}relora_steps: 150\n");
    check_refused(text(Source::Axolotl, &unknown, &[]), &[("relora_steps", "not known here")]);
}
