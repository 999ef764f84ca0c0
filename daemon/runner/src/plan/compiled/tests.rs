//! The programs of training steps, compiled for H100 by the CUDA plugin. They need no GPU, but the plugin
//! that `TRAIND_TEST_CUDA_PLUGIN` names; `scripts/test --gpu-programs` fetches it.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;
use traind_job_file::AttnImplementation;
use traind_models::registry;
use traind_pjrt::Instruction;

use super::*;
use crate::plan::memory;
use crate::plan::search::search;
use traind_job_file::commands::CoreMemory;

const VARIABLE: &str = "TRAIND_TEST_CUDA_PLUGIN";
/// Set where every family is compiled for every mesh, with two layers or more, which takes a quarter of an hour.
const ALL_MESHES: &str = "TRAIND_TEST_ALL_GPU_MESHES";
/// GPUs of a host.
const PER_HOST: i64 = 8;
/// The memory that cuBLAS takes besides a program's own temporaries.
const WORKSPACE: u64 = 40 << 20;

/// The keys of each family's config besides [`common`].
fn families() -> Vec<(&'static str, &'static str, Value)> {
    let bert = || json!({"type_vocab_size": 2});
    let llama = || json!({"num_key_value_heads": 2, "rms_norm_eps": 1e-6, "rope_theta": 1e4});
    let with = |base: Value, more: Value| {
        let mut base = base;
        base.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        base
    };
    let t5 = || json!({"d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 2, "num_heads": 4});
    let bart = || {
        json!({
            "d_model": 64, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
            "decoder_attention_heads": 4, "encoder_ffn_dim": 128, "decoder_ffn_dim": 128,
            "decoder_start_token_id": 2, "pad_token_id": 1
        })
    };
    let t5_start = json!({"decoder_start_token_id": 0, "pad_token_id": 0});
    let gated = json!({"feed_forward_proj": "gated-gelu", "tie_word_embeddings": false});
    vec![
        ("bert", "masked-lm", bert()),
        (
            "distilbert",
            "token-classification",
            json!({"dim": 64, "hidden_dim": 128, "n_layers": 2, "n_heads": 4}),
        ),
        ("roberta", "sequence-classification", with(bert(), json!({"pad_token_id": 1}))),
        ("xlm-roberta", "question-answering", with(bert(), json!({"pad_token_id": 1}))),
        ("xlm-roberta-xl", "masked-lm", with(bert(), json!({"pad_token_id": 1}))),
        (
            "modernbert",
            "masked-lm",
            json!({"pad_token_id": 0, "local_attention": 16, "mlp_dropout": 0.1}),
        ),
        ("eurobert", "masked-lm", llama()),
        ("electra", "masked-lm", with(bert(), json!({"embedding_size": 32}))),
        ("mpnet", "token-classification", json!({})),
        ("nomic_bert", "masked-lm", with(bert(), json!({"head_dim": 16}))),
        ("gte", "token-classification", with(bert(), json!({"pad_token_id": 1}))),
        ("jina_embeddings_v3", "question-answering", with(bert(), json!({"pad_token_id": 1}))),
        ("albert", "masked-lm", with(bert(), json!({"embedding_size": 32}))),
        (
            "deberta-v2",
            "masked-lm",
            json!({
                "relative_attention": true, "pos_att_type": ["p2c", "c2p"], "position_buckets": 16,
                "share_att_key": true, "norm_rel_ebd": "layer_norm",
                "position_biased_input": false,
            }),
        ),
        ("gpt2", "causal-lm", json!({"n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 128})),
        ("llama", "causal-lm", llama()),
        ("mistral", "causal-lm", with(llama(), json!({"sliding_window": 16}))),
        ("qwen2", "sequence-classification", llama()),
        ("qwen3", "causal-lm", with(llama(), json!({"head_dim": 16}))),
        ("gemma", "causal-lm", with(llama(), json!({"head_dim": 16}))),
        ("gemma2", "causal-lm", with(llama(), json!({"head_dim": 16, "sliding_window": 16}))),
        ("gemma3_text", "causal-lm", with(llama(), json!({"head_dim": 16, "sliding_window": 16}))),
        ("phi3", "causal-lm", with(llama(), json!({"pad_token_id": 0}))),
        ("smollm3", "causal-lm", with(llama(), json!({"no_rope_layer_interval": 2}))),
        ("granite", "causal-lm", with(llama(), json!({"residual_multiplier": 0.5}))),
        ("olmo2", "causal-lm", llama()),
        ("olmo3", "causal-lm", with(llama(), json!({"sliding_window": 8}))),
        ("t5", "seq2seq-lm", with(t5(), t5_start.clone())),
        ("mt5", "seq2seq-lm", with(with(t5(), t5_start), gated)),
        ("bart", "seq2seq-lm", bart()),
        ("mbart", "seq2seq-lm", bart()),
        ("vit", "image-classification", json!({"image_size": 32, "patch_size": 8})),
        ("deit", "image-classification", json!({"image_size": 32, "patch_size": 8})),
    ]
}

/// The sizes of a GPT-2 by the names of [`common`], which come before its own.
fn gpt2_of(width: usize, layers: usize, heads: usize, positions: usize) -> Value {
    json!({
        "hidden_size": width, "num_hidden_layers": layers, "num_attention_heads": heads,
        "max_position_embeddings": positions,
    })
}

fn common(family: &str) -> Value {
    json!({
        "model_type": family, "vocab_size": 512, "hidden_size": 64, "num_hidden_layers": 2,
        "num_attention_heads": 4, "intermediate_size": 128, "max_position_embeddings": 128,
        "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1, "dropout_rate": 0.1,
    })
}

/// The keys that say how many layers a stack has.
const LAYERS: [&str; 6] =
    ["num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers", "decoder_layers"];

/// A model's folder, with its config alone.
struct Folder(TempDir);

impl Folder {
    fn of(family: &str, own: &Value) -> Folder {
        let folder = tempfile::tempdir().unwrap();
        let mut config = common(family);
        config.as_object_mut().unwrap().extend(own.as_object().unwrap().clone());
        std::fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
        Folder(folder)
    }

    /// Two layers in each stack.
    fn of_family(wanted: &str) -> (Folder, &'static str) {
        Folder::with_layers(wanted, 2)
    }

    /// One layer in each stack, or two where every family is compiled.
    fn small_of_family(wanted: &str) -> (Folder, &'static str) {
        Folder::with_layers(wanted, if takes_all_meshes() { 2 } else { 1 })
    }

    fn with_layers(wanted: &str, layers: usize) -> (Folder, &'static str) {
        let found = families().into_iter().find(|(family, ..)| *family == wanted);
        let (family, task, mut own) = found.unwrap();
        let keys = own.as_object_mut().unwrap();
        for name in LAYERS {
            // Families with keys of their own ignore that of `common`.
            if keys.contains_key(name) || name == LAYERS[0] {
                keys.insert(name.to_owned(), layers.into());
            }
        }
        (Folder::of(family, &own), task)
    }

    fn job(&self, task: &str, gpus: usize, train: &Value, parallel: &Value) -> JobFile {
        job(self.0.path(), task, gpus, 64, (train, parallel))
    }
}

fn job(
    model: &Path,
    task: &str,
    gpus: usize,
    length: u32,
    (train, parallel): (&Value, &Value),
) -> JobFile {
    let mut model = json!({"name_or_path": model, "task": task});
    let mut data = json!({"train": "/train.csv"});
    match task {
        "causal-lm" => data["block_size"] = length.into(),
        "seq2seq-lm" => data["max_target_length"] = (length / 2).into(),
        "image-classification" => {}
        _ => data["max_length"] = length.into(),
    }
    if task.ends_with("classification") {
        model["num_labels"] = 3.into();
    }
    let mut settings = json!({"per_device_train_batch_size": 8});
    settings.as_object_mut().unwrap().extend(train.as_object().unwrap().clone());
    let resources = json!({"cores": gpus, "platform": "cuda"});
    serde_json::from_value(json!({
        "name": "gpu", "model": model, "data": data, "train": settings, "resources": resources,
        "parallel": parallel, "output_dir": "/out",
    }))
    .unwrap()
}

/// The facts of a compiled program.
struct Compiled {
    /// Bytes of each kind's results, by the recording and by the compiler.
    collectives: [BTreeMap<String, u64>; 2],
    calls: Vec<String>,
    instructions: Vec<Instruction>,
}

/// Compiles all programs of a job's training step for `hosts` of eight GPUs, or those of a stage for the hosts that
/// have it. Returns them with the memory of a core, as estimated and as compiled.
fn compile(plugin: &Path, job: &JobFile, hosts: usize) -> (Vec<Compiled>, [CoreMemory; 2]) {
    let gpu = GpuTarget::named("h100").unwrap();
    let per_host = (job.resources.total_cores() as usize).div_ceil(hosts);
    let with_stage = hosts / job.pipeline_hosts() as usize;
    let compiler = AheadOfTime::for_gpus(plugin, gpu, with_stage, per_host).unwrap();
    let planned = PlannedModel::of_job(job, false).unwrap();
    let programs: RefCell<Vec<Compiled>> = RefCell::default();
    let measure = |recorder: &Recorder, step: &RecordedStep| {
        let compiled = compiler.compile(&recorder.lower(step))?;
        check_arguments(step, &compiled);
        programs.borrow_mut().push(read(step, &compiled));
        Ok(step.input_bytes() + laid_out_bytes(&compiled)?.unwrap())
    };
    let measured = Recordings::measured(job, &planned, &measure).unwrap().memory;
    (programs.into_inner(), [memory::of(job, &planned).unwrap(), measured])
}

/// The compiler takes the arguments as they are, and donation holds.
fn check_arguments(step: &RecordedStep, compiled: &CompiledProgram) {
    let memory = compiled.compiled_memory_stats().unwrap().unwrap();
    let bytes = |donated: bool| -> u64 {
        let arguments = step.arguments().into_iter().filter(|it| it.is_donated || !donated);
        arguments.map(|it| it.shape.size_bytes() as u64).sum()
    };
    assert_eq!(memory.argument_bytes as u64, bytes(false));
    assert_eq!(memory.alias_bytes as u64, bytes(true));
}

fn read(step: &RecordedStep, compiled: &CompiledProgram) -> Compiled {
    let instructions = compiled.optimized_program().unwrap().instructions().unwrap();
    let mut recorded: BTreeMap<String, u64> = BTreeMap::new();
    for it in step.collectives() {
        // One program spans all hosts.
        let kind = it.operation.trim_end_matches("_hosts").replace('_', "-");
        *recorded.entry(kind).or_default() += it.result_bytes;
    }
    let mut found: BTreeMap<String, u64> = BTreeMap::new();
    for it in instructions.iter().filter(|it| is_collective(it)) {
        let kind = it.opcode.trim_end_matches("-done").to_owned();
        *found.entry(kind).or_default() += it.result_bytes;
    }
    let calls = instructions.iter().map(|it| it.custom_call_target.clone());
    let calls = calls.filter(|target| !target.is_empty()).collect();
    Compiled { collectives: [recorded, found], calls, instructions }
}

/// Whether an instruction is a collective; of an asynchronous one the end counts, which has the results alone.
fn is_collective(it: &Instruction) -> bool {
    const KINDS: [&str; 5] =
        ["all-reduce", "reduce-scatter", "all-gather", "all-to-all", "collective-permute"];
    KINDS.contains(&it.opcode.trim_end_matches("-done"))
}

/// Compiles a job's programs and checks what the compiler made of them. Returns the memory of a core as
/// compiled, and the programs.
fn check(job: &JobFile, hosts: usize) -> Option<(CoreMemory, Vec<Compiled>)> {
    let Some(plugin) = std::env::var_os(VARIABLE).map(PathBuf::from) else {
        eprintln!("not tested: {VARIABLE} names no plugin");
        return None;
    };
    let (programs, [estimated, measured]) = compile(&plugin, job, hosts);
    let bytes = [&estimated, &measured].map(|it| it.bytes_per_core);
    println!("{:?}: estimated and compiled bytes {bytes:?}", job.parallel);
    for Compiled { collectives: [recorded, found], calls, instructions } in &programs {
        check_collectives(recorded, found, job.resources.hosts > 1);
        // Attention is dots and fused elementwise operations, unless the job asks for cuDNN.
        let is_expected = |it: &String| it.starts_with("__cublas") || is_attention(it, job);
        assert!(calls.iter().all(is_expected), "{calls:?}");
        // The compiler's own loops are slow beside cuBLAS.
        let is_loop = |it: &&Instruction| ["dot", "convolution"].contains(&it.opcode.as_str());
        let loops: Vec<&Instruction> = instructions.iter().filter(is_loop).collect();
        assert!(loops.is_empty(), "{loops:?}");
    }
    assert_eq!(measured.weights_bytes, estimated.weights_bytes);
    assert!(bytes[1] < 2 * bytes[0] + WORKSPACE, "{measured:?} {estimated:?}");
    Some((measured, programs))
}

/// Whether a call is cuDNN's attention, which the job asks for.
fn is_attention(target: &str, job: &JobFile) -> bool {
    let is_fused = job.model.attn_implementation == AttnImplementation::FlashAttention2;
    is_fused && target.starts_with("__cudnn$fmha")
}

/// The compiler adds no collectives. It merges equal ones, gathers weights in half precision where
/// they are converted afterwards, and makes one of a reduction within hosts and one across them.
fn check_collectives(
    recorded: &BTreeMap<String, u64>,
    found: &BTreeMap<String, u64>,
    across_hosts: bool,
) {
    println!("{recorded:?} {found:?}");
    assert!(recorded.keys().eq(found.keys()), "{recorded:?} {found:?}");
    for (kind, bytes) in recorded {
        let shrinks = kind == "all-gather" || (across_hosts && kind == "all-reduce");
        let least = if shrinks { bytes / 2 } else { *bytes };
        assert!((least..=*bytes).contains(&found[kind]), "{recorded:?} {found:?}");
    }
}

/// The families by kind: the programs of a kind have nearly the same operations.
const KINDS: &[&[&str]] = &[
    &[
        "bert",
        "distilbert",
        "roberta",
        "xlm-roberta",
        "xlm-roberta-xl",
        "electra",
        "mpnet",
        "albert",
    ],
    &["modernbert", "nomic_bert", "gte", "jina_embeddings_v3", "eurobert"],
    &["deberta-v2"],
    &["llama", "gpt2", "mistral", "qwen2", "qwen3", "gemma", "phi3"],
    &["gemma3_text", "gemma2", "smollm3", "granite", "olmo2", "olmo3"],
    &["t5", "mt5"],
    &["bart", "mbart"],
    &["vit", "deit"],
];

/// Compiles all families of a kind for one GPU, the GPUs of a host and 64 hosts, with two layers or more, where all
/// meshes are asked for. Other tests compile one family for each kind of mesh.
fn check_kind(first: &str) {
    if !takes_all_meshes() {
        eprintln!("not tested: it takes minutes; see {ALL_MESHES}");
        return;
    }
    let divided = json!({"tensor": 2, "fsdp": "shard_optimizer"});
    let meshes = [(1, 1, &json!({})), (1, 8, &divided), (64, 8, &divided)];
    let kind = KINDS.iter().find(|kind| kind[0] == first).unwrap();
    for family in *kind {
        let (folder, task) = Folder::of_family(family);
        for (hosts, gpus, parallel) in &meshes {
            println!("{family} on {hosts} x {gpus}");
            let mut job = folder.job(task, *gpus, &json!({"bf16": true}), parallel);
            job.resources.hosts = *hosts;
            check(&job, *hosts as usize);
        }
    }
}

fn takes_all_meshes() -> bool {
    std::env::var_os(ALL_MESHES).is_some()
}

#[test]
fn encoders_compile_for_gpus() {
    check_kind("bert");
}

#[test]
fn encoders_with_windows_compile_for_gpus() {
    check_kind("modernbert");
}

#[test]
fn encoders_with_distances_compile_for_gpus() {
    check_kind("deberta-v2");
}

#[test]
fn decoders_compile_for_gpus() {
    check_kind("llama");
}

#[test]
fn decoders_of_two_kinds_of_layers_compile_for_gpus() {
    check_kind("gemma3_text");
}

#[test]
fn encoders_with_relative_positions_and_decoders_compile_for_gpus() {
    check_kind("t5");
}

#[test]
fn encoders_with_decoders_compile_for_gpus() {
    check_kind("bart");
}

#[test]
fn families_of_images_compile_for_gpus() {
    check_kind("vit");
}

#[test]
fn every_family_is_compiled() {
    let names: Vec<&str> = families().iter().map(|(family, ..)| *family).collect();
    let known: Vec<&str> = registry::FAMILIES.iter().map(|family| family.model_type()).collect();
    assert_eq!(names, known);
    let in_kinds: BTreeSet<&str> = KINDS.iter().copied().flatten().copied().collect();
    assert_eq!(in_kinds, BTreeSet::from_iter(known));
}

#[test]
fn meshes_compile_for_gpus() {
    let (whole, task) = Folder::of_family("gpt2");
    let (small, _) = Folder::small_of_family("gpt2");
    let meshes = [
        (1, 1, json!({}), json!({"bf16": true, "gradient_checkpointing": true})),
        (
            8,
            1,
            json!({"fsdp": "full_shard"}),
            json!({"fp16": true, "gradient_accumulation_steps": 2}),
        ),
        (8, 1, json!({"tensor": 4, "sequence_parallel": true, "fsdp": "full_shard"}), json!({})),
        (
            8,
            1,
            json!({"pipeline": 2, "tensor": 2, "fsdp": "shard_optimizer"}),
            json!({"bf16": true}),
        ),
        (
            512,
            64,
            json!({"tensor": 4, "sequence_parallel": true, "fsdp": "shard_optimizer"}),
            json!({"bf16": true}),
        ),
    ];
    // Other tests have programs of one GPU and of many hosts, too.
    let kept = if takes_all_meshes() { 0..meshes.len() } else { 1..4 };
    for (gpus, hosts, parallel, train) in &meshes[kept] {
        // Each stage has a layer.
        let folder = if parallel["pipeline"].is_null() { &small } else { &whole };
        check(&folder.job(task, *gpus, train, parallel), *hosts);
    }
}

/// One program spans the hosts of a job, each of which has the mesh.
#[test]
fn jobs_of_many_hosts_compile_for_gpus() {
    let (folder, task) = Folder::small_of_family("gpt2");
    let parallel = json!({"tensor": 2, "fsdp": "shard_optimizer"});
    let more = [2, 128].into_iter().filter(|_| takes_all_meshes());
    for hosts in more.chain([16]) {
        let mut job = folder.job(task, 8, &json!({"bf16": true}), &parallel);
        job.resources.hosts = hosts;
        check(&job, hosts as usize);
    }
}

/// The groups of replicas in which each kind of collective exchanges.
fn groups_by_kind(programs: &[Compiled]) -> BTreeMap<String, BTreeSet<Vec<Vec<i64>>>> {
    let mut found: BTreeMap<String, BTreeSet<_>> = BTreeMap::new();
    for it in programs.iter().flat_map(|program| &program.instructions) {
        if !it.replica_groups.is_empty() {
            let kind = it.opcode.trim_end_matches("-start").to_owned();
            found.entry(kind).or_default().insert(it.replica_groups.clone());
        }
    }
    found
}

/// The GPUs of `hosts` hosts from the `first` on.
fn gpus(first: i64, hosts: i64) -> Vec<i64> {
    (PER_HOST * first..PER_HOST * (first + hosts)).collect()
}

/// The GPUs with the same place on each host.
fn column(hosts: i64, gpu: i64) -> Vec<i64> {
    (0..hosts).map(|host| PER_HOST * host + gpu).collect()
}

/// Shards of all GPUs are gathered and summed among the GPUs of each host, and among those that have the same place on
/// each.
#[test]
fn shards_over_hosts_compile_for_gpus() {
    let own = gpt2_of(256, if takes_all_meshes() { 2 } else { 1 }, 8, 128);
    let folder = Folder::of("gpt2", &own);
    let more = [2].into_iter().filter(|_| takes_all_meshes());
    for hosts in more.chain([16]) {
        let train = json!({"bf16": true, "gradient_checkpointing": true});
        let parallel = json!({"fsdp": "full_shard"});
        let mut job = folder.job("causal-lm", PER_HOST as usize, &train, &parallel);
        job.resources.hosts = hosts as u32;
        let Some((_, programs)) = check(&job, hosts as usize) else { return };
        let within: Vec<Vec<i64>> = (0..hosts).map(|host| gpus(host, 1)).collect();
        let across: Vec<Vec<i64>> = (0..PER_HOST).map(|gpu| column(hosts, gpu)).collect();
        let shards = BTreeSet::from([within, across]);
        let found = groups_by_kind(&programs);
        for kind in ["all-gather", "reduce-scatter"] {
            assert_eq!(found[kind], shards, "{kind}");
        }
        // What is on every GPU is summed over all.
        assert_eq!(found["all-reduce"], BTreeSet::from([vec![gpus(0, hosts)]]));
    }
}

/// With `flash_attention_2`, each layer calls cuDNN once forward and once backward, and no scores are kept.
#[test]
fn attention_becomes_calls_of_cudnn() {
    let layers = if takes_all_meshes() { 2 } else { 1 };
    if std::env::var_os(VARIABLE).is_none() {
        eprintln!("not tested: {VARIABLE} names no plugin");
        return;
    }
    let (folder, task) = Folder::small_of_family("llama");
    let parallel = json!({"tensor": 2, "fsdp": "shard_optimizer"});
    let activations = |implementation: AttnImplementation| {
        let mut job = folder.job(task, 8, &json!({"bf16": true}), &parallel);
        job.data.block_size = Some(128);
        job.model.attn_implementation = implementation;
        let planned = PlannedModel::of_job(&job, false).unwrap();
        let estimated = memory::of(&job, &planned).unwrap().activations_bytes;
        let (compiled, programs) = check(&job, 1).unwrap();
        let calls: Vec<&String> = programs.iter().flat_map(|it| &it.calls).collect();
        let count = |target: &str| calls.iter().filter(|it| **it == target).count();
        let count =
            count("__cudnn$fmhaScaleBiasSoftmax") + count("__cudnn$fmhaScaleBiasSoftmaxBackward");
        (count, estimated, compiled.activations_bytes)
    };
    let plain = activations(AttnImplementation::Eager);
    let fused = activations(AttnImplementation::FlashAttention2);
    println!("calls, estimated and compiled bytes: {plain:?} {fused:?}");
    assert_eq!((plain.0, fused.0), (0, 2 * layers));
    assert!(fused.1 < plain.1 && fused.2 < plain.2, "{fused:?} {plain:?}");
}

/// The programs of a stage span the hosts that have it, one or two.
#[test]
fn stages_on_different_hosts_compile_for_gpus() {
    let own = gpt2_of(64, 2, 8, 128);
    let folder = Folder::of("gpt2", &own);
    let parts = json!({"pipeline": 2, "tensor": 2, "placement": "PDT", "fsdp": "full_shard"});
    let mut meshes = vec![(4, 2, parts.clone())];
    if takes_all_meshes() {
        let whole_hosts = json!({"pipeline": 2, "tensor": 8, "sequence_parallel": true});
        meshes.extend([(2, 2, parts), (4, 2, whole_hosts)]);
    }
    for (hosts, far, parallel) in meshes {
        let mut job = folder.job("causal-lm", 8, &json!({"bf16": true}), &parallel);
        job.resources.hosts = hosts;
        assert_eq!(job.pipeline_hosts(), far, "{parallel}");
        check(&job, hosts as usize);
    }
}

/// The compiler lays out the memory of the mesh that a search puts first, also where its programs span hosts.
#[test]
fn searches_measure_the_memory_of_meshes_over_hosts() {
    let Some(plugin) = std::env::var_os(VARIABLE).map(PathBuf::from) else {
        eprintln!("not tested: {VARIABLE} names no plugin");
        return;
    };
    let (folder, task) = Folder::small_of_family("gpt2");
    let mut job = folder.job(task, 2, &json!({}), &json!({}));
    job.resources.hosts = 2;
    let planned = PlannedModel::of_job(&job, false).unwrap();
    let wanted = MeshSearch {
        device: "h100".to_owned(),
        hosts: 2,
        plugin: Some(plugin),
        ..MeshSearch::default()
    };
    let found = search(&job, &planned, &wanted, None, None).unwrap().meshes;
    assert!(found[0].compiled && found[0].data == 4, "{found:?}");
}

#[test]
fn a_real_model_compiles_for_gpus() {
    let Some(model) = std::env::var_os("TRAIND_TEST_MODEL").map(PathBuf::from) else {
        eprintln!("not tested: TRAIND_TEST_MODEL names no model");
        return;
    };
    if !takes_all_meshes() {
        eprintln!("not tested: it takes a minute; see {ALL_MESHES}");
        return;
    }
    let bytes = |parallel: Value, recomputed: bool| {
        let train = json!({
            "bf16": true, "per_device_train_batch_size": 16, "gradient_checkpointing": recomputed
        });
        let job = job(&model, "sequence-classification", 8, 128, (&train, &parallel));
        check(&job, 1).map(|(memory, _)| (memory.bytes_per_core, memory.activations_bytes))
    };
    let (Some(whole), Some(recomputed), Some(sharded)) = (
        bytes(json!({}), false),
        bytes(json!({}), true),
        bytes(json!({"fsdp": "full_shard"}), true),
    ) else {
        return;
    };
    println!("{whole:?} {recomputed:?} {sharded:?}");
    // The compiler neither keeps what is to be computed again, nor what is to be gathered again.
    assert!(recomputed.1 < whole.1 / 2, "{recomputed:?} {whole:?}");
    assert!(sharded.0 < recomputed.0 / 2, "{sharded:?} {recomputed:?}");
}

/// The products that run while weights are gathered, for each gather that runs beside other operations.
fn products_beside_gathers(instructions: &[Instruction]) -> Vec<usize> {
    let (mut open, mut found): (Vec<(&str, usize)>, Vec<usize>) = Default::default();
    for it in instructions {
        if it.custom_call_target.starts_with("__cublas") {
            open.iter_mut().for_each(|(_, products)| *products += 1);
        } else if it.name.starts_with("all-gather-start") {
            open.push((it.name.trim_start_matches("all-gather-start"), 0));
        } else if let Some(number) = it.name.strip_prefix("all-gather-done")
            && let Some(at) = open.iter().position(|(started, _)| *started == number)
        {
            found.push(open.swap_remove(at).1);
        }
    }
    found
}

/// The compiler gathers the weights of a layer while products of another one run: in the forward pass all but
/// the first, and some in the backward pass.
#[test]
fn weights_arrive_while_other_layers_run() {
    let Some(plugin) = std::env::var_os(VARIABLE).map(PathBuf::from) else {
        eprintln!("not tested: {VARIABLE} names no plugin");
        return;
    };
    let layers = if takes_all_meshes() { 6 } else { 3 };
    let own = gpt2_of(512, layers, 8, 512);
    let folder = Folder::of("gpt2", &own);
    let more = [false].into_iter().filter(|_| takes_all_meshes());
    for recomputed in more.chain([true]) {
        let train = json!({"bf16": true, "gradient_checkpointing": recomputed});
        let parallel = json!({"fsdp": "full_shard"});
        let job = job(folder.0.path(), "causal-lm", 8, 512, (&train, &parallel));
        let (programs, memory) = compile(&plugin, &job, 1);
        let bytes = memory.map(|it| it.bytes_per_core);
        println!("recomputed {recomputed}: estimated and compiled bytes {bytes:?}");
        let products = products_beside_gathers(&programs[0].instructions);
        println!("products beside gathers: {products:?}");
        let beside = products.iter().filter(|products| **products > 0).count();
        assert!(beside > layers, "{products:?}");
    }
}
