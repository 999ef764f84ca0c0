//! Runs a trace as it stands, without the lazy device: compile, feed each
//! replica its arguments, read back. Numbers travel as f64 whatever the dtype.

use std::sync::LazyLock;

use half::{bf16, f16};
use traind_pjrt::{
    Buffer, Client, CompileOptions, CompiledMemoryStats, CreateOptions, Device, Executable,
    ExecuteOptions, Plugin,
};
use traind_xla::kernels::{Kernels, register_kernels};
use traind_xla::runtime::with_platform_options;
use traind_xla::stablehlo::{DotPrecision, Forms, Lowering, Output, Program, Reach, lower};
use traind_xla::verify::verify;
use traind_xla::{DType, Shape, Tensor};

/// One argument or result in row-major order.
pub(crate) type Numbers = Vec<f64>;

pub(crate) static CLIENT: LazyLock<Client> = LazyLock::new(|| {
    let path = traind_pjrt::installed_plugin("cpu")
        .expect("no CPU plugin: install it or name it in TRAIND_PLUGIN_CPU");
    let options = CreateOptions::new().with("cpu_device_count", 4);
    Client::new(Plugin::load(path).unwrap(), &options).unwrap()
});

pub(crate) struct Compiled {
    pub(crate) program: Program,
    executable: Executable,
}

/// The values of `outputs` in a program without parameters.
pub(crate) fn evaluate(outputs: &[&Tensor]) -> Vec<Numbers> {
    Compiled::new(outputs, 1).run(&[vec![]]).remove(0)
}

impl Compiled {
    pub(crate) fn new(outputs: &[&Tensor], num_replicas: usize) -> Compiled {
        Compiled::lowered(outputs, num_replicas, DotPrecision::Highest.into())
    }

    /// The same program with kernels where operations have them.
    pub(crate) fn with_kernels(outputs: &[&Tensor]) -> Compiled {
        Compiled::with_kernels_on(outputs, 1)
    }

    pub(crate) fn with_kernels_on(outputs: &[&Tensor], num_replicas: usize) -> Compiled {
        assert!(register_kernels(&CLIENT), "the CPU plugin calls no kernels");
        let dots = DotPrecision::Highest;
        let lowering =
            Lowering { dots, kernels: Kernels::Own, products: true, ..Lowering::default() };
        Compiled::lowered(outputs, num_replicas, lowering)
    }

    /// The same program with unsigned integers computed by parts.
    pub(crate) fn by_parts(outputs: &[&Tensor]) -> Compiled {
        let lowering = Lowering { splits_integers: true, ..Lowering::default() };
        Compiled::lowered(outputs, 1, lowering)
    }

    /// The same program with the forms of operations that NeuronCores need.
    pub(crate) fn for_neuron(outputs: &[&Tensor]) -> Compiled {
        let lowering = Lowering { forms: Forms::Neuron, ..Lowering::default() };
        Compiled::lowered(outputs, 1, lowering)
    }

    /// One program of `hosts` hosts with `host_replicas` each.
    pub(crate) fn of_hosts(outputs: &[&Tensor], hosts: usize, host_replicas: usize) -> Compiled {
        let (dots, reach) = (DotPrecision::Highest, Reach::Hosts(hosts));
        let lowering = Lowering { dots, reach, ..Lowering::default() };
        Compiled::lowered(outputs, host_replicas, lowering)
    }

    fn lowered(outputs: &[&Tensor], host_replicas: usize, lowering: Lowering) -> Compiled {
        let graph = outputs[0].trace().graph();
        verify(&graph).unwrap();
        let outputs: Vec<Output> = outputs.iter().map(|t| Output::new(t.node())).collect();
        let program = lower(&graph, "test", &outputs, host_replicas, lowering);
        let options = CompileOptions::replicas(program.num_replicas);
        let options = with_platform_options(options, CLIENT.platform_name());
        let executable = CLIENT
            .compile(&program.text, &options)
            .unwrap_or_else(|error| panic!("{error}\n{}", program.text));
        Compiled { program, executable }
    }

    /// `arguments[replica][parameter]` gives `[replica][output]`.
    pub(crate) fn run(&self, arguments: &[Vec<Numbers>]) -> Vec<Vec<Numbers>> {
        let devices: Vec<Device> = self.executable.devices().collect();
        let upload = |(list, device): (&Vec<Numbers>, &Device)| -> Vec<Buffer> {
            assert_eq!(list.len(), self.program.parameters.len());
            let shapes = self.program.parameters.iter();
            list.iter()
                .zip(shapes)
                .map(|(numbers, shape)| to_device(numbers, shape, device))
                .collect()
        };
        let arguments: Vec<Vec<Buffer>> = arguments.iter().zip(&devices).map(upload).collect();
        let results = self.executable.execute(&arguments, &ExecuteOptions::default()).unwrap();
        let download =
            |(buffer, shape): (&Buffer, &Shape)| decode(&buffer.to_bytes().unwrap(), shape.dtype);
        let outputs = &self.program.outputs;
        results.iter().map(|r| r.buffers.iter().zip(outputs).map(download).collect()).collect()
    }

    pub(crate) fn memory(&self) -> CompiledMemoryStats {
        self.executable.program().compiled_memory_stats().unwrap().unwrap()
    }
}

fn to_device(numbers: &[f64], shape: &Shape, device: &Device) -> Buffer {
    assert_eq!(numbers.len(), shape.element_count());
    let bytes: Vec<u8> = numbers.iter().flat_map(|&n| encode(n, shape.dtype)).collect();
    CLIENT.buffer_from_bytes(&bytes, pjrt_dtype(shape.dtype), &shape.dims, device).unwrap()
}

fn pjrt_dtype(dtype: DType) -> traind_pjrt::DType {
    match dtype {
        DType::Pred => traind_pjrt::DType::Pred,
        DType::U8 => traind_pjrt::DType::U8,
        DType::U32 => traind_pjrt::DType::U32,
        DType::S32 => traind_pjrt::DType::S32,
        DType::S64 => traind_pjrt::DType::S64,
        DType::F16 => traind_pjrt::DType::F16,
        DType::BF16 => traind_pjrt::DType::Bf16,
        DType::F32 => traind_pjrt::DType::F32,
        DType::F64 => traind_pjrt::DType::F64,
    }
}

fn encode(number: f64, dtype: DType) -> Vec<u8> {
    match dtype {
        DType::Pred | DType::U8 => vec![number as u8],
        DType::U32 => (number as u32).to_le_bytes().to_vec(),
        DType::S32 => (number as i32).to_le_bytes().to_vec(),
        DType::S64 => (number as i64).to_le_bytes().to_vec(),
        DType::F16 => f16::from_f64(number).to_le_bytes().to_vec(),
        DType::BF16 => bf16::from_f64(number).to_le_bytes().to_vec(),
        DType::F32 => (number as f32).to_le_bytes().to_vec(),
        DType::F64 => number.to_le_bytes().to_vec(),
    }
}

fn decode(bytes: &[u8], dtype: DType) -> Numbers {
    let number = |b: &[u8]| match dtype {
        DType::Pred | DType::U8 => f64::from(b[0]),
        DType::U32 => f64::from(u32::from_le_bytes(b.try_into().unwrap())),
        DType::S32 => f64::from(i32::from_le_bytes(b.try_into().unwrap())),
        DType::S64 => i64::from_le_bytes(b.try_into().unwrap()) as f64,
        DType::F16 => f16::from_le_bytes(b.try_into().unwrap()).to_f64(),
        DType::BF16 => bf16::from_le_bytes(b.try_into().unwrap()).to_f64(),
        DType::F32 => f64::from(f32::from_le_bytes(b.try_into().unwrap())),
        DType::F64 => f64::from_le_bytes(b.try_into().unwrap()),
    };
    bytes.chunks_exact(dtype.size_bytes()).map(number).collect()
}

/// `count` different numbers spread evenly between `low` and `high`.
pub(crate) fn spread_numbers(count: usize, series: usize, low: f64, high: f64) -> Numbers {
    const GOLDEN: f64 = 0.618_033_988_749_894_9;
    let place = |k: usize| ((k + 1) as f64 * GOLDEN + series as f64 * 0.377).fract();
    (0..count).map(|k| low + (high - low) * place(k)).collect()
}
