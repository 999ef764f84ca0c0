//! Runs traced tensors on one CPU device, and compares what comes out.

use traind_pjrt::{Client, CompileOptions, CreateOptions, ExecuteOptions, Plugin, Value};
use traind_xla::kernels::register_kernels;
use traind_xla::mesh::Mesh;
use traind_xla::runtime::{HostArray, LocalCores, with_platform_options};
use traind_xla::stablehlo::{self, DotPrecision, Lowering, Output};
use traind_xla::{Tensor, Trace};

/// A compiled trace: arguments in, values of the chosen tensors out.
pub(crate) struct Program {
    cores: LocalCores,
    executable: traind_pjrt::Executable,
    outputs: Vec<traind_xla::Shape>,
}

impl Program {
    pub(crate) fn compile(trace: &Trace, outputs: &[&Tensor]) -> Program {
        Program::lowered(trace, outputs, true)
    }

    /// Without kernels, whose operations XLA does not count.
    pub(crate) fn compile_plain(trace: &Trace, outputs: &[&Tensor]) -> Program {
        Program::lowered(trace, outputs, false)
    }

    fn lowered(trace: &Trace, outputs: &[&Tensor], kernels: bool) -> Program {
        traind_xla::verify::verify(&trace.graph()).unwrap();
        let nodes: Vec<Output> = outputs.iter().map(|t| Output::new(t.node())).collect();
        let cores = cores();
        let kernels = kernels && register_kernels(cores.client());
        let lowering = Lowering { dots: DotPrecision::Platform, kernels };
        let program = stablehlo::lower(&trace.graph(), "test", &nodes, 1, lowering);
        let platform = cores.client().platform_name();
        let options = with_platform_options(CompileOptions::default(), platform);
        let executable = cores.client().compile(&program.text, &options).unwrap();
        Program { cores, executable, outputs: program.outputs }
    }

    /// `arguments` are in the order in which the trace's parameters were made.
    pub(crate) fn run(&self, arguments: &[HostArray]) -> Vec<HostArray> {
        let upload = |array| self.cores.upload(0, array).unwrap();
        let buffers: Vec<_> = arguments.iter().map(upload).collect();
        let lists = [buffers.iter().collect::<Vec<_>>()];
        let results = self.executable.execute(&lists, &ExecuteOptions::default()).unwrap();
        let read = |(buffer, shape): (&traind_pjrt::Buffer, &traind_xla::Shape)| {
            HostArray::from_bytes(shape.clone(), buffer.to_bytes().unwrap()).unwrap()
        };
        results[0].buffers.iter().zip(&self.outputs).map(read).collect()
    }

    /// XLA's estimate of the operations of one run.
    pub(crate) fn flops(&self) -> f64 {
        let analysis = self.executable.program().cost_analysis().unwrap().unwrap();
        match analysis["flops"] {
            Value::Float(flops) => f64::from(flops),
            ref other => panic!("flops are {other:?}"),
        }
    }
}

fn cores() -> LocalCores {
    let path = traind_pjrt::installed_plugin("cpu")
        .expect("the CPU plugin is installed by `traind plugins install cpu`");
    let options = CreateOptions::new().with("cpu_device_count", 1);
    let client = Client::new(Plugin::load(path).unwrap(), &options).unwrap();
    LocalCores::of_host(client, Mesh::data_parallel(1).unwrap()).unwrap()
}

/// The Euclidean norm of the difference, and that of `expect`.
pub(crate) fn distance(got: &[f32], expect: &[f32]) -> (f64, f64) {
    assert_eq!(got.len(), expect.len());
    let norm = |squares: &mut dyn Iterator<Item = f64>| squares.sum::<f64>().sqrt();
    let pairs = got.iter().zip(expect);
    let difference = norm(&mut pairs.map(|(g, e)| (f64::from(*g) - f64::from(*e)).powi(2)));
    (difference, norm(&mut expect.iter().map(|e| f64::from(*e).powi(2))))
}

pub(crate) fn check_close(what: &str, got: &[f32], expect: &[f32], tolerance: f64) {
    assert_eq!(got.len(), expect.len(), "{what}");
    for (index, (got, expect)) in got.iter().zip(expect).enumerate() {
        let difference = (f64::from(*got) - f64::from(*expect)).abs();
        assert!(difference <= tolerance, "{what}[{index}]: {got}, expected {expect}");
    }
}
