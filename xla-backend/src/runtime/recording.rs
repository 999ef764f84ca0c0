//! A step while it is recorded: which variables it reads and assigns, which
//! inputs it takes and what it fetches.

use std::collections::HashMap;

use super::variable::{Declared, Variable};
use crate::analysis;
use crate::error::{Error, Result};
use crate::graph::{Continuation, NodeId, Shape};
use crate::kernels::Kernels;
use crate::stablehlo::Output;
use crate::tensor::{Tensor, Trace};

/// An input of a step, uploaded anew for each run. The shape is one core's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepInput {
    /// The name by which the recorded step finds it.
    pub name: String,
    /// The shape of its value on one core.
    pub shape: Shape,
}

impl StepInput {
    /// Describes an input.
    pub fn new(name: impl Into<String>, shape: Shape) -> StepInput {
        StepInput { name: name.into(), shape }
    }
}

/// The source of a program parameter when the step runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Argument {
    Variable(Variable),
    Input(usize),
}

/// Operations on tensors of [`Recording::trace`] are recorded, not executed.
#[derive(Debug)]
pub struct Recording<'a> {
    trace: Trace,
    variables: &'a [Declared],
    arguments: Vec<Argument>,
    read: HashMap<Variable, Tensor>,
    inputs: HashMap<String, Tensor>,
    assigned: Vec<(Variable, Tensor)>,
    fetched: Vec<(String, Tensor)>,
    sent: Vec<Tensor>,
    first: Option<FirstHalf>,
}

/// The part that was recorded before a step was divided.
#[derive(Debug)]
struct FirstHalf {
    end: NodeId,
    sent: Vec<Tensor>,
}

/// One of the two programs of a step that [`Recording::divide`] divides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Half {
    /// It sends what was sent before, assigns and fetches nothing, and keeps on its core the values that the second
    /// one reads.
    First,
    /// The second half, whose last inputs are the values that the first one keeps, in their order.
    Second,
}

/// A program as a graph with its results: assigned values, then fetched, sent and kept ones.
pub(super) type Cut = (Trace, Vec<Output>, Recorded);

/// The binding of a recorded step's program to variables, inputs and results.
#[derive(Debug, Default)]
pub(super) struct Recorded {
    pub arguments: Vec<Argument>,
    pub assigned: Vec<Variable>,
    pub fetched: Vec<String>,
    pub fetched_shapes: Vec<Shape>,
    /// How many values are sent. Those behind them are kept.
    pub sent: usize,
}

impl<'a> Recording<'a> {
    pub(super) fn new(
        variables: &'a [Declared],
        inputs: &[StepInput],
        kernels: Kernels,
    ) -> Result<Self> {
        let mut recording = Recording {
            trace: Trace::with_kernels(kernels),
            variables,
            arguments: Vec::new(),
            read: HashMap::new(),
            inputs: HashMap::new(),
            assigned: Vec::new(),
            fetched: Vec::new(),
            sent: Vec::new(),
            first: None,
        };
        for (index, input) in inputs.iter().enumerate() {
            let tensor = recording.trace.parameter(&input.name, input.shape.clone())?;
            recording.arguments.push(Argument::Input(index));
            recording.inputs.insert(input.name.clone(), tensor);
        }
        Ok(recording)
    }

    /// The trace that the step is recorded in.
    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    /// The value a variable has when the step starts.
    pub fn read(&mut self, variable: Variable) -> Result<Tensor> {
        if let Some(tensor) = self.read.get(&variable) {
            return Ok(tensor.clone());
        }
        let Declared { name, shape } = &self.variables[variable.index()];
        let tensor = self.trace.parameter(name, shape.clone())?;
        self.arguments.push(Argument::Variable(variable));
        self.read.insert(variable, tensor.clone());
        Ok(tensor)
    }

    /// The named input, if the step takes one of that name.
    pub fn input(&self, name: &str) -> Option<&Tensor> {
        self.inputs.get(name)
    }

    /// The value a variable has when the step has ended. Its old buffer is
    /// donated, so the update happens in place.
    pub fn assign(&mut self, variable: Variable, value: &Tensor) -> Result<()> {
        let Declared { name, shape } = &self.variables[variable.index()];
        if value.shape() != shape {
            let name = format!("assignment to {name}");
            let (expected, got) = (shape.clone(), value.shape().to_string());
            return Err(Error::Value { name, expected, got });
        }
        self.read(variable)?;
        self.assigned.retain(|(assigned, _)| *assigned != variable);
        self.assigned.push((variable, value.clone()));
        Ok(())
    }

    /// Hands a value back to the host under `name`.
    pub fn fetch(&mut self, name: impl Into<String>, value: &Tensor) {
        self.fetched.push((name.into(), value.clone()));
    }

    /// Leaves a value on its core, from where other cores may copy it.
    pub fn send(&mut self, value: &Tensor) {
        self.sent.push(value.clone());
    }

    /// Divides the step into two programs: what is recorded from here on belongs to the second.
    pub fn divide(&mut self) {
        let end = NodeId(self.trace.graph().len() as u32);
        self.first = Some(FirstHalf { end, sent: std::mem::take(&mut self.sent) });
    }

    /// Cuts the graph for a half of the step, which is the whole one if nothing divides it.
    pub(super) fn cut_half(mut self, half: Half) -> Cut {
        let Some(first) = self.first.take() else { return self.cut() };
        let inputs = self.inputs.len();
        let (trace, outputs, recorded) = self.cut();
        let kept = analysis::kept(&trace.graph(), first.end, &outputs);
        match half {
            Half::First => {
                let (graph, kept) = trace.graph().beginning(first.end, &kept);
                let arguments = recorded.arguments[..graph.parameters().len()].to_vec();
                let results = first.sent.iter().map(Tensor::node).chain(kept).map(Output::new);
                let sent = first.sent.len();
                let recorded = Recorded { arguments, sent, ..Recorded::default() };
                (Trace::of_graph(graph, trace.kernels()), results.collect(), recorded)
            }
            Half::Second => {
                let second = Continuation::new(&trace.graph(), &kept);
                let place = |it: Output| Output { node: second.node(it.node), ..it };
                let outputs = outputs.into_iter().map(place).collect();
                let read = (0..kept.len()).map(|place| Argument::Input(inputs + place));
                let arguments = recorded.arguments.into_iter().chain(read).collect();
                let trace = Trace::of_graph(second.graph, trace.kernels());
                (trace, outputs, Recorded { arguments, ..recorded })
            }
        }
    }

    /// Cuts the graph.
    pub(super) fn cut(self) -> Cut {
        let position =
            |variable| self.arguments.iter().position(|a| *a == Argument::Variable(variable));
        let assigned = self.assigned.iter().map(|(variable, value)| Output {
            node: value.node(),
            aliases_parameter: position(*variable),
        });
        let others = self.fetched.iter().map(|(_, value)| value).chain(&self.sent);
        let outputs = assigned.chain(others.map(|value| Output::new(value.node()))).collect();
        let recorded = Recorded {
            assigned: self.assigned.iter().map(|(variable, _)| *variable).collect(),
            fetched: self.fetched.iter().map(|(name, _)| name.clone()).collect(),
            fetched_shapes: self.fetched.iter().map(|(_, value)| value.shape().clone()).collect(),
            sent: self.sent.len(),
            arguments: self.arguments,
        };
        (self.trace, outputs, recorded)
    }
}
