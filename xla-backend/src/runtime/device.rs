//! Variables, steps and their execution.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use traind_pjrt::{Buffer, Executable, ExecuteOptions};

use super::cores::{CoreInputs, LocalCores, check_count, download};
use super::pending::HandOver;
use super::platform::dot_precision;
use super::recording::{Argument, Recorded, Recording, StepInput};
use super::variable::Variable;
use super::{CompileReport, Compiler, ExecutableCache, HostArray, Pending};
use crate::error::{Error, Result};
use crate::graph::Shape;
use crate::kernels::enable_kernels;
use crate::stablehlo::Lowering;

/// A step that was recorded and compiled, to be installed on the device.
#[derive(Debug)]
pub struct CompiledStep {
    pub compile: CompileReport,
    /// Time that recording and lowering took, in seconds.
    pub trace_seconds: f64,
    /// The lowered program, as handed to the compiler.
    pub program: String,
    step: Step,
}

impl CompiledStep {
    pub fn executable(&self) -> &Executable {
        &self.step.executable
    }
}

/// Runs recorded steps on the cores of this process.
#[derive(Debug)]
pub struct LazyDevice {
    cores: LocalCores,
    compiler: Compiler,
    lowering: Lowering,
    shapes: Vec<Shape>,
    /// `[variable][local core]`; empty while a step that assigns it is handed over.
    buffers: Vec<Vec<Buffer>>,
    steps: HashMap<String, Step>,
}

#[derive(Debug)]
struct Step {
    executable: Arc<Executable>,
    recorded: Recorded,
}

impl LazyDevice {
    /// `tensor_float_32`: GPUs may round the operands of float32 dots for speed.
    pub fn new(
        cores: LocalCores,
        disk: Option<ExecutableCache>,
        tensor_float_32: bool,
    ) -> LazyDevice {
        LazyDevice {
            lowering: Lowering {
                dots: dot_precision(cores.client().platform_name(), tensor_float_32),
                kernels: enable_kernels(cores.client()),
            },
            compiler: Compiler::new(cores.clone(), disk),
            cores,
            shapes: Vec::new(),
            buffers: Vec::new(),
            steps: HashMap::new(),
        }
    }

    /// The same with programs that XLA compiles as a whole.
    pub fn without_kernels(mut self) -> LazyDevice {
        self.lowering.kernels = false;
        self
    }

    /// Whether programs call kernels of ours.
    pub fn calls_kernels(&self) -> bool {
        self.lowering.kernels
    }

    pub fn cores(&self) -> &LocalCores {
        &self.cores
    }

    /// A variable with the same value on every core.
    pub fn variable(&mut self, value: &HostArray) -> Result<Variable> {
        let values = vec![value; self.cores.len()];
        self.variable_per_core(&values)
    }

    /// A variable whose value differs from core to core: one value a local core.
    pub fn variable_per_core(&mut self, values: &[&HostArray]) -> Result<Variable> {
        let buffers = self.upload(values)?;
        self.shapes.push(values[0].shape().clone());
        self.buffers.push(buffers);
        Ok(Variable::new(self.shapes.len() - 1))
    }

    pub fn shape(&self, variable: Variable) -> &Shape {
        &self.shapes[variable.index()]
    }

    /// Copies a variable's value on one local core to the host, after the steps that
    /// were handed over before.
    pub fn value(&self, variable: Variable, core: usize) -> Result<HostArray> {
        download(&self.buffers[variable.index()][core], self.shape(variable))
    }

    /// Replaces a variable's value on every core.
    pub fn set(&mut self, variable: Variable, value: &HostArray) -> Result<()> {
        if value.shape() != self.shape(variable) {
            return Err(Error::Value {
                name: format!("variable {}", variable.index()),
                expected: self.shape(variable).clone(),
                got: value.shape().to_string(),
            });
        }
        self.buffers[variable.index()] = self.upload(&vec![value; self.cores.len()])?;
        Ok(())
    }

    /// Bytes of all variables on one core.
    pub fn variable_bytes(&self) -> usize {
        self.shapes.iter().map(Shape::size_bytes).sum()
    }

    /// Returns whether a step is installed under `key`.
    pub fn is_prepared(&self, key: &str) -> bool {
        self.steps.contains_key(key)
    }

    /// Records and compiles a step without running it. Several threads may do so at once.
    pub fn compile<E: From<Error>>(
        &self,
        inputs: &[StepInput],
        record: impl FnOnce(&mut Recording<'_>) -> Result<(), E>,
    ) -> Result<CompiledStep, E> {
        let start = Instant::now();
        let mut recording = Recording::new(&self.shapes, inputs, self.lowering.kernels)?;
        record(&mut recording)?;
        let (recorded, program) =
            recording.cut("step", self.cores.mesh().replica_count(), self.lowering);
        let trace_seconds = start.elapsed().as_secs_f64();
        let (executable, compile) = self.compiler.compile(&program)?;
        let step = Step { executable, recorded };
        Ok(CompiledStep { compile, trace_seconds, program: program.text, step })
    }

    /// Makes a compiled step ready to run. `key` stands for everything that the
    /// recorded program depends on.
    pub fn install(&mut self, key: &str, compiled: CompiledStep) {
        self.steps.insert(key.to_owned(), compiled.step);
    }

    /// Replays the prepared step `key` on every core: binds variables and
    /// inputs, hands the program over, and swaps the assigned variables. The
    /// cores may still be running when this returns.
    pub fn mark_step(&mut self, key: &str, inputs: &CoreInputs) -> Result<Pending> {
        let start = Instant::now();
        let step = self.steps.get(key).ok_or_else(|| Error::NotPrepared { key: key.to_owned() })?;
        self.check_inputs(step, inputs)?;
        let arguments = self.arguments(step, inputs);
        let dispatch = start.elapsed();
        let run = step.executable.execute(&arguments, &ExecuteOptions::default())?;
        let call = start.elapsed() - dispatch;
        let assigned = step.recorded.assigned.len();
        let mut copies = Vec::with_capacity(self.cores.len());
        let mut completed = Vec::with_capacity(self.cores.len());
        let mut swapped: Vec<Vec<Buffer>> = (0..assigned).map(|_| Vec::new()).collect();
        for mut core in run {
            completed.push(core.done);
            // Some plugins report a program as done when they have queued it.
            if let Some(output) = core.buffers.first() {
                completed.push(output.ready_event()?);
            }
            let fetches = core.buffers.split_off(assigned);
            copies.push(fetches.iter().map(Buffer::start_copy_to_host).collect::<Result<_, _>>()?);
            for (slot, output) in swapped.iter_mut().zip(core.buffers) {
                slot.push(output);
            }
        }
        let mut retired = Vec::with_capacity(assigned * self.cores.len());
        for (variable, buffers) in step.recorded.assigned.iter().zip(swapped) {
            retired.append(&mut std::mem::replace(&mut self.buffers[variable.index()], buffers));
        }
        Ok(Pending {
            names: step.recorded.fetched.clone(),
            shapes: step.recorded.fetched_shapes.clone(),
            copies,
            time: HandOver::split(dispatch, call, &completed)?,
            completed,
            retired,
        })
    }

    fn check_inputs(&self, step: &Step, inputs: &CoreInputs) -> Result<()> {
        check_count("cores given inputs", self.cores.len(), inputs.len())?;
        let arguments = step.recorded.arguments.iter();
        let expected = arguments.filter(|argument| matches!(argument, Argument::Input(_))).count();
        inputs.iter().try_for_each(|core| check_count("inputs of the step", expected, core.len()))
    }

    fn arguments<'a>(&'a self, step: &Step, inputs: &'a CoreInputs) -> Vec<Vec<&'a Buffer>> {
        let argument = |core: usize, argument: &Argument| match *argument {
            Argument::Variable(variable) => &self.buffers[variable.index()][core],
            Argument::Input(index) => &inputs[core][index],
        };
        (0..self.cores.len())
            .map(|core| step.recorded.arguments.iter().map(|it| argument(core, it)).collect())
            .collect()
    }

    fn upload(&self, values: &[&HostArray]) -> Result<Vec<Buffer>> {
        check_count("values of a variable", self.cores.len(), values.len())?;
        values.iter().enumerate().map(|(core, value)| self.cores.upload(core, value)).collect()
    }
}
