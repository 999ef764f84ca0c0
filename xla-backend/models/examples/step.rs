//! Times training steps of a model with random weights on CPU devices:
//!
//! ```text
//! cargo run --release -p traind-models --example step -- [MODEL] [ROWS] [POSITIONS] [CORES] [STEPS] [SIDE...]
//! ```
//!
//! MODEL is `minilm`, `bert-base`, `gpt2` or `llama`, one of 25 million parameters; ROWS are those of one
//! core. The SIDEs are `xla` and `kernels` (the default), without and with the kernels of traind, and
//! `xla-bf16` and `kernels-bf16`, which multiply in bfloat16. Their steps alternate; prints medians of wall
//! and of processor time, and how many times as fast as the first side the others are.

#![allow(clippy::print_stdout)]

use std::error::Error;
use std::fs;
use std::time::Instant;

use serde_json::{Value, json};
use traind_models::optimizers::{self, Optimizer, Scalars, Settings, Update};
use traind_models::{Batch, Forward, InputDim, Model, ModelConfig, ParameterTensors, Task};
use traind_models::{clip, registry, weights};
use traind_pjrt::{Client, CreateOptions, Plugin};
use traind_xla::autodiff::gradients;
use traind_xla::kernels::GpuOptions;
use traind_xla::mesh::Mesh;
use traind_xla::ops::{Random, ReduceKind, ShardGroups};
use traind_xla::runtime::{HostArray, LazyDevice, LocalCores, Recording, StepInput, Variable};
use traind_xla::{DType, Shape, Tensor, Trace};

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

const LEARNING_RATE: f64 = 5e-5;

fn main() -> Outcome {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let argument = |index: usize, default: &str| {
        arguments.get(index).cloned().unwrap_or_else(|| default.to_owned())
    };
    let number = |index: usize, default: &str| argument(index, default).parse::<usize>();
    let model = model(&argument(0, "minilm"))?;
    let size = Size { rows: number(1, "16")?, positions: number(2, "64")? };
    let (cores, steps) = (number(3, "1")?, number(4, "20")?);
    let sides = arguments.iter().skip(5).map(|name| Side::named(name));
    let mut sides = sides.collect::<Outcome<Vec<Side>>>()?;
    if sides.is_empty() {
        sides = vec![Side::named("xla")?, Side::named("kernels")?];
    }
    let benches = sides.iter().map(|&side| Bench::new(&*model, size, cores, side));
    let mut benches = benches.collect::<Outcome<Vec<Bench>>>()?;
    for step in 1..=steps {
        for bench in &mut benches {
            bench.timed_step(step as u64)?;
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
    loss: f32,
}

fn median(list: &[f64]) -> f64 {
    let mut sorted = list.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

fn model(name: &str) -> Outcome<Box<dyn Model>> {
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
    device: LazyDevice,
    optimizer: Box<dyn Optimizer>,
    inputs: Vec<HostArray>,
    /// The wall and processor seconds of each step, and its loss.
    wall: Vec<f64>,
    busy: Vec<f64>,
    loss: f32,
}

impl Bench {
    fn new(model: &dyn Model, size: Size, cores: usize, side: Side) -> Outcome<Bench> {
        let path = traind_pjrt::installed_plugin("cpu").ok_or("no CPU plugin is installed")?;
        let options = CreateOptions::new().with("cpu_device_count", cores as i64);
        let client = Client::new(Plugin::load(path)?, &options)?;
        let mut device = LazyDevice::new(
            LocalCores::of_host(client, Mesh::data_parallel(cores)?)?,
            None,
            GpuOptions::default(),
        );
        if !side.kernels {
            device = device.without_kernels();
        }
        let settings = Settings { weight_decay: 0.01, ..Settings::default() };
        let optimizer = optimizers::build("adamw_torch", &settings)?;
        let state = State::new(&mut device, model, &*optimizer)?;
        let named = inputs(model, size)?;
        let mut specs: Vec<StepInput> = named
            .iter()
            .map(|(name, array)| StepInput::new(name.clone(), array.shape().clone()))
            .collect();
        let scalars = Shape::new(DType::F32, [optimizer.scalar_names().len()]);
        specs.push(StepInput::new("scalars", scalars));
        specs.push(StepInput::new("step", Shape::scalar(DType::U32)));
        let record = |at: &mut Recording<'_>| {
            record(at, model, &*optimizer, &state, size, side.compute_dtype).map_err(Failure)
        };
        let compiled = device.compile(&specs, record)?;
        println!("compiled in {:.1} s", compiled.compile.seconds);
        device.install("step", compiled);
        let inputs = named.into_iter().map(|(_, array)| array).collect();
        let (wall, busy) = (Vec::new(), Vec::new());
        Ok(Bench { device, optimizer, inputs, wall, busy, loss: 0.0 })
    }

    fn timed_step(&mut self, step: u64) -> Outcome {
        let (start, before) = (Instant::now(), processor_seconds()?);
        self.loss = self.step(step)?;
        self.wall.push(start.elapsed().as_secs_f64());
        self.busy.push(processor_seconds()? - before);
        Ok(())
    }

    fn summary(&self) -> Summary {
        Summary { wall: median(&self.wall), busy: median(&self.busy), loss: self.loss }
    }

    fn step(&mut self, step: u64) -> Outcome<f32> {
        let scalars = self.optimizer.scalars(step, LEARNING_RATE);
        let scalars = HostArray::from_f32(&[scalars.len()], &scalars)?;
        let number = HostArray::from_u32(&[], &[step as u32])?;
        let arrays: Vec<&HostArray> = self.inputs.iter().chain([&scalars, &number]).collect();
        let cores = self.device.cores();
        let upload = |core| arrays.iter().map(|array| cores.upload(core, array)).collect();
        let inputs = (0..cores.len()).map(upload).collect::<Result<Vec<_>, _>>()?;
        Ok(self.device.mark_step("step", &inputs)?.fetch()?.scalar_f32("loss")?)
    }
}

#[derive(Debug)]
struct Failure(Box<dyn Error>);

impl From<traind_xla::Error> for Failure {
    fn from(error: traind_xla::Error) -> Failure {
        Failure(error.into())
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for Failure {}

/// Smaller parameters are whole on each core, as in a job with `shard_optimizer_state`.
const SHARDED_ELEMENTS_MIN: usize = 1 << 14;

/// The variables of each parameter.
struct State {
    parameters: Vec<Variable>,
    /// The shards that a core updates, where it does not update the whole.
    shards: Vec<Option<Variable>>,
    slots: Vec<Vec<Variable>>,
    row_offset: Variable,
    cores: usize,
}

impl State {
    fn new(
        device: &mut LazyDevice,
        model: &dyn Model,
        optimizer: &dyn Optimizer,
    ) -> Outcome<State> {
        let values = weights::initialize(model.parameters(), 1)?;
        let parameters = values.iter().map(|value| device.variable(value));
        let parameters = parameters.collect::<Result<_, _>>()?;
        let cores = device.cores().len();
        let (mut shards, mut slots) = (Vec::new(), Vec::new());
        for (spec, value) in model.parameters().iter().zip(&values) {
            let elements = spec.shape.element_count();
            let is_sharded = cores > 1 && elements >= SHARDED_ELEMENTS_MIN;
            let held = match is_sharded {
                true => Shape::new(DType::F32, [elements.div_ceil(cores)]),
                false => spec.shape.clone(),
            };
            shards.push(is_sharded.then(|| shard(device, value, &held)).transpose()?);
            let of_one = optimizer.slots(&held).into_iter();
            let of_one = of_one.map(|slot| device.variable(&HostArray::zeros(slot.shape)));
            slots.push(of_one.collect::<Result<_, _>>()?);
        }
        let row_offset = device.variable(&HostArray::from_u32(&[], &[0])?)?;
        Ok(State { parameters, shards, slots, row_offset, cores })
    }
}

/// A variable with a part of `value` on each core.
fn shard(device: &mut LazyDevice, value: &HostArray, held: &Shape) -> Outcome<Variable> {
    let cores = device.cores().len();
    let mut values = value.to_f32()?;
    values.resize(cores * held.dims[0], 0.0);
    let parts = values.chunks(held.dims[0]).map(|part| HostArray::from_f32(&held.dims, part));
    let parts = parts.collect::<Result<Vec<_>, _>>()?;
    let variable = device.recorder_mut().declare("shard", held.clone());
    device.set_per_core(variable, &parts.iter().collect::<Vec<_>>())?;
    Ok(variable)
}

/// The sum of a gradient over all cores, or this core's shard of it.
fn reduced(
    gradient: &Tensor,
    is_sharded: bool,
    groups: &ShardGroups,
) -> traind_xla::Result<Tensor> {
    match is_sharded {
        true => gradient.reduce_to_shard(ReduceKind::Sum, groups),
        false => gradient.all_reduce(ReduceKind::Sum, &groups.cores),
    }
}

/// The norm of all gradients.
fn norm(trace: &Trace, state: &State, reduced: &[Tensor]) -> Outcome<Tensor> {
    let of = |is_sharded: bool| {
        let chosen = reduced.iter().zip(&state.shards);
        let chosen = chosen.filter(move |(_, shard)| shard.is_some() == is_sharded);
        clip::square_sum(trace, chosen.map(|(gradient, _)| gradient))
    };
    let groups = vec![(0..state.cores).collect::<Vec<usize>>()];
    let shards = of(true)?.all_reduce(ReduceKind::Sum, &groups)?;
    Ok(of(false)?.add(&shards)?.sqrt()?)
}

/// Random words, and no padding.
fn inputs(model: &dyn Model, size: Size) -> Outcome<Vec<(String, HostArray)>> {
    let mut inputs = Vec::new();
    for spec in model.inputs() {
        let dims: Vec<usize> = spec
            .dims
            .iter()
            .map(|dim| match *dim {
                InputDim::Rows => size.rows,
                InputDim::Positions | InputDim::TargetPositions => size.positions,
                InputDim::Size(size) => size,
            })
            .collect();
        let count = dims.iter().product();
        let array = match spec.name {
            "attention_mask" => HostArray::from_s32(&dims, &vec![1; count])?,
            name if name == "input_ids" || (name == "labels" && model.is_generative()) => {
                let words = (0..count as u32).map(|n| (n.wrapping_mul(0x9e37_79b9) >> 17) as i32);
                HostArray::from_s32(&dims, &words.map(|word| word % 30000).collect::<Vec<_>>())?
            }
            // Each row is one text, without segments where those would be looked up as words.
            "position_ids" => continue,
            "token_type_ids" if model.is_generative() => continue,
            "weights" => HostArray::from_f32(&dims, &vec![1.0; count])?,
            _ if spec.dtype == DType::S32 => HostArray::from_s32(&dims, &vec![0; count])?,
            _ => continue,
        };
        inputs.push((spec.name.to_owned(), array));
    }
    Ok(inputs)
}

fn record(
    at: &mut Recording<'_>,
    model: &dyn Model,
    optimizer: &dyn Optimizer,
    state: &State,
    size: Size,
    compute_dtype: DType,
) -> Outcome {
    let missing = |name: &str| format!("no input {name}");
    let read = |at: &mut Recording<'_>, list: &[Variable]| -> Outcome<Vec<Tensor>> {
        list.iter().map(|&variable| Ok(at.read(variable)?)).collect()
    };
    let parameters = read(at, &state.parameters)?;
    let trace = at.trace().clone();
    let step = at.input("step").cloned().ok_or_else(|| missing("step"))?;
    let offset = at.read(state.row_offset)?;
    let seed = trace.scalar(7.0, DType::U32)?;
    let random = Random::new(&seed, &step, &offset)?.with_rows(size.rows);
    let mut batch = Batch::new();
    for spec in model.inputs() {
        if let Some(tensor) = at.input(spec.name) {
            batch.insert(spec.name, tensor.clone());
        }
    }
    let names = model.parameters().iter().map(|spec| spec.name.clone());
    let by_name = ParameterTensors::new(names.zip(parameters.clone())).computed_in(compute_dtype);
    let cx = Forward {
        trace: &trace,
        parameters: &by_name,
        random: Some(&random),
        gradient_checkpointing: false,
        adapters: None,
        cache: None,
        embedding_noise: None,
    };
    let loss = model.forward(&cx, &batch)?.loss.ok_or("no labels")?;
    let loss = loss.loss_sum.div(&loss.weight_sum)?;
    at.fetch("loss", &loss);
    let groups = ShardGroups { cores: vec![(0..state.cores).collect()], hosts: 1 };
    let wrt: Vec<&Tensor> = parameters.iter().collect();
    let reduced: Vec<Tensor> = gradients(&loss, &wrt)?
        .iter()
        .zip(&state.shards)
        .map(|(gradient, shard)| reduced(gradient, shard.is_some(), &groups))
        .collect::<Result<_, _>>()?;
    let norm = norm(&trace, state, &reduced)?;
    let factor = clip::coefficient(&norm, &trace.scalar(1.0, DType::F32)?)?;
    let packed = at.input("scalars").cloned().ok_or_else(|| missing("scalars"))?;
    let scalars = Scalars::split(optimizer, &packed)?;
    for (index, spec) in model.parameters().iter().enumerate() {
        let slots = read(at, &state.slots[index])?;
        let shard = state.shards[index].map(|shard| at.read(shard)).transpose()?;
        let update = Update {
            parameter: shard.as_ref().unwrap_or(&parameters[index]),
            gradient: &reduced[index],
            factor: Some(&factor),
            slots: &slots,
            scalars: &scalars,
            weight_decay: spec.weight_decay(),
        };
        let updated = optimizer.update(&update)?;
        match state.shards[index] {
            Some(shard) => {
                at.assign(shard, &updated.parameter)?;
                let whole = &parameters[index];
                let gathered = updated.parameter.gather_shards(whole.shape(), &groups)?;
                at.assign(state.parameters[index], &gathered)?;
            }
            None => at.assign(state.parameters[index], &updated.parameter)?,
        }
        for (&variable, slot) in state.slots[index].iter().zip(&updated.slots) {
            at.assign(variable, slot)?;
        }
    }
    Ok(())
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
