//! LLaMA-Factory's YAML.

use traind_convert::Source;

use super::{check, check_fields, check_refused, text};

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

/// Keys of notes where texts follow each other in rows.
const PACKED: [&str; 7] = [
    "packing",
    "trust_remote_code",
    "overwrite_cache",
    "preprocessing_num_workers",
    "dataloader_num_workers",
    "plot_loss",
    "ddp_timeout",
];
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
        ("model.task", "sft"),
        ("data.format", "completion"),
        ("data.packing_strategy", "wrapped"),
        ("data.max_length", "1024"),
        ("data.validation_split", "0.1"),
        ("train.warmup_steps", "0.1"),
        ("train.bf16", "true"),
        ("train.report_to", "none"),
        ("train.eval_steps", "500"),
    ];
    check(text(Source::LlamaFactory, PRETRAINING, &[]), &expect, &PACKED);
    let counted = PRETRAINING.replace("val_size: 0.1", "val_size: 300");
    check(text(Source::LlamaFactory, &counted, &[]), &[("data.validation_split", "300")], &PACKED);
    let apart = PRETRAINING.replace("stage: pt", "stage: pt\npacking: false");
    check(text(Source::LlamaFactory, &apart, &[]), &[("data.packing", "false")], &PACKED);
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
        // Frozen weights are in the type of the computation.
        ("model.dtype", "bfloat16"),
    ];
    check(text(Source::LlamaFactory, &lora, &[]), &expect, &PACKED);
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
        ("data.format", "alpaca"),
        ("data.template", "llama3"),
    ];
    check(text(Source::LlamaFactory, &sft, &[]), &expect, &NOTES);
    let other = sft.replace("llama3", "qwen2_vl");
    check_refused(text(Source::LlamaFactory, &other, &[]), &[("template", "not supported")]);
    let mixed = sft.replace("neat_packing", "packing");
    check_refused(text(Source::LlamaFactory, &mixed, &[]), &[("packing", "neat_packing")]);
    let misspelled = PRETRAINING.replace("finetuning_type", "finetunning_type");
    let nearest = "did you mean `finetuning_type`?";
    check_refused(text(Source::LlamaFactory, &misspelled, &[]), &[("finetunning_type", nearest)]);
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
        ("data.format", "alpaca"),
        ("data.template", "llama3"),
    ];
    let mut notes = vec!["simpo_gamma", "trust_remote_code"];
    notes.extend(&NOTES[1..]);
    check(text(Source::LlamaFactory, &dpo, &[]), &expect, &notes);
}

#[test]
fn simpo_and_models_of_rewards_are_trained() {
    let keys =
        "stage: dpo\npref_beta: 2.0\npref_loss: simpo\nsimpo_gamma: 1.5\nref_model: org/name";
    let expect = [
        ("model.task", "cpo"),
        ("cpo.beta", "2.0"),
        ("cpo.loss_type", "simpo"),
        ("cpo.cpo_alpha", "0.0"),
        ("cpo.simpo_gamma", "1.5"),
        ("data.max_length", "1024"),
    ];
    let notes = |first: &[&'static str]| [first, &NOTES[1..]].concat();
    let simpo = PRETRAINING.replace("stage: pt", keys);
    check(
        text(Source::LlamaFactory, &simpo, &[]),
        &expect,
        &notes(&["ref_model", "template", "trust_remote_code"]),
    );
    let rewards = PRETRAINING.replace("stage: pt", "stage: rm\ntemplate: llama3");
    let expect = [("model.task", "reward"), ("data.max_length", "1024"), ("data.format", "alpaca")];
    check(
        text(Source::LlamaFactory, &rewards, &[]),
        &expect,
        &notes(&["stage", "trust_remote_code"]),
    );
}

#[test]
fn odds_ratios_and_single_answers_are_trained() {
    let notes = |first: &[&'static str]| [first, &NOTES[1..]].concat();
    let orpo = PRETRAINING
        .replace("stage: pt", "stage: dpo\npref_loss: orpo\npref_beta: 0.2\ntemplate: llama3");
    let expect = [("model.task", "orpo"), ("orpo.beta", "0.2"), ("data.template", "llama3")];
    check(
        text(Source::LlamaFactory, &orpo, &[]),
        &expect,
        &notes(&["pref_loss", "trust_remote_code"]),
    );
    let keys = "stage: kto\npref_beta: 0.2\nkto_chosen_weight: 1.5\ntemplate: qwen3_nothink\n\
                simpo_gamma: 1.0";
    let kto = PRETRAINING
        .replace("stage: pt", keys)
        .replace("dataset: data/c4_demo.jsonl", "dataset: kto_en_demo,ultrafeedback_kto");
    let expect = [
        ("model.task", "kto"),
        ("kto.beta", "0.2"),
        ("kto.desirable_weight", "1.5"),
        ("data.format", "sharegpt"),
        ("train.per_device_train_batch_size", "2"),
        ("train.gradient_accumulation_steps", "4"),
    ];
    let converted = text(Source::LlamaFactory, &kto, &[]).unwrap();
    let line = "\"format\":\"alpaca\"";
    assert!(converted.job_file.contains(line), "{}", converted.job_file);
    let found: Vec<&str> = converted.notes.iter().map(|note| note.key.as_str()).collect();
    for key in ["stage", "simpo_gamma", "per_device_train_batch_size"] {
        assert!(found.contains(&key), "{key}: {found:?}");
    }
    check_fields("kto", &converted.job_file, &expect);
    let pairs = kto.replace("kto_en_demo,ultrafeedback_kto", "dpo_en_demo");
    check_refused(
        text(Source::LlamaFactory, &pairs, &[]),
        &[("dataset", "`stage: dpo` trains on")],
    );
    let plain = kto.replace("kto_en_demo,ultrafeedback_kto", "identity");
    check_refused(text(Source::LlamaFactory, &plain, &[]), &[("dataset", "(kto_tag)")]);
}

#[test]
fn preferences_of_other_kinds_are_refused() {
    let other = PRETRAINING.replace(
        "stage: pt",
        "stage: dpo\npref_loss: kto_pair\npref_ftx: 1.0\nref_model_adapters: x/y\npacking: true",
    );
    let expect = [
        ("pref_loss", "`sigmoid`, `hinge`, `ipo`, `orpo` and `simpo`"),
        ("packing", "not packed"),
        ("pref_ftx", "preferences alone"),
        ("ref_model_adapters", "whole model"),
    ];
    check_refused(text(Source::LlamaFactory, &other, &[]), &expect);
    let ppo = PRETRAINING.replace("stage: pt", "stage: ppo");
    check_refused(text(Source::LlamaFactory, &ppo, &[]), &[("stage", "`kto` on good and bad")]);
    let frozen = PRETRAINING.replace("finetuning_type: full", "finetuning_type: freeze");
    let expect = [("finetuning_type", "train.freeze")];
    check_refused(text(Source::LlamaFactory, &frozen, &[]), &expect);
}

#[test]
fn an_entry_of_its_data_sets_is_asked_for() {
    let entry = PRETRAINING.replace("data/c4_demo.jsonl", "my_texts");
    check_refused(text(Source::LlamaFactory, &entry, &[]), &[("dataset", "--set data.train=")]);
    let given = [("data.train", "c4.jsonl")];
    check(text(Source::LlamaFactory, &entry, &given), &[("data.format", "completion")], &PACKED);
}

/// Entries of the user's own list come before those that are published.
#[test]
fn entries_of_dataset_info_are_read() {
    let info = r#"{
        "chats": {"file_name": "chats.json", "formatting": "sharegpt", "columns": {"messages":
            "talk"}, "tags": {"role_tag": "role", "content_tag": "text", "user_tag": "me",
            "assistant_tag": "it"}, "split": "train[:5]"},
        "asked": {"hf_hub_url": "org/asked", "columns": {"prompt": "q", "response": "a"}},
        "seen": {"file_name": "a.json", "columns": {"images": "images"}}
    }"#;
    let read = |path: &std::path::Path| {
        (path == std::path::Path::new("sets/dataset_info.json")).then(|| info.to_owned())
    };
    let convert = |names: &str| {
        let keys = "stage: sft\ntemplate: qwen3\nmax_samples: 100\nenable_thinking: false\n\
            mix_strategy: interleave_over\ninterleave_probs: 0.7,0.3\ndataset_dir: sets";
        let yaml = PRETRAINING.replace("stage: pt", keys).replace("data/c4_demo.jsonl", names);
        traind_convert::convert_with(Some(Source::LlamaFactory), &yaml, &[], &read)
    };
    let converted = convert("chats, asked").unwrap();
    let notes: Vec<&str> = converted.notes.iter().map(|note| note.key.as_str()).collect();
    let expect = [
        ("data.format", "sharegpt"),
        ("data.max_samples", "100"),
        ("data.mixing", "all_exhausted"),
        ("data.enable_thinking", "false"),
    ];
    check(Ok(converted.clone()), &expect, &notes);
    let parsed = traind_job_file::JobFile::parse(&converted.job_file, "/".as_ref()).unwrap();
    let sets = parsed.job.data.train.unwrap().sets;
    let [chats, asked] = sets.as_slice() else { panic!("{sets:?}") };
    let names: Vec<(&str, &Vec<String>)> = chats.roles.iter().collect();
    assert_eq!(names, [("user", &vec!["me".to_owned()]), ("assistant", &vec!["it".to_owned()])]);
    assert_eq!((chats.weight, chats.split.as_deref()), (Some(0.7), Some("train[:5]")));
    let fields = asked.fields.as_ref().unwrap();
    assert_eq!((fields.instruction.as_str(), fields.output.as_str()), ("q", "a"));
    assert_eq!((&fields.input, asked.weight), (&None, Some(0.3)));
    check_refused(convert("seen"), &[("dataset", "pictures")]);
}

/// Keys that a file leaves out have LLaMA-Factory's defaults, or a line.
#[test]
fn a_short_file_trains_as_llama_factory_does() {
    let short = "model_name_or_path: x/y\nstage: pt\nfinetuning_type: full\n\
                 dataset: data/c4_demo.jsonl\noutput_dir: out\n";
    let expect = [("data.max_length", "2048"), ("train.do_train", "true")];
    check(text(Source::LlamaFactory, short, &[]), &expect, &["packing", "do_train"]);
    let trains = format!("{short}do_train: true\nval_size: 0.1\n");
    let expect = [("train.num_train_epochs", "3"), ("train.do_eval", "false")];
    check(text(Source::LlamaFactory, &trains, &[]), &expect, &["packing"]);
    let evaluates = format!("{short}do_eval: true\nval_size: 0.1\n");
    check(
        text(Source::LlamaFactory, &evaluates, &[]),
        &[("train.do_train", "false")],
        &["packing"],
    );
}

#[test]
fn entries_that_would_be_lost_are_refused() {
    for (entry, sentence) in [
        (r#"{"file_name": "a.json", "num_samples": 10}"#, "set max_samples"),
        (r#"{"file_name": "a.json", "streaming": true}"#, "the key streaming"),
        (r#"{"file_name": "a.json", "formatting": "sharegptx"}"#, "use one of alpaca, sharegpt"),
        (r#"{"columns": {"prompt": "text"}}"#, "names neither file_name"),
    ] {
        let info = format!(r#"{{"mine": {entry}}}"#);
        let read =
            |path: &std::path::Path| path.ends_with("dataset_info.json").then(|| info.clone());
        let yaml = PRETRAINING.replace("data/c4_demo.jsonl", "mine");
        let source = Some(Source::LlamaFactory);
        let refused = traind_convert::convert_with(source, &yaml, &[], &read).unwrap_err();
        assert!(refused.to_string().contains(sentence), "{refused}");
    }
}

#[test]
fn tokens_are_added() {
    let more = "add_tokens: <a>, <b>\nadd_special_tokens: <s1>,<s2>\nresize_vocab: true\n";
    let expect = [
        ("model.add_tokens", "['<a>', '<b>']"),
        ("model.add_special_tokens.additional_special_tokens", "['<s1>', '<s2>']"),
    ];
    let converted = text(Source::LlamaFactory, &format!("{PRETRAINING}{more}"), &[]).unwrap();
    let notes: Vec<&str> = converted.notes.iter().map(|note| note.key.as_str()).collect();
    check(Ok(converted.clone()), &expect, &notes);
    assert!(notes.contains(&"resize_vocab"), "{notes:?}");
}

/// A wrong stage once hid the rest, and `al` was taken for a module.
#[test]
fn wrong_values_are_reported_together() {
    let settings = |stage: &str, more: &str| {
        format!(
            "model_name_or_path: x/y\nstage: {stage}\ndo_train: true\nfinetuning_type: lora\ndataset: no_such_set\n\
             template: lama3\nlora_target: al\nreport_to: wndb\n{more}"
        )
    };
    let all = [
        ("template", "did you mean `llama3`?"),
        ("lora_target", "did you mean `all`?"),
        ("report_to", "did you mean `wandb`?"),
        ("dataset", "entry of dataset_info.json"),
    ];
    check_refused(text(Source::LlamaFactory, &settings("sft", ""), &[]), &all);
    let mut staged = all.to_vec();
    staged.insert(0, ("stage", "`sfft` is not"));
    check_refused(text(Source::LlamaFactory, &settings("sfft", ""), &[]), &staged);
    let mut switched = all.to_vec();
    switched.insert(3, ("train_on_prompt", "must be true or false, not maybe"));
    let more = "train_on_prompt: maybe\n";
    check_refused(text(Source::LlamaFactory, &settings("sft", more), &[]), &switched);
    for modules in ["all", "q_proj,v_proj", "linear", "c_attn", "wo"] {
        let settings = format!(
            "model_name_or_path: x/y\nstage: sft\nfinetuning_type: lora\ndataset: identity\ntemplate: llama3\n\
             lora_target: {modules}\nreport_to: [swanlab, wandb]\n"
        );
        let converted = text(Source::LlamaFactory, &settings, &[]).unwrap();
        check_fields(modules, &converted.job_file, &[("train.report_to", "wandb")]);
    }
}
