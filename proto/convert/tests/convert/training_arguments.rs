//! TrainingArguments as JSON.

use serde_json::{Map, Value};
use traind_convert::Source;

use super::{check, check_refused, text};

const GIVEN: [(&str, &str); 3] =
    [("model.name_or_path", "x/y"), ("model.task", "masked-lm"), ("data.train", "a.txt")];

/// The list that a script makes of the installed transformers.
fn fixture(key: &str) -> Map<String, Value> {
    let listed = include_str!("../../../job-file/fixtures/training_arguments.json");
    serde_json::from_str::<Value>(listed).unwrap()[key].as_object().unwrap().clone()
}

fn defaults() -> Map<String, Value> {
    fixture("defaults")
}

fn dumped(changes: &[(&str, Value)]) -> String {
    let mut arguments = defaults();
    arguments.extend(changes.iter().map(|(key, value)| ((*key).to_owned(), value.clone())));
    Value::Object(arguments).to_string()
}

#[test]
fn all_defaults_are_a_job_that_trains() {
    let converted = text(Source::TrainingArguments, &dumped(&[]), &GIVEN);
    let expect =
        [("train.do_train", "true"), ("train.optim", "adamw_torch"), ("train.report_to", "none")];
    check(converted, &expect, &["optim", "do_train"]);
}

/// `hub_token` is masked in what `to_json_string` writes, given or not, and was once refused.
#[test]
fn what_to_json_string_writes_is_a_job() {
    let mut dumped = fixture("dumped");
    assert_eq!(dumped["hub_token"], "<HUB_TOKEN>");
    assert_eq!(dumped["sortish_sampler"], false);
    dumped.insert("push_to_hub_token".to_owned(), "<PUSH_TO_HUB_TOKEN>".into());
    let settings = Value::Object(dumped.clone()).to_string();
    let converted = text(Source::TrainingArguments, &settings, &GIVEN);
    let notes = [
        "optim",
        "disable_tqdm",
        "use_cpu",
        "accelerator_config",
        "dataloader_pin_memory",
        "do_train",
    ];
    check(converted, &[("name", "out"), ("train.learning_rate", "5e-5")], &notes);

    dumped.insert("hub_token".to_owned(), "hf_x".into());
    dumped.insert("sortish_sampler".to_owned(), true.into());
    let settings = Value::Object(dumped).to_string();
    check_refused(
        text(Source::TrainingArguments, &settings, &GIVEN),
        &[("hub_token", "HF_TOKEN"), ("sortish_sampler", "group_by_length")],
    );
}

/// SentenceTransformerTrainingArguments have more keys, and a file for a script may have those of a loss.
#[test]
fn arguments_of_sentence_transformers_are_those_of_embeddings() {
    let given = [
        ("model.name_or_path", "x/y"),
        ("model.task", "embedding"),
        ("data.train", "a.jsonl"),
        ("data.texts", "[q, a]"),
    ];
    let own = [
        ("batch_sampler", "no_duplicates".into()),
        ("multi_dataset_batch_sampler", "round_robin".into()),
        ("prompts", serde_json::json!({"q": "query: "})),
        ("router_mapping", serde_json::json!({})),
        ("learning_rate_mapping", serde_json::json!({"encoder": 1e-5, "pooler": 1e-3})),
        ("hardness_mode", "hard_negatives".into()),
        ("hardness_strength", 5.0.into()),
    ];
    let converted = text(Source::TrainingArguments, &dumped(&own), &given);
    let expect = [
        ("embedding.batch_sampler", "no_duplicates"),
        ("data.mixing", "round_robin"),
        ("data.prompts.q", "'query: '"),
        ("embedding.hardness_mode", "hard_negatives"),
        ("embedding.hardness_strength", "5.0"),
    ];
    let converted = converted.unwrap();
    super::check_fields("", &converted.job_file, &expect);
    let groups = converted.job_file.find("pooler").zip(converted.job_file.find("encoder"));
    assert!(groups.is_some_and(|(last, first)| last < first), "{}", converted.job_file);

    let defaults = [
        ("batch_sampler", "batch_sampler".into()),
        ("multi_dataset_batch_sampler", "proportional".into()),
        ("router_mapping", serde_json::json!({})),
        ("learning_rate_mapping", serde_json::json!({})),
    ];
    let converted = text(Source::TrainingArguments, &dumped(&defaults), &given);
    check(converted, &[], &["optim", "multi_dataset_batch_sampler", "do_train"]);
    let refused = [
        ("prompts", "query: ".into()),
        ("router_mapping", serde_json::json!({"q": "query"})),
        ("learning_rate_mapping", 3.into()),
    ];
    let converted = text(Source::TrainingArguments, &dumped(&refused), &given);
    let expect = [
        ("prompts", "a text for each column"),
        ("router_mapping", "one model for all columns"),
        ("learning_rate_mapping", "a learning rate for each pattern"),
    ];
    check_refused(converted, &expect);
}

/// Command lines and job files have mappings as JSON text.
#[test]
fn mappings_are_read_from_text() {
    let settings = r#"{"lr_scheduler_type": "cosine_with_restarts", "lr_scheduler_kwargs": "{\"num_cycles\": 2}",
        "deepspeed": "{\"zero_optimization\": {\"stage\": 2}}"}"#;
    let converted = text(Source::TrainingArguments, settings, &GIVEN);
    let expect =
        [("train.lr_scheduler_kwargs.num_cycles", "2"), ("parallel.fsdp", "shard_grad_op")];
    check(converted, &expect, &["train.deepspeed.zero_optimization.stage"]);
}

#[test]
fn what_is_changed_is_a_key() {
    let changes = [
        ("output_dir", "out/run".into()),
        ("learning_rate", 1e-4.into()),
        ("lr_scheduler_type", "cosine".into()),
        ("warmup_steps", 0.1.into()),
        ("run_name", "first".into()),
        ("report_to", serde_json::json!(["wandb", "comet_ml"])),
        ("dataloader_num_workers", 4.into()),
        ("gradient_checkpointing", true.into()),
        ("fsdp", "full_shard auto_wrap offload".into()),
    ];
    let expect = [
        ("name", "first"),
        ("train.learning_rate", "1e-4"),
        ("train.warmup_steps", "0.1"),
        ("train.gradient_checkpointing", "true"),
        ("parallel.fsdp", "full_shard"),
        ("parallel.offload", "[optimizer]"),
        ("train.report_to", "wandb"),
    ];
    let notes = ["optim", "report_to", "dataloader_num_workers", "fsdp", "do_train"];
    check(text(Source::TrainingArguments, &dumped(&changes), &GIVEN), &expect, &notes);
}

#[test]
fn earlier_names_are_todays() {
    let settings = r#"{"evaluation_strategy": "no", "per_gpu_train_batch_size": 4, "warmup_ratio": 0.06,
        "group_by_length": true, "adafactor": true, "half_precision_backend": "auto", "_n_gpu": 1}"#;
    let expect = [
        ("train.per_device_train_batch_size", "4"),
        ("train.warmup_steps", "0.06"),
        ("train.train_sampling_strategy", "group_by_length"),
        ("train.optim", "adafactor"),
    ];
    check(text(Source::TrainingArguments, settings, &GIVEN), &expect, &["_n_gpu"]);
}

#[test]
fn what_cannot_be_had_is_refused_with_what_can() {
    let changes = [
        ("optim", "galore_adamw".into()),
        ("deepspeed", "mine.json".into()),
        ("hub_token", "hf_x".into()),
        ("fsdp", serde_json::json!(["zero3", "auto_wrap"])),
    ];
    let expect = [
        ("hub_token", "HF_TOKEN"),
        ("fsdp", "must be full_shard, shard_grad_op"),
        ("deepspeed", "parallel.fsdp"),
    ];
    check_refused(text(Source::TrainingArguments, &dumped(&changes), &GIVEN), &expect);
    let changes = [("optim", "galore_adamw".into())];
    check_refused(
        text(Source::TrainingArguments, &dumped(&changes), &GIVEN),
        &[("train.optim", "use adafactor")],
    );
}

#[test]
fn optimizers_that_round_their_state_become_those_that_do_not() {
    for (rounded, exact) in [("paged_adamw_8bit", "adamw_torch"), ("lion_8bit", "lion_32bit")] {
        let changes = [("optim", rounded.into())];
        let converted = text(Source::TrainingArguments, &dumped(&changes), &GIVEN).unwrap();
        assert!(converted.job_file.contains(&format!("optim: {exact}")), "{}", converted.job_file);
        let note = converted.notes.iter().find(|note| note.key == "optim").unwrap();
        assert!(note.text.contains(&format!("{rounded} rounds it")), "{note}");
    }
}

#[test]
fn what_the_arguments_do_not_say_is_asked_for() {
    let expect = [
        ("model.name_or_path", "--set model.name_or_path="),
        ("model.task", "--set model.task="),
        ("data.train", "--set data.train="),
    ];
    check_refused(text(Source::TrainingArguments, &dumped(&[]), &[]), &expect);
}

/// `stge: 2` once trained without shards, with a comment that says so.
#[test]
fn misspelled_keys_inside_mappings_are_refused() {
    let check_mapping = |settings: &str, expect: &[(&str, &str)]| {
        check_refused(text(Source::TrainingArguments, settings, &GIVEN), expect);
    };
    check_mapping(
        r#"{"learning_rate": 1e-4, "deepspeed": {"bf61": {"enabled": true}, "gradient_clippng": 1.0, "fp16": {"enabled": "ture"},
            "zero_optimization": {"stge": 2, "offload_optimzer": {"device": "cpu"}, "offload_param": {"device": "cpuu"}}}}"#,
        &[
            ("deepspeed.bf61", "did you mean `bf16`?"),
            ("deepspeed.gradient_clippng", "did you mean `gradient_clipping`?"),
            ("deepspeed.fp16.enabled", "did you mean `true`?"),
            ("deepspeed.zero_optimization.stge", "did you mean `stage`?"),
            ("deepspeed.zero_optimization.offload_optimzer", "did you mean `offload_optimizer`?"),
            ("deepspeed.zero_optimization.offload_param.device", "cpu, nvme or none"),
        ],
    );
    check_mapping(
        r#"{"fsdp": "full_shard", "fsdp_config": {"fsdp_offload_parms": true, "min_num_parms": 1},
            "deepspeed": "{\"zero_optimization\": {\"stage\": 4}}"}"#,
        &[
            ("fsdp_config.fsdp_offload_parms", "did you mean `fsdp_offload_params`?"),
            ("fsdp_config.min_num_parms", "did you mean `min_num_params`?"),
            ("deepspeed.zero_optimization.stage", "must be 0, 1, 2 or 3, not 4"),
        ],
    );
    let settings = r#"{"learning_rate": 1e-4, "deepspeed": {"zero_optimization": {"stage": 2, "reduce_bucket_size": 1, "overlap_comm": true},
        "steps_per_print": 10, "a_key_of_tomorrow": 1}}"#;
    let notes = [
        "train.deepspeed.zero_optimization.stage",
        "train.deepspeed.steps_per_print",
        "train.deepspeed.a_key_of_tomorrow",
    ];
    let expect = [("parallel.fsdp", "shard_grad_op")];
    check(text(Source::TrainingArguments, settings, &GIVEN), &expect, &notes);
}
