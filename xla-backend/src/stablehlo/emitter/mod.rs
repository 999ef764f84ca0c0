//! Writes the body of a function, one SSA value a line. Operations describe
//! themselves with these few verbs; nothing else writes StableHLO.

mod erf;

use std::collections::HashMap;
use std::fmt::Write;

use traind_mpi::Collective;
use traind_pjrt::CALL_NUMBER;

use super::{DotPrecision, Forms, KernelSite, Lowering, Origin, Reach, Value};
use crate::graph::{DType, Graph, Node, NodeId, Op, Parameter, Shape};
use crate::kernels::{KernelUse, Kernels, LibraryCall, attributes};

/// An operation that writes itself as StableHLO.
pub trait Lower: Op {
    /// Writes the operation as StableHLO and returns the value of its result.
    fn lower(&self, emitter: &mut Emitter, inputs: &[Value], result: &Shape) -> Value;
}

/// A parameter is never lowered: an emitter puts the argument in its place.
impl Lower for Parameter {
    fn lower(&self, _emitter: &mut Emitter, _inputs: &[Value], result: &Shape) -> Value {
        Value::named(format!("%arg{}", self.index), result.clone())
    }
}

/// The text of a program while operations write it.
#[derive(Debug)]
pub struct Emitter {
    body: String,
    next: usize,
    lowering: Lowering,
    /// The replicas of one host, by which the graph numbers them.
    host_replicas: usize,
    kernel_flops: f64,
    sites: Vec<KernelSite>,
    /// The result of the last exchange with other hosts.
    exchanged: Option<Value>,
    origins: Vec<Origin>,
    /// Graphs inside of operations that are being written.
    depth: usize,
}

impl Emitter {
    pub(super) fn new(lowering: Lowering, host_replicas: usize) -> Emitter {
        Emitter {
            body: String::new(),
            next: 0,
            lowering,
            host_replicas,
            kernel_flops: 0.0,
            sites: Vec::new(),
            exchanged: None,
            origins: Vec::new(),
            depth: 0,
        }
    }

    /// Lists of replicas of one host, repeated for each host that the program spans.
    pub(crate) fn on_every_host(&self, replicas: &[Vec<usize>]) -> Vec<Vec<usize>> {
        let firsts = (0..self.lowering.reach.hosts()).map(|host| host * self.host_replicas);
        let on_host =
            |first| replicas.iter().map(move |list| list.iter().map(|it| first + it).collect());
        firsts.flat_map(on_host).collect()
    }

    /// The groups of the same replica of all hosts, where the program spans them.
    pub(crate) fn groups_over_hosts(&self) -> Option<Vec<Vec<usize>>> {
        let Reach::Hosts(hosts) = self.lowering.reach else { return None };
        let same = |replica| (0..hosts).map(|host| host * self.host_replicas + replica).collect();
        Some((0..self.host_replicas).map(same).collect())
    }

    /// The kernels to which operations may lower.
    pub(crate) fn kernels(&self) -> Kernels {
        self.lowering.kernels
    }

    /// Whether operations may lower to kernels of ours.
    pub(crate) fn calls_kernels(&self) -> bool {
        self.lowering.kernels == Kernels::Own
    }

    /// Whether products of large matrices lower to kernels, whatever their layout.
    pub(crate) fn multiplies_by_kernel(&self) -> bool {
        self.calls_kernels() && self.lowering.products
    }

    /// The floating-point operations of the kernels called so far, which a compiler cannot count.
    pub(super) fn kernel_flops(&self) -> f64 {
        self.kernel_flops
    }

    /// How exactly dots of float32 are to be computed.
    pub fn dot_precision(&self) -> DotPrecision {
        self.lowering.dots
    }

    /// Writes `%n = text` and returns `%n`. `text` ends with its type.
    pub fn emit(&mut self, text: &str, result: &Shape) -> Value {
        let name = format!("%{}", self.next);
        self.next += 1;
        let _ = writeln!(self.body, "    {name} = {text}");
        Value::named(name, result.clone())
    }

    /// An operation whose operands and result share one type, such as `add`.
    pub fn same_type(&mut self, op: &str, inputs: &[&Value]) -> Value {
        let shape = inputs[0].shape.clone();
        let text = format!("stablehlo.{op} {} : {}", names(inputs), shape.mlir());
        self.emit(&text, &shape)
    }

    /// An operation whose type is written as a function, with attributes
    /// between the operands and the type.
    pub fn typed(&mut self, op: &str, inputs: &[&Value], attributes: &str, to: &Shape) -> Value {
        let comma = if attributes.is_empty() { "" } else { ", " };
        let from: Vec<String> = inputs.iter().map(|input| input.shape.mlir()).collect();
        let text = format!(
            "stablehlo.{op} {}{comma}{attributes} : ({}) -> {}",
            names(inputs),
            from.join(", "),
            to.mlir()
        );
        self.emit(&text, to)
    }

    /// A constant with every element equal to `value`.
    pub fn splat(&mut self, value: f64, shape: &Shape) -> Value {
        let literal = literal(value, shape.dtype);
        self.emit(&format!("stablehlo.constant dense<{literal}> : {}", shape.mlir()), shape)
    }

    /// A constant of values in row-major order.
    pub fn dense(&mut self, values: &[f64], shape: &Shape) -> Value {
        let literals: Vec<String> = values.iter().map(|&v| literal(v, shape.dtype)).collect();
        let flat = shape.with_dims([values.len()]);
        let text = format!("stablehlo.constant dense<[{}]> : {}", literals.join(", "), flat.mlir());
        let flat = self.emit(&text, &flat);
        self.typed("reshape", &[&flat], "", shape)
    }

    /// The numbers of `input` as `dtype`; `input` itself where it has it.
    pub fn convert(&mut self, input: &Value, dtype: DType) -> Value {
        if input.shape.dtype == dtype {
            return input.clone();
        }
        self.typed("convert", &[input], "", &input.shape.with_dtype(dtype))
    }

    /// Whether an index outside of a tensor is an error: elsewhere it is clamped by definition.
    pub(crate) fn fails_outside(&self) -> bool {
        self.lowering.forms == Forms::Neuron
    }

    /// Whether unsigned 32-bit integers are computed by parts.
    pub(super) fn splits_integers(&self) -> bool {
        self.lowering.splits_integers
    }

    /// Integers no less than 0 and no greater than `last`.
    pub(crate) fn clamp(&mut self, indices: &Value, last: usize) -> Value {
        let shape = indices.shape.clone();
        let low = self.splat(0.0, &shape);
        let high = self.splat(last as f64, &shape);
        let raised = self.same_type("maximum", &[indices, &low]);
        self.same_type("minimum", &[&raised, &high])
    }

    /// The error function, which the higher-level dialect `chlo` has.
    pub fn erf(&mut self, input: &Value) -> Value {
        if self.lowering.forms == Forms::Neuron {
            return erf::expanded(self, input);
        }
        let shape = input.shape.clone();
        let text = format!("chlo.erf {} : {} -> {}", input.name(), shape.mlir(), shape.mlir());
        self.emit(&text, &shape)
    }

    /// An operation in MLIR's generic form, for those that have no other.
    /// `region` is empty or what [`Emitter::region`] gives.
    pub fn generic(
        &mut self,
        op: &str,
        inputs: &[&Value],
        attributes: &str,
        region: &str,
        to: &Shape,
    ) -> Value {
        let from: Vec<String> = inputs.iter().map(|input| input.shape.mlir()).collect();
        let text = format!(
            "\"stablehlo.{op}\"({}) <{{{attributes}}}>{region} : ({}) -> {}",
            names(inputs),
            from.join(", "),
            to.mlir()
        );
        self.emit(&text, to)
    }

    /// The region that combines two scalars with a binary operation.
    pub fn region(op: &str, dtype: DType) -> String {
        let scalar = Shape::scalar(dtype).mlir();
        format!(
            " ({{\n    ^bb0(%a: {scalar}, %b: {scalar}):\n      \
             %c = stablehlo.{op} %a, %b : {scalar}\n      \
             stablehlo.return %c : {scalar}\n    }})"
        )
    }

    /// The first of `inputs`, behind a barrier that all of them pass together.
    pub fn optimization_barrier(&mut self, inputs: &[Value]) -> Value {
        let types: Vec<String> = inputs.iter().map(|input| input.shape.mlir()).collect();
        let inputs: Vec<&Value> = inputs.iter().collect();
        let text =
            format!("stablehlo.optimization_barrier {} : {}", names(&inputs), types.join(", "));
        let shape = inputs[0].shape.clone();
        if inputs.len() == 1 {
            return self.emit(&text, &shape);
        }
        let name = format!("%{}", self.next);
        self.next += 1;
        let _ = writeln!(self.body, "    {name}:{} = {text}", inputs.len());
        Value::named(format!("{name}#0"), shape)
    }

    /// A call of a kernel, whose operands and results are row-major.
    pub(crate) fn call_kernel(
        &mut self,
        kernel: &KernelUse,
        inputs: &[Value],
        results: &[Shape],
    ) -> Value {
        self.kernel_flops += kernel.flops;
        let layouts: Vec<Vec<usize>> = results.iter().map(row_major).collect();
        let call = self.next;
        let comma = if kernel.attributes.is_empty() { "" } else { ", " };
        self.sites.push(KernelSite::new(call, inputs, kernel.flops));
        let attributes = format!(
            "api_version = 4 : i32, backend_config = {{{}{comma}{CALL_NUMBER} = {}}}, {}{}",
            kernel.attributes,
            attributes::integer(call),
            layouts_of(inputs, &layouts),
            aliases(&kernel.in_place, results.len()),
        );
        self.custom_call(kernel.target, inputs, &attributes, results)
    }

    /// A call of a library, whose operands are row-major.
    pub(crate) fn call_library(&mut self, call: &LibraryCall, inputs: &[Value]) -> Value {
        self.kernel_flops += call.flops;
        let workspace = (Shape::new(DType::U8, [0]), vec![0]);
        let results = call.results.iter().cloned().chain([workspace]);
        let (results, layouts): (Vec<Shape>, Vec<Vec<usize>>) = results.unzip();
        let attributes = format!(
            "api_version = 2 : i32, backend_config = \"{}\", {}",
            call.config.replace('"', "\\22"),
            layouts_of(inputs, &layouts),
        );
        let target = format!("\"{}\"", call.target);
        self.custom_call(&target, inputs, &attributes, &results)
    }

    fn custom_call(
        &mut self,
        target: &str,
        inputs: &[Value],
        attributes: &str,
        results: &[Shape],
    ) -> Value {
        let inputs: Vec<&Value> = inputs.iter().collect();
        let from: Vec<&Shape> = inputs.iter().map(|input| &input.shape).collect();
        let to: Vec<&Shape> = results.iter().collect();
        let name = format!("%{}", self.next);
        self.next += 1;
        let count = if to.len() == 1 { String::new() } else { format!(":{}", to.len()) };
        let _ = writeln!(
            self.body,
            "    {name}{count} = stablehlo.custom_call @{target}({}) {{{attributes}}} : ({}) -> {}",
            names(&inputs),
            types(&from),
            if to.len() == 1 { to[0].mlir() } else { format!("({})", types(&to)) },
        );
        if to.len() == 1 {
            return Value::named(name, results[0].clone());
        }
        let part = |(index, shape): (usize, &Shape)| {
            Value::named(format!("{name}#{index}"), shape.clone())
        };
        Value::with_parts(results.iter().enumerate().map(part).collect())
    }

    /// A collective across hosts with a result of `shape`. It depends on the one before it in the program, so that all
    /// hosts make them in the same order, whatever the compiler's: a host that made another call first
    /// would wait for ever.
    pub(crate) fn exchange_with_hosts(
        &mut self,
        input: &Value,
        collective: Collective,
        shape: &Shape,
    ) -> Value {
        let inputs: Vec<Value> = [input].into_iter().chain(&self.exchanged).cloned().collect();
        let shape = std::slice::from_ref(shape);
        let result = self.call_kernel(&KernelUse::across_hosts(collective), &inputs, shape);
        self.exchanged = Some(result.clone());
        result
    }

    /// Writes the nodes of `graph` that `roots` depend on, with `arguments` as
    /// its parameters, and returns the values of `roots`.
    pub fn inline<O: Lower + ?Sized>(
        &mut self,
        graph: &Graph<O>,
        roots: &[NodeId],
        arguments: &[Value],
    ) -> Vec<Value> {
        let live = live_nodes(graph, roots);
        let mut values: HashMap<NodeId, Value> = HashMap::new();
        self.depth += 1;
        for (id, node) in graph.nodes().filter(|(id, _)| live[id.index()]) {
            self.note_origin(graph, node);
            let calls_before = self.sites.len();
            let value = match node.op.parameter_index() {
                Some(index) => arguments[index].clone(),
                None => {
                    let inputs: Vec<Value> =
                        node.inputs.iter().map(|i| values[i].clone()).collect();
                    node.op.lower(self, &inputs, &node.shape)
                }
            };
            // The outermost graph has the scopes of the model.
            if self.depth == 1 {
                self.sites[calls_before..].iter_mut().for_each(|site| site.locate(graph, node));
            }
            values.insert(id, value);
        }
        self.depth -= 1;
        roots.iter().map(|root| values[root].clone()).collect()
    }

    /// Notes where the values from here on were recorded, if programs of the platform are checked.
    fn note_origin<O: Lower + ?Sized>(&mut self, graph: &Graph<O>, node: &Node<O>) {
        if self.lowering.forms == Forms::Neuron && self.depth == 1 {
            self.origins.push(Origin {
                first_value: self.next,
                scope: graph.scope_path(node.backward_of.unwrap_or(node.scope)),
                is_backward: node.backward_of.is_some(),
                operation: node.op.name(),
            });
        }
    }

    pub(super) fn take_sites(&mut self) -> Vec<KernelSite> {
        std::mem::take(&mut self.sites)
    }

    pub(super) fn take_origins(&mut self) -> Vec<Origin> {
        std::mem::take(&mut self.origins)
    }

    /// Spreads `input` over `to`; input axis `i` becomes axis `axes[i]`.
    pub fn broadcast(&mut self, input: &Value, axes: &[usize], to: &Shape) -> Value {
        let attributes = format!("dims = {}", list(axes));
        self.typed("broadcast_in_dim", &[input], &attributes, to)
    }

    /// Folds `axes` away with a StableHLO binary operation, from `initial`.
    pub fn reduce(&mut self, op: &str, initial: f64, input: &Value, axes: &[usize]) -> Value {
        let kept = (0..input.shape.rank()).filter(|axis| !axes.contains(axis));
        let dims: Vec<usize> = kept.map(|axis| input.shape.dims[axis]).collect();
        let to = input.shape.with_dims(dims);
        let scalar = Shape::scalar(input.shape.dtype);
        let start = self.splat(initial, &scalar);
        let text = format!(
            "stablehlo.reduce({} init: {}) applies stablehlo.{op} across dimensions = {} : ({}, {}) -> {}",
            input.name(),
            start.name(),
            list(axes),
            input.shape.mlir(),
            scalar.mlir(),
            to.mlir()
        );
        self.emit(&text, &to)
    }

    /// The body, closed by the return of `results`.
    pub fn finish(mut self, results: &[Value]) -> String {
        let values: Vec<&Value> = results.iter().collect();
        let types: Vec<String> = results.iter().map(|value| value.shape.mlir()).collect();
        let returned = match values.is_empty() {
            true => String::new(),
            false => format!(" {} : {}", names(&values), types.join(", ")),
        };
        let _ = writeln!(self.body, "    return{returned}");
        self.body
    }
}

fn live_nodes<O: ?Sized>(graph: &Graph<O>, roots: &[NodeId]) -> Vec<bool> {
    let mut live = vec![false; graph.len()];
    let mut pending = roots.to_vec();
    while let Some(id) = pending.pop() {
        if !live[id.index()] {
            live[id.index()] = true;
            pending.extend(&graph.node(id).inputs);
        }
    }
    live
}

/// `[1, 2]`, as MLIR writes an array of integers.
pub fn list(items: &[usize]) -> String {
    let items: Vec<String> = items.iter().map(usize::to_string).collect();
    format!("[{}]", items.join(", "))
}

/// The attribute by which results are in the memory of operands: pairs of result and operand.
fn aliases(in_place: &[[usize; 2]], results: usize) -> String {
    if in_place.is_empty() {
        return String::new();
    }
    let alias = |&[result, operand]: &[usize; 2]| {
        let result = if results == 1 { String::new() } else { result.to_string() };
        format!(
            "#stablehlo.output_operand_alias<output_tuple_indices = [{result}], \
             operand_index = {operand}, operand_tuple_indices = []>"
        )
    };
    let aliases: Vec<String> = in_place.iter().map(alias).collect();
    format!(", output_operand_aliases = [{}]", aliases.join(", "))
}

fn types(shapes: &[&Shape]) -> String {
    shapes.iter().map(|shape| shape.mlir()).collect::<Vec<_>>().join(", ")
}

/// The axes of a shape from the one that varies fastest, which is the last.
fn row_major(shape: &Shape) -> Vec<usize> {
    (0..shape.rank()).rev().collect()
}

/// The attributes that say how row-major operands and results with `layouts` are in memory.
fn layouts_of(inputs: &[Value], layouts: &[Vec<usize>]) -> String {
    let of_inputs: Vec<Vec<usize>> = inputs.iter().map(|input| row_major(&input.shape)).collect();
    let [of_inputs, of_results] = [&of_inputs, layouts].map(|layouts| {
        let layout = |axes: &Vec<usize>| {
            let text = if axes.is_empty() { String::new() } else { list(axes) };
            format!("dense<{text}> : tensor<{}xindex>", axes.len())
        };
        layouts.iter().map(layout).collect::<Vec<_>>().join(", ")
    });
    format!("operand_layouts = [{of_inputs}], result_layouts = [{of_results}]")
}

fn names(values: &[&Value]) -> String {
    values.iter().map(|value| value.name()).collect::<Vec<_>>().join(", ")
}

/// A scalar as MLIR reads it back exactly: floats as their bits, since decimal
/// notation has no infinity and may round twice.
fn literal(value: f64, dtype: DType) -> String {
    match dtype {
        DType::Pred => (value != 0.0).to_string(),
        DType::F64 => format!("0x{:016X}", value.to_bits()),
        DType::F32 => format!("0x{:08X}", (value as f32).to_bits()),
        DType::BF16 => format!("0x{:04X}", half::bf16::from_f64(value).to_bits()),
        DType::F16 => format!("0x{:04X}", half::f16::from_f64(value).to_bits()),
        DType::S64 | DType::S32 => format!("{}", value as i64),
        DType::U8 | DType::U32 => format!("{}", value as u64),
    }
}
