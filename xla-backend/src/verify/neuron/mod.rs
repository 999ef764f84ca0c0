//! Checks a program against the limits of Neuron's compiler and runtime, as far as they are public, without either.
//!
//! A program is refused here, by its layer and operation, before a compiler works on it for minutes. Codes are those of
//! the compiler where it has one, and of the runtime for what it refuses when it loads or runs a program.

mod collectives;
mod indices;
mod instructions;
mod integers;
mod operations;
mod program;
mod range;
mod size;
mod words;

use std::collections::BTreeMap;
use std::fmt;

use traind_neuron::{CoreKind, INSTRUCTIONS_MAX};

pub use indices::{IndexBound, index_bounds};
pub use instructions::Instructions;
pub use integers::DOWNCAST;

use crate::stablehlo::Origin;
use indices::Indexed;
use program::{Form, Instruction, Module};

/// The limits of programs for a core and an SDK.
#[derive(Clone, Debug)]
pub struct Limits {
    /// The kind of NeuronCores.
    pub core: &'static CoreKind,
    /// Different sets of replica groups in a program.
    pub replica_groups_max: usize,
    /// The instructions that the compiler accepts in a program.
    pub instructions_max: u64,
    /// Whether the compiler reads operations of the dialect `chlo`, which nobody documents.
    pub accepts_chlo: bool,
    /// Numbers of cores that may take part; all, if empty.
    pub core_counts: Vec<u32>,
}

impl Limits {
    /// The limits of an SDK before 2.32 for cores of a kind, whatever their number.
    pub fn of_core(core: &'static CoreKind) -> Limits {
        Limits {
            core,
            replica_groups_max: traind_neuron::replica_groups_max(None),
            instructions_max: INSTRUCTIONS_MAX,
            accepts_chlo: false,
            core_counts: Vec::new(),
        }
    }
}

/// A fault of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Finding {
    /// The code, such as `NCC_EVRF035` or `NRT_EXEC_OOB`.
    pub code: &'static str,
    /// The fault in words, with what to change.
    pub problem: String,
    /// The operation of StableHLO, if one is at fault.
    pub operation: String,
    /// The scope in which the operation was recorded.
    pub scope: String,
    /// The operation as it was recorded.
    pub recorded: String,
    /// Whether the operation computes a gradient of its layer.
    pub is_backward: bool,
}

impl Finding {
    fn of_program(code: &'static str, problem: String) -> Finding {
        Finding { code, problem, ..Finding::default() }
    }

    /// The operation at fault with its layer, as far as they are known.
    fn place(&self) -> String {
        words::place(&self.operation, &self.recorded, &self.scope, self.is_backward)
    }
}

impl Finding {
    /// The fault with its place, without the code.
    pub fn message(&self) -> String {
        match self.operation.is_empty() {
            true => self.problem.clone(),
            false => format!("{} ({})", self.problem, self.place()),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message())
    }
}

/// Adds findings to those that are `known`, of each problem the first alone: layers repeat them.
pub fn add_distinct(known: &mut Vec<Finding>, more: impl IntoIterator<Item = Finding>) {
    for finding in more {
        if !known.iter().any(|it| (it.code, &it.problem) == (finding.code, &finding.problem)) {
            known.push(finding);
        }
    }
}

/// The checks of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The faults, in the order of the program.
    pub findings: Vec<Finding>,
    /// Operations that the compiler computes in another type than the program says, with the same results: of each
    /// problem the first.
    pub warnings: Vec<Finding>,
    /// An estimate of the compiler's instructions.
    pub instructions: Instructions,
}

/// A problem of one operation: a code, and what is wrong.
type Problem = (&'static str, String);

/// The checks of a form, which are those of all operations that have it.
struct CheckedForm {
    problems: Vec<Problem>,
    of_integers: Option<Problem>,
    /// Problems that come behind those of indices, whose values decide.
    later_problems: Vec<Problem>,
    indexed: Indexed,
    instructions: u64,
}

impl CheckedForm {
    fn of(form: &Form, limits: &Limits, replicas: usize) -> CheckedForm {
        CheckedForm {
            problems: operations::check(form, limits),
            of_integers: integers::check(form),
            later_problems: collectives::check(form, replicas)
                .into_iter()
                .chain(size::check(form))
                .collect(),
            indexed: indices::indexed(form),
            instructions: instructions::of_form(form),
        }
    }
}

/// Checks the text of a module. `origins`, by ascending value, may be empty.
pub fn check(text: &str, limits: &Limits, origins: &[Origin]) -> Report {
    let module = Module::parse(text);
    let ranges = range::ranges(&module);
    let of_form = |form| CheckedForm::of(form, limits, module.replicas);
    let forms: Vec<CheckedForm> = module.forms.iter().map(of_form).collect();
    let (mut findings, mut warnings) = (Vec::new(), Vec::new());
    // By origin and form, which many operations share.
    let mut counts = BTreeMap::new();
    for instruction in &module.instructions {
        let (form, checked) = (&module.forms[instruction.form], &forms[instruction.form]);
        let of_integers = checked.of_integers.clone();
        let is_exact = of_integers.as_ref().is_some_and(|problem| {
            integers::are_exact(problem, instruction, form, &ranges, module.replicas)
        });
        let (refused, exact) = if is_exact { (None, of_integers) } else { (of_integers, None) };
        let place = place_of(instruction, origins);
        let origin = place.map(|place| &origins[place]);
        let warning = exact.map(|(code, problem)| {
            let problem = format!("{problem}, whose numbers float32 holds");
            located((code, problem), form, origin)
        });
        add_distinct(&mut warnings, warning);
        let of_values =
            refused.into_iter().chain(indices::check(instruction, &checked.indexed, &ranges));
        let problems = checked.problems.iter().cloned().chain(of_values);
        let problems = problems.chain(checked.later_problems.iter().cloned());
        findings.extend(problems.map(|problem| located(problem, form, origin)));
        let count = counts.entry((place, instruction.form)).or_insert(0_u64);
        *count = count.saturating_add(checked.instructions);
    }
    let instructions = instructions_at(&module, origins, counts);
    findings.extend(collectives::check_program(&module, limits));
    findings.extend(instructions.check(limits.instructions_max));
    findings.extend(size::check_program(&module, limits));
    Report { findings, warnings, instructions }
}

/// The instructions of a module by the places of origins and forms.
fn instructions_at(
    module: &Module,
    origins: &[Origin],
    counts: BTreeMap<(Option<usize>, usize), u64>,
) -> Instructions {
    let mut instructions = Instructions::default();
    for ((place, form), count) in counts {
        let origin = place.map(|place| &origins[place]);
        let finding = located(("", String::new()), &module.forms[form], origin);
        instructions.add(count, finding);
    }
    instructions
}

/// Returns the operation and the layer of a program that the error of a compiler is about: by the code if the checks
/// find it too, else by the operation that the error names, as in "Operation sort is not supported".
pub fn locate(
    error: &str,
    text: &str,
    origins: &[Origin],
    core: &'static CoreKind,
) -> Option<String> {
    let findings = check(text, &Limits::of_core(core), origins).findings;
    let found = findings.iter().find(|it| error.contains(it.code) && !it.operation.is_empty());
    if let Some(finding) = found {
        return Some(finding.place());
    }
    let named = error.split_once("Operation ")?.1.split([' ', '\n']).next()?;
    let named = named.strip_prefix("stablehlo.").unwrap_or(named);
    let module = Module::parse(text);
    let is_named = |it: &&Instruction| module.forms[it.form].name() == named;
    let instruction = module.instructions.iter().find(is_named)?;
    let origin = place_of(instruction, origins).map(|place| &origins[place]);
    Some(located(("", String::new()), &module.forms[instruction.form], origin).place())
}

/// The place of an operation's origin.
fn place_of(instruction: &Instruction, origins: &[Origin]) -> Option<usize> {
    let number = instruction.number().unwrap_or(usize::MAX);
    origins.partition_point(|origin| origin.first_value <= number).checked_sub(1)
}

fn located((code, problem): Problem, form: &Form, origin: Option<&Origin>) -> Finding {
    Finding {
        code,
        problem,
        operation: form.name().to_owned(),
        scope: origin.map(|origin| origin.scope.clone()).unwrap_or_default(),
        recorded: origin.map(|origin| origin.operation.to_owned()).unwrap_or_default(),
        is_backward: origin.is_some_and(|origin| origin.is_backward),
    }
}

#[cfg(test)]
mod tests;
