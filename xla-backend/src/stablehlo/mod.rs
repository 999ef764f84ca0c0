//! Lowering: from a graph and its outputs to the text of a StableHLO module.
//!
//! Programs are straight lines: static shapes, no control flow, no sort, no
//! host callbacks, because Neuron has none of them.

mod emitter;
mod limbs;
mod origin;
mod types;
mod value;

use std::fmt::Write;

use crate::graph::{Graph, NodeId, ParameterInfo, Shape};
use crate::kernels::Kernels;

pub use emitter::{Emitter, Lower, list};
pub use origin::{KernelSite, Origin};
pub use value::Value;

/// A result of the program and, where it replaces a donated argument in
/// place, the number of that argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// The node whose value is the result.
    pub node: NodeId,
    /// The argument that the result replaces in place.
    pub aliases_parameter: Option<usize>,
}

impl Output {
    /// Returns the result of a node, which replaces no argument.
    pub fn new(node: NodeId) -> Output {
        Output { node, aliases_parameter: None }
    }
}

/// How exactly dots of float32 are computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DotPrecision {
    /// The precision that the platform chooses by itself.
    #[default]
    Platform,
    /// In float32, also where the platform would rather round operands first.
    Highest,
}

/// The hosts that a program spans, in a job over several of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reach {
    /// Each host runs a program of its own, and exchanges values with the others by MPI.
    #[default]
    Host,
    /// All hosts, as many as given, run one program, whose replicas are those of the first host,
    /// then those of the next.
    Hosts(usize),
}

impl Reach {
    /// The number of hosts that run one program together.
    pub fn hosts(self) -> usize {
        match self {
            Reach::Host => 1,
            Reach::Hosts(hosts) => hosts,
        }
    }
}

/// Forms of operations that a platform needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Forms {
    /// The rules of XLA, which clamps indices and reads the dialect `chlo`.
    #[default]
    Xla,
    /// The rules of Neuron: an index outside of a tensor is an error at run time, and nobody documents `chlo`.
    Neuron,
}

/// The choices that lowering leaves to the platform.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lowering {
    /// The precision of products of float32 matrices.
    pub dots: DotPrecision,
    /// Operations that have one of these lower to a call of it:
    /// [`enable_kernels`](crate::kernels::enable_kernels) says whether they may call ours.
    pub kernels: Kernels,
    /// With kernels, products of large matrices are among them in all layouts. A kernel multiplies on one thread; XLA
    /// also uses processors that are idle, as where there are fewer devices or pipeline stages wait for each other.
    pub products: bool,
    /// The cores that collectives reach.
    pub reach: Reach,
    /// The forms of operations that the platform accepts.
    pub forms: Forms,
    /// No result replaces an argument in place.
    pub keeps_arguments: bool,
    /// Unsigned 32-bit integers are computed by parts, which devices that compute in float32 have exact.
    pub splits_integers: bool,
}

impl From<DotPrecision> for Lowering {
    fn from(dots: DotPrecision) -> Lowering {
        Lowering { dots, ..Lowering::default() }
    }
}

/// A lowered program, ready to be compiled.
#[derive(Clone, Debug)]
pub struct Program {
    /// The program as text.
    pub text: String,
    /// The shapes of its arguments.
    pub parameters: Vec<Shape>,
    /// The shapes of its results.
    pub outputs: Vec<Shape>,
    /// The replicas of all hosts that the program spans.
    pub num_replicas: usize,
    /// The floating-point operations of the kernels that it calls, which a compiler does not count.
    pub kernel_flops: f64,
    /// The calls of kernels.
    pub kernel_sites: Vec<KernelSite>,
    /// Where each operation was recorded, by ascending value. Kept for NeuronCores alone, whose limits programs are
    /// checked against.
    pub origins: Vec<Origin>,
}

/// Lowers the nodes that `outputs` depend on; others leave no trace. The graph's replicas are the
/// `host_replicas` of one host.
pub fn lower<O: Lower + ?Sized>(
    graph: &Graph<O>,
    name: &str,
    outputs: &[Output],
    host_replicas: usize,
    lowering: impl Into<Lowering>,
) -> Program {
    let lowering = lowering.into();
    let num_replicas = lowering.reach.hosts() * host_replicas;
    let emitter = Emitter::new(lowering, host_replicas);
    let Body { text: body, kernel_flops, kernel_sites, origins } =
        lower_body(graph, outputs, emitter);
    let parameters: Vec<Shape> = shapes(graph, graph.parameters().iter().map(|p| p.node));
    let results = shapes(graph, outputs.iter().map(|output| output.node));
    let mut text = String::new();
    let _ = writeln!(
        text,
        "module @{name} attributes {{mhlo.num_partitions = 1 : i32, mhlo.num_replicas = {num_replicas} : i32}} {{"
    );
    let _ = writeln!(
        text,
        "  func.func public @main({}) -> ({}) {{",
        argument_list(&parameters, if lowering.keeps_arguments { &[] } else { outputs }),
        type_list(&results)
    );
    text.push_str(&body);
    text.push_str("  }\n}\n");
    Program {
        text,
        parameters,
        outputs: results,
        num_replicas,
        kernel_flops,
        kernel_sites,
        origins,
    }
}

struct Body {
    text: String,
    kernel_flops: f64,
    kernel_sites: Vec<KernelSite>,
    origins: Vec<Origin>,
}

fn lower_body<O: Lower + ?Sized>(
    graph: &Graph<O>,
    outputs: &[Output],
    mut emitter: Emitter,
) -> Body {
    let argument = |(index, parameter): (usize, &ParameterInfo)| {
        Value::named(format!("%arg{index}"), graph.node(parameter.node).shape.clone())
    };
    let arguments: Vec<Value> = graph.parameters().iter().enumerate().map(argument).collect();
    let roots: Vec<NodeId> = outputs.iter().map(|output| output.node).collect();
    let results = emitter.inline(graph, &roots, &arguments);
    let (kernel_flops, kernel_sites) = (emitter.kernel_flops(), emitter.take_sites());
    let origins = emitter.take_origins();
    Body { text: emitter.finish(&results), kernel_flops, kernel_sites, origins }
}

fn shapes<O: ?Sized>(graph: &Graph<O>, nodes: impl Iterator<Item = NodeId>) -> Vec<Shape> {
    nodes.map(|id| graph.node(id).shape.clone()).collect()
}

fn argument_list(parameters: &[Shape], outputs: &[Output]) -> String {
    let argument = |(index, shape): (usize, &Shape)| {
        let alias = outputs.iter().position(|o| o.aliases_parameter == Some(index));
        let attribute = alias
            .map(|output| format!(" {{tf.aliasing_output = {output} : i32}}"))
            .unwrap_or_default();
        format!("%arg{index}: {}{attribute}", shape.mlir())
    };
    parameters.iter().enumerate().map(argument).collect::<Vec<_>>().join(", ")
}

fn type_list(shapes: &[Shape]) -> String {
    shapes.iter().map(Shape::mlir).collect::<Vec<_>>().join(", ")
}
