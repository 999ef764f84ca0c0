//! Results that are too large, and memory.

use traind_neuron::OUTPUT_BYTES_MAX;

use super::program::{Form, Module, Type};
use super::{Finding, Limits, Problem};

pub(super) fn check(form: &Form) -> Option<Problem> {
    let bytes = form.results.iter().map(Type::bytes).max().unwrap_or(0);
    (bytes > OUTPUT_BYTES_MAX).then(|| {
        ("NCC_EVRF024", format!("a result of {:.1} GiB, of at most 4", bytes as f64 / GIB))
    })
}

const GIB: f64 = (1_u64 << 30) as f64;

pub(super) fn check_program(module: &Module, limits: &Limits) -> Option<Finding> {
    let bytes: u64 = module.arguments.iter().map(Type::bytes).fold(0, u64::saturating_add);
    (bytes > limits.core.memory_bytes).then(|| {
        let problem = format!(
            "arguments of {:.1} GiB, of at most {:.0} on a core {}",
            bytes as f64 / GIB,
            limits.core.memory_bytes as f64 / GIB,
            limits.core.kind
        );
        Finding::of_program("NCC_EOOM002", problem)
    })
}
