//! The cores as the session sees them, so that its tests can do without any.

use traind_pjrt::{Executable, Value};
use traind_proto::v1::CompileSource;
use traind_xla::runtime::{
    CompiledStep, CoreInputs, ExecutableSource, LazyDevice, Pending, RecordedStep, Recorder,
};

use crate::error::RunResult;

pub(crate) trait ProgramDevice: Sync {
    /// A compiled program.
    type Step: Send;
    /// A program that may still run.
    type Launched;

    /// The recorder that declared the device's variables.
    fn recorder(&self) -> &Recorder;

    fn is_prepared(&self, key: &str) -> bool;

    /// Compiles a program. Several threads may do so at once.
    fn compile(&self, recorded: RecordedStep) -> RunResult<CompiledProgram<Self::Step>>;

    fn install(&mut self, key: &str, step: Self::Step);

    /// Launches the installed program `key`.
    fn launch(&mut self, key: &str, inputs: &CoreInputs) -> RunResult<Self::Launched>;
}

/// A compiled program with the compiler's statistics, which are 0 where the plugin has none.
pub(crate) struct CompiledProgram<S> {
    pub step: S,
    /// Time that recording, lowering and compiling took.
    pub seconds: f64,
    pub source: CompileSource,
    /// The lowered program.
    pub text: String,
    /// FLOPs of one run on each core.
    pub flops: f64,
    pub temporary_bytes: u64,
    pub code_bytes: u64,
}

impl ProgramDevice for LazyDevice {
    type Step = CompiledStep;
    type Launched = Pending;

    fn recorder(&self) -> &Recorder {
        LazyDevice::recorder(self)
    }

    fn is_prepared(&self, key: &str) -> bool {
        LazyDevice::is_prepared(self, key)
    }

    fn compile(&self, recorded: RecordedStep) -> RunResult<CompiledProgram<CompiledStep>> {
        let mut step = self.compile_recorded(recorded)?;
        let memory = step.executable().program().compiled_memory_stats().ok().flatten();
        let bytes = |bytes: Option<i64>| bytes.and_then(|b| u64::try_from(b).ok()).unwrap_or(0);
        Ok(CompiledProgram {
            seconds: step.trace_seconds + step.compile.seconds,
            source: compile_source(step.compile.source),
            text: std::mem::take(&mut step.program),
            flops: flops(step.executable()),
            temporary_bytes: bytes(memory.map(|memory| memory.temp_bytes)),
            code_bytes: bytes(memory.map(|memory| memory.generated_code_bytes)),
            step,
        })
    }

    fn install(&mut self, key: &str, step: CompiledStep) {
        LazyDevice::install(self, key, step);
    }

    fn launch(&mut self, key: &str, inputs: &CoreInputs) -> RunResult<Pending> {
        Ok(self.mark_step(key, inputs)?)
    }
}

fn compile_source(source: ExecutableSource) -> CompileSource {
    match source {
        ExecutableSource::Memory => CompileSource::Memory,
        ExecutableSource::Disk => CompileSource::Disk,
        ExecutableSource::Compiled => CompileSource::Compiled,
    }
}

/// The compiler's count. It is informative only, so a plugin that reports none fails no run.
fn flops(executable: &Executable) -> f64 {
    let cost = executable.program().cost_analysis().ok().flatten().unwrap_or_default();
    match cost.get("flops") {
        Some(Value::Float(flops)) if *flops > 0.0 => f64::from(*flops),
        _ => 0.0,
    }
}
