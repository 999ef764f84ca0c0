//! From a recorded step to one that the device can run.

use std::sync::Arc;
use std::time::Instant;

use traind_pjrt::Executable;

use super::recorder::{RecordedStep, Recorder};
use super::recording::Recorded;
use super::{CompileReport, Compiler};
use crate::error::Result;
use crate::stablehlo::KernelSite;
use crate::verify::neuron::Finding;

/// A step that was recorded and compiled, to be installed on the device.
#[derive(Debug)]
pub struct CompiledStep {
    /// The source of the executable, and the time that it took.
    pub compile: CompileReport,
    /// Time that recording and lowering took, in seconds.
    pub trace_seconds: f64,
    /// The lowered program, as handed to the compiler.
    pub program: String,
    /// The floating-point operations of the kernels that the program calls.
    pub kernel_flops: f64,
    /// The calls of kernels.
    pub kernel_sites: Vec<KernelSite>,
    /// Operations that Neuron's compiler computes in another type, with the same results.
    pub warnings: Vec<Finding>,
    pub(super) step: Step,
}

#[derive(Debug)]
pub(super) struct Step {
    pub executable: Arc<Executable>,
    pub recorded: Recorded,
}

impl CompiledStep {
    /// Returns the executable.
    pub fn executable(&self) -> &Executable {
        &self.step.executable
    }
}

/// Compiles the steps of a device. A cloneable handle, so that threads compile some steps while the
/// device runs others.
#[derive(Clone, Debug)]
pub struct StepCompiler {
    recorder: Arc<Recorder>,
    compiler: Arc<Compiler>,
}

impl StepCompiler {
    pub(super) fn new(recorder: Recorder, compiler: Compiler) -> StepCompiler {
        StepCompiler { recorder: Arc::new(recorder), compiler: Arc::new(compiler) }
    }

    /// The recorder whose steps it compiles.
    pub fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    pub(super) fn recorder_mut(&mut self) -> &mut Recorder {
        Arc::make_mut(&mut self.recorder)
    }

    /// Lowers and compiles a step of its recorder. Several threads may do so at once.
    pub fn compile(&self, recorded: RecordedStep) -> Result<CompiledStep> {
        let start = Instant::now();
        let program = self.recorder.lower(&recorded);
        let trace_seconds = recorded.seconds + start.elapsed().as_secs_f64();
        let (executable, compile) = self.compiler.compile(&program)?;
        let step = Step { executable, recorded: recorded.recorded };
        Ok(CompiledStep {
            compile,
            trace_seconds,
            warnings: self.compiler.warnings(&program),
            kernel_flops: program.kernel_flops,
            kernel_sites: program.kernel_sites,
            program: program.text,
            step,
        })
    }
}
