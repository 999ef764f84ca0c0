//! Reads the text of a StableHLO module, as far as the checks need it: operations, operands, types and attributes.
//!
//! Only straight-line functions are read in full; of regions, the operations are seen, not their values. Values of
//! functions besides the main one have the function's number in their names, as in `%3@1`.
//!
//! Layers repeat operations that differ in the names of values alone, so each [`Form`] is read and checked once.

use std::collections::HashMap;
use std::fmt;

/// The type of a value.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(super) struct Type {
    pub dims: Vec<u64>,
    /// The name of the type in MLIR: `f32`, `ui32`, `complex<f32>`.
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

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("tensor<")?;
        self.dims.iter().try_for_each(|dim| write!(f, "{dim}x"))?;
        write!(f, "{}>", self.element)
    }
}

/// One operation of a function.
#[derive(Clone, Debug)]
pub(super) struct Instruction {
    /// The place of its form among those of the module.
    pub form: usize,
    /// The name of its results, empty if it has none.
    pub name: String,
    pub operands: Vec<String>,
}

impl Instruction {
    /// The number in the name of its first result, if it is a number.
    pub(super) fn number(&self) -> Option<usize> {
        self.name.trim_start_matches('%').parse().ok()
    }
}

/// All of an operation but the names of values.
#[derive(Clone, Debug)]
pub(super) struct Form {
    /// The name with its dialect: `stablehlo.add`.
    pub op: String,
    pub operand_types: Vec<Type>,
    pub results: Vec<Type>,
    /// All that is between the operands and the types, with regions.
    pub attributes: String,
    has_name: bool,
    /// The number of operands, without the values of regions.
    operands: usize,
}

impl Form {
    /// Reads the text of an operation, whose values have no names besides `%`.
    fn of(text: &str) -> Form {
        // Calls without results have no name.
        let (names, body) = match text.starts_with('%') {
            true => text.split_once('=').unwrap_or((text, "")),
            false => ("", text),
        };
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
        let operands = before[..region].matches('%').count();
        let operand_types = match from.len() {
            1 if operands > 1 => vec![from[0].clone(); operands],
            _ => from,
        };
        Form {
            op: op.to_owned(),
            operand_types,
            results: to,
            attributes: before.to_owned(),
            has_name: !names.is_empty(),
            operands,
        }
    }

    /// The name without the dialect `stablehlo`.
    pub(super) fn name(&self) -> &str {
        self.op.strip_prefix("stablehlo.").unwrap_or(&self.op)
    }

    pub(super) fn result(&self) -> Type {
        self.results.first().cloned().unwrap_or_default()
    }

    /// The integers behind `name =` in the attributes, of all brackets or of an array.
    pub(super) fn integers(&self, name: &str) -> Option<Vec<Vec<i64>>> {
        let at = self.attributes.find(&format!("{name} ="))? + name.len() + 2;
        let behind = self.attributes[at..].trim_start();
        if let Some(array) = behind.strip_prefix("array<i64") {
            let inside = array.find('>').map_or(array, |end| &array[..end]);
            let numbers = inside.split([':', ',']).filter_map(|it| it.trim().parse().ok());
            return Some(vec![numbers.collect()]);
        }
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

/// The text of an operation, of which some lines may be missing.
#[derive(Debug)]
enum Text {
    Whole(usize),
    Beginning,
}

/// The functions of a module.
#[derive(Debug, Default)]
pub(super) struct Module {
    pub replicas: usize,
    /// The arguments of the main function: the first one, or that of this name.
    pub arguments: Vec<Type>,
    pub results: Vec<Type>,
    /// The arguments of all functions by name.
    pub parameters: Vec<(String, Type)>,
    pub forms: Vec<Form>,
    pub instructions: Vec<Instruction>,
    /// The forms of texts without the names of values.
    texts: HashMap<String, Text>,
}

impl Module {
    pub(super) fn parse(text: &str) -> Module {
        let mut module = Module { replicas: replicas(text), ..Module::default() };
        let (mut pending, mut names, mut functions) = (String::new(), Vec::new(), 0);
        for line in text.lines() {
            let trimmed = line.trim();
            match () {
                _ if trimmed.contains("func.func") => {
                    module.read_signature(trimmed, functions);
                    functions += 1;
                    continue;
                }
                _ if pending.is_empty() && !begins_operation(trimmed) => continue,
                _ => take_names(trimmed, &mut pending, &mut names),
            }
            // A region continues over several lines.
            match module.form_of(&pending, false) {
                Some(form) => {
                    module.add(form, &names, functions);
                    pending.clear();
                    names.clear();
                }
                None => pending.push(' '),
            }
        }
        if let Some(form) = module.form_of(pending.trim_end(), true) {
            module.add(form, &names, functions);
        }
        module
    }

    /// The place of the form that a text has, if it `ends` or its brackets are closed.
    fn form_of(&mut self, text: &str, ends: bool) -> Option<usize> {
        match self.texts.get(text) {
            Some(Text::Whole(form)) => return Some(*form),
            Some(Text::Beginning) if !ends => return None,
            _ => {}
        }
        let is_whole = if ends { !text.is_empty() } else { is_balanced(text) };
        let known = match is_whole {
            true => Text::Whole(self.forms.len()),
            false => Text::Beginning,
        };
        self.texts.insert(text.to_owned(), known);
        if !is_whole {
            return None;
        }
        self.forms.push(Form::of(text));
        Some(self.forms.len() - 1)
    }

    /// Adds an operation with these values in the function of this number, from 1 on.
    fn add(&mut self, form: usize, names: &[&str], function: usize) {
        let Form { has_name, operands, .. } = self.forms[form];
        let (own, others) = names.split_at(usize::from(has_name));
        let named = |name: &&str| named((*name).to_owned(), function);
        self.instructions.push(Instruction {
            form,
            name: own.first().map(named).unwrap_or_default(),
            operands: others.iter().take(operands).map(named).collect(),
        });
    }

    fn read_signature(&mut self, line: &str, function: usize) {
        let (arguments, results) = line.split_once("->").unwrap_or((line, ""));
        let found = types(arguments);
        let names = values(arguments).into_iter().map(|name| named(name, function + 1));
        self.parameters.extend(names.zip(found.iter().cloned()));
        if function == 0 || line.contains("@main(") {
            (self.arguments, self.results) = (found, types(results));
        }
    }
}

/// The name of a value in the function of this number, from 1 on.
fn named(name: String, function: usize) -> String {
    if function <= 1 { name } else { format!("{name}@{}", function - 1) }
}

fn begins_operation(line: &str) -> bool {
    let is_dialect =
        |it: &str| ["stablehlo.", "chlo.", "mhlo."].iter().any(|of| it.starts_with(of));
    line.starts_with('%') || is_dialect(line.trim_start_matches('"'))
}

fn replicas(text: &str) -> usize {
    const KEY: &str = "mhlo.num_replicas = ";
    let behind = text.find(KEY).map(|at| &text[at + KEY.len()..]).unwrap_or_default();
    let digits: String = behind.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or(1)
}

fn is_balanced(text: &str) -> bool {
    let (mut round, mut curly) = (0_i32, 0_i32);
    for (_, c) in outside_of_strings(text) {
        match c {
            '(' => round += 1,
            ')' => round -= 1,
            '{' => curly += 1,
            '}' => curly -= 1,
            _ => {}
        }
    }
    (round, curly) == (0, 0)
}

/// The characters that are in no string, with their places.
fn outside_of_strings(text: &str) -> impl Iterator<Item = (usize, char)> {
    let (mut is_inside, mut is_escaped) = (false, false);
    text.char_indices().filter(move |(_, c)| {
        let was_inside = is_inside;
        if *c == '"' && !is_escaped {
            is_inside = !is_inside;
        }
        is_escaped = is_inside && *c == '\\' && !is_escaped;
        !was_inside && !is_inside
    })
}

/// The text before the last ` : ` outside of regions, and the types behind it.
fn split_signature(text: &str) -> (&str, &str) {
    let (mut depth, mut at) = (0_i32, None);
    for (index, c) in outside_of_strings(text) {
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
    let (mut rest, mut names) = (String::new(), Vec::new());
    take_names(text, &mut rest, &mut names);
    names.into_iter().map(str::to_owned).collect()
}

/// Splits a text into the names of its values and the rest, in which each of them is a `%`.
fn take_names<'a>(text: &'a str, rest: &mut String, names: &mut Vec<&'a str>) {
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || [b'#', b'_'].contains(byte);
    let mut begin = 0;
    for (at, _) in text.match_indices('%') {
        rest.push_str(&text[begin..=at]);
        let length = text.as_bytes()[at + 1..].iter().take_while(|byte| is_name(byte)).count();
        begin = at + 1 + length;
        names.push(&text[at..begin]);
    }
    rest.push_str(&text[begin..]);
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
        let names: Vec<&str> = module.forms.iter().map(Form::name).collect();
        assert_eq!(names, ["constant", "add", "all_reduce", "optimization_barrier"]);
        let reduce = &module.forms[2];
        assert_eq!(reduce.integers("replica_groups"), Some(vec![vec![0, 1], vec![2, 3]]));
        assert_eq!(module.instructions[2].operands, ["%1"]);
        assert!(reduce.attributes.contains("stablehlo.add"));
        assert_eq!(module.forms[1].operand_types.len(), 2);
        assert_eq!(module.forms[3].results[1].element, "ui32");
        assert_eq!(
            (&*module.instructions[3].name, module.instructions[3].number()),
            ("%3", Some(3))
        );
    }

    /// Operations that differ in the names of their values alone, over one line and over several.
    #[test]
    fn forms_are_read_once() {
        let operations = |first: usize| {
            let [add, sum] = [first, first + 1].map(|number| format!("%{number}"));
            format!(
                "{add} = stablehlo.add %arg0, %arg{first} : tensor<4xf32>\n\
                 {sum} = \"stablehlo.all_reduce\"({add}) <{{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}}> ({{\n\
                 ^bb0(%a: tensor<f32>, %b: tensor<f32>):\n\
                 %c = stablehlo.add %a, %b : tensor<f32>\nstablehlo.return %c : tensor<f32>\n\
                 }}) : (tensor<4xf32>) -> tensor<4xf32>\n"
            )
        };
        let module = Module::parse(&[0, 2, 4].map(operations).concat());
        assert_eq!((module.forms.len(), module.instructions.len()), (2, 6));
        let [.., add, sum] = &module.instructions[..] else { panic!("{module:?}") };
        assert_eq!((&*add.name, add.form), ("%4", 0));
        assert_eq!(add.operands, ["%arg0", "%arg4"]);
        assert_eq!((&*sum.name, sum.form), ("%5", 1));
        assert_eq!(sum.operands, ["%4"]);
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
