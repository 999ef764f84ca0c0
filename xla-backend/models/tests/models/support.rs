//! Runs traced tensors on CPU devices, and compares what comes out.

use traind_pjrt::{
    Buffer, Client, CompileOptions, CreateOptions, DeviceOutputs, ExecuteOptions, Plugin, Value,
};
use traind_xla::kernels::{Kernels, register_kernels};
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
        Program::lowered(trace, outputs, true, 1)
    }

    /// Compiles a trace for `replicas` replicas.
    pub(crate) fn compile_for(trace: &Trace, outputs: &[&Tensor], replicas: usize) -> Program {
        Program::lowered(trace, outputs, true, replicas)
    }

    /// Compiles a trace without kernels, whose operations XLA does not count.
    pub(crate) fn compile_plain(trace: &Trace, outputs: &[&Tensor]) -> Program {
        Program::lowered(trace, outputs, false, 1)
    }

    fn lowered(trace: &Trace, outputs: &[&Tensor], kernels: bool, replicas: usize) -> Program {
        traind_xla::verify::verify(&trace.graph()).unwrap();
        let nodes: Vec<Output> = outputs.iter().map(|t| Output::new(t.node())).collect();
        let cores = cores(replicas);
        let kernels = kernels && has_kernels() && register_kernels(cores.client());
        // The fixtures are those of float32; on GPUs, XLA would round operands to TensorFloat-32.
        let dots = if has_kernels() { DotPrecision::Platform } else { DotPrecision::Highest };
        let lowering = Lowering { dots, kernels: Kernels::own_if(kernels), ..Lowering::default() };
        let program = stablehlo::lower(&trace.graph(), "test", &nodes, replicas, lowering);
        let platform = cores.client().platform_name();
        let options = with_platform_options(CompileOptions::replicas(replicas), platform);
        let executable = cores.client().compile(&program.text, &options).unwrap();
        Program { cores, executable, outputs: program.outputs }
    }

    /// `arguments` are in the order in which the trace's parameters were made.
    pub(crate) fn run(&self, arguments: &[HostArray]) -> Vec<HostArray> {
        self.run_replicas(&[arguments.to_vec()]).remove(0)
    }

    /// Runs the program with the arguments of each replica, and returns the results of each.
    pub(crate) fn run_replicas(&self, arguments: &[Vec<HostArray>]) -> Vec<Vec<HostArray>> {
        let upload = |(core, arrays): (usize, &Vec<HostArray>)| -> Vec<Buffer> {
            arrays.iter().map(|array| self.cores.upload(core, array).unwrap()).collect()
        };
        let buffers: Vec<Vec<Buffer>> = arguments.iter().enumerate().map(upload).collect();
        let results = self.executable.execute(&buffers, &ExecuteOptions::default()).unwrap();
        let read = |(buffer, shape): (&Buffer, &traind_xla::Shape)| {
            HostArray::from_bytes(shape.clone(), buffer.to_bytes().unwrap()).unwrap()
        };
        let of_core =
            |core: &DeviceOutputs| core.buffers.iter().zip(&self.outputs).map(read).collect();
        results.iter().map(of_core).collect()
    }

    /// The bytes that one core needs besides arguments and results.
    pub(crate) fn temporary_bytes(&self) -> u64 {
        self.executable.program().compiled_memory_stats().unwrap().unwrap().temp_bytes as u64
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

/// The platform whose plugin runs the programs, `cpu` without it.
const PLATFORM: &str = "TRAIND_TEST_PLATFORM";

fn platform() -> String {
    std::env::var(PLATFORM).unwrap_or_else(|_| "cpu".to_owned())
}

/// Whether the platform's programs call kernels in host memory.
pub(crate) fn has_kernels() -> bool {
    platform() == "cpu"
}

/// The cores of the platform, which form one `data` axis.
pub(crate) fn cores(count: usize) -> LocalCores {
    let platform = platform();
    let path = traind_pjrt::installed_plugin(&platform).unwrap_or_else(|| {
        panic!("the plugin is installed by `traind plugins install {platform}`")
    });
    let options = match platform.as_str() {
        "cpu" => CreateOptions::new().with("cpu_device_count", count as i64),
        // Tests run side by side, each with a client of its own.
        "cuda" => CreateOptions::new().with("preallocate", false),
        _ => CreateOptions::new(),
    };
    let client = Client::new(Plugin::load(path).unwrap(), &options).unwrap();
    LocalCores::of_host(client, Mesh::data_parallel(count).unwrap()).unwrap()
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
