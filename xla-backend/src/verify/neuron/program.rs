//! Reads the text of a StableHLO module, as far as the checks need it: operations, operands, types and attributes.
//!
//! Only straight-line functions are read in full; of regions, the operations are seen, not their values.

use std::collections::HashMap;

/// The type of a value.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(super) struct Type {
    pub dims: Vec<u64>,
    /// As MLIR has it: `f32`, `ui32`, `complex<f32>`.
    pub element: String,
    pub is_dynamic: bool,
}

impl Type {
    pub(super) fn elements(&self) -> u64 {
        self.dims.iter().fold(1, |product, dim| product.saturating_mul(*dim))
    }

    pub(super) fn bytes(&self) -> u64 {
        let digits: String = self.element.chars().filter(char::is_ascii_digit).collect();
        let bits = match self.element.as_str() {
            // The digits of a type of 8 bits are those of its exponent and mantissa.
            element if element.starts_with("f8") => 8,
            _ => digits.parse().unwrap_or(8),
        };
        self.elements().saturating_mul(u64::max(bits, 8) / 8)
    }

    pub(super) fn is_integer(&self) -> bool {
        let digits = self.element.trim_start_matches("ui").trim_start_matches('i');
        digits.parse::<u32>().is_ok()
    }
}

/// One operation of the main function.
#[derive(Clone, Debug)]
pub(super) struct Instruction {
    /// The number in the name of its first result, if it is a number.
    pub number: Option<usize>,
    /// The name with its dialect: `stablehlo.add`.
    pub op: String,
    pub operands: Vec<String>,
    pub operand_types: Vec<Type>,
    pub results: Vec<Type>,
    /// All that is between the operands and the types, with regions.
    pub attributes: String,
}

impl Instruction {
    /// The name without the dialect `stablehlo`.
    pub(super) fn name(&self) -> &str {
        self.op.strip_prefix("stablehlo.").unwrap_or(&self.op)
    }

    pub(super) fn result(&self) -> Type {
        self.results.first().cloned().unwrap_or_default()
    }

    /// The integers behind `name =` in the attributes, of all brackets.
    pub(super) fn integers(&self, name: &str) -> Option<Vec<Vec<i64>>> {
        let at = self.attributes.find(&format!("{name} ="))? + name.len() + 2;
        let behind = &self.attributes[at..];
        let rows = behind.find('[').map(|from| rows(&behind[from..]));
        let number = || {
            let digits = behind.trim_start();
            let end = digits.find(|c: char| !c.is_ascii_digit() && c != '-');
            digits[..end.unwrap_or(digits.len())].parse().ok()
        };
        // `dense<0>` and `5 : i64` have no brackets before the next attribute.
        match (rows, behind.find(',').is_some_and(|comma| behind[..comma].contains('['))) {
            (Some(rows), true) => Some(rows),
            (Some(rows), false) if behind.trim_start().starts_with(['[', 'd']) => Some(rows),
            _ => number().map(|number| vec![vec![number]]),
        }
    }
}

/// The numbers of `[[0, 1], [2, 3]]` by row, and of `[0, 1]` as one.
fn rows(text: &str) -> Vec<Vec<i64>> {
    let (mut depth, mut rows, mut row, mut number) = (0, Vec::new(), Vec::new(), String::new());
    for c in text.chars() {
        match c {
            '[' => depth += 1,
            '0'..='9' | '-' => number.push(c),
            ',' | ']' | ' ' => {
                if let Ok(value) = number.parse() {
                    row.push(value);
                }
                number.clear();
                if c == ']' {
                    depth -= 1;
                    if !row.is_empty() {
                        rows.push(std::mem::take(&mut row));
                    }
                }
            }
            _ => number.clear(),
        }
        if depth == 0 {
            break;
        }
    }
    rows
}

/// The main function of a module.
#[derive(Debug, Default)]
pub(super) struct Module {
    pub replicas: usize,
    pub arguments: Vec<Type>,
    pub results: Vec<Type>,
    pub instructions: Vec<Instruction>,
    /// The instruction of each value, by its name without `#0`.
    pub producers: HashMap<String, usize>,
}

impl Module {
    pub(super) fn parse(text: &str) -> Module {
        let mut module = Module { replicas: replicas(text), ..Module::default() };
        let mut pending = String::new();
        for line in text.lines() {
            let trimmed = line.trim();
            match () {
                _ if trimmed.contains("func.func") => module.read_signature(trimmed),
                _ if pending.is_empty() && trimmed.starts_with("return") => {}
                _ if pending.is_empty() && !trimmed.starts_with('%') => {}
                _ => pending.push_str(trimmed),
            }
            // A region goes on over several lines.
            if !pending.is_empty() && is_balanced(&pending) {
                module.read_instruction(&pending);
                pending.clear();
            } else if !pending.is_empty() {
                pending.push(' ');
            }
        }
        module
    }

    fn read_signature(&mut self, line: &str) {
        let (arguments, results) = line.split_once("->").unwrap_or((line, ""));
        self.arguments = types(arguments);
        self.results = types(results);
    }

    fn read_instruction(&mut self, text: &str) {
        let Some((names, body)) = text.split_once('=') else { return };
        let name = names.trim().split(':').next().unwrap_or_default().trim();
        let body = body.trim();
        let op = body.trim_start_matches('"');
        let end = op.find(|c: char| !(c.is_ascii_alphanumeric() || c == '.' || c == '_'));
        let op = &op[..end.unwrap_or(op.len())];
        let (before, signature) = split_signature(body);
        let (from, to) = match signature.split_once("->") {
            Some((from, to)) => (types(from), types(to)),
            None => (types(signature), types(signature)),
        };
        let region = before.find("({").unwrap_or(before.len());
        let operands = values(&before[..region]);
        let operand_types = match from.len() {
            1 if operands.len() > 1 => vec![from[0].clone(); operands.len()],
            _ => from,
        };
        self.producers.insert(name.to_owned(), self.instructions.len());
        self.instructions.push(Instruction {
            number: name.trim_start_matches('%').parse().ok(),
            op: op.to_owned(),
            operands,
            operand_types,
            results: to,
            attributes: before.to_owned(),
        });
    }
}

fn replicas(text: &str) -> usize {
    const KEY: &str = "mhlo.num_replicas = ";
    let behind = text.find(KEY).map(|at| &text[at + KEY.len()..]).unwrap_or_default();
    let digits: String = behind.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or(1)
}

fn is_balanced(text: &str) -> bool {
    let count = |open: char, close: char| {
        let opened = text.matches(open).count();
        opened == text.matches(close).count()
    };
    count('(', ')') && count('{', '}')
}

/// The text before the last ` : ` outside of regions, and the types behind it.
fn split_signature(text: &str) -> (&str, &str) {
    let (mut depth, mut at) = (0_i32, None);
    for (index, c) in text.char_indices() {
        match c {
            '(' | '{' | '[' => depth += 1,
            ')' | '}' | ']' => depth -= 1,
            ':' if depth == 0 && text[index..].starts_with(": ") => at = Some(index),
            _ => {}
        }
    }
    match at {
        Some(at) => (text[..at].trim_end(), &text[at + 1..]),
        None => (text, ""),
    }
}

/// The names of values in a text.
fn values(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices('%') {
        let behind = &text[at + 1..];
        let end = behind.find(|c: char| !(c.is_ascii_alphanumeric() || c == '#' || c == '_'));
        found.push(format!("%{}", &behind[..end.unwrap_or(behind.len())]));
    }
    found
}

/// The tensor types in a text.
fn types(text: &str) -> Vec<Type> {
    const OPEN: &str = "tensor<";
    let mut found = Vec::new();
    for (at, _) in text.match_indices(OPEN) {
        let inside = &text[at + OPEN.len()..];
        let mut depth = 1;
        let end = inside.find(|c| {
            depth += i32::from(c == '<') - i32::from(c == '>');
            depth == 0
        });
        found.push(of_text(&inside[..end.unwrap_or(inside.len())]));
    }
    found
}

fn of_text(text: &str) -> Type {
    let text = text.split(',').next().unwrap_or(text).trim();
    let mut found = Type::default();
    let mut rest = text;
    while let Some((dim, behind)) = rest.split_once('x') {
        match dim.parse() {
            Ok(dim) => found.dims.push(dim),
            Err(_) if dim == "?" => found.is_dynamic = true,
            Err(_) => break,
        }
        rest = behind;
    }
    found.element = rest.to_owned();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_read_with_operands_types_and_regions() {
        let text = r#"
module @step attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 4 : i32} {
  func.func public @main(%arg0: tensor<4x8xf32> {tf.aliasing_output = 0 : i32}, %arg1: tensor<ui32>) -> (tensor<4x8xf32>) {
    %0 = stablehlo.constant dense<0x00000000> : tensor<4x8xf32>
    %1 = stablehlo.add %arg0, %0 : tensor<4x8xf32>
    %2 = "stablehlo.all_reduce"(%1) <{replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %c = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %c : tensor<f32>
    }) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %3:2 = stablehlo.optimization_barrier %2, %arg1 : tensor<4x8xf32>, tensor<ui32>
    return %3#0 : tensor<4x8xf32>
  }
}"#;
        let module = Module::parse(text);
        assert_eq!((module.replicas, module.arguments.len(), module.results.len()), (4, 2, 1));
        let names: Vec<&str> = module.instructions.iter().map(Instruction::name).collect();
        assert_eq!(names, ["constant", "add", "all_reduce", "optimization_barrier"]);
        let reduce = &module.instructions[2];
        assert_eq!(reduce.integers("replica_groups"), Some(vec![vec![0, 1], vec![2, 3]]));
        assert_eq!(reduce.operands, ["%1"]);
        assert!(reduce.attributes.contains("stablehlo.add"));
        assert_eq!(module.instructions[1].operand_types.len(), 2);
        assert_eq!(module.instructions[3].results[1].element, "ui32");
        assert_eq!(module.instructions[module.producers["%3"]].number, Some(3));
    }

    #[test]
    fn types_have_sizes() {
        let of = |text: &str| types(&format!("tensor<{text}>")).remove(0);
        assert_eq!(of("2x3xbf16").bytes(), 12);
        assert_eq!(of("5xi1").bytes(), 5);
        assert_eq!(of("f64").bytes(), 8);
        assert_eq!(of("4xf8E4M3FN").bytes(), 4);
        assert!(of("?x2xf32").is_dynamic && of("ui32").is_integer() && !of("f32").is_integer());
        assert_eq!(of("2xcomplex<f32>").element, "complex<f32>");
    }
}
