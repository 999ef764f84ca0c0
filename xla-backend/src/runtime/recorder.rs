//! Records steps against a mesh and the shapes of variables. It needs no device, so that a plan
//! reads the very programs that a run executes.

use std::ops::Range;
use std::time::Instant;

use super::platform::{dot_precision, forms, half_bytes, keeps_arguments, reach};
use super::recording::{Argument, Cut, Half, Recorded, Recording, StepInput};
use super::traits::DeviceTraits;
use super::variable::{Declared, Variable};
use crate::analysis::{self, Assumptions, Collective, MemoryEstimate, MemoryProfile};
use crate::error::{Error, Result};
use crate::graph::Shape;
use crate::kernels::{GpuOptions, Kernels, expected_kernels};
use crate::mesh::Mesh;
use crate::stablehlo::{self, Lowering, Output, Program};
use crate::tensor::Trace;
use crate::verify::neuron;

/// The name of every program's module.
const MODULE: &str = "step";

/// Everything that a recorded program depends on besides the step itself.
#[derive(Clone, Debug)]
pub struct Recorder {
    mesh: Mesh,
    lowering: Lowering,
    /// Bytes of an intermediate value in half precision.
    half_bytes: usize,
    variables: Vec<Declared>,
}

/// An argument of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramArgument {
    /// The name of a variable or of an input.
    pub name: String,
    /// The shape of its value on one core.
    pub shape: Shape,
    /// Whether it is an input of the step, and not a variable.
    pub is_input: bool,
    /// Whether a result replaces it in place.
    pub is_donated: bool,
}

/// A step as a graph: neither lowered nor compiled.
#[derive(Debug)]
pub struct RecordedStep {
    trace: Trace,
    outputs: Vec<Output>,
    pub(super) recorded: Recorded,
    /// Time that recording took, in seconds.
    pub(super) seconds: f64,
}

impl Recorder {
    /// Makes a recorder for cores of `platform`, a client's platform name, whose programs may call `kernels`.
    pub fn new(mesh: Mesh, platform: &str, options: GpuOptions, kernels: Kernels) -> Recorder {
        let dots = dot_precision(platform, options.tensor_float_32);
        let reach = reach(platform, &mesh);
        let (forms, keeps_arguments) = (forms(platform), keeps_arguments(platform));
        let lowering =
            Lowering { dots, kernels, reach, forms, keeps_arguments, ..Lowering::default() };
        Recorder { mesh, lowering, half_bytes: half_bytes(platform), variables: Vec::new() }
    }

    /// Makes a recorder that records as a [`LazyDevice`](super::LazyDevice) on this host is expected to.
    pub fn expected(mesh: Mesh, platform: &str, options: GpuOptions) -> Recorder {
        Recorder::new(mesh, platform, options, expected_kernels(platform, options))
    }

    /// Returns the mesh that programs are recorded for.
    pub fn mesh(&self) -> &Mesh {
        &self.mesh
    }

    /// Whether programs call kernels of ours.
    pub fn calls_kernels(&self) -> bool {
        self.lowering.kernels == Kernels::Own
    }

    /// Writes programs for devices of these traits.
    pub(super) fn suit(&mut self, traits: DeviceTraits) {
        self.lowering.splits_integers = traits.splits_integers;
        self.lowering.keeps_arguments |= traits.keeps_arguments;
    }

    pub(super) fn disable_kernels(&mut self) {
        self.lowering.kernels = Kernels::None;
    }

    /// Large products become kernels too, if others are.
    pub(super) fn multiply_by_kernel(&mut self) {
        self.lowering.products = true;
    }

    /// A new variable, of which each core has `shape`.
    pub fn declare(&mut self, name: impl Into<String>, shape: Shape) -> Variable {
        self.variables.push(Declared { name: name.into(), shape });
        Variable::new(self.variables.len() - 1)
    }

    /// The name of a variable.
    pub fn name(&self, variable: Variable) -> &str {
        &self.variables[variable.index()].name
    }

    /// The shape of a variable on each core.
    pub fn shape(&self, variable: Variable) -> &Shape {
        &self.variables[variable.index()].shape
    }

    /// The number of variables.
    pub(super) fn len(&self) -> usize {
        self.variables.len()
    }

    /// Bytes of all variables on one core.
    pub fn variable_bytes(&self) -> usize {
        self.variables.iter().map(|variable| variable.shape.size_bytes()).sum()
    }

    /// Records a step. Several threads may do so at once.
    pub fn record<E: From<Error>>(
        &self,
        inputs: &[StepInput],
        record: impl FnOnce(&mut Recording<'_>) -> Result<(), E>,
    ) -> Result<RecordedStep, E> {
        self.record_and_cut(inputs, record, |recording| recording.cut())
    }

    /// Records a step that divides itself, and returns a half of it.
    pub fn record_half<E: From<Error>>(
        &self,
        half: Half,
        inputs: &[StepInput],
        record: impl FnOnce(&mut Recording<'_>) -> Result<(), E>,
    ) -> Result<RecordedStep, E> {
        self.record_and_cut(inputs, record, |recording| recording.cut_half(half))
    }

    fn record_and_cut<E: From<Error>>(
        &self,
        inputs: &[StepInput],
        record: impl FnOnce(&mut Recording<'_>) -> Result<(), E>,
        cut: impl FnOnce(Recording<'_>) -> Cut,
    ) -> Result<RecordedStep, E> {
        let start = Instant::now();
        let mut recording = Recording::new(&self.variables, inputs, self.lowering.kernels)?;
        record(&mut recording)?;
        let (trace, outputs, recorded) = cut(recording);
        Ok(RecordedStep { trace, outputs, recorded, seconds: start.elapsed().as_secs_f64() })
    }

    /// Lowers a step that this recorder recorded.
    pub fn lower(&self, step: &RecordedStep) -> Program {
        let (graph, replicas) = (step.trace.graph(), self.mesh.replica_count());
        stablehlo::lower(&graph, MODULE, &step.outputs, replicas, self.lowering)
    }

    /// Checks a step that this recorder recorded against the limits of NeuronCores.
    pub fn verify_for_neuron(
        &self,
        step: &RecordedStep,
        limits: &neuron::Limits,
    ) -> neuron::Report {
        let program = self.lower(step);
        neuron::check(&program.text, limits, &program.origins)
    }

    /// Estimates the memory on one core of a step that this recorder recorded.
    pub fn memory(&self, step: &RecordedStep) -> MemoryEstimate {
        analysis::memory(&step.trace.graph(), &step.outputs, self.assumptions())
    }

    /// Estimates the memory on one core over the time of a step that this recorder recorded.
    pub fn memory_profile(&self, step: &RecordedStep) -> MemoryProfile {
        analysis::profile(&step.trace.graph(), &step.outputs, self.assumptions())
    }

    fn assumptions(&self) -> Assumptions {
        Assumptions { half_bytes: self.half_bytes, kernels: self.lowering.kernels }
    }
}

impl RecordedStep {
    /// The program's arguments, in order.
    pub fn arguments(&self) -> Vec<ProgramArgument> {
        let graph = self.trace.graph();
        let donated = |index| self.outputs.iter().any(|it| it.aliases_parameter == Some(index));
        let arguments = self.recorded.arguments.iter().zip(graph.parameters()).enumerate();
        let arguments = arguments.map(|(index, (argument, parameter))| ProgramArgument {
            name: parameter.name.clone(),
            shape: graph.node(parameter.node).shape.clone(),
            is_input: matches!(argument, Argument::Input(_)),
            is_donated: donated(index),
        });
        arguments.collect()
    }

    /// The shapes of the program's results, in order.
    pub fn results(&self) -> Vec<Shape> {
        let graph = self.trace.graph();
        self.outputs.iter().map(|output| graph.node(output.node).shape.clone()).collect()
    }

    /// Bytes of the step's inputs on one core.
    pub fn input_bytes(&self) -> u64 {
        let inputs = self.arguments().into_iter().filter(|argument| argument.is_input);
        inputs.map(|input| input.shape.size_bytes() as u64).sum()
    }

    /// Bytes of the values that the step sends from one core.
    pub fn sent_bytes(&self) -> u64 {
        let sent = self.sent_results();
        self.results()[sent].iter().map(|shape| shape.size_bytes() as u64).sum()
    }

    /// Bytes of the values that the first half of a step keeps on a core for the second one.
    pub fn kept_bytes(&self) -> u64 {
        let kept = self.sent_results().end..;
        self.results()[kept].iter().map(|shape| shape.size_bytes() as u64).sum()
    }

    /// The places of the values that the step sends among its results.
    fn sent_results(&self) -> Range<usize> {
        let start = self.recorded.assigned.len() + self.recorded.fetched.len();
        start..start + self.recorded.sent
    }

    /// The variables that the step assigns.
    pub fn assigned(&self) -> &[Variable] {
        &self.recorded.assigned
    }

    /// The names of the values that the step fetches.
    pub fn fetched(&self) -> &[String] {
        &self.recorded.fetched
    }

    /// The program's collectives, in the order in which they were recorded.
    pub fn collectives(&self) -> Vec<Collective> {
        analysis::collectives(&self.trace.graph(), &self.outputs)
    }
}
