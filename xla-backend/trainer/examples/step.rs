//! Times training steps of a model with random weights on CPU devices:
//!
//! ```text
//! cargo run --release -p traind-trainer --example step -- [MODEL] [ROWS] [POSITIONS] [CORES] [STEPS] [SIDE...]
//! ```
//!
//! MODEL is `minilm`, `bert-base`, `gpt2` or `llama`, one of 25 million parameters; ROWS are those of one
//! core. The SIDEs are `xla` and `kernels` (the default), without and with the kernels of traind, and
//! `xla-bf16` and `kernels-bf16`, which multiply in bfloat16. Their steps alternate; prints medians of wall
//! and of processor time, and how many times as fast as the first side the others are.

#![allow(clippy::print_stdout)]

use std::error::Error;
use std::fs;
use std::sync::Arc;
use std::time::Instant;

use serde_json::{Value, json};
use traind_loader::ArrayValues::S32;
use traind_loader::{BatchArray, ModelInputs};
use traind_models::{Model, ModelConfig, Task, registry, weights};
use traind_trainer::Trainer;
use traind_trainer::session::open_plugin;
use traind_trainer::state::{Fsdp, MeshConfig, StartValues, StateConfig};
use traind_trainer::step::{ForwardConfig, OptimizerConfig, StepConfig};
use traind_xla::DType;
use traind_xla::kernels::GpuOptions;
use traind_xla::runtime::LazyDevice;

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

const LEARNING_RATE: f64 = 5e-5;
const INPUTS: ModelInputs =
    ModelInputs { token_type_ids: false, attention_mask: true, position_ids: false };

fn main() -> Outcome {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let argument = |index: usize, default: &str| {
        arguments.get(index).cloned().unwrap_or_else(|| default.to_owned())
    };
    let number = |index: usize, default: &str| argument(index, default).parse::<usize>();
    let model = Arc::from(model(&argument(0, "minilm"))?);
    let size = Size { rows: number(1, "16")?, positions: number(2, "64")? };
    let (cores, steps) = (number(3, "1")?, number(4, "20")?);
    let sides = arguments.iter().skip(5).map(|name| Side::named(name));
    let mut sides = sides.collect::<Outcome<Vec<Side>>>()?;
    if sides.is_empty() {
        sides = vec![Side::named("xla")?, Side::named("kernels")?];
    }
    let benches = sides.iter().map(|&side| Bench::new(&model, size, cores, side));
    let mut benches = benches.collect::<Outcome<Vec<Bench>>>()?;
    for _ in 0..steps {
        for bench in &mut benches {
            bench.timed_step()?;
        }
    }
    let summaries: Vec<Summary> = benches.iter().map(Bench::summary).collect();
    for (side, summary) in sides.iter().zip(&summaries) {
        println!(
            "{:12} {:.4} s, busy {:.4} s a step; {:.3} and {:.3} times as fast; last loss {}",
            side.name,
            summary.wall,
            summary.busy,
            summaries[0].wall / summary.wall,
            summaries[0].busy / summary.busy,
            summary.loss
        );
    }
    Ok(())
}

/// How a step is computed.
#[derive(Clone, Copy)]
struct Side {
    name: &'static str,
    kernels: bool,
    compute_dtype: DType,
}

const SIDES: [Side; 4] = [
    Side { name: "xla", kernels: false, compute_dtype: DType::F32 },
    Side { name: "kernels", kernels: true, compute_dtype: DType::F32 },
    Side { name: "xla-bf16", kernels: false, compute_dtype: DType::BF16 },
    Side { name: "kernels-bf16", kernels: true, compute_dtype: DType::BF16 },
];

impl Side {
    fn named(name: &str) -> Outcome<Side> {
        let side = SIDES.into_iter().find(|side| side.name == name);
        side.ok_or_else(|| format!("no side {name}").into())
    }
}

/// Medians, and the last loss.
struct Summary {
    wall: f64,
    busy: f64,
    loss: f64,
}

fn median(list: &[f64]) -> f64 {
    let mut sorted = list.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

fn model(name: &str) -> Outcome<Model> {
    let (keys, task) = match name {
        "minilm" => (bert(6, 384), Task::SequenceClassification),
        "bert-base" => (bert(12, 768), Task::SequenceClassification),
        "gpt2" => (gpt2(), Task::CausalLm),
        "llama" => (llama(), Task::CausalLm),
        other => return Err(format!("no model {other}").into()),
    };
    let keys = keys.as_object().cloned().unwrap_or_default();
    Ok(registry::build(ModelConfig::new("config.json", keys), task)?)
}

fn bert(layers: usize, hidden: usize) -> Value {
    json!({
        "model_type": "bert",
        "architectures": ["BertForSequenceClassification"],
        "vocab_size": 30522,
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": 12,
        "intermediate_size": 4 * hidden,
        "num_labels": 2,
        "id2label": {"0": "a", "1": "b"},
        "label2id": {"a": 0, "b": 1},
    })
}

/// The smallest of the published models, with its 124 million parameters.
fn gpt2() -> Value {
    json!({
        "model_type": "gpt2",
        "architectures": ["GPT2LMHeadModel"],
        "vocab_size": 50257,
    })
}

/// Twenty-five million parameters, with four heads of queries for each of keys.
fn llama() -> Value {
    json!({
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "vocab_size": 32000,
        "hidden_size": 384,
        "intermediate_size": 1024,
        "num_hidden_layers": 8,
        "num_attention_heads": 12,
        "num_key_value_heads": 3,
        "max_position_embeddings": 8192,
    })
}

#[derive(Clone, Copy)]
struct Size {
    rows: usize,
    positions: usize,
}

struct Bench {
    trainer: Trainer,
    batch: Vec<BatchArray>,
    /// The wall and processor seconds of each step, and its loss.
    wall: Vec<f64>,
    busy: Vec<f64>,
    loss: f64,
}

impl Bench {
    /// A step of AdamW that clips gradients, and shards the optimizer's state over several cores.
    fn new(model: &Arc<Model>, size: Size, cores: usize, side: Side) -> Outcome<Bench> {
        let mesh = MeshConfig { data: cores, ..MeshConfig::default() };
        let fsdp = if cores > 1 { Fsdp::ShardOptimizer } else { Fsdp::No };
        let state = StateConfig {
            rows_per_core: size.rows,
            max_grad_norm: 1.0,
            fsdp,
            ..StateConfig::default()
        };
        let forward =
            ForwardConfig { compute_dtype: side.compute_dtype, ..ForwardConfig::default() };
        let mut optimizer = OptimizerConfig::default();
        optimizer.settings.weight_decay = 0.01;
        let rows_per_step = (cores * size.rows) as u64;
        let config =
            StepConfig { mesh, state, forward, optimizer, rows_per_step, ..StepConfig::default() };
        let plugin = traind_pjrt::installed_plugin("cpu").ok_or("no CPU plugin is installed")?;
        let cores_of_host = open_plugin(&plugin, "cpu", cores, mesh.mesh()?)?;
        let mut device = LazyDevice::new(cores_of_host, None, GpuOptions::default());
        if !side.kernels {
            device = device.without_kernels();
        }
        let parameters = weights::draw(model, 1)?.arrays;
        let start = StartValues { parameters, ..StartValues::default() };
        let trainer =
            Trainer::of_devices(vec![device], Arc::clone(model), INPUTS, &config, &start)?;
        let batch = batch(model, Size { rows: cores * size.rows, ..size });
        let (wall, busy) = (Vec::new(), Vec::new());
        let mut bench = Bench { trainer, batch, wall, busy, loss: 0.0 };
        let start = Instant::now();
        bench.step()?;
        println!("compiled, and one step, in {:.1} s", start.elapsed().as_secs_f64());
        Ok(bench)
    }

    fn timed_step(&mut self) -> Outcome {
        let (start, before) = (Instant::now(), processor_seconds()?);
        self.step()?;
        self.wall.push(start.elapsed().as_secs_f64());
        self.busy.push(processor_seconds()? - before);
        Ok(())
    }

    fn step(&mut self) -> Outcome {
        self.trainer.add_batch(&self.batch)?;
        self.loss = self.trainer.update(LEARNING_RATE)?.loss;
        Ok(())
    }

    fn summary(&self) -> Summary {
        Summary { wall: median(&self.wall), busy: median(&self.busy), loss: self.loss }
    }
}

/// Random words, and no padding.
fn batch(model: &Model, size: Size) -> Vec<BatchArray> {
    let tokens = vec![size.rows, size.positions];
    let count = size.rows * size.positions;
    let words = (0..count as u32).map(|n| (n.wrapping_mul(0x9e37_79b9) >> 17) as i32 % 30000);
    let words: Vec<i32> = words.collect();
    let labels = match model.is_generative() {
        true => BatchArray { name: "labels", dims: tokens.clone(), values: S32(words.clone()) },
        false => {
            BatchArray { name: "labels", dims: vec![size.rows], values: S32(vec![0; size.rows]) }
        }
    };
    vec![
        BatchArray { name: "input_ids", dims: tokens.clone(), values: S32(words) },
        BatchArray { name: "attention_mask", dims: tokens, values: S32(vec![1; count]) },
        labels,
    ]
}

/// User and system time of this process, by Linux's account.
fn processor_seconds() -> Outcome<f64> {
    let mut nanoseconds = 0;
    for task in fs::read_dir("/proc/self/task")? {
        let schedstat = fs::read_to_string(task?.path().join("schedstat"))?;
        nanoseconds += schedstat.split(' ').next().ok_or("an empty schedstat")?.parse::<u64>()?;
    }
    Ok(nanoseconds as f64 / 1e9)
}
