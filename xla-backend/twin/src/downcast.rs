//! Integers in dots, in scatters that compute, and in sums across cores: the compiler computes them in float32, with a
//! warning.

/// The operations, by the operands that are computed with.
const OPERATIONS: [(&str, &[usize]); 4] = [
    ("dot_general", &[0, 1]),
    // The second ones are places.
    ("scatter", &[0, 2]),
    ("all_reduce", &[0]),
    ("reduce_scatter", &[0]),
];

/// The program that computes so; `None` if it has no such operation.
pub(crate) fn downcast(program: &str) -> Option<String> {
    let mut text = String::with_capacity(program.len());
    let mut lines = program.lines();
    let mut is_changed = false;
    while let Some(line) = lines.next() {
        let mut whole = line.to_owned();
        // A region continues over several lines.
        while whole.contains("({") && !whole.contains("})") {
            let Some(next) = lines.next() else { break };
            whole.push('\n');
            whole.push_str(next);
        }
        let changed = in_float(&whole);
        is_changed |= changed.is_some();
        text.push_str(&changed.unwrap_or(whole));
        text.push('\n');
    }
    is_changed.then_some(text)
}

/// One operation with its operands, its types, and what is between them.
struct Operation<'a> {
    result: &'a str,
    name: &'a str,
    operands: Vec<&'a str>,
    /// All behind the operands, up to the types.
    rest: &'a str,
    types: Vec<&'a str>,
    result_type: &'a str,
}

impl Operation<'_> {
    /// Reads an operation with one result.
    fn read(text: &str) -> Option<Operation<'_>> {
        let (result, body) = text.trim().split_once(" = ")?;
        let (body, signature) = body.rsplit_once(" : (")?;
        let (types, result_type) = signature.split_once(") -> ")?;
        let name = body.trim_start_matches('"').strip_prefix("stablehlo.")?;
        let end = name.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))?;
        let (name, behind) = name.split_at(end);
        let (operands, rest) = match behind.strip_prefix("\"(") {
            Some(behind) => behind.split_once(')')?,
            // The operands come before the attributes.
            None => {
                let words = behind.split(", ").take_while(|word| word.trim().starts_with('%'));
                let length: usize = words.map(|word| word.len() + 2).sum();
                (behind.get(..length.checked_sub(2)?)?, &behind[length - 2..])
            }
        };
        Some(Operation {
            result,
            name,
            operands: operands.split(", ").map(str::trim).collect(),
            rest,
            types: types.split(", ").collect(),
            result_type,
        })
    }

    /// Its text with other operands and types.
    fn write(&self, result: &str, operands: &[String], types: &[String], to: &str) -> String {
        let Operation { name, rest, .. } = self;
        let (operands, types) = (operands.join(", "), types.join(", "));
        match self.rest.contains("({") {
            true => {
                format!("{result} = \"stablehlo.{name}\"({operands}){rest} : ({types}) -> {to}")
            }
            false => format!("{result} = stablehlo.{name} {operands}{rest} : ({types}) -> {to}"),
        }
    }
}

/// The lines that replace an operation of integers.
fn in_float(text: &str) -> Option<String> {
    let operation = Operation::read(text)?;
    let (_, computed) = OPERATIONS.iter().find(|(name, _)| *name == operation.name)?;
    let element = element(operation.types.first()?)?;
    let computes = !operation.rest.contains("({") || operation.rest.contains(" = stablehlo.");
    if !computes || operation.operands.len() != operation.types.len() {
        return None;
    }
    let number = operation.result.trim_start_matches('%');
    let mut lines = String::new();
    let mut operands: Vec<String> = operation.operands.iter().map(|it| (*it).to_owned()).collect();
    let mut types: Vec<String> = operation.types.iter().map(|it| (*it).to_owned()).collect();
    for place in computed.iter().copied() {
        let (from, to) = (types.get(place)?.clone(), float(types.get(place)?)?);
        let operand = format!("%downcast.{place}.{number}");
        let given = &operands[place];
        lines.push_str(&format!("{operand} = stablehlo.convert {given} : ({from}) -> {to}\n"));
        (operands[place], types[place]) = (operand, to);
    }
    let (from, to) = (float(operation.result_type)?, operation.result_type);
    let result = format!("%computed.{number}");
    let region = operation.rest.replace(&format!("tensor<{element}>"), "tensor<f32>");
    let operation = Operation { rest: &region, ..operation };
    lines.push_str(&operation.write(&result, &operands, &types, &from));
    let name = operation.result;
    Some(format!("{lines}\n{name} = stablehlo.convert {result} : ({from}) -> {to}"))
}

/// The type of a tensor's integers; `None` for other types.
fn element(tensor: &str) -> Option<&str> {
    let inside = tensor.strip_prefix("tensor<")?.strip_suffix('>')?;
    let element = inside.rsplit('x').next()?;
    let bits: u32 = element.trim_start_matches("ui").trim_start_matches('i').parse().ok()?;
    (bits > 1).then_some(element)
}

/// The type of a tensor of integers, with float32 in their place.
fn float(tensor: &str) -> Option<String> {
    let dims = tensor.strip_suffix('>')?.strip_suffix(element(tensor)?)?;
    Some(format!("{dims}f32>"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(program: &str, expect: &[&str]) {
        let text = downcast(program).unwrap();
        for line in expect {
            assert!(text.contains(line), "{line}\n{text}");
        }
    }

    #[test]
    fn integers_are_computed_in_float32() {
        check(
            "    %3 = stablehlo.dot_general %1, %arg2, contracting_dims = [1] x [0] : (tensor<2x3xi32>, tensor<3xi32>) \
             -> tensor<2xi32>\n",
            &[
                "%downcast.0.3 = stablehlo.convert %1 : (tensor<2x3xi32>) -> tensor<2x3xf32>\n",
                "%computed.3 = stablehlo.dot_general %downcast.0.3, %downcast.1.3, contracting_dims = [1] x [0] : \
                 (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2xf32>\n",
                "%3 = stablehlo.convert %computed.3 : (tensor<2xf32>) -> tensor<2xi32>\n",
            ],
        );
        let region = |op: &str, element: &str| {
            format!(
                "({{\n    ^bb0(%a: tensor<{element}>, %b: tensor<{element}>):\n      %c = stablehlo.{op} %a, %b : \
                 tensor<{element}>\n      stablehlo.return %c : tensor<{element}>\n    }})"
            )
        };
        let reduce = |element: &str| {
            format!(
                "    %9 = \"stablehlo.all_reduce\"(%7) <{{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}}> {} : \
                 (tensor<4x{element}>) -> tensor<4x{element}>\n",
                region("add", element)
            )
        };
        let computed = reduce("f32").trim().replace("%9", "%computed.9");
        check(&reduce("ui32"), &[&computed.replace("(%7)", "(%downcast.0.9)")]);
        assert_eq!(downcast(&reduce("f32")), None);
        let scatter = |op: &str| {
            format!(
                "    %9 = \"stablehlo.scatter\"(%5, %6, %7) <{{indices_are_sorted = false}}> {} : (tensor<8xi64>, \
                 tensor<2xi32>, tensor<2xi64>) -> tensor<8xi64>\n",
                region(op, "i64")
            )
        };
        let moved = "(tensor<8xf32>, tensor<2xi32>, tensor<2xf32>) -> tensor<8xf32>\n";
        check(&scatter("add"), &["(%downcast.0.9, %6, %downcast.2.9)", moved]);
        let replaces = scatter("add").replace("%c = stablehlo.add %a, %b : tensor<i64>", "");
        assert_eq!(downcast(&replaces), None, "it computes nothing");
    }
}
