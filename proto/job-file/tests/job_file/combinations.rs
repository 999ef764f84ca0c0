//! Keys that must fit each other.

use crate::{check, of_task};

#[test]
fn fields_that_do_not_fit_each_other() {
    check(
        "data: {train: a.csv}\ntrain:\n  eval_strategy: epoch",
        "line 3: train.eval_strategy: is `epoch`, but there is no data.validation",
    );
    check("data: {train: a.csv}\ntrain:\n  eval_strategy: no", "");
    check(
        "data: {train: a.csv, text: body, label: body}",
        "line 1: data.label: column `body` is `data.text` already",
    );
    check(
        "data: {train: a.csv, text: body, text_pair: body}",
        "line 1: data.text_pair: column `body` is `data.text` already",
    );
    check(
        "data: {train: a.csv, label_map: {a: x, b: y}}",
        "line 3: model.num_labels: is 3, but data.label_map has 2 classes",
    );
    check(
        "resources: {cores: 4}\nparallel: {data: 2}",
        "line 2: parallel: data x tensor x pipeline is 2, but resources.cores is 4; data 4 x tensor 1 x \
         pipeline 1 works",
    );
    check(
        "parallel: {sequence_parallel_enabled: true}",
        "line 1: parallel.sequence_parallel_enabled: is read as `sequence_parallel`\n\
         line 1: parallel.sequence_parallel: has no effect with parallel.tensor: 1, which divides no \
         layers",
    );
    check(
        "parallel: {offload: [optimizer, activations]}",
        "line 1: parallel.offload: moves what the stages of a pipeline keep, and parallel.pipeline \
         is 1; train.gradient_checkpointing keeps fewer activations",
    );
    check("resources: {cores: 2}\nparallel: {offload: [optimizer, activations], pipeline: 2}", "");
    check(
        "resources: {cores: 2}\nparallel: {offload_activations: true, pipeline: 2}",
        "line 2: parallel.offload_activations: is read as `offload`",
    );
    check(
        "resources: {cores: 2}\nparallel: {pipeline: 2, ddp: true, active_microbatches: 3}",
        "line 2: parallel.ddp: has no effect: the cores that `tensor` and `pipeline` leave are \
         data-parallel in any case\n\
         line 2: parallel.active_microbatches: has no effect: a stage has at most as many \
         micro-batches in flight as there are stages",
    );
    check(
        "parallel: {offload: optimizer, activation_loading_horizon: 2}",
        "line 1: parallel.activation_loading_horizon: has no effect without parallel.offload: \
         activations",
    );
    check(
        "parallel: {offload: [weights]}",
        "line 1: parallel.offload: must be activations, optimizer or both, not `weights`",
    );
    check(
        "model: {name_or_path: ./bert, task: sequence-classification, num_labels: 2, revision: main}",
        "line 1: model.revision: applies to a hub id, not to a folder",
    );
    check(
        "train: {lr_scheduler_type: constant, warmup_steps: 10}",
        "line 1: train.warmup_steps: has no effect with the scheduler `constant`; \
         `constant_with_warmup` warms up",
    );
    // This optimizer warms up by itself.
    check("train: {lr_scheduler_type: constant, warmup_steps: 5, optim: schedule_free_adamw}", "");
    let long = "x".repeat(129);
    check(&format!("name: {long}"), "line 1: name: must have at most 128 characters");
    check("name: \"a\\nb\"", "line 1: name: must be one line without control characters");
}

/// Cores that share layers are neighbours where no axis with several cores varies faster.
#[test]
fn neuron_cores_that_share_layers_are_neighbours() {
    let check_order = |platform: &str, mesh: &str, order: &str, works: Option<&str>| {
        let resources = format!("resources: {{platform: {platform}, cores: 8}}");
        let said = works.map_or(String::new(), |works| {
            format!(
                "line 2: parallel.placement: puts the cores that share layers apart, and on neuron \
                 they must be neighbours; `{works}` makes them so"
            )
        });
        check(&format!("{resources}\nparallel: {{{mesh}, placement: {order}}}"), &said);
    };
    let whole = "tensor: 2, pipeline: 2";
    for (order, works) in [
        ("cluster", None),
        ("DPT", None),
        ("PDT", None),
        ("spread", Some("PDT")),
        ("TPD", Some("PDT")),
        ("TDP", Some("DPT")),
        ("DTP", Some("DPT")),
        ("PTD", Some("PDT")),
    ] {
        check_order("neuron", whole, order, works);
        check_order("cuda", whole, order, None);
    }
    check_order("neuron", "tensor: 2", "DTP", None);
    check_order("neuron", "tensor: 2", "PTD", Some("PDT"));
    check_order("neuron", "tensor: 8", "spread", None);
    check_order("neuron", "pipeline: 2", "spread", None);
}

#[test]
fn the_planner_chooses_all_of_a_mesh_or_nothing() {
    check("parallel: auto", "");
    check("parallel: {auto: true, placement: spread}", "");
    let chosen = "is chosen by the planner with parallel.auto; set only one of the two";
    check(
        "parallel: {auto: true, tensor: 2, fsdp: full_shard}\nresources: {cores: 2}",
        &format!("line 1: parallel.tensor: {chosen}\nline 1: parallel.fsdp: {chosen}"),
    );
}

#[test]
fn the_placement_has_sagemaker_s_name_too() {
    check(
        "parallel: {placement_strategy: spread}",
        "line 1: parallel.placement_strategy: is read as `placement`",
    );
}

#[test]
fn adapters_and_frozen_weights_that_do_not_fit() {
    check("peft: {method: lora, r: 4, target_modules: all-linear}\ntrain: {bf16: true}", "");
    check("peft: {r: 4}", "line 1: peft.method: is required in this section, for example `lora`");
    check(
        "peft: {method: lora, r: 4, adapter_name_or_path: ./first, merge: true}",
        "line 1: peft.r: is set by the adapter of peft.adapter_name_or_path; leave it out",
    );
    check(
        "peft: {method: lora, target_modules: all-linear, layers_to_transform: 1}",
        "line 1: peft.layers_to_transform: cannot be combined with `all-linear`: name the modules",
    );
    check(
        "peft: {method: lora, target_modules: q_proj}",
        "line 1: peft.target_modules: must be a list of names or `all-linear`, not `q_proj`",
    );
    check(
        "peft: {method: lora}\ntrain: {freeze: [embeddings]}",
        "line 2: train.freeze: has no effect beside adapters, which freeze all other weights",
    );
    check(
        "model: {name_or_path: ./bert, task: masked-lm, from_config: true}\npeft: {method: lora}",
        "line 1: model.from_config: initializes random weights, which adapters alone would not save; set peft.merge",
    );
    check(
        "model: {name_or_path: ./bert, task: masked-lm, dtype: bfloat16}",
        "line 1: model.dtype: applies to weights that are not trained, and all are: set peft or \
         train.freeze; train.bf16 computes in bfloat16",
    );
}

#[test]
fn fused_attention_needs_half_precision() {
    let job = |train: &str| {
        let model =
            "{name_or_path: ./llama, task: causal-lm, attn_implementation: flash_attention_2}";
        format!("model: {model}\ndata: {{train: a.csv, block_size: 8}}\ntrain: {train}")
    };
    for train in ["{bf16: true}", "{fp16: true}"] {
        check(&job(train), "");
    }
    check(
        &job("{tf32: true}"),
        "line 1: model.attn_implementation: is `flash_attention_2`, which needs train.bf16 or train.fp16",
    );
}

#[test]
fn keys_of_images() {
    let check_task = |rest: &str, expect: &str| {
        let model = "model: {name_or_path: ./vit, task: image-classification}";
        check(&format!("{model}\n{rest}"), expect);
    };
    check_task("data: {train: images, image: picture, augmentation: false}", "");
    check_task(
        "data: {train: images}\nresources: {cores: 2}\nparallel: {tensor: 2, sequence_parallel: true}",
        "",
    );
    check_task(
        "data: {train: images, image: label}",
        "line 2: data.label: column `label` is `data.image` already",
    );
    check_task(
        "data: {train: images, max_length: 64}",
        "line 2: data.max_length: applies to models of text, not to image-classification",
    );
    check(
        "data: {train: a.csv, augmentation: false}",
        "line 1: data.augmentation: applies to image-classification, not to sequence-classification",
    );
}

#[test]
fn splits_that_do_not_fit_each_other() {
    let validation = "data: {train: a.csv, validation: b.csv, validation_split: 0.1}";
    check(validation, "line 1: data.validation_split: cannot be combined with data.validation");
    check("data: {train: a.csv, validation_split: 0.1}\ntrain: {eval_strategy: epoch}", "");
    check("data: {train: a.csv, validation_split: 100}\ntrain: {eval_strategy: epoch}", "");
    check(
        "data: {train: a.csv, validation_split: 0}",
        "line 1: data.validation_split: must be above 0, not 0",
    );
    for split in [1.0, 2.5] {
        let expect = "must be a share below 1 or a number of rows of at least 2, not";
        check(
            &format!("data: {{train: a.csv, validation_split: {split}}}"),
            &format!("line 1: data.validation_split: {expect} {split}"),
        );
    }
    check(
        "data: {train: a.csv, validation: b.csv}\ntrain:\n  do_eval: false\n  eval_strategy: epoch",
        "line 4: train.eval_strategy: is `epoch`, but train.do_eval is false",
    );
    check(
        "data: {train: a.csv}\ntrain: {do_eval: true}",
        "line 2: train.do_eval: is true, but there is no data.validation",
    );
}

#[test]
fn fields_that_do_not_fit_the_task() {
    for task in ["token-classification", "question-answering", "masked-lm", "causal-lm"] {
        check(&of_task(task, "", ""), "");
    }
    check(
        &of_task("question-answering", ", num_labels: 2", ""),
        "line 1: model.num_labels: applies to classification, not to question-answering",
    );
    check(
        &of_task("masked-lm", "", "data: {train: a.csv, label_map: [a, b]}"),
        "line 2: data.label_map: applies to classification, not to masked-lm",
    );
    check(
        &of_task("token-classification", ", problem_type: regression", ""),
        "line 1: model.problem_type: applies to one label per row, not to token-classification",
    );
    check(
        &of_task("token-classification", "", "data: {train: a.csv, tokens: x, labels: x}"),
        "line 2: data.labels: column `x` is `data.tokens` already",
    );
    check(&of_task("sequence-classification", ", problem_type: regression, num_labels: 3", ""), "");
    check(&of_task("sequence-classification", ", problem_type: regression", ""), "");
    check(
        &of_task(
            "sequence-classification",
            ", num_labels: 1",
            "train: {label_smoothing_factor: 0.1}",
        ),
        "line 2: train.label_smoothing_factor: applies to one class per row, \
         not to numbers or several classes",
    );
    check(
        &of_task(
            "sequence-classification",
            ", num_labels: 2",
            "data: {train: a.csv, block_size: 8}",
        ),
        "line 2: data.block_size: applies to masked-lm, replaced-token-detection and causal-lm, not to sequence-classification",
    );
    check(
        &of_task("causal-lm", "", "data: {train: a.csv, line_by_line: true}"),
        "line 2: data.line_by_line: applies to masked-lm and replaced-token-detection, not to causal-lm",
    );
}

#[test]
fn a_pipeline_fits_the_batch_and_the_task() {
    let of_pipeline = |settings: &str, more: &str| {
        format!("resources: {{cores: 4}}\nparallel: {{pipeline: 2{settings}}}\n{more}")
    };
    let rows = "train: {per_device_train_batch_size: 12}";
    check(&of_pipeline("", rows), "");
    check(&of_pipeline(", pipeline_interleave: 2, microbatches: 6", rows), "");
    check(
        &of_pipeline(", microbatches: 8", rows),
        "line 2: parallel.microbatches: does not divide the 12 rows of \
         train.per_device_train_batch_size; 6 does",
    );
    check(
        "parallel: {pipeline_interleave: 2}",
        "line 1: parallel.pipeline_interleave: divides the stages of a pipeline; set \
         parallel.pipeline too",
    );
    check(&of_pipeline("", "peft: {method: lora}"), "");
}

#[test]
fn uploads_to_the_hub_need_a_model_and_a_name() {
    check("train: {push_to_hub: true, hub_model_id: ann/tiny, hub_strategy: checkpoint}", "");
    check(
        "train: {push_to_hub: true, hub_model_id: ann/tiny/x, hub_revision: ../x}",
        "line 1: train.hub_model_id: `ann/tiny/x` is not a repository name such as `org/name`\n\
         line 1: train.hub_revision: is not a branch name",
    );
    check(
        "output_dir: \"a b\"\ntrain: {push_to_hub: true}",
        "line 2: train.hub_model_id: is required, since output_dir has no name that a repository \
         can have",
    );
    check(
        "data: {test: a.csv}\ntrain: {push_to_hub: true, do_train: false}",
        "line 2: train.push_to_hub: is true, but train.do_train is false",
    );
    check(
        "train: {hub_model_id: ann/tiny, hub_always_push: true}",
        "line 1: train.hub_model_id: has no effect without train.push_to_hub\n\
         line 1: train.hub_always_push: has no effect without train.push_to_hub",
    );
}

#[test]
fn notifications_name_states_and_places() {
    check("notify: {webhooks: [\"https://example.com/hook?a=b\"], command: [/bin/true, x]}", "");
    check(
        "notify: {states: [done], webhooks: [\"example.com\"], command: [\"true\"]}",
        "line 1: notify.states: `done` is not a job state; known are pending, starting, running, \
         cancelling, completed, failed, cancelled\n\
         line 1: notify.webhooks: `example.com` is not a URL such as https://example.com/hook\n\
         line 1: notify.command: must begin with the absolute path of a program",
    );
    check(
        "notify: {webhooks: [\"http://ann@b/\"]}",
        "line 1: notify.webhooks: `http://ann@b/` is not a URL such as https://example.com/hook",
    );
    let many = ["\"https://example.com\""; 17].join(", ");
    check(
        &format!("notify: {{webhooks: [{many}]}}"),
        "line 1: notify.webhooks: has 17 URLs; must be at most 16",
    );
    check(
        "notify: {secret_file: ./key}",
        "line 1: notify.secret_file: has no effect without notify.webhooks, whose requests it signs",
    );
}
