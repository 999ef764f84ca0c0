//! Changes programs as devices would compute them that differ from CPUs: integers in float32, donation that does not
//! work, stochastic rounding.

use crate::Options;
use crate::downcast::downcast;
use crate::options::Donation;

const ALIASING: &str = "tf.aliasing_output = ";
/// Operations on integers that vector engines compute in float32.
const IN_FLOAT: &[&str] = &["add", "subtract", "multiply", "maximum", "minimum", "compare"];

/// The program as the options change it; `None` if they do not. Fails if the compiler refuses it.
/// `rounding_seed`: where float32 is rounded stochastically.
pub(crate) fn rewritten(
    program: &str,
    options: &Options,
    rounding_seed: Option<u32>,
) -> Result<Option<String>, String> {
    let mut changed = downcast(program);
    let now = |changed: &Option<String>| changed.clone().unwrap_or_else(|| program.to_owned());
    match options.donation {
        Donation::Works => {}
        Donation::Ignored => changed = Some(without_aliases(&now(&changed))),
        Donation::Garbage => changed = Some(without_aliases(&with_garbage(&now(&changed)))),
        Donation::Refused => check_aliases(program)?,
    }
    if options.inexact {
        changed = Some(in_float(&now(&changed)));
    }
    if let Some(seed) = rounding_seed {
        changed = Some(rounded(&now(&changed), seed));
    }
    Ok(changed)
}

/// The program that rounds float32 to bfloat16 up or down, the more often up the nearer that is.
fn rounded(program: &str, seed: u32) -> String {
    program
        .lines()
        .map(|line| line_rounded(line, seed).unwrap_or_else(|| line.to_owned() + "\n"))
        .collect()
}

/// The lines that replace a conversion to bfloat16: they add a hash of the value and the seed below the bits that stay.
fn line_rounded(line: &str, seed: u32) -> Option<String> {
    let (result, rest) = line.trim().split_once(" = stablehlo.convert ")?;
    let (value, kind) = rest.split_once(" : (")?;
    let (from, to) = kind.split_once(") -> ")?;
    let shape = from.strip_prefix("tensor<")?.strip_suffix("f32>")?;
    (to == format!("tensor<{shape}bf16>")).then_some(())?;
    let (bits, name) = (format!("tensor<{shape}ui32>"), result.trim_start_matches('%'));
    let constant = |what: &str, value: u32| {
        format!("%{what}.{name} = stablehlo.constant dense<{value}> : {bits}\n")
    };
    let op = |to: &str, op: &str, left: &str, right: &str| {
        format!("%{to}.{name} = stablehlo.{op} %{left}.{name}, %{right}.{name} : {bits}\n")
    };
    Some(
        [
            format!("%bits.{name} = stablehlo.bitcast_convert {value} : ({from}) -> {bits}\n"),
            constant("seed", seed ^ 0x9e37_79b9),
            constant("factor", 0x85eb_ca6b),
            constant("half", 16),
            constant("kept", 0xffff_0000),
            op("mixed", "xor", "bits", "seed"),
            op("once", "multiply", "mixed", "factor"),
            op("high", "shift_right_logical", "once", "half"),
            op("folded", "xor", "once", "high"),
            op("twice", "multiply", "folded", "factor"),
            op("noise", "shift_right_logical", "twice", "half"),
            op("sum", "add", "bits", "noise"),
            op("cut", "and", "sum", "kept"),
            format!(
                "%rounded.{name} = stablehlo.bitcast_convert %cut.{name} : ({bits}) -> {from}\n"
            ),
            format!("{result} = stablehlo.convert %rounded.{name} : ({from}) -> {to}\n"),
        ]
        .concat(),
    )
}

/// The program with sums, products and comparisons of 32-bit integers in float32.
fn in_float(program: &str) -> String {
    program
        .lines()
        .map(|line| line_in_float(line).unwrap_or_else(|| line.to_owned() + "\n"))
        .collect()
}

/// The lines that replace one of [`IN_FLOAT`] on integers.
fn line_in_float(line: &str) -> Option<String> {
    let (result, rest) = line.trim().split_once(" = stablehlo.")?;
    let (operation, kind) = rest.split_once(" : ")?;
    let (name, operands) = operation.split_once(' ')?;
    let is_integer = kind.contains("xui32>")
        || kind.contains("xi32>")
        || kind.contains("<ui32>")
        || kind.contains("<i32>");
    if !IN_FLOAT.contains(&name) || !is_integer {
        return None;
    }
    let of = kind.trim_start_matches('(').split([',', ')']).next()?;
    let float = of.replace("ui32>", "f32>").replace("i32>", "f32>");
    let names = operands.split(", ").filter(|word| word.starts_with('%')).collect::<Vec<_>>();
    let [left, right] = names[..] else { return None };
    let number = result.trim_start_matches('%');
    let (a, b, c) =
        (format!("%left.{number}"), format!("%right.{number}"), format!("%float.{number}"));
    let mut text = String::new();
    for (to, from) in [(&a, left), (&b, right)] {
        text.push_str(&format!("{to} = stablehlo.convert {from} : ({of}) -> {float}\n"));
    }
    match name {
        "compare" => {
            let direction = operands.split(',').next()?;
            let (_, to) = kind.split_once("-> ")?;
            text.push_str(&format!(
                "{result} = stablehlo.compare {direction}, {a}, {b}, FLOAT : ({float}, {float}) -> {to}\n"
            ));
        }
        _ => text.push_str(&format!(
            "{c} = stablehlo.{name} {a}, {b} : {float}\n{result} = stablehlo.convert {c} : ({float}) -> {of}\n"
        )),
    }
    Some(text)
}

/// The program without donation.
fn without_aliases(program: &str) -> String {
    let mut text = program.to_owned();
    while let Some(at) = text.find(ALIASING) {
        let (Some(open), Some(end)) = (text[..at].rfind('{'), text[at..].find('}')) else { break };
        text.replace_range(open..=at + end, "");
    }
    text
}

/// The donated arguments, each with the number of the result that replaces it.
fn aliases(program: &str) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    for (at, _) in program.match_indices(ALIASING) {
        let digits = program[at + ALIASING.len()..].split(' ').next();
        let name =
            program[..at].rfind("%arg").and_then(|start| program[start..at].split(':').next());
        if let (Some(name), Some(Ok(result))) = (name, digits.map(str::parse)) {
            found.push((name.to_owned(), result));
        }
    }
    found
}

/// The values that the program returns, with their types.
fn returned(program: &str) -> Vec<(String, String)> {
    let line = program.lines().rev().find_map(|line| line.trim().strip_prefix("return "));
    let Some((values, types)) = line.and_then(|line| line.split_once(" : ")) else {
        return Vec::new();
    };
    values.split(", ").map(str::to_owned).zip(types.split(", ").map(str::to_owned)).collect()
}

/// The program that returns the double of a float32 result that replaces an argument.
fn with_garbage(program: &str) -> String {
    let mut results = returned(program);
    let mut wrong = String::new();
    for (_, index) in aliases(program) {
        let Some((value, kind)) = results.get_mut(index).filter(|(_, kind)| kind.ends_with("f32>"))
        else {
            continue;
        };
        wrong.push_str(&format!("%garbage.{index} = stablehlo.add {value}, {value} : {kind}\n"));
        *value = format!("%garbage.{index}");
    }
    let (values, types): (Vec<String>, Vec<String>) = results.into_iter().unzip();
    let Some(at) = program.rfind("    return ") else { return program.to_owned() };
    let end = program[at..].find('\n').map_or(program.len(), |end| at + end);
    let text = format!("{wrong}    return {} : {}", values.join(", "), types.join(", "));
    format!("{}{text}{}", &program[..at], &program[end..])
}

/// Refuses a program that reads an argument after the result that replaces it.
fn check_aliases(program: &str) -> Result<(), String> {
    let results = returned(program);
    for (argument, index) in aliases(program) {
        let Some((value, _)) = results.get(index) else { continue };
        let defined = format!("{value} = ");
        let behind = program.find(&defined).map_or("", |at| &program[at..]);
        // The line itself may read it.
        let later = behind.lines().skip(1).any(|line| reads(line, &argument));
        if later {
            return Err(
                "F hilo/MLIRPasses/Transforms/VerifyAliasing.cc:125] false && \"Read after write on aliased \
                 input/output buffer.\"".to_owned(),
            );
        }
    }
    Ok(())
}

fn reads(line: &str, argument: &str) -> bool {
    let is_end = |rest: &str| !rest.starts_with(|c: char| c.is_ascii_digit());
    line.match_indices(argument).any(|(at, _)| is_end(&line[at + argument.len()..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROGRAM: &str = "module @m {\n  func.func @main(%arg0: tensor<4xf32> {tf.aliasing_output = 0 : i32}, %arg1: tensor<2xui32>) -> (tensor<4xf32>, tensor<4xf32>) {\n    %0 = stablehlo.add %arg0, %arg0 : tensor<4xf32>\n    %1 = stablehlo.multiply %arg0, %0 : tensor<4xf32>\n    %2 = stablehlo.multiply %arg1, %arg1 : tensor<2xui32>\n    %3 = stablehlo.compare LT, %2, %arg1, UNSIGNED : (tensor<2xui32>, tensor<2xui32>) -> tensor<2xi1>\n    return %0, %1 : tensor<4xf32>, tensor<4xf32>\n  }\n}\n";

    fn changed(donation: Donation, inexact: bool) -> Result<Option<String>, String> {
        rewritten(PROGRAM, &Options { donation, inexact, ..Options::default() }, None)
    }

    #[test]
    fn integers_are_computed_in_float32() {
        assert_eq!(changed(Donation::Works, false), Ok(None));
        let text = changed(Donation::Works, true).unwrap().unwrap();
        for line in [
            "%left.2 = stablehlo.convert %arg1 : (tensor<2xui32>) -> tensor<2xf32>",
            "%float.2 = stablehlo.multiply %left.2, %right.2 : tensor<2xf32>",
            "%3 = stablehlo.compare LT, %left.3, %right.3, FLOAT : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xi1>",
            "%0 = stablehlo.add %arg0, %arg0 : tensor<4xf32>",
        ] {
            assert!(text.contains(line), "{text}");
        }
    }

    #[test]
    fn float32_is_rounded_stochastically() {
        let line = "    %7 = stablehlo.convert %6 : (tensor<2x3xf32>) -> tensor<2x3xbf16>\n";
        let of = |seed| rewritten(line, &Options::default(), seed).unwrap();
        let text = of(Some(3)).unwrap();
        for part in [
            "%bits.7 = stablehlo.bitcast_convert %6 : (tensor<2x3xf32>) -> tensor<2x3xui32>",
            "%sum.7 = stablehlo.add %bits.7, %noise.7 : tensor<2x3xui32>",
            "%7 = stablehlo.convert %rounded.7 : (tensor<2x3xf32>) -> tensor<2x3xbf16>",
        ] {
            assert!(text.contains(part), "{text}");
        }
        assert_eq!(of(None), None);
        assert_ne!(of(Some(4)).unwrap(), text);
        let wider = line.replace("bf16", "f64");
        assert_eq!(rewritten(&wider, &Options::default(), Some(3)).unwrap().unwrap(), wider);
    }

    #[test]
    fn donation_is_ignored_wrong_or_refused() {
        let text = changed(Donation::Ignored, false).unwrap().unwrap();
        assert!(
            !text.contains("aliasing") && text.contains("%arg0: tensor<4xf32> , %arg1"),
            "{text}"
        );
        let text = changed(Donation::Garbage, false).unwrap().unwrap();
        assert!(text.contains("return %garbage.0, %1 : tensor<4xf32>, tensor<4xf32>\n"), "{text}");
        assert!(changed(Donation::Refused, false).unwrap_err().contains("VerifyAliasing"));
    }
}
