//! Results that are too large, the number of instructions, and memory.

use traind_neuron::OUTPUT_BYTES_MAX;

use super::program::{Instruction, Module, Type};
use super::{Finding, Limits, Problem};

/// Rows of the tensor engine's tiles, which are the partitions of its memory, and their columns.
const TILE: [u64; 2] = [128, 512];

pub(super) fn check(instruction: &Instruction) -> Option<Problem> {
    let bytes = instruction.results.iter().map(Type::bytes).max().unwrap_or(0);
    (bytes > OUTPUT_BYTES_MAX).then(|| {
        ("NCC_EVRF024", format!("a result of {:.1} GiB, of at most 4", bytes as f64 / GIB))
    })
}

const GIB: f64 = (1_u64 << 30) as f64;

pub(super) fn check_program(module: &Module, instructions: u64, limits: &Limits) -> Vec<Finding> {
    let mut findings = Vec::new();
    if instructions > limits.instructions_max {
        let most = limits.instructions_max;
        let problem = format!("about {instructions} instructions, of at most {most}");
        findings.push(Finding::of_program("NCC_EXTP004", problem));
    }
    let bytes: u64 = module.arguments.iter().map(Type::bytes).fold(0, u64::saturating_add);
    if bytes > limits.core.memory_bytes {
        let problem = format!(
            "arguments of {:.1} GiB, of at most {:.0} on a core {}",
            bytes as f64 / GIB,
            limits.core.memory_bytes as f64 / GIB,
            limits.core.kind
        );
        findings.push(Finding::of_program("NCC_EOOM002", problem));
    }
    findings
}

/// An estimate of the instructions of a program: one for each tile of a dot, and one for each tile of the
/// result of another operation that is not a view.
pub(super) fn instructions(module: &Module) -> u64 {
    module.instructions.iter().map(of_instruction).fold(0, u64::saturating_add)
}

fn of_instruction(instruction: &Instruction) -> u64 {
    let tiles =
        |rows: u64, columns: u64| rows.div_ceil(TILE[0]).saturating_mul(columns.div_ceil(TILE[1]));
    let result = instruction.result();
    match instruction.name() {
        "constant" | "reshape" | "iota" | "broadcast_in_dim" | "optimization_barrier" => 0,
        "dot_general" | "dot" | "convolution" => {
            let depth = depth(instruction);
            tiles(1, result.elements() / TILE[0].min(result.elements()).max(1))
                .saturating_mul(depth.div_ceil(TILE[0]))
        }
        _ => {
            let operands = instruction.operand_types.iter().map(Type::elements);
            let elements = operands.max().unwrap_or(0).max(result.elements());
            tiles(1, elements / TILE[0].min(elements).max(1)).max(1)
        }
    }
}

/// The number of products of an element of a dot's result.
fn depth(instruction: &Instruction) -> u64 {
    let axes = instruction.integers("contracting_dims").unwrap_or_default();
    let Some(lhs) = instruction.operand_types.first() else { return 1 };
    let dim = |axis: &i64| lhs.dims.get(usize::try_from(*axis).ok()?);
    axes.iter().take(1).flatten().filter_map(dim).product()
}
