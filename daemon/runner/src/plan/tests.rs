mod machines;

use serde_json::{Value, json};
use traind_job_file::commands::Change;

use super::*;

const CONFIG: &str = r#"{"model_type": "bert", "vocab_size": 1000, "hidden_size": 64,
    "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 128,
    "max_position_embeddings": 128, "type_vocab_size": 2}"#;

/// Plans a job that `edit` has changed.
fn plan_of(bytes_per_core_max: Option<u64>, edit: impl Fn(&mut serde_json::Value)) -> Plan {
    planned(bytes_per_core_max, edit).unwrap()
}

fn planned(
    bytes_per_core_max: Option<u64>,
    edit: impl Fn(&mut serde_json::Value),
) -> RunResult<Plan> {
    let (_folder, request) = requested(bytes_per_core_max, edit);
    plan(&request)
}

/// The request to plan a job that `edit` has changed, with the folder of its model.
fn requested(
    bytes_per_core_max: Option<u64>,
    edit: impl Fn(&mut serde_json::Value),
) -> (tempfile::TempDir, PlanRequest) {
    requested_on(json!({"cores": 2}), bytes_per_core_max, edit)
}

/// The request to plan a job with these resources that `edit` has changed, with the folder of its model.
fn requested_on(
    resources: Value,
    bytes_per_core_max: Option<u64>,
    edit: impl Fn(&mut Value),
) -> (tempfile::TempDir, PlanRequest) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("config.json"), CONFIG).unwrap();
    let mut job = json!({
        "name": "planned",
        "model": {
            "name_or_path": folder.path(), "task": "sequence-classification", "num_labels": 3,
            "from_config": true
        },
        "data": {"train": "/train.csv"},
        "train": {"per_device_train_batch_size": 8},
        "resources": resources,
        "output_dir": "/out",
    });
    edit(&mut job);
    let request = PlanRequest {
        job: serde_json::from_value(job).unwrap(),
        bytes_per_core_max,
        may_fetch: true,
        device: String::new(),
        instructions_max: None,
        with_effects: false,
        search: None,
    };
    (folder, request)
}

/// One of the first meshes does not fit, so that others may be among the best.
#[test]
fn a_comparison_that_ends_early_has_a_warning() {
    let (_folder, mut request) = requested(None, |job| {
        job["resources"] = json!({ "cores": 8, "platform": "cuda" });
    });
    let search = MeshSearch { device: "h100".to_owned(), ..MeshSearch::default() };
    request.search = Some(search);
    let plan_for = |request: &PlanRequest, seconds| {
        let plan = plan_within(request, Duration::from_secs(seconds)).unwrap();
        let warnings = plan.warnings.iter().filter(|warning| warning.code == SEARCH_ENDED);
        (warnings.map(|warning| warning.message.clone()).collect::<Vec<_>>(), plan.meshes)
    };
    let (warnings, meshes) = plan_for(&request, 3600);
    assert_eq!(warnings, Vec::<String>::new());
    let largest = meshes.iter().map(|mesh| mesh.memory.bytes_per_core).max().unwrap();
    request.bytes_per_core_max = Some(largest - 1);
    let (warnings, meshes) = plan_for(&request, 0);
    let [message] = &warnings[..] else { panic!("{warnings:?}") };
    assert!(message.contains("for 0 s") && message.contains("left out"), "{message}");
    assert!(!meshes.is_empty());
}

/// A plan needs none, and a job does.
#[test]
fn models_without_weights_have_a_warning() {
    assert_eq!(plan_of(None, |_| {}).warnings, []);
    let plan = plan_of(None, |job| job["model"]["from_config"] = false.into());
    let [warning] = &plan.warnings[..] else { panic!("{:?}", plan.warnings) };
    assert_eq!(warning.code, "NO_WEIGHTS");
    for words in ["model.name_or_path: ", "has no model.safetensors", "model.from_config: true"] {
        assert!(warning.message.contains(words), "{}", warning.message);
    }
}

#[test]
fn classes_that_may_be_none_have_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rows.csv");
    std::fs::write(&file, "text,label\na,yes\nb,-\nc,no\nd,-\n").unwrap();
    let warnings = |ignored: &[&str]| {
        let plan = plan_of(None, |job| {
            job["model"]["task"] = "sequence-classification".into();
            job["data"] = json!({ "train": file, "ignored_labels": ignored });
        });
        plan.warnings.into_iter().map(|it| (it.code, it.message)).collect::<Vec<_>>()
    };
    let found = warnings(&[]);
    let [(code, message)] = &found[..] else { panic!("{found:?}") };
    assert_eq!(code, "DOUBTFUL_LABELS");
    assert!(message.starts_with("train data: 2 rows have the label \"-\""), "{message}");
    assert_eq!(warnings(&["-"]), []);
    std::fs::write(&file, "text,label\na,yes\nb,\nc,no\n").unwrap();
    assert_eq!(warnings(&[""]), [], "a cell without a value is left out");
}

/// Rows that are tokenized already are as long as they are, or as the model's positions where that is not known: the
/// lengths of texts concern other rows alone.
#[test]
fn rows_of_tokens_are_planned_by_their_lengths() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rows.jsonl");
    let row = |length: usize| format!("{}\n", json!({ "input_ids": vec![5; length] }));
    let of = |rows: &str, edit: &dyn Fn(&mut Value)| {
        std::fs::write(&file, rows).unwrap();
        let plan = planned(Some(1 << 40), |job| {
            let folder = job["model"]["name_or_path"].clone();
            job["model"] = json!({ "name_or_path": folder, "task": "masked-lm" });
            job["data"] = json!({ "train": file });
            edit(job);
        });
        plan.unwrap().positions
    };
    assert_eq!(of(&format!("{}{}", row(40), row(24)), &|_| {}), 40);
    // Texts are cut to the block, and rows of tokens may not be longer.
    let block = |job: &mut Value| job["data"]["block_size"] = 64.into();
    assert_eq!(of("{\"text\": \"a b\"}\n", &block), 64);
    assert_eq!(of(&row(48), &block), 48);
    let padded = |job: &mut Value| {
        block(job);
        job["data"]["pad_to_max_length"] = true.into();
    };
    assert_eq!(of(&row(48), &padded), 64);
    // Rows to evaluate that are texts.
    let texts = folder.path().join("texts.jsonl");
    std::fs::write(&texts, "{\"text\": \"a b\"}\n").unwrap();
    let evaluated = |job: &mut Value| {
        block(job);
        job["data"]["validation"] = json!(texts);
        job["train"]["eval_strategy"] = "epoch".into();
    };
    assert_eq!(of(&row(48), &evaluated), 64);
    // Files that are not there yet have rows of texts, for all that is known.
    let elsewhere = |job: &mut Value| {
        block(job);
        job["data"]["train"] = json!("/none.jsonl");
    };
    assert_eq!(of("", &elsewhere), 64);
}

/// The header is enough; rows that are not there yet are left to the run.
#[test]
fn files_with_other_numbers_of_texts_than_the_loss_takes_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rows.csv");
    std::fs::write(&file, "question,answer,label\na,b,1\n").unwrap();
    let check = |task: &str, section: serde_json::Value, expect: Option<&str>| {
        let found = planned(None, |job| {
            job["model"] = json!({ "name_or_path": job["model"]["name_or_path"], "task": task });
            job["data"]["train"] = json!(file);
            job[task] = section.clone();
        });
        let found = found.err().map(|error| error.to_string());
        match (&found, expect) {
            (Some(found), Some(expect)) => assert!(found.contains(expect), "{found}"),
            _ => assert_eq!(found.as_deref(), expect),
        }
    };
    let columns =
        "data.texts of the job file names \"question, answer\": the rows have 2 columns of texts";
    check("embedding", json!({ "loss": "triplet" }), Some(columns));
    check("embedding", json!({ "loss": "cosent" }), None);
    let passages = "the loss compares the passages of a row";
    check("reranker", json!({ "loss": "list_net" }), Some(passages));
    let lists = Some("the second column has texts, not lists of them");
    check("reranker", json!({ "loss": "list_net", "list_size": 4 }), lists);
    check("reranker", json!({}), None);
    std::fs::remove_file(&file).unwrap();
    check("embedding", json!({ "loss": "triplet" }), None);
}

/// Micro-batches of rows that are compared all pass forward before the first passes backward, also where a set has that
/// loss which has not the most texts.
#[test]
fn stages_keep_all_micro_batches_of_sets_whose_rows_are_compared() {
    let activations = |loss: &str| {
        let plan = planned(None, |job| {
            job["model"] =
                json!({ "name_or_path": job["model"]["name_or_path"], "task": "embedding" });
            job["data"] = json!({ "mixing": "round_robin", "train": [
                { "path": "/a.jsonl", "texts": ["a", "b", "c"], "loss": "triplet" },
                { "path": "/b.jsonl", "texts": ["a", "b"], "loss": loss },
            ] });
            job["parallel"] = json!({ "pipeline": 2, "microbatches": 8 });
        });
        plan.unwrap().memory.activations_bytes
    };
    let [compared, apart] = ["multiple_negatives_ranking", "contrastive"].map(activations);
    assert!(compared > apart, "{compared}, {apart}");
}

/// A guide has the cores to itself, before training.
#[test]
fn a_guide_is_planned_beside_the_model() {
    let guided = |bytes_per_core_max| {
        planned(bytes_per_core_max, |job| {
            let folder = job["model"]["name_or_path"].clone();
            job["model"] = json!({ "name_or_path": folder, "task": "embedding" });
            job["embedding"] = json!({ "loss": "gist", "guide": folder });
        })
    };
    let error = guided(Some(1 << 10)).unwrap_err().to_string();
    assert!(error.starts_with("embedding.guide of the job file names ") && error.contains("MiB"));
    assert!(guided(None).unwrap().memory.bytes_per_core > 0);
}

#[test]
fn groups_of_parameters_are_listed() {
    let with = |groups: &serde_json::Value| {
        planned(None, |job| {
            job["train"]["weight_decay"] = 0.1.into();
            job["train"]["param_groups"] = groups.clone();
        })
    };
    let groups = json!([
        {"match": "classifier", "learning_rate": 1e-3},
        {"match": "*embeddings*", "weight_decay": 0.0, "optim": "sgd"},
    ]);
    let plan = with(&groups).unwrap();
    let found = serde_json::to_value(&plan.parameter_groups).unwrap();
    let (head, embeddings) = (64 * 3 + 3, (1000 + 128 + 2 + 2) * 64);
    let others = plan.parameters - head - embeddings;
    let expect = json!([
        {"match": "classifier", "tensors": 2, "parameters": head, "learning_rate": 1e-3,
         "weight_decay": 0.1, "optim": "adamw_torch"},
        {"match": "*embeddings*", "tensors": 5, "parameters": embeddings, "learning_rate": 5e-5,
         "weight_decay": 0.0, "optim": "sgd"},
        {"match": "", "tensors": 2 * 16 + 2, "parameters": others, "learning_rate": 5e-5,
         "weight_decay": 0.1, "optim": "adamw_torch"},
    ]);
    assert_eq!(found, expect);
    assert_eq!(plan.memory.optimizer_bytes, 8 * (head + others), "SGD has no state");
    assert!(plan_of(None, |_| {}).parameter_groups.is_empty());
    let error = with(&json!([{"match": "lm_head", "optim": "sgd"}])).unwrap_err();
    let failure = error.failure();
    assert_eq!(failure.field.as_deref(), Some("train.param_groups"));
    assert!(failure.message.contains("`lm_head` matches no parameter"), "{}", failure.message);
}

/// The momentum of matrices in layers, and two moments of all else.
#[test]
fn muon_keeps_one_slot_of_hidden_matrices() {
    let plan = plan_of(None, |job| job["train"]["optim"] = "muon".into());
    let matrices = 2 * (4 * 64 * 64 + 2 * 64 * 128);
    assert_eq!(plan.memory.optimizer_bytes, 8 * plan.parameters - 4 * matrices);
}

#[test]
fn sizes_follow_from_the_parameters() {
    let plan = plan_of(None, |_| {});
    // Embeddings, two layers, pooler, classifier.
    let layer = 4 * (64 * 64 + 64) + 2 * 128 + (64 * 128 + 128) + (128 * 64 + 64);
    let parameters = (1000 + 128 + 2 + 2) * 64 + 2 * layer + (64 * 64 + 64) + (64 * 3 + 3);
    assert_eq!(plan.parameters, parameters as u64);
    assert_eq!(plan.memory.weights_bytes, 4 * plan.parameters);
    assert_eq!(plan.memory.gradients_bytes, 4 * plan.parameters);
    assert_eq!(plan.memory.optimizer_bytes, 8 * plan.parameters, "two moments");
    assert_eq!(plan.checkpoint_bytes, 12 * plan.parameters);
    assert_eq!(plan.positions, 128);
    let disk = |strategy: &str| {
        let edit = |job: &mut serde_json::Value| {
            job["train"]["save_strategy"] = strategy.into();
            job["train"]["save_total_limit"] = 2.into();
        };
        plan_of(None, edit).disk_bytes
    };
    assert_eq!(disk("epoch"), (4 + 3 * 12) * plan.parameters, "two kept, one under way");
    assert_eq!(disk("no"), 4 * plan.parameters);
    let staged = plan_of(None, |job| job["checkpoint_dir"] = "s3://bucket/run".into());
    assert_eq!(staged.disk_bytes, (4 + 5 * 12) * plan.parameters, "those under way to a bucket");
}

#[test]
fn frozen_weights_have_neither_gradients_nor_state() {
    let whole = plan_of(None, |_| {});
    let adapted = |dtype: &str| {
        plan_of(None, |job| {
            job["model"]["dtype"] = dtype.into();
            job["peft"] = serde_json::json!({"method": "lora", "r": 4});
        })
    };
    // Two layers' queries and values, and the head.
    let trained = 2 * 2 * 4 * (64 + 64) + (64 * 3 + 3);
    let plan = adapted("float32");
    assert_eq!(plan.memory.gradients_bytes, 4 * trained);
    assert_eq!(plan.memory.optimizer_bytes, 8 * trained);
    assert_eq!((plan.output_bytes, plan.checkpoint_bytes), (4 * trained, 12 * trained));
    assert!(plan.memory.activations_bytes < whole.memory.activations_bytes * 11 / 10);
    let half = adapted("bfloat16");
    let frozen = whole.parameters - (64 * 3 + 3);
    assert_eq!(plan.memory.weights_bytes - half.memory.weights_bytes, 2 * frozen);
    let freeze = serde_json::json!(["embeddings", "encoder", "pooler"]);
    let frozen = plan_of(None, |job| job["train"]["freeze"] = freeze.clone());
    assert_eq!(frozen.memory.gradients_bytes, 4 * (64 * 3 + 3));
    assert_eq!(frozen.output_bytes, whole.output_bytes);
}

#[test]
fn a_reference_has_copies_of_what_is_trained() {
    let pairs = |edit: &dyn Fn(&mut serde_json::Value)| {
        plan_of(None, |job| {
            job["model"] = json!({
                "name_or_path": job["model"]["name_or_path"], "task": "dpo",
                "config_overrides": {"is_decoder": true},
            });
            edit(job);
        })
    };
    let alone = pairs(&|job| job["model"]["task"] = "sft".into());
    assert_eq!(alone.memory.reference_bytes, 0);
    let whole = pairs(&|_| {});
    assert_eq!(whole.memory.reference_bytes, 4 * whole.parameters);
    assert_eq!(whole.memory.weights_bytes, 8 * whole.parameters);
    assert_eq!(whole.memory.gradients_bytes, alone.memory.gradients_bytes);
    assert_eq!(whole.checkpoint_bytes, alone.checkpoint_bytes);
    // There are activations of twice the sequences, and the logits of the reference.
    assert!(whole.memory.activations_bytes > 2 * alone.memory.activations_bytes);
    let adapted = pairs(&|job| job["peft"] = json!({"method": "lora", "r": 4}));
    assert_eq!(adapted.memory.reference_bytes, 0);
    let freeze = json!(["embeddings", "encoder.layer.0"]);
    let frozen = pairs(&|job| job["train"]["freeze"] = freeze.clone());
    assert_eq!(frozen.memory.reference_bytes, frozen.memory.gradients_bytes);
    let named = pairs(&|job| {
        job["train"]["freeze"] = freeze.clone();
        job["dpo"] = json!({"ref_model_name_or_path": job["model"]["name_or_path"]});
    });
    assert_eq!(named.memory.reference_bytes, 4 * whole.parameters, "it shares nothing");
    let sharded = pairs(&|job| job["parallel"] = json!({"fsdp": "full_shard"}));
    assert!(sharded.memory.reference_bytes < whole.memory.reference_bytes);
}

/// A reward model has one output, whatever the config of its folder says.
#[test]
fn other_preferences_are_planned() {
    let planned = |task: &str, overrides: serde_json::Value| {
        plan_of(None, |job| {
            job["model"] = json!({
                "name_or_path": job["model"]["name_or_path"], "task": task, "config_overrides": overrides,
            });
        })
    };
    let reward = planned("reward", json!({}));
    let classifier = plan_of(None, |_| {});
    assert_eq!(reward.parameters, classifier.parameters - 2 * (64 + 1));
    let decoder = json!({"is_decoder": true});
    for task in ["orpo", "cpo"] {
        assert_eq!(planned(task, decoder.clone()).memory.reference_bytes, 0, "{task}");
    }
    let kto = planned("kto", decoder);
    assert_eq!(kto.memory.reference_bytes, 4 * kto.parameters);
}

#[test]
fn activations_grow_with_rows_and_shrink_with_checkpointing() {
    let activations = |key: &str, value: serde_json::Value| {
        plan_of(None, |job| job["train"][key] = value.clone()).memory.activations_bytes
    };
    let eight = activations("per_device_train_batch_size", 8.into());
    let sixteen = activations("per_device_train_batch_size", 16.into());
    assert!(sixteen > eight * 19 / 10 && sixteen < eight * 21 / 10, "{eight} {sixteen}");
    let recomputed = activations("gradient_checkpointing", true.into());
    // By XLA's count for two layers of BERT, checkpointing saves 14 %. Kernels keep no scores, so that
    // it saves less with them than without.
    assert!(recomputed < eight * 17 / 20, "{eight} {recomputed}");
    // The first layer keeps at least its input, the projections, the scores and the outer layer; the last one its
    // input, keys, values and the scores, since it projects the queries of the first tokens alone.
    let least = 4 * 8 * 128 * (64 * 5 + 2 * 128 + 128 + 64 * 3 + 2 * 128);
    assert!(eight > least && eight < 4 * least, "{eight} {least}");
}

/// Where no kernel computes attention, as on GPUs, it is computed in blocks.
#[test]
fn activations_of_long_rows_grow_with_their_length() {
    let activations = |positions: u32| {
        plan_of(None, |job| {
            job["model"] = json!({
                "name_or_path": job["model"]["name_or_path"], "task": "causal-lm",
                "config_overrides": {"is_decoder": true, "max_position_embeddings": 8192},
            });
            job["data"]["block_size"] = positions.into();
            job["train"]["per_device_train_batch_size"] = 1.into();
            job["resources"]["platform"] = "cuda".into();
        })
        .memory
        .activations_bytes
    };
    let [short, long] = [2048, 8192].map(activations);
    assert!(long < 5 * short, "{short} {long}");
}

#[test]
fn cores_that_share_layers_hold_a_part_each() {
    let on_two = |bytes_per_core_max, tensor: u32| {
        plan_of(bytes_per_core_max, |job| {
            job["parallel"] = json!({"tensor": tensor, "shard_optimizer_state": true});
            job["train"]["gradient_checkpointing"] = true.into();
        })
    };
    let (whole, divided) = (on_two(None, 1), on_two(None, 2));
    assert_eq!(divided.parameters, whole.parameters);
    assert_eq!(divided.checkpoint_bytes, whole.checkpoint_bytes);
    // Positions, segments, norms, biases of sums, pooler and classifier are not divided.
    let norms = (1 + 2 * 2) * 2 * 64;
    let kept = (128 + 2) * 64 + norms + 2 * 2 * 64 + (64 * 64 + 64) + (64 * 3 + 3);
    let expect = 4 * ((whole.parameters - kept) / 2 + kept);
    assert_eq!(divided.memory.weights_bytes, expect);
    assert_eq!(divided.memory.optimizer_bytes, 2 * expect);
    assert!(divided.memory.activations_bytes < whole.memory.activations_bytes);
    let misfit = on_two(Some(divided.memory.bytes_per_core), 1).misfit.unwrap();
    assert_eq!(words(&misfit), ["parallel.tensor: 2"]);
}

#[test]
fn cores_that_shard_parameters_hold_a_part_each() {
    let sharded = |fsdp: &str| {
        let edit = |job: &mut serde_json::Value| job["parallel"] = json!({"fsdp": fsdp});
        plan_of(None, edit)
    };
    let (whole, full) = (sharded("no"), sharded("full_shard"));
    assert_eq!((full.parameters, full.disk_bytes), (whole.parameters, whole.disk_bytes));
    // Only the word embeddings are large enough, and each of two cores holds half of them.
    let expect = 4 * (whole.parameters - 1000 * 64 / 2);
    assert_eq!(full.memory.weights_bytes, expect);
    assert_eq!(full.memory.gradients_bytes, expect);
    assert_eq!(full.memory.optimizer_bytes, 2 * expect);
    let stage_two = sharded("shard_grad_op").memory;
    assert_eq!(stage_two.weights_bytes, 4 * whole.parameters);
    assert_eq!((stage_two.gradients_bytes, stage_two.optimizer_bytes), (expect, 2 * expect));
}

#[test]
fn offloaded_state_takes_memory_of_the_host() {
    let plan = |parallel: serde_json::Value| {
        plan_of(None, |job| {
            job["parallel"] = parallel.clone();
            job["train"]["per_device_train_batch_size"] = 64.into();
        })
    };
    let whole = plan(json!({}));
    let offloaded = plan(json!({"offload": ["optimizer"]}));
    assert_eq!(whole.memory.host_bytes, 0);
    assert_eq!(offloaded.memory.host_bytes, whole.memory.optimizer_bytes);
    assert_eq!(offloaded.memory.optimizer_bytes, 0);
    assert_eq!(offloaded.checkpoint_bytes, whole.checkpoint_bytes);
    assert!(offloaded.memory.bytes_per_core < whole.memory.bytes_per_core);
    let staged = |horizon: u32| {
        let edit = |job: &mut serde_json::Value| {
            job["model"]["config_overrides"] = json!({"num_hidden_layers": 4});
            job["resources"]["cores"] = 4.into();
            job["parallel"] = json!({"pipeline": 4, "microbatches": 8, "offload": "activations",
                                     "activation_loading_horizon": horizon});
        };
        plan_of(None, edit).memory.host_bytes
    };
    // When the first backward pass of the first stage runs, it keeps the activations of three further
    // micro-batches, for the passes two, four and six places later.
    let [three, one] = [1, 4].map(staged);
    assert!(three == 3 * one && one > 4 * 128 * 64 * 4, "{three} {one}");
    let sharded = json!({"fsdp": "shard_optimizer", "offload": "optimizer"});
    let sharded = plan(sharded).memory;
    // The shards that are updated are in host memory too.
    assert!(sharded.weights_bytes == whole.memory.weights_bytes && sharded.host_bytes > 0);
}

#[test]
fn a_batch_size_that_fits_is_found_as_in_transformers() {
    let rows = |bytes: Option<u64>, train: serde_json::Value| {
        let edit = |job: &mut serde_json::Value| job["train"] = train.clone();
        let plan = plan_of(bytes, edit);
        (plan.rows, plan.misfit.is_some(), plan.memory.bytes_per_core)
    };
    let of = |rows: u32| json!({"per_device_train_batch_size": rows});
    let found = json!({"per_device_train_batch_size": 50, "auto_find_batch_size": true});
    let most = rows(None, of(24)).2;
    // The sizes tried are 50, 45, 40, 36, 32, 28, 25 and 22.
    assert_eq!(rows(Some(most), found.clone()).0, 22);
    assert!(!rows(Some(most), of(22)).1);
    assert!(rows(Some(most), of(25)).1);
    assert_eq!(rows(None, found.clone()).0, 50);
    assert!(rows(Some(1), found).1, "not even one row fits");
}

#[test]
fn a_job_that_does_not_fit_gets_a_change_that_does() {
    let whole = plan_of(None, |_| {}).memory.bytes_per_core;
    assert!(plan_of(Some(whole), |_| {}).misfit.is_none());
    let misfit = |bytes| plan_of(Some(bytes), |_| {}).misfit.unwrap();
    assert_eq!(words(&misfit(whole - 1)), ["parallel.shard_optimizer_state: true"]);
    let single = |job: &mut serde_json::Value| job["resources"]["cores"] = 1.into();
    let found = words(&plan_of(Some(whole * 2 / 3), single).misfit.unwrap());
    assert!(found.len() == 1 && found[0].starts_with("train."), "{found:?}");
    assert!(words(&misfit(1)).is_empty());
}

fn words(misfit: &Misfit) -> Vec<String> {
    misfit.changes.iter().map(|it| format!("{}: {}", it.field, it.value)).collect()
}

#[test]
fn a_job_that_no_single_change_fits_gets_the_changes_of_a_mesh() {
    let with = |bytes: Option<u64>, changes: &[Change]| {
        plan_of(bytes, |job| {
            job["model"] = json!({
                "name_or_path": job["model"]["name_or_path"], "task": "causal-lm",
                "config_overrides": {"is_decoder": true, "num_hidden_layers": 4},
            });
            job["train"] = json!({"per_device_train_batch_size": 4});
            job["resources"]["cores"] = 4.into();
            job["data"]["block_size"] = 128.into();
            for Change { field, value } in changes {
                let (section, key) = field.split_once('.').unwrap();
                let value: serde_json::Value =
                    serde_json::from_str(value).unwrap_or_else(|_| value.as_str().into());
                job[section][key] = value;
            }
        })
    };
    // Less and less room, until only several changes fit.
    let mut bytes = with(None, &[]).memory.bytes_per_core;
    let misfit = loop {
        bytes = bytes * 19 / 20;
        let misfit = with(Some(bytes), &[]).misfit.unwrap();
        if misfit.changes.len() != 1 {
            break misfit;
        }
    };
    assert!(misfit.changes.len() > 1, "{:?}", words(&misfit));
    let taken = with(Some(bytes), &misfit.changes);
    assert!(taken.misfit.is_none(), "what is advised fits: {:?}", words(&misfit));
}

/// The effects of the parallel settings of a job on eight cores.
fn effects_of_settings(parallel: &serde_json::Value, checkpointing: bool) -> serde_json::Value {
    let (_folder, request) = requested(None, |job| {
        job["train"]["gradient_checkpointing"] = checkpointing.into();
        job["resources"]["cores"] = 8.into();
        job["parallel"] = parallel.clone();
    });
    let request = PlanRequest { with_effects: true, ..request };
    serde_json::to_value(plan(&request).unwrap().parallelism.unwrap()).unwrap()
}

/// The effects of settings of all axes.
fn effects_of_all_axes() -> serde_json::Value {
    let parallel = json!({
        "data": 2, "tensor": 2, "sequence_parallel": true, "pipeline": 2, "microbatches": 4,
        "placement": "PDT", "fsdp": "shard_optimizer", "offload": ["activations", "optimizer"],
    });
    effects_of_settings(&parallel, true)
}

/// Each setting of the mesh has an effect, with the memory that the job without it would take more.
#[test]
fn parallel_settings_have_effects() {
    let found = effects_of_all_axes();
    let effect = |setting: &str| {
        let all = found["effects"].as_array().unwrap();
        let effect = all.iter().find(|effect| effect["setting"] == setting);
        effect.unwrap_or_else(|| panic!("{setting}: {all:#?}")).clone()
    };
    let saved = |setting: &str, part: &str| effect(setting)[part].as_i64().unwrap();
    let tensor = "parallel.tensor: 2";
    assert!(saved(tensor, "saved_weights_bytes") > 0 && saved(tensor, "saved_bytes") > 0);
    assert!(saved("parallel.sequence_parallel: true", "saved_activations_bytes") > 0);
    let pipeline = effect("parallel.pipeline: 2, microbatches: 4");
    assert!(pipeline["saved_weights_bytes"].as_i64().unwrap() > 0);
    let text = pipeline["effect"].as_str().unwrap();
    assert!(text.contains("4 micro-batches of up to 2 rows") && text.contains("25 %"), "{text}");
    let sharded = "parallel.fsdp: shard_optimizer";
    assert_eq!(saved(sharded, "saved_weights_bytes"), 0);
    assert!(saved("train.gradient_checkpointing: true", "saved_activations_bytes") > 0);
    assert!(saved("parallel.offload: optimizer", "host_bytes") > 0);
    let horizon = "parallel.offload: activations, activation_loading_horizon: 4";
    assert!(saved(horizon, "saved_bytes") >= 0);
    let mesh = effect("resources.cores: 8")["effect"].clone();
    assert_eq!(mesh, "mesh of data 2 x tensor 2 x pipeline 2");
    let order = effect("parallel.placement: PDT")["effect"].clone();
    assert_eq!(
        order,
        "axes in the order pipeline, data, tensor: neighbouring cores differ along tensor"
    );
    let rows = effect("parallel.data: 2")["effect"].as_str().unwrap().to_owned();
    assert!(rows.contains("2 x 8 rows are the 16 rows of a step"), "{rows}");

    let plain = effects_of_settings(&json!({"data": 8}), false);
    let settings: Vec<_> =
        plain["effects"].as_array().unwrap().iter().map(|effect| &effect["setting"]).collect();
    assert_eq!(settings, ["resources.cores: 8", "parallel.placement: cluster", "parallel.data: 8"]);
    assert_eq!(plain["stages"], json!([]));
}

#[test]
fn a_plan_shows_the_places_of_cores_and_the_passes_of_stages() {
    let found = effects_of_all_axes();
    let place = |core: usize| {
        let place = &found["places"][core];
        ["data", "pipeline", "tensor"].map(|axis| place[axis].as_u64().unwrap())
    };
    assert_eq!([0, 1, 2, 5].map(place), [[0, 0, 0], [0, 0, 1], [1, 0, 0], [0, 1, 1]]);
    let passes = |stage: usize| found["stages"][stage]["passes"].clone();
    assert_eq!(passes(0), json!(["F0", "F1", "B0", "F2", "B1", "F3", "B2", "B3"]));
    assert_eq!(passes(1), json!(["B0", "B1", "B2", "B3"]));
}
