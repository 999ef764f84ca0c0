//! Whole argument files in the shape of transformers' example commands, axolotl's and LLaMA-Factory's
//! examples and TrainingArguments: each is accepted, or refused with the sentence that helps.

use std::fs;
use std::path::{Path, PathBuf};

use traind_convert::{Converted, Refused, Source, convert, convert_script};

use super::{check_fields, fields};

/// The outcome of a file: fields of the job file with their values, or keys that are refused with a part
/// of their sentences.
enum Outcome {
    Accepted(&'static [(&'static str, &'static str)]),
    Refused(&'static [(&'static str, &'static str)]),
}

use Outcome::{Accepted, Refused as Denied};

const FILES: &[(&str, Outcome)] = &[
    (
        "examples/glue_mrpc.sh",
        Accepted(&[("model.num_labels", "2"), ("data.text_pair", "sentence2")]),
    ),
    ("examples/glue_imdb_fp16.sh", Accepted(&[("resources.cores", "8"), ("train.fp16", "true")])),
    (
        "examples/classification_files.sh",
        Accepted(&[
            ("data.text", "review_body"),
            ("data.label", "stars"),
            ("train.metric_for_best_model", "f1"),
        ]),
    ),
    (
        "examples/xnli.sh",
        Denied(&[
            ("language", "data.validation"),
            ("train_language", "data.train"),
            ("train.save_steps", "above 0"),
        ]),
    ),
    ("examples/ner_conll.sh", Accepted(&[("data.labels", "ner_tags")])),
    (
        "examples/ner_files.sh",
        Accepted(&[("data.label_all_tokens", "true"), ("train.neftune_noise_alpha", "5")]),
    ),
    ("examples/qa_squad.sh", Accepted(&[("data.doc_stride", "128"), ("data.max_length", "384")])),
    (
        "examples/qa_squad_v2.sh",
        Accepted(&[
            ("data.version_2_with_negative", "true"),
            ("data.n_best_size", "30"),
            ("resources.cores", "8"),
        ]),
    ),
    (
        "examples/mlm_wikitext.sh",
        Accepted(&[("data.dataset_config_name", "wikitext-2-raw-v1"), ("model.task", "masked-lm")]),
    ),
    (
        "examples/mlm_lines.sh",
        Accepted(&[
            ("data.line_by_line", "true"),
            ("train.lr_scheduler_type", "reduce_lr_on_plateau"),
        ]),
    ),
    ("examples/clm_wikitext.sh", Accepted(&[("train.auto_find_batch_size", "true")])),
    (
        "examples/clm_from_scratch.sh",
        Denied(&[("model_type", "model.from_config: true"), ("tokenizer_name", "model folder")]),
    ),
    (
        "examples/summarization_cnn.sh",
        Accepted(&[
            ("data.source", "article"),
            ("data.target", "highlights"),
            ("data.source_prefix", "'summarize: '"),
            ("data.dataset_config_name", "'3.0.0'"),
            ("data.max_source_length", "1024"),
            ("train.predict_with_generate", "true"),
        ]),
    ),
    (
        "examples/summarization_files.sh",
        Accepted(&[
            ("data.source", "text"),
            ("data.max_target_length", "64"),
            ("train.generation_max_length", "64"),
            ("train.generation_num_beams", "4"),
        ]),
    ),
    (
        "examples/translation_wmt.sh",
        Accepted(&[("data.source_lang", "en"), ("data.target_lang", "ro")]),
    ),
    (
        "examples/image_classification.sh",
        Accepted(&[
            ("model.task", "image-classification"),
            ("model.name_or_path", "google/vit-base-patch16-224-in21k"),
            ("data.train", "[\"hf://datasets/AI-Lab-Makerere/beans\"]"),
            ("data.label", "labels"),
        ]),
    ),
    ("examples/swag.sh", Denied(&[("run_swag", "multiple choice")])),
    ("examples/speech.sh", Denied(&[("run_audio_classification", "sound")])),
    (
        "axolotl/gpt2_completion.yaml",
        Accepted(&[
            ("train.lr_scheduler_type", "cosine_with_min_lr"),
            ("train.lr_scheduler_kwargs.min_lr_rate", "0.1"),
            ("data.max_length", "1024"),
        ]),
    ),
    (
        "axolotl/llama_lora.yaml",
        Accepted(&[
            ("peft.r", "32"),
            ("peft.target_modules", "all-linear"),
            ("train.eval_steps", "0.0625"),
            ("train.neftune_noise_alpha", "5"),
        ]),
    ),
    (
        "axolotl/llama_qlora.yaml",
        Denied(&[("load_in_4bit", "leave it out"), ("adapter", "`lora` keeps")]),
    ),
    (
        "axolotl/mistral_alpaca.yaml",
        Accepted(&[
            ("model.task", "sft"),
            ("data.format", "alpaca"),
            ("data.prompt_style", "instruct"),
            ("data.excess_length_strategy", "drop"),
        ]),
    ),
    (
        "axolotl/chat.yaml",
        Accepted(&[("data.format", "messages"), ("data.chat_template", "qwen_25")]),
    ),
    (
        "axolotl/dpo.yaml",
        Accepted(&[("model.task", "dpo"), ("dpo.beta", "0.05"), ("data.prompt", "messages")]),
    ),
    (
        "axolotl/hub_files.yaml",
        Accepted(&[
            (
                "data.train",
                "[\"hf://datasets/allenai/c4/en/c4-train.00000-of-01024.json.gz\", \
                 \"hf://datasets/allenai/c4/en/c4-train.00001-of-01024.json.gz\"]",
            ),
            (
                "data.validation",
                "[\"hf://datasets/allenai/c4@main/en/c4-validation.00000-of-00008.json.gz\"]",
            ),
        ]),
    ),
    ("axolotl/zero3_file.yaml", Accepted(&[("parallel.fsdp", "full_shard")])),
    (
        "axolotl/fsdp.yaml",
        Accepted(&[("parallel.fsdp", "full_shard"), ("train.gradient_accumulation_steps", "4")]),
    ),
    (
        "llama_factory/pretrain_lora.yaml",
        Accepted(&[("peft.lora_alpha", "16"), ("train.warmup_steps", "0.1")]),
    ),
    ("llama_factory/pretrain_full_zero3.yaml", Accepted(&[("parallel.fsdp", "full_shard")])),
    (
        "llama_factory/sft_lora.yaml",
        Accepted(&[
            ("data.train", "[/base/data/identity.json, /base/data/alpaca_en_demo.json]"),
            ("data.format", "alpaca"),
            ("data.fields.system", "null"),
            ("data.template", "llama3"),
            ("data.max_length", "2048"),
        ]),
    ),
    (
        "llama_factory/dpo.yaml",
        Accepted(&[
            ("model.task", "dpo"),
            ("dpo.beta", "0.1"),
            ("dpo.loss_type", "sigmoid"),
            ("peft.target_modules", "all-linear"),
            ("data.max_length", "2048"),
        ]),
    ),
    ("llama_factory/predict.yaml", Denied(&[("predict_with_generate", "seq2seq-lm alone")])),
    ("llama_factory/quantized.yaml", Denied(&[("quantization_bit", "leave it out")])),
    (
        "trainer/deepspeed_zero2.json",
        Accepted(&[
            ("parallel.fsdp", "shard_grad_op"),
            ("train.bf16", "true"),
            ("train.include_num_input_tokens_seen", "non_padding"),
        ]),
    ),
    (
        "trainer/deepspeed_offload.json",
        Accepted(&[("parallel.fsdp", "full_shard"), ("parallel.offload", "[optimizer]")]),
    ),
];

/// Values for what a source does not say.
const GIVEN: [(&str, &str); 3] =
    [("model.name_or_path", "x/y"), ("model.task", "causal-lm"), ("data.train", "notes.txt")];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/convert/files")
}

fn converted(file: &str) -> Result<Converted, Refused> {
    let text = fs::read_to_string(folder().join(file)).unwrap();
    let (kind, _) = file.split_once('/').unwrap();
    match kind {
        "examples" => convert_script(&text, &[]),
        "axolotl" => convert(Some(Source::Axolotl), &text, &[]),
        "llama_factory" => convert(Some(Source::LlamaFactory), &text, &[]),
        "trainer" => convert(Some(Source::TrainingArguments), &text, &fields(&GIVEN)),
        other => panic!("{other} is no source"),
    }
}

#[test]
fn every_file_is_accepted_or_refused_with_its_sentence() {
    for (file, outcome) in FILES {
        match (outcome, converted(file)) {
            (Accepted(expect), Ok(converted)) => check_fields(file, &converted.job_file, expect),
            (Denied(expect), Err(refused)) => {
                let keys: Vec<&str> = refused.notes.iter().map(|note| note.key.as_str()).collect();
                let wanted: Vec<&str> = expect.iter().map(|(key, _)| *key).collect();
                assert_eq!(keys, wanted, "{file}: {refused}");
                for (note, (_, sentence)) in refused.notes.iter().zip(*expect) {
                    assert!(note.text.contains(sentence), "{file}: {refused}");
                }
            }
            (Accepted(_), Err(refused)) => panic!("{file}: {refused}"),
            (Denied(_), Ok(converted)) => panic!("{file} is accepted:\n{}", converted.job_file),
        }
    }
}

#[test]
fn every_file_is_in_the_table() {
    let mut found = Vec::new();
    for source in fs::read_dir(folder()).unwrap().map(|source| source.unwrap().path()) {
        // Its cases have the job files that they become beside them.
        if source.ends_with("sagemaker") {
            continue;
        }
        for file in fs::read_dir(source).unwrap() {
            let path = file.unwrap().path();
            let name = path.strip_prefix(folder()).unwrap();
            found.push(name.to_str().unwrap().to_owned());
        }
    }
    found.sort();
    let mut listed: Vec<&str> = FILES.iter().map(|(file, _)| *file).collect();
    listed.sort_unstable();
    assert_eq!(found, listed);
    assert!(found.len() >= 30, "{}", found.len());
}
