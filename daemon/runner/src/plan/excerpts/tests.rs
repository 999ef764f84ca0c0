//! Excerpts say of a model what recording all of it says.

use serde_json::{Value, json};

use traind_loader::{BatchAxis, BatchSizes};
use traind_xla::runtime::{RecordedStep, Recorder};

use super::*;
use crate::plan::memory::Recordings;
use crate::plan::program_figures::estimated_bytes;
use crate::plan::stages::Stages;

const LAYERS: usize = 9;

/// A job for a model of so many layers, with what `settings` has in its sections.
fn job(family: &str, task: &str, own: &Value, settings: &Value) -> (JobFile, PlannedModel) {
    let folder = tempfile::tempdir().unwrap();
    let mut config = json!({
        "model_type": family, "vocab_size": 512, "hidden_size": 64, "num_hidden_layers": LAYERS,
        "num_attention_heads": 4, "intermediate_size": 128, "max_position_embeddings": 64,
        "type_vocab_size": 2,
    });
    merge(&mut config, own);
    // Names of BERT's keys are general ones of these, which would win over their own.
    let renamed: &[&str] = match family {
        "gpt2" => {
            &["hidden_size", "num_hidden_layers", "num_attention_heads", "max_position_embeddings"]
        }
        "t5" | "mbart" => &["hidden_size", "num_hidden_layers", "num_attention_heads"],
        _ => &[],
    };
    for key in renamed {
        config.as_object_mut().unwrap().remove(*key);
    }
    std::fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
    let mut job = json!({
        "name": "excerpt", "model": {"name_or_path": folder.path(), "task": task},
        "data": {"train": "/train.csv"}, "train": {"per_device_train_batch_size": 8},
        "resources": {"cores": 1}, "output_dir": "/out",
    });
    match task {
        "causal-lm" => job["data"]["block_size"] = 64.into(),
        "seq2seq-lm" => job["data"]["max_target_length"] = 32.into(),
        "image-classification" => job["model"]["num_labels"] = 3.into(),
        _ => job["data"]["max_length"] = 64.into(),
    }
    merge(&mut job, settings);
    let job: JobFile = serde_json::from_value(job).unwrap();
    let planned = PlannedModel::of_job(&job, false).unwrap();
    (job, planned)
}

fn merge(base: &mut Value, more: &Value) {
    match (base, more) {
        (Value::Object(base), Value::Object(more)) => {
            for (key, value) in more {
                merge(base.entry(key).or_insert(Value::Null), value);
            }
        }
        (base, more) => *base = more.clone(),
    }
}

/// Everything that a plan takes from recordings.
fn figures(recordings: &Recordings) -> Vec<String> {
    let mut lines = vec![serde_json::to_string(&recordings.memory).unwrap()];
    for sent in &recordings.stages {
        lines.push(format!("{} {} {}", sent.stage, sent.batch_bytes, sent.update_bytes));
        let collectives = sent.collectives.iter().filter(|(.., count)| *count > 0);
        let mut of_stage: Vec<String> = collectives
            .map(|(program, it, count)| format!("{} {program:?} {count} {it:?}", sent.stage))
            .collect();
        of_stage.sort();
        lines.extend(of_stage);
    }
    lines
}

/// Compares excerpts with all of the model, for `settings` of a job.
fn check(family: &str, task: &str, own: &Value, settings: &Value) {
    let (job, planned) = job(family, task, own, settings);
    let name = format!("{family} {settings}");
    let stages = Stages::in_excerpts(&job, &planned).unwrap();
    let pipeline = &stages.programs().pipeline;
    let excerpts = DeclaredExcerpts::of(&job, &planned, pipeline, |_| true).unwrap();
    let excerpts = excerpts.unwrap_or_else(|| panic!("{name} has no excerpts"));
    let train = &job.train;
    let sizes = BatchSizes::of_rows(train.per_device_train_batch_size as usize)
        .with(BatchAxis::Positions, 32)
        .with(BatchAxis::TargetPositions, 32);
    for shape in stages.programs().step_programs().shapes([sizes]) {
        for part in stages.programs().parts_of(shape) {
            let found = excerpts.figures(part).unwrap();
            assert!(found.is_some() || job.parallel.sequence_parallel, "{name}: {part:?}");
        }
    }
    let whole = |recorder: &Recorder, step: &RecordedStep| Ok(estimated_bytes(recorder, step));
    let whole = Recordings::measured(&job, &planned, &whole);
    let [short, whole] = [Recordings::of(&job, &planned), whole].map(|it| figures(&it.unwrap()));
    assert_eq!(short, whole, "{name}");
}

fn meshes() -> Vec<Value> {
    let on =
        |cores: u32, parallel: Value| json!({"resources": {"cores": cores}, "parallel": parallel});
    let with = |mut settings: Value, train: Value| {
        merge(&mut settings, &json!({"train": train}));
        settings
    };
    vec![
        on(1, json!({})),
        with(on(1, json!({})), json!({"gradient_checkpointing": true})),
        with(on(1, json!({})), json!({"per_device_train_batch_size": 1})),
        with(on(2, json!({"fsdp": "shard_optimizer"})), json!({"bf16": true})),
        with(on(2, json!({"fsdp": "full_shard"})), json!({"gradient_accumulation_steps": 2})),
        with(
            on(4, json!({"tensor": 2, "fsdp": "full_shard"})),
            json!({"bf16": true, "gradient_checkpointing": true}),
        ),
    ]
}

#[test]
fn excerpts_of_encoders_take_what_whole_models_take() {
    for settings in meshes() {
        check("bert", "masked-lm", &json!({}), &settings);
    }
    let divided =
        json!({"resources": {"cores": 2}, "parallel": {"tensor": 2, "sequence_parallel": true}});
    check("roberta", "sequence-classification", &json!({"pad_token_id": 1}), &divided);
    let images = json!({"image_size": 32, "patch_size": 8});
    check("vit", "image-classification", &images, &json!({}));
    check("vit", "image-classification", &images, &divided);
}

#[test]
fn excerpts_of_decoders_take_what_whole_models_take() {
    let llama = json!({"num_key_value_heads": 2, "rms_norm_eps": 1e-6});
    let gpt2 = json!({"n_embd": 64, "n_layer": LAYERS, "n_head": 4, "n_positions": 64});
    for settings in meshes() {
        check("llama", "causal-lm", &llama, &settings);
        check("gpt2", "causal-lm", &gpt2, &settings);
    }
    let adapters = json!({"peft": {"method": "lora", "r": 4}, "model": {"dtype": "bfloat16"}, "train": {"bf16": true}});
    check("llama", "causal-lm", &llama, &adapters);
    // The first layers see all positions, and the last ones a window of them.
    let mut windows = llama.clone();
    let of_windows = json!({
        "use_sliding_window": true, "sliding_window": 16, "max_window_layers": 8, "num_hidden_layers": 20
    });
    merge(&mut windows, &of_windows);
    check("qwen2", "causal-lm", &windows, &json!({}));
}

#[test]
fn excerpts_of_stages_take_what_whole_stages_take() {
    let gpt2 = json!({"n_embd": 64, "n_layer": 33, "n_head": 4, "n_positions": 64});
    let stages = |cores: u32, parallel: Value| {
        let mut settings = json!({"resources": {"cores": cores}, "parallel": parallel});
        merge(&mut settings, &json!({"train": {"bf16": true}}));
        settings
    };
    for settings in [
        stages(2, json!({"pipeline": 2, "microbatches": 4})),
        stages(
            8,
            json!({"pipeline": 2, "tensor": 2, "sequence_parallel": true, "fsdp": "shard_optimizer"}),
        ),
        stages(4, json!({"pipeline": 2, "fsdp": "full_shard"})),
        stages(2, json!({"pipeline": 2, "pipeline_interleave": 2})),
        stages(3, json!({"pipeline": 3})),
    ] {
        check("gpt2", "causal-lm", &gpt2, &settings);
    }
    // These have programs that compare texts.
    let bert = json!({"num_hidden_layers": 33});
    let compared = stages(4, json!({"pipeline": 2, "pipeline_interleave": 2, "microbatches": 4}));
    check("bert", "embedding", &bert, &compared);
}

/// The layers of a generator and of a discriminator are two runs, also where they are of one size.
#[test]
fn excerpts_of_two_models_take_what_both_take() {
    let electra = json!({"embedding_size": 32, "num_hidden_layers": 14});
    let equal = json!({"replaced_token_detection": {"generator_hidden_size": 1.0}});
    let two = json!({"resources": {"cores": 2}, "parallel": {"fsdp": "full_shard"}});
    for settings in [json!({}), equal, two] {
        check("electra", "replaced-token-detection", &electra, &settings);
    }
}

#[test]
fn excerpts_of_encoders_with_decoders_take_what_whole_models_take() {
    let t5 = json!({
        "d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 12, "num_heads": 4,
        "decoder_start_token_id": 0, "pad_token_id": 0,
    });
    let bart = json!({
        "d_model": 64, "encoder_layers": 14, "decoder_layers": 13, "encoder_attention_heads": 4,
        "decoder_attention_heads": 4, "encoder_ffn_dim": 128, "decoder_ffn_dim": 128,
        "decoder_start_token_id": 2, "pad_token_id": 1,
    });
    let two = |parallel: Value| json!({"resources": {"cores": 2}, "parallel": parallel});
    for settings in [
        json!({}),
        two(json!({"tensor": 2, "sequence_parallel": true})),
        two(json!({"fsdp": "full_shard"})),
        two(json!({"pipeline": 2})),
    ] {
        check("t5", "seq2seq-lm", &t5, &settings);
        check("mbart", "seq2seq-lm", &bart, &settings);
    }
}
