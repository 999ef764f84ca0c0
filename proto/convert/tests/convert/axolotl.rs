//! axolotl's YAML.

use std::path::Path;

use traind_convert::{Source, convert_with};
use traind_job_file::JobFile;

use super::{check, check_fields, check_refused, text};

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
        ("model.task", "sft"),
        ("data.format", "completion"),
        ("data.packing", "true"),
        ("data.dataset_config_name", "wikitext-2-raw-v1"),
        ("data.validation_split", "0.05"),
        ("train.report_to", "wandb"),
        ("train.project", "texts"),
        ("model.add_special_tokens.pad_token", "'<|endoftext|>'"),
        ("data.max_length", "512"),
        ("train.per_device_train_batch_size", "2"),
        ("train.gradient_accumulation_steps", "4"),
        ("train.optim", "adamw_torch"),
        ("train.lr_scheduler_type", "cosine"),
        ("train.bf16", "true"),
        ("train.eval_strategy", "steps"),
        ("train.eval_steps", "0.125"),
        ("train.save_strategy", "steps"),
        ("train.save_steps", "0.5"),
        ("train.load_best_model_at_end", "true"),
    ];
    let notes = [
        "model_type",
        "tokenizer_type",
        "dataset_prepared_path",
        "pad_to_sequence_len",
        "flash_attention",
        "sample_packing",
        "bf16",
        "optim",
        "evals_per_epoch",
        "saves_per_epoch",
        "num_epochs",
    ];
    check(text(Source::Axolotl, PLAIN, &[]), &expect, &notes);
}

#[test]
fn rows_to_evaluate_on_may_be_counted() {
    let sized = |size: &str| PLAIN.replace("val_set_size: 0.05", &format!("val_set_size: {size}"));
    for (size, expect) in [("500", "500"), ("2.9", "2")] {
        let converted = text(Source::Axolotl, &sized(size), &[]).unwrap();
        check_fields(size, &converted.job_file, &[("data.validation_split", expect)]);
    }
    check_refused(
        text(Source::Axolotl, &sized("1"), &[]),
        &[("val_set_size", "a share of the rows below 1, or a number of at least 2 rows")],
    );
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
fn files_of_a_data_set_on_the_hub_have_its_address() {
    for (entry, train) in [
        ("path: org/notes\n    data_files: en/a.jsonl", "hf://datasets/org/notes/en/a.jsonl"),
        ("path: org/notes\n    revision: v2", "hf://datasets/org/notes@v2"),
        (
            "path: org/notes\n    revision: v2\n    data_files: [a.jsonl, b.jsonl]",
            "[\"hf://datasets/org/notes@v2/a.jsonl\",\"hf://datasets/org/notes@v2/b.jsonl\"]",
        ),
        ("path: ./notes/\n    data_files: a.jsonl", "./notes/a.jsonl"),
    ] {
        let files = PLAIN.replace("path: wikitext\n    name: wikitext-2-raw-v1", entry);
        let converted = text(Source::Axolotl, &files, &[]).unwrap();
        let line = converted.job_file.lines().find(|line| line.starts_with("  train: ")).unwrap();
        assert!(line.replace('"', "").contains(&train.replace('"', "")), "{line}, not {train}");
    }
}

#[test]
fn a_key_of_a_data_set_is_not_lost() {
    let sharded = PLAIN.replace("field: text", "field: text\n    shards: 10\n    sharding: 2");
    check_refused(
        text(Source::Axolotl, &sharded, &[]),
        &[("datasets.shards", "chosen by split"), ("datasets.sharding", "not known here")],
    );
    let typed = PLAIN.replace("field: text", "field: text\n    ds_type: json");
    let notes = text(Source::Axolotl, &typed, &[]).unwrap().notes;
    assert!(notes.iter().any(|note| note.key == "datasets.ds_type"), "{notes:?}");
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
fn quantized_weights_and_other_types_are_not_supported() {
    let lora = PLAIN
        .replace("adapter:\n", "adapter: qlora\n")
        .replace("load_in_4bit: false", "load_in_4bit: true");
    check_refused(
        text(Source::Axolotl, &lora, &[]),
        &[("load_in_4bit", "not quantized"), ("adapter", "qlora")],
    );
    let other = PLAIN.replace("type: completion", "type: jeopardy");
    check_refused(text(Source::Axolotl, &other, &[]), &[("datasets.type", "chat_template")]);
    let sharded = format!("{PLAIN}deepspeed: zero3.json\n");
    check_fields(
        "",
        &text(Source::Axolotl, &sharded, &[]).unwrap().job_file,
        &[("parallel.fsdp", "full_shard")],
    );
    let own = sharded.replace("zero3.json", "mine.json");
    check_refused(text(Source::Axolotl, &own, &[]), &[("deepspeed", "parallel.fsdp")]);
}

#[test]
fn a_file_of_deepspeed_is_read_where_it_is_there() {
    let named = format!("{PLAIN}deepspeed: conf/zero3.json\n");
    let content = |text: &'static str| move |_: &Path| Some(text.to_owned());
    let read = content(r#"{"zero_optimization": {"stage": 2}}"#);
    let converted = convert_with(Some(Source::Axolotl), &named, &[], &read).unwrap();
    check_fields("", &converted.job_file, &[("parallel.fsdp", "shard_grad_op")]);
    let damaged = convert_with(Some(Source::Axolotl), &named, &[], &content("{"));
    check_refused(damaged, &[("deepspeed", "conf/zero3.json is no JSON")]);
}

#[test]
fn a_file_that_offloads_is_one_of_the_tool() {
    let named = format!("{PLAIN}deepspeed: deepspeed_configs/zero3_bf16_cpuoffload_all.json\n");
    let converted = text(Source::Axolotl, &named, &[]).unwrap();
    let expect = [("parallel.fsdp", "full_shard"), ("parallel.offload", "[optimizer]")];
    check_fields("", &converted.job_file, &expect);
    let notes = converted.notes.iter().map(ToString::to_string).collect::<String>();
    assert!(notes.contains("the tool ships") && notes.contains("stay on the cores"), "{notes}");
}

const PAIRS: &str = "
base_model: Qwen/Qwen2.5-0.5B
rl: dpo
rl_beta: 0.2
chat_template: tokenizer_default
datasets:
  - path: data/pairs.jsonl
    type: chat_template.default
    field_messages: conversation
    field_chosen: better
    field_rejected: worse
dpo_use_logits_to_keep: true
bf16: false
sequence_len: 512
train_on_inputs: true
output_dir: ./outputs/dpo
micro_batch_size: 2
";

#[test]
fn preferences_are_trained_on() {
    let expect = [
        ("model.task", "dpo"),
        ("data.prompt", "conversation"),
        ("data.chosen", "better"),
        ("data.rejected", "worse"),
        ("data.max_length", "512"),
        ("dpo.beta", "0.2"),
        ("dpo.loss_type", "sigmoid"),
    ];
    let notes = [
        "dpo_use_logits_to_keep",
        "train_on_inputs",
        "sequence_len",
        "datasets.type",
        "warmup_steps",
        "logging_steps",
    ];
    check(text(Source::Axolotl, PAIRS, &[]), &expect, &notes);

    let averaged = PAIRS
        .replace("rl: dpo", "rl: ipo\ntrl: {beta: 0.3, num_generations: 4}")
        .replace("chat_template.default", "chat_template.argilla_chat")
        .replace("    field_messages: conversation\n", "");
    let expect = [
        ("data.prompt", "prompt"),
        ("data.chosen", "better"),
        ("dpo.beta", "0.3"),
        ("dpo.loss_type", "ipo"),
    ];
    let notes = [
        "dpo_use_logits_to_keep",
        "trl.num_generations",
        "train_on_inputs",
        "sequence_len",
        "datasets.type",
        "warmup_steps",
        "logging_steps",
    ];
    check(text(Source::Axolotl, &averaged, &[]), &expect, &notes);
}

#[test]
fn losses_of_preferences_are_read() {
    let notes = [
        "dpo_use_logits_to_keep",
        "train_on_inputs",
        "sequence_len",
        "datasets.type",
        "warmup_steps",
        "logging_steps",
    ];
    for (settings, expect) in [
        ("rl: dpo\ndpo_norm_loss: true", vec![("dpo.loss_type", "sigmoid_norm")]),
        (
            "rl: dpo\nrpo_alpha: 0.5\ndpo_use_weighting: true",
            vec![
                ("dpo.loss_type", "[\"sigmoid\",\"sft\"]"),
                ("dpo.loss_weights", "[1.0,0.5]"),
                ("dpo.use_weighting", "true"),
            ],
        ),
        (
            "rl: dpo\ndpo_loss_type: [robust, bco_pair]\ndpo_loss_weights: [0.8, 0.2]\n\
             dpo_label_smoothing: 0.1",
            vec![
                ("dpo.loss_type", "[\"robust\",\"bco_pair\"]"),
                ("dpo.loss_weights", "[0.8,0.2]"),
                ("dpo.label_smoothing", "0.1"),
            ],
        ),
        ("rl: ipo\nrpo_alpha: 2", vec![("dpo.loss_type", "[\"ipo\",\"sft\"]")]),
    ] {
        check(text(Source::Axolotl, &PAIRS.replace("rl: dpo", settings), &[]), &expect, &notes);
    }
    for (settings, key, problem) in [
        ("dpo_label_smoothing: 0.1", "dpo_label_smoothing", "robust"),
        ("dpo_loss_type: [hinge]\ndpo_norm_loss: true", "dpo_norm_loss", "`sigmoid_norm`"),
    ] {
        let other = PAIRS.replace("rl: dpo", &format!("rl: dpo\n{settings}"));
        check_refused(text(Source::Axolotl, &other, &[]), &[(key, problem)]);
    }
}

#[test]
fn simpo_is_trained() {
    let settings = "rl: simpo\ncpo_alpha: 0\nsimpo_gamma: 1.2\nrpo_alpha: 0.5";
    let expect = [
        ("model.task", "cpo"),
        ("cpo.loss_type", "simpo"),
        ("cpo.cpo_alpha", "0"),
        ("cpo.simpo_gamma", "1.2"),
    ];
    let notes = [
        "dpo_use_logits_to_keep",
        "rpo_alpha",
        "train_on_inputs",
        "sequence_len",
        "datasets.type",
        "warmup_steps",
        "logging_steps",
    ];
    check(text(Source::Axolotl, &PAIRS.replace("rl: dpo", settings), &[]), &expect, &notes);
}

#[test]
fn odds_ratios_are_trained() {
    let orpo = PAIRS
        .replace("rl: dpo\nrl_beta: 0.2", "rl: orpo\norpo_alpha: 0.3\nkto_desirable_weight: 2")
        .replace(
            "chat_template.default\n    field_messages: conversation",
            "chat_template.argilla",
        );
    let expect = [
        ("model.task", "orpo"),
        ("orpo.beta", "0.3"),
        ("data.chosen", "better"),
        ("data.max_length", "512"),
    ];
    let notes = [
        "dpo_use_logits_to_keep",
        "kto_desirable_weight",
        "train_on_inputs",
        "sequence_len",
        "warmup_steps",
        "logging_steps",
    ];
    check(text(Source::Axolotl, &orpo, &[]), &expect, &notes);
}

#[test]
fn single_answers_are_trained_on() {
    const KTO: &str = "base_model: Qwen/Qwen2.5-0.5B\nrl: kto\nrl_beta: 0.5\nkto_desirable_weight: 0.2\n\
        datasets:\n  - path: data/answers.jsonl\n    type: llama3.ultra\nsequence_len: 512\n\
        micro_batch_size: 2\noutput_dir: ./outputs/kto\nbf16: false\n";
    let notes = ["sequence_len", "datasets.type", "warmup_steps", "logging_steps"];
    let expect = [
        ("model.task", "kto"),
        ("kto.beta", "0.5"),
        ("kto.desirable_weight", "0.2"),
        ("data.format", "alpaca"),
        ("data.chat_template", "llama3"),
        ("data.fields.instruction", "prompt"),
        ("data.fields.output", "completion"),
        ("train.train_sampling_strategy", "sequential"),
    ];
    check(text(Source::Axolotl, KTO, &[]), &expect, &notes);
    let chats = KTO.replace("llama3.ultra", "chatml.argilla_chat");
    let expect = [
        ("data.format", "messages"),
        ("data.messages", "completion"),
        ("data.chat_template", "chatml"),
    ];
    check(text(Source::Axolotl, &chats, &[]), &expect, &notes);
    let own =
        "{field_prompt: q, field_completion: a, field_label: good, prompt_format: '{prompt}'}";
    let columns = KTO.replace("llama3.ultra", own);
    let expect = [("data.prompt", "q"), ("data.completion", "a"), ("data.label", "good")];
    let notes = ["sequence_len", "warmup_steps", "logging_steps"];
    check(text(Source::Axolotl, &columns, &[]), &expect, &notes);
}

#[test]
fn models_of_rewards_are_trained() {
    let rewards = PAIRS
        .replace(
            "rl: dpo\nrl_beta: 0.2",
            "reward_model: true\nnum_labels: 1\ncenter_rewards_coefficient: 0.01",
        )
        .replace("tokenizer_default", "qwen_25")
        .replace("chat_template.default", "bradley_terry.chat_template")
        .replace("    field_messages: conversation\n", "");
    let expect = [
        ("model.task", "reward"),
        ("reward.center_rewards_coefficient", "0.01"),
        ("data.format", "alpaca"),
        ("data.fields.instruction", "input"),
        ("data.chat_template", "qwen_25"),
    ];
    let notes = [
        "dpo_use_logits_to_keep",
        "train_on_inputs",
        "sequence_len",
        "warmup_steps",
        "logging_steps",
    ];
    check(text(Source::Axolotl, &rewards, &[]), &expect, &notes);
}

#[test]
fn preferences_of_other_kinds_are_refused() {
    let other = PAIRS.replace("rl: dpo", "rl: grpo");
    check_refused(
        text(Source::Axolotl, &other, &[]),
        &[("rl", "`dpo`, `ipo`, `simpo` and `orpo`")],
    );
    let answers = PAIRS.replace("rl: dpo", "rl: kto");
    let expect = [("datasets.type", "`chat_template.default` is not supported; `chatml` and")];
    check_refused(text(Source::Axolotl, &answers, &[]), &expect);
    let formatted = answers.replace("chat_template.default", "{prompt_format: '<s>{prompt}'}");
    let expect = [("datasets.type.prompt_format", "write them so into the columns")];
    check_refused(text(Source::Axolotl, &formatted, &[]), &expect);
    let rewards = PAIRS.replace("rl: dpo", "reward_model: true\nnum_labels: 2");
    check_refused(text(Source::Axolotl, &rewards, &[]), &[("num_labels", "one reward")]);
    let packed = PAIRS
        .replace("tokenizer_default", "pixtral")
        .replace("sequence_len", "sample_packing: true\nsequence_len");
    let expect = [("sample_packing", "not packed"), ("chat_template", "tokenizer_default")];
    check_refused(text(Source::Axolotl, &packed, &[]), &expect);
    let unused =
        PAIRS.replace("rl: dpo\n", "").replace(".default\n    field_messages: conversation", "");
    let notes = ["rl_beta", "dpo_use_logits_to_keep", "warmup_steps", "logging_steps"];
    check(text(Source::Axolotl, &unused, &[]), &[("model.task", "sft")], &notes);
}

#[test]
fn a_split_is_read_as_it_says() {
    let hub = PAIRS.replace("path: data/pairs.jsonl", "path: org/pairs\n    split: train_prefs");
    let converted = text(Source::Axolotl, &hub, &[]).unwrap();
    let line = "train: [{\"path\":\"org/pairs\",\"split\":\"train_prefs\"}]";
    assert!(converted.job_file.contains(line), "{}", converted.job_file);
    let given = [("data.train", "hf://datasets/org/pairs/train_prefs.parquet")];
    let notes = [
        "dpo_use_logits_to_keep",
        "train_on_inputs",
        "sequence_len",
        "datasets.type",
        "warmup_steps",
        "logging_steps",
    ];
    check(text(Source::Axolotl, &hub, &given), &[("model.task", "dpo")], &notes);
    let usual = hub.replace("train_prefs", "train");
    let expect = [("data.train", "[\"hf://datasets/org/pairs\"]")];
    check(text(Source::Axolotl, &usual, &[]), &expect, &notes);
}

#[test]
fn rows_to_evaluate_on_are_packed_as_they_say() {
    let chat = PLAIN.replace("type: completion\n    field: text", "type: chat_template");
    let split = format!("{chat}eval_sample_packing: false\n");
    let converted = text(Source::Axolotl, &split, &[]).unwrap();
    assert!(converted.notes.iter().any(|note| note.key == "eval_sample_packing"), "{converted:?}");
    let files = "test_datasets:\n  - path: dev.jsonl\n    type: chat_template\n";
    let apart = split.replace("val_set_size: 0.05\n", files);
    let apart = format!("{apart}fsdp_version: 2\ntensor_parallel_size: 2\n");
    let expect = [
        ("data.packing", "true"),
        ("data.eval_packing", "false"),
        ("parallel.fsdp", "full_shard"),
        ("parallel.tensor", "2"),
    ];
    let given = [("resources.cores", "4")];
    let converted = text(Source::Axolotl, &apart, &given).unwrap();
    let notes: Vec<&str> = converted.notes.iter().map(|note| note.key.as_str()).collect();
    check(Ok(converted.clone()), &expect, &notes);
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
        ("data.format", "messages"),
        ("data.chat_template", "null"),
        ("data.excess_length_strategy", "drop"),
    ];
    let converted = text(Source::Axolotl, &chat, &[]).unwrap();
    let notes: Vec<&str> = converted.notes.iter().map(|note| note.key.as_str()).collect();
    check(Ok(converted.clone()), &expect, &notes);
    let other = chat
        .replace("train_on_inputs: false", "train_on_inputs: true\neot_tokens: [<|eot_id|>]")
        .replace("tokenizer_default", "llama3")
        .replace("pad_token: <|endoftext|>", "eos_token: <|eot_id|>")
        .replace(
            "field_messages: chat",
            "roles_to_train: [user]\n    message_field_role: from\n    \
             message_field_content: value\n    roles: {user: [human], assistant: [gpt]}\n    \
             field_thinking: thought\n    train_on_eos: all",
        );
    let expect = [
        ("data.chat_template", "llama3"),
        ("data.roles_to_train", "[user]"),
        ("data.train_on_inputs", "true"),
        ("data.train_on_eos", "all"),
        ("data.eot_tokens", "['<|eot_id|>']"),
        ("data.eos_token", "<|eot_id|>"),
        ("data.roles", "{user: [human], assistant: [gpt]}"),
        (
            "data.message_property_mappings",
            "{role: from, content: value, reasoning_content: thought}",
        ),
    ];
    let converted = text(Source::Axolotl, &other, &[]).unwrap();
    let notes: Vec<&str> = converted.notes.iter().map(|note| note.key.as_str()).collect();
    check(Ok(converted.clone()), &expect, &notes);
}

/// Settings that differ between sets stay with their sets.
#[test]
fn sets_keep_what_they_do_not_share() {
    let two = PLAIN.replace(
        "  - path: wikitext\n    name: wikitext-2-raw-v1\n    type: completion\n    field: text\n",
        "  - path: org/a\n    type: chat_template\n    split: train[:10%]\n  \
         - path: b.jsonl\n    type: chat_template\n    field_messages: talk\n",
    );
    let converted = text(Source::Axolotl, &two, &[]).unwrap();
    let line = "train: [{\"path\":\"org/a\",\"split\":\"train[:10%]\"},\
         {\"path\":\"b.jsonl\",\"messages\":\"talk\"}]";
    assert!(converted.job_file.contains(line), "{}", converted.job_file);
}

#[test]
fn instructions_have_prompts() {
    let kind = |kind: &str| {
        PLAIN.replace("name: wikitext-2-raw-v1\n    type: completion\n    field: text", kind)
    };
    let check = |given: &str, expect: &[(&str, &str)]| {
        let converted = text(Source::Axolotl, &kind(given), &[]).unwrap();
        let notes: Vec<&str> = converted.notes.iter().map(|note| note.key.as_str()).collect();
        check(Ok(converted.clone()), expect, &notes);
    };
    check("type: alpaca", &[("data.format", "alpaca"), ("data.prompt_style", "instruct")]);
    check("type: alpaca:phi", &[("data.format", "alpaca"), ("data.prompt_style", "phi")]);
    check("type: gpteacher", &[("data.fields.output", "response")]);
    check("type:", &[("data.format", "pretokenized")]);
    check(
        "type: {field_instruction: q, field_output: a, format: '{instruction}!', system_prompt: x}",
        &[
            ("data.fields.instruction", "q"),
            ("data.fields.output", "a"),
            ("data.prompt_template.format", "'{instruction}!'"),
            ("data.prompt_template.system_prompt", "x"),
        ],
    );
}

#[test]
fn a_cosine_may_end_at_a_rate() {
    for (key, argument) in
        [("eta_min: 7.0e-7", "min_lr"), ("cosine_min_lr_ratio: 0.1", "min_lr_rate")]
    {
        let converted = text(Source::Axolotl, &format!("{PLAIN}{key}\n"), &[]).unwrap();
        let parsed = JobFile::parse(&converted.job_file, Path::new("/base")).unwrap();
        let job = serde_json::to_value(&parsed.job).unwrap();
        assert_eq!(job["train"]["lr_scheduler_type"], "cosine_with_min_lr");
        assert!(job["train"]["lr_scheduler_kwargs"][argument].is_number(), "{job}");
    }
    let linear = PLAIN.replace("lr_scheduler: cosine", "lr_scheduler: linear");
    check_refused(
        text(Source::Axolotl, &format!("{linear}eta_min: 7.0e-7\n"), &[]),
        &[("eta_min", "applies to lr_scheduler: cosine")],
    );
}

#[test]
fn tokens_are_added() {
    let more = "tokens: ['<sql>', '<end>']\nresize_token_embeddings_to_32x: true\n";
    let expect = [
        ("model.add_tokens", "['<sql>', '<end>']"),
        ("model.pad_vocab_to_multiple_of", "32"),
        ("train.optim", "adamw_torch"),
    ];
    let plain = PLAIN.replace("adamw_torch_fused", "adamw_bnb_8bit");
    let converted = text(Source::Axolotl, &format!("{plain}{more}"), &[]).unwrap();
    let notes: Vec<&str> = converted.notes.iter().map(|note| note.key.as_str()).collect();
    check(Ok(converted.clone()), &expect, &notes);
    let wrong = PLAIN.replace("pad_token:", "padding:");
    check_refused(
        text(Source::Axolotl, &wrong, &[]),
        &[("special_tokens", "padding is not the role of a special token")],
    );
}

#[test]
fn a_key_that_no_table_has_is_not_lost() {
    let unknown = format!("{PLAIN}relora_steps: 150\n");
    check_refused(text(Source::Axolotl, &unknown, &[]), &[("relora_steps", "not known here")]);
}

#[test]
fn a_misspelled_key_is_refused_with_the_one_that_it_may_stand_for() {
    let refused = |from: &str, to: &str, key: &str, sentence: &str| {
        let settings = PLAIN.replace(from, to);
        assert_ne!(settings, PLAIN);
        check_refused(text(Source::Axolotl, &settings, &[]), &[(key, sentence)]);
    };
    let micro = "is not known here; did you mean `micro_batch_size`?";
    refused("micro_batch_size", "micro_batchsize", "micro_batchsize", micro);
    refused("learning_rate", "learnig_rate", "learnig_rate", "did you mean `learning_rate`?");
    refused("    field: text", "    feild: text", "datasets.feild", "did you mean `field`?");
    refused(
        "strict: false",
        "zzz_kernel: 3",
        "zzz_kernel",
        "is not known here; if the job needs it",
    );
}

/// The telling key is misspelled, another is LLaMA-Factory's, and wrong values are told in the same round.
#[test]
fn all_mistakes_of_a_file_are_told_at_once() {
    let settings = "bas_model: org/m\nsequence_len: 512\nnum_epochs: 1\nlora_rank: 8\nload_in_8bit: yess\n\
                    load_in_4bit: off\nlr_scheduler: cosin\ndatasets: [{path: a.jsonl, type: alpaca}]\n";
    check_refused(
        text(Source::Axolotl, settings, &[]),
        &[
            ("bas_model", "did you mean `base_model`?"),
            ("lora_rank", "is another tool's name for `lora_r`"),
            ("load_in_8bit", "is yess; did you mean `yes`?"),
            ("lr_scheduler", "must be one of linear"),
        ],
    );
}

/// `maybe` once packed the rows.
#[test]
fn a_switch_is_true_or_false() {
    for (value, problem) in [("maybe", "must be true or false, not maybe"), ("ture", "`true`")] {
        let packed = PLAIN.replace("sample_packing: true", &format!("sample_packing: {value}"));
        check_refused(text(Source::Axolotl, &packed, &[]), &[("sample_packing", problem)]);
    }
}

/// The template of conversations was once lost.
#[test]
fn conversations_of_fastchat_have_their_template() {
    let yaml = |entry: &str| {
        format!(
            "base_model: x/y\ndatasets:\n  - path: org/rows\n    type: sharegpt\n{entry}micro_batch_size: 1\n"
        )
    };
    let convert = |yaml: &str| text(Source::Axolotl, yaml, &[]);
    let chatml = convert(&yaml("    conversation: chatml\n")).unwrap();
    check_fields("", &chatml.job_file, &[("data.chat_template", "chatml")]);
    let plain = convert(&yaml("")).unwrap();
    assert!(plain.notes.iter().any(|note| note.text.contains("vicuna_v1.1")), "{plain:?}");
    let vicuna = convert(&yaml("    conversation: vicuna_v1.1\n"));
    check_refused(vicuna, &[("datasets.conversation", "name one as chat_template")]);
}
