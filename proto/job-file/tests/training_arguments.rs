//! Every field of transformers' TrainingArguments is a key of the job file or in its table.

#![allow(clippy::unwrap_used)] // helpers of tests fail by panicking

use std::path::Path;

use serde_json::{Map, Value};
use traind_job_file::{JobFile, Treatment, training_argument};

/// A key of another section, and another name of a key.
const OTHERWISE: [&str; 2] = ["output_dir", "activation_checkpointing"];

/// Names with defaults, as `scripts/fixtures/training_arguments.py` lists them.
fn transformers() -> Map<String, Value> {
    fixture()["defaults"].as_object().unwrap().clone()
}

fn fixture() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/training_arguments.json");
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn parse(train: &str) -> Result<Vec<String>, Vec<String>> {
    let yaml = format!(
        "{{name: a, model: {{name_or_path: ./a, task: sequence-classification, num_labels: 2}}, \
         data: {{train: a.csv, validation: b.csv}}, output_dir: out, train: {{{train}}}}}"
    );
    match JobFile::parse(&yaml, Path::new("/")) {
        Ok(parsed) => Ok(parsed.warnings.iter().map(ToString::to_string).collect()),
        Err(violations) => Err(violations.iter().map(ToString::to_string).collect()),
    }
}

#[test]
fn every_field_is_a_key_or_in_the_table_with_its_default() {
    let keys: Vec<String> = traind_job_file::fields().into_iter().map(|field| field.path).collect();
    let all = transformers();
    assert!(all.len() > 100, "{}", all.len());
    for (name, default) in &all {
        let known = format!("train.{name}");
        let is_key = keys.contains(&known) || OTHERWISE.contains(&name.as_str());
        let Some(argument) = training_argument(name) else {
            assert!(is_key, "{name} is no key and not in the table");
            continue;
        };
        assert!(!is_key, "{name} is a key and in the table too");
        assert!(argument.is_default(&default.to_string()), "{name}: {default}");
    }
}

#[test]
fn defaults_say_nothing() {
    for (name, default) in &transformers() {
        if training_argument(name).is_some() {
            assert_eq!(parse(&format!("{name}: {default}")), Ok(Vec::new()), "{name}");
        }
    }
}

#[test]
fn other_values_are_warned_about_or_refused_by_name() {
    for name in transformers().keys() {
        let Some(argument) = training_argument(name) else { continue };
        let said = parse(&format!("{name}: something"));
        let (texts, reason) = match argument.treatment {
            Treatment::NoEffect(reason) => (said.unwrap(), reason),
            Treatment::Always(_) => {
                assert_eq!(said, Ok(Vec::new()), "{name}");
                continue;
            }
            // A text names a file.
            _ if ["deepspeed", "fsdp_config"].contains(&name.as_str()) => {
                (said.unwrap_err(), "use parallel.fsdp")
            }
            Treatment::Refused(advice) | Treatment::Only(_, advice) => (said.unwrap_err(), advice),
        };
        assert_eq!(texts.len(), 1, "{texts:?}");
        assert!(texts[0].contains(&format!("train.{name}: ")), "{texts:?}");
        assert!(texts[0].ends_with(reason), "{texts:?}");
    }
}

/// Accepts the placeholder that `to_json_string` writes for a token, whether there is one or not.
#[test]
fn masked_tokens_say_nothing() {
    assert_eq!(parse("hub_token: <HUB_TOKEN>"), Ok(Vec::new()));
    assert_eq!(parse("push_to_hub_token: <PUSH_TO_HUB_TOKEN>"), Ok(Vec::new()));
    assert!(parse("hub_token: <TOKEN>").is_err());
    assert!(parse("run_name: <HUB_TOKEN>").is_ok());
}

#[test]
fn every_optimizer_is_accepted_or_refused_with_another() {
    for name in fixture()["optimizers"].as_array().unwrap() {
        if let Err(refused) = parse(&format!("optim: {name}")) {
            assert!(refused[0].contains("is not supported: "), "{refused:?}");
        }
    }
    let refused = parse("optim: paged_adamw_8bit").unwrap_err();
    assert_eq!(refused.len(), 1);
    assert!(refused[0].contains("train.optim: `paged_adamw_8bit`"), "{refused:?}");
    assert!(refused[0].contains("use adamw_torch"), "{refused:?}");
}

#[test]
fn label_names_are_those_of_models() {
    assert_eq!(parse("label_names: [start_positions, end_positions]"), Ok(Vec::new()));
    let refused = parse("label_names: [labels, stars]").unwrap_err();
    assert!(refused[0].contains("data.label"), "{refused:?}");
}

/// The resolved fields of a job with these arguments, and its warnings.
fn resolved(train: &str) -> (Value, Vec<String>) {
    let yaml = format!(
        "{{name: a, model: {{name_or_path: ./a, task: sequence-classification, num_labels: 2}}, \
         data: {{train: a.csv}}, output_dir: out, train: {{{train}}}}}"
    );
    let parsed = JobFile::parse(&yaml, Path::new("/")).unwrap();
    let warnings = parsed.warnings.iter().map(ToString::to_string).collect();
    (serde_json::to_value(&parsed.job).unwrap(), warnings)
}

#[test]
fn deepspeeds_stages_are_parts_of_fsdp() {
    for (stage, fsdp) in
        [(0, "no"), (1, "shard_optimizer"), (2, "shard_grad_op"), (3, "full_shard")]
    {
        let config = format!("deepspeed: {{zero_optimization: {{stage: {stage}}}}}");
        assert_eq!(resolved(&config).0["parallel"]["fsdp"], fsdp, "{stage}");
    }
    let (job, warnings) = resolved(
        "deepspeed: {zero_optimization: {stage: 2, offload_optimizer: {device: none}}, \
         bf16: {enabled: true}, fp16: {enabled: false}, gradient_clipping: 0.5, \
         gradient_accumulation_steps: auto, train_micro_batch_size_per_gpu: 4, \
         steps_per_print: 10}",
    );
    let train = &job["train"];
    assert_eq!((&train["bf16"], &train["fp16"]), (&true.into(), &false.into()));
    assert_eq!(train["max_grad_norm"], 0.5);
    assert_eq!(train["per_device_train_batch_size"], 4);
    assert_eq!(train["gradient_accumulation_steps"], 1);
    assert_eq!(warnings.len(), 5, "{warnings:?}");
    let (job, _) = resolved("max_grad_norm: 2, deepspeed: {gradient_clipping: 0.5}");
    assert_eq!(job["train"]["max_grad_norm"], 2.0, "the Trainer's own argument comes first");
    let config =
        "deepspeed: {bfloat16: {enabled: true}, zero_optimization: {stage: 2, of_tomorrow: 1}}";
    let (job, warnings) = resolved(config);
    assert_eq!(job["train"]["bf16"], true);
    let said =
        warnings.iter().any(|it| it.contains("zero_optimization.of_tomorrow: has no effect"));
    assert!(said, "{warnings:?}");
}

#[test]
fn settings_of_deepspeed_that_would_be_lost_are_refused() {
    for (config, expect) in [
        ("zero2.json", "train.deepspeed: is a file"),
        ("{zero_optimization: {stage: 4}}", "zero_optimization.stage: must be 0, 1, 2 or 3"),
        (
            "{zero_optimization: {stage: 3, offload_param: {device: cpu}}}",
            "offload_param: parameters stay on the cores",
        ),
        (
            "{zero_optimization: {stage: 2, offload_optimizer: {device: nvme}}}",
            "offload_optimizer: state is offloaded to host memory, not to disks",
        ),
        ("{optimizer: {type: AdamW}}", "train.deepspeed.optimizer: is not read"),
        ("{optimizer: {type: Lion, params: {lr: auto}}}", "train.deepspeed.optimizer: is not read"),
        ("{scheduler: {type: OneCycle}}", "train.deepspeed.scheduler: is not read"),
        (
            "{zero_optimization: 2}",
            "zero_optimization: must be a mapping such as {stage: 2}, not 2",
        ),
        (
            "{bf16: true}",
            "train.deepspeed.bf16: must be a mapping such as {enabled: true}, not true",
        ),
        ("{fp16: {enabled: flase}}", "fp16.enabled: is flase; did you mean `false`?"),
        (
            "{gradient_clippng: 1}",
            "gradient_clippng: is not known here; did you mean `gradient_clipping`?",
        ),
        (
            "{zero_optimization: {stge: 2}}",
            "zero_optimization.stge: is not known here; did you mean `stage`?",
        ),
        (
            "{zero_optimization: {stage: 2, offload_optimizer: {devise: cpu}}}",
            "offload_optimizer.devise: is not known here; did you mean `device`?",
        ),
    ] {
        let refused = parse(&format!("deepspeed: {config}")).unwrap_err();
        assert!(refused[0].contains(expect), "{refused:?}");
    }
    let refused = parse("fsdp_config: {fsdp_offload_parms: true}").unwrap_err();
    assert!(refused[0].contains("did you mean `fsdp_offload_params`?"), "{refused:?}");
}

/// The stock files of transformers have `auto` for all of them.
#[test]
fn optimizers_and_schedules_of_deepspeed_may_be_those_of_the_trainer() {
    let config = "{optimizer: {type: AdamW, params: {lr: auto, betas: auto, eps: auto, weight_decay: auto}}, \
                  scheduler: {type: WarmupLR, params: {warmup_min_lr: auto, warmup_max_lr: auto, \
                  warmup_num_steps: auto}}}";
    let given = "learning_rate: 0.001, adam_beta2: 0.98, weight_decay: 0.1";
    let (job, warnings) = resolved(&format!("{given}, deepspeed: {config}"));
    let train = &job["train"];
    assert_eq!((&train["learning_rate"], &train["adam_beta2"]), (&0.001.into(), &0.98.into()));
    assert_eq!((&train["optim"], &train["weight_decay"]), (&"adamw_torch".into(), &0.1.into()));
    assert_eq!(train["lr_scheduler_type"], "constant_with_warmup");
    assert!(warnings.iter().any(|it| it.contains("rises in a line")), "{warnings:?}");
    let config = "{optimizer: {type: Adam, params: {lr: 0.002, betas: [0.8, 0.9]}}, scheduler: \
                  {type: WarmupDecayLR, params: {warmup_num_steps: 7, warmup_type: linear}}}";
    let (job, warnings) = resolved(&format!("deepspeed: {config}"));
    let train = &job["train"];
    assert_eq!((&train["learning_rate"], &train["adam_beta1"]), (&0.002.into(), &0.8.into()));
    assert_eq!(
        (&train["warmup_steps"], &train["lr_scheduler_type"]),
        (&7.into(), &"linear".into())
    );
    assert!(!warnings.iter().any(|it| it.contains("rises in a line")), "{warnings:?}");
}

#[test]
fn the_configuration_of_fsdp_is_read() {
    let (job, warnings) = resolved(
        "fsdp: full_shard auto_wrap, fsdp_config: {fsdp_activation_checkpointing: true, \
         reshard_after_forward: false, transformer_layer_cls_to_wrap: [BertLayer]}",
    );
    assert_eq!(job["parallel"]["fsdp"], "shard_grad_op");
    assert_eq!(job["train"]["gradient_checkpointing"], true);
    let last = warnings.last().unwrap();
    assert!(last.ends_with("without effect: transformer_layer_cls_to_wrap"), "{warnings:?}");
}

#[test]
fn offloading_keeps_the_optimizers_state_in_host_memory() {
    let optimizer = serde_json::json!(["optimizer"]);
    for zero in [
        "offload_optimizer: {device: cpu, pin_memory: true}",
        "offload_optimizer: {}",
        "cpu_offload: true",
    ] {
        let config = format!("deepspeed: {{zero_optimization: {{stage: 2, {zero}}}}}");
        let (job, warnings) = resolved(&config);
        assert_eq!(job["parallel"]["offload"], optimizer, "{zero}");
        let said =
            warnings.iter().any(|it| it.contains("is read as `parallel.offload: optimizer`"));
        assert!(said, "{warnings:?}");
    }
    let off = "deepspeed: {zero_optimization: {stage: 2, offload_optimizer: {device: none}}}";
    assert_eq!(resolved(off).0["parallel"]["offload"], serde_json::json!([]));

    let (job, warnings) = resolved("fsdp: full_shard, fsdp_config: {fsdp_offload_params: true}");
    assert_eq!(job["parallel"]["offload"], optimizer);
    let said = warnings.iter().any(|it| it.contains("parameters and gradients stay"));
    assert!(said, "{warnings:?}");
    let (job, _) = resolved("fsdp: shard_grad_op auto_wrap offload");
    assert_eq!(job["parallel"]["offload"], optimizer);
    assert_eq!(job["parallel"]["fsdp"], "shard_grad_op");
}
