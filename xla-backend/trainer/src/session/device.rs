//! The cores as the session sees them, so that its tests can do without any.

use std::sync::Arc;
use std::thread::available_parallelism;

use traind_pjrt::{Executable, Value};
use traind_xla::analysis::SentBytes;
use traind_xla::runtime::{
    CompiledStep, CoreInputs, ExecutableSource, LazyDevice, Pending, RecordedStep, Recorder,
    StepCompiler,
};
use traind_xla::stablehlo::KernelSite;
use traind_xla::verify::neuron::Finding;

use super::compilers::compiler_processes;
use super::{CoreEnded, ProgramMemory};
use crate::error::Result;

/// The cores of one pipeline stage, with their variables.
pub trait ProgramDevice {
    /// Compiles programs for the cores.
    type Compiler: ProgramCompiler;
    /// A program that may still run.
    type Launched;

    /// The number of threads that compile programs while steps run.
    fn compile_threads(&self) -> usize;

    /// Returns the compiler for the cores. The device's variables are declared.
    fn compiler(&self) -> Self::Compiler;

    /// Whether the program `key` is installed.
    fn is_prepared(&self, key: &str) -> bool;

    /// Installs a compiled program as `key`.
    fn install(&mut self, key: &str, step: <Self::Compiler as ProgramCompiler>::Step);

    /// Launches the installed program `key`.
    fn launch(&mut self, key: &str, inputs: &CoreInputs) -> Result<Self::Launched>;

    /// Calls `ended` with the device of each core that has run the program.
    fn watch(&self, _launched: &Self::Launched, _ended: &CoreEnded) -> Result<()> {
        Ok(())
    }
}

/// Compiles programs while others run. Several threads may do so at once.
pub trait ProgramCompiler: Send + Sync + 'static {
    /// A compiled program.
    type Step: Send;

    /// The recorder that declared the device's variables.
    fn recorder(&self) -> &Recorder;

    /// Compiles a recorded program.
    fn compile(&self, recorded: RecordedStep) -> Result<CompiledProgram<Self::Step>>;
}

/// A compiled program with the compiler's statistics.
pub struct CompiledProgram<S> {
    /// The program, ready to be installed.
    pub step: S,
    /// Time that recording, lowering and compiling took.
    pub seconds: f64,
    /// Whether it was compiled, or where it was found.
    pub source: ExecutableSource,
    /// The lowered program.
    pub text: String,
    /// FLOPs of one run on each core; 0 where the plugin reports none.
    pub flops: f64,
    /// The calls of kernels.
    pub kernel_sites: Vec<KernelSite>,
    /// Operations that Neuron's compiler computes in another type, with the same results.
    pub warnings: Vec<Finding>,
    /// `None` where the plugin reports none.
    pub memory: Option<ProgramMemory>,
    /// Bytes that one run sends from each core to others.
    pub sent: SentBytes,
}

impl ProgramDevice for LazyDevice {
    type Compiler = StepCompiler;
    type Launched = Pending;

    /// One for each processor that the cores leave idle, and two where there are fewer, since cores
    /// that wait for a program are idle. One for GPUs: XLA times kernels there, one program after the
    /// other, and a second thread would delay the program of the first step. For NeuronCores, as many
    /// processes of their compiler as memory allows.
    fn compile_threads(&self) -> usize {
        let processors = available_parallelism().map_or(1, usize::from);
        match self.cores().client().platform_name() {
            "cuda" => return 1,
            "neuron" => return compiler_processes(processors),
            _ => {}
        }
        processors.saturating_sub(self.cores().len()).max(2).min(processors)
    }

    fn compiler(&self) -> StepCompiler {
        LazyDevice::compiler(self)
    }

    fn is_prepared(&self, key: &str) -> bool {
        LazyDevice::is_prepared(self, key)
    }

    fn install(&mut self, key: &str, step: CompiledStep) {
        LazyDevice::install(self, key, step);
    }

    fn launch(&mut self, key: &str, inputs: &CoreInputs) -> Result<Pending> {
        Ok(self.mark_step(key, inputs)?)
    }

    fn watch(&self, launched: &Pending, ended: &CoreEnded) -> Result<()> {
        let of_core = |core| {
            let (ended, device) = (Arc::clone(ended), self.cores().device(core).index());
            move || ended(device)
        };
        Ok(launched.on_core_completed(of_core)?)
    }
}

impl ProgramCompiler for StepCompiler {
    type Step = CompiledStep;

    fn recorder(&self) -> &Recorder {
        StepCompiler::recorder(self)
    }

    fn compile(&self, recorded: RecordedStep) -> Result<CompiledProgram<CompiledStep>> {
        let sent = sent_bytes(self.recorder(), &recorded);
        let mut step = StepCompiler::compile(self, recorded)?;
        Ok(CompiledProgram {
            sent,
            seconds: step.trace_seconds + step.compile.seconds,
            source: step.compile.source,
            text: std::mem::take(&mut step.program),
            kernel_sites: std::mem::take(&mut step.kernel_sites),
            warnings: std::mem::take(&mut step.warnings),
            flops: flops(step.executable()) + step.kernel_flops,
            memory: memory(step.executable()),
            step,
        })
    }
}

/// The bytes of collectives, and those of values that other stages of a pipeline read.
fn sent_bytes(recorder: &Recorder, recorded: &RecordedStep) -> SentBytes {
    let sent = SentBytes::of(&recorded.collectives(), recorder.mesh());
    SentBytes { pipeline: sent.pipeline + recorded.sent_bytes() as f64, ..sent }
}

fn memory(executable: &Executable) -> Option<ProgramMemory> {
    let memory = executable.program().compiled_memory_stats().ok().flatten()?;
    let bytes = |bytes: i64| u64::try_from(bytes).unwrap_or(0);
    Some(ProgramMemory {
        argument_bytes: bytes(memory.argument_bytes),
        result_bytes: bytes(memory.output_bytes),
        alias_bytes: bytes(memory.alias_bytes),
        temporary_bytes: bytes(memory.temp_bytes),
        code_bytes: bytes(memory.generated_code_bytes),
    })
}

/// The compiler's count, without kernels. It is informative only, so a plugin that reports none fails no run.
fn flops(executable: &Executable) -> f64 {
    let cost = executable.program().cost_analysis().ok().flatten().unwrap_or_default();
    match cost.get("flops") {
        Some(Value::Float(flops)) if *flops > 0.0 => f64::from(*flops),
        _ => 0.0,
    }
}
