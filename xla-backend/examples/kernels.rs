//! Times operations and their gradients on a CPU device with and without kernels, in turn:
//!
//! ```text
//! cargo run --release -p traind-xla --example kernels
//! ```
//!
//! Prints for each the least processor time of a run in milliseconds, and the ratio.
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::fs;

use traind_pjrt::{
    Buffer, Client, CompileOptions, CreateOptions, Executable, ExecuteOptions, Plugin,
};
use traind_xla::autodiff::gradients;
use traind_xla::kernels::{Kernels, register_kernels};
use traind_xla::ops::{Gate, Random};
use traind_xla::runtime::with_platform_options;
use traind_xla::stablehlo::{Lowering, Output, lower};
use traind_xla::{DType, Shape, Tensor, Trace};

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

const ROUNDS: usize = 10;
/// Linux accounts a thread's time now and then, so that one run alone may seem to take none.
const RUNS: usize = 16;
/// MiniLM's step of 32 rows of 32 tokens.
const ROWS: usize = 32;
const TOKENS: usize = 1024;
const HIDDEN: usize = 384;

/// An operation of float32 inputs, with its name and their dimensions.
struct Case {
    name: &'static str,
    inputs: &'static [&'static [usize]],
    build: fn(&Trace, &[Tensor]) -> traind_xla::Result<Tensor>,
}

const CASES: &[Case] = &[
    Case {
        name: "layer norm of a sum with dropout",
        inputs: &[&[TOKENS, HIDDEN], &[TOKENS, HIDDEN], &[HIDDEN], &[HIDDEN]],
        build: |trace, x| {
            let scalar = |n: f64| trace.scalar(n, DType::U32);
            let random = Random::new(&scalar(1.0)?, &scalar(2.0)?, &scalar(3.0)?)?.with_rows(ROWS);
            if trace.calls_kernels() {
                return x[0].add_norm(&x[1], [&x[2], &x[3]], 1e-12, Some((0.1, &random)));
            }
            x[0].dropout(0.1, &random)?.add(&x[1])?.layer_norm(&x[2], &x[3], 1e-12)
        },
    },
    Case {
        name: "layer norm",
        inputs: &[&[TOKENS, HIDDEN], &[HIDDEN], &[HIDDEN]],
        build: |_, x| x[0].layer_norm(&x[1], &x[2], 1e-12),
    },
    Case {
        name: "root-mean-square norm",
        inputs: &[&[TOKENS, HIDDEN], &[HIDDEN]],
        build: |_, x| x[0].rms_norm(&x[1], 1e-6),
    },
    Case {
        name: "cross entropy of 256 rows, 50,257 classes",
        // The logits are a product, whose memory the gradient can take.
        inputs: &[&[256, 16], &[50_257, 16]],
        build: |trace, x| {
            let labels: Vec<f64> = (0..256).map(|row| f64::from(row * 190)).collect();
            let labels = trace.constant(DType::S32, &[256], &labels)?;
            x[0].linear(&x[1], None)?.cross_entropy(&labels)
        },
    },
    Case {
        name: "SwiGLU of 1,024 elements",
        inputs: &[&[TOKENS, 1024], &[TOKENS, 1024]],
        build: |_, x| x[0].gated(&x[1], Gate::Silu),
    },
    Case {
        name: "GeGLU of 1,024 elements",
        inputs: &[&[TOKENS, 1024], &[TOKENS, 1024]],
        build: |_, x| x[0].gated(&x[1], Gate::GeluTanh),
    },
    Case {
        name: "rotary positions of 12 heads",
        inputs: &[&[TOKENS, 12, HIDDEN / 12]],
        build: |trace, x| {
            let dims = [TOKENS / ROWS, HIDDEN / 24];
            let angles = trace.iota(DType::F32, &dims, 0)?;
            x[0].rotary(&angles.cos()?, &angles.sin()?)
        },
    },
    Case {
        name: "linear layer in bfloat16",
        inputs: &[&[TOKENS, HIDDEN], &[4 * HIDDEN, HIDDEN], &[4 * HIDDEN]],
        build: |trace, x| match trace.kernels().round_to_bf16() {
            true => x[0].bf16_linear(&x[1], Some(&x[2])),
            false => {
                let [x, weight, bias] = [0, 1, 2].map(|index| x[index].convert(DType::BF16));
                x?.linear(&weight?, Some(&bias?))?.convert(DType::F32)
            }
        },
    },
];

fn main() -> Outcome {
    let path = traind_pjrt::installed_plugin("cpu").ok_or("no CPU plugin is installed")?;
    let client = Client::new(Plugin::load(path)?, &CreateOptions::new())?;
    if !register_kernels(&client) {
        return Err("the plugin calls no kernels".into());
    }
    for case in CASES {
        let programs = [program(&client, case, false)?, program(&client, case, true)?];
        let mut least = [f64::INFINITY; 2];
        for _ in 0..ROUNDS {
            for (least, (program, arguments)) in least.iter_mut().zip(&programs) {
                let before = processor_seconds()?;
                (0..RUNS).try_for_each(|_| run(program, arguments))?;
                let seconds = (processor_seconds()? - before) / RUNS as f64;
                *least = least.min(seconds * 1e3);
            }
        }
        let [plain, kernels] = least;
        println!("{:42} {plain:8.3} {kernels:8.3} {:6.2}", case.name, plain / kernels);
    }
    Ok(())
}

fn run(program: &Executable, arguments: &Vec<Buffer>) -> Outcome {
    let arguments = std::slice::from_ref(arguments);
    let results = program.execute(arguments, &ExecuteOptions::default())?;
    for buffer in results.iter().flat_map(|result| &result.buffers) {
        buffer.ready_event()?.wait()?;
    }
    Ok(())
}

/// The operation with the gradients of its inputs, and arguments.
fn program(client: &Client, case: &Case, kernels: bool) -> Outcome<(Executable, Vec<Buffer>)> {
    let trace = Trace::with_kernels(Kernels::own_if(kernels));
    let parameter = |dims: &&[usize]| trace.parameter("", Shape::new(DType::F32, *dims));
    let inputs: Vec<Tensor> = case.inputs.iter().map(parameter).collect::<Result<_, _>>()?;
    let result = (case.build)(&trace, &inputs)?;
    let cotangent = trace.parameter("", result.shape().clone())?;
    let axes: Vec<usize> = (0..result.rank()).collect();
    let loss = result.mul(&cotangent)?.sum(&axes)?;
    let wrt: Vec<&Tensor> = inputs.iter().collect();
    let gradients = gradients(&loss, &wrt)?;
    let outputs: Vec<Output> =
        [&result].into_iter().chain(&gradients).map(|tensor| Output::new(tensor.node())).collect();
    let lowering = Lowering { kernels: Kernels::own_if(kernels), ..Lowering::default() };
    let program = lower(&trace.graph(), "operation", &outputs, 1, lowering);
    let options = with_platform_options(CompileOptions::replicas(1), client.platform_name());
    let executable = client.compile(&program.text, &options)?;
    let device = executable.devices().next().ok_or("the program has no device")?;
    let upload = |shape: &Shape| {
        let number = |n: u32| (n.wrapping_mul(0x9e37_79b9) >> 8) as f32 / 8_388_608.0 - 1.0;
        let numbers: Vec<f32> = (0..shape.element_count() as u32).map(number).collect();
        client.buffer_from_slice(&numbers, &shape.dims, &device)
    };
    let arguments = program.parameters.iter().map(upload).collect::<Result<_, _>>()?;
    Ok((executable, arguments))
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
