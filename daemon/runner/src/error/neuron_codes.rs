//! Explains the codes of Neuron's compiler and runtime, which come as one of many lines in the text of
//! a PJRT error.

/// Compiler errors by the prefix of their codes.
const COMPILER: &[(&str, &str)] = &[
    (
        "NCC_EOOM",
        "the program needs more memory than a core has; lower per_device_train_batch_size or max_length, or set gradient_checkpointing",
    ),
    ("NCC_EVRF", "the program has an operation that the compiler does not support"),
    ("NCC_EUOC", "the program has an operation that the compiler does not support"),
    ("NCC_ESPP", "the program has a type that the compiler does not support"),
    ("NCC_EXTP", "the program is too large; lower per_device_train_batch_size or max_length"),
    ("NCC_EBVF", "the program is too large; lower per_device_train_batch_size or max_length"),
    ("NCC_EARG", "neuronx-cc rejects an option in NEURON_CC_FLAGS"),
    (
        "NCC_I",
        "a defect of the compiler; another version of neuronx-cc or -O1 in NEURON_CC_FLAGS may help",
    ),
    ("NCC_", "the compiler rejected the program"),
];

/// Codes of the runtime.
const RUNTIME: &[(u32, &str)] = &[
    (4, "the runtime lacks a resource: device memory, or a core that another process holds"),
    (
        5,
        "a step took longer than NEURON_RT_EXEC_TIMEOUT; a core may be waiting for another in a collective",
    ),
    (101, "a core failed; restart the job, and the driver if that does not help"),
    (1003, "a core computed a value that is not a number"),
    (1006, "a program read or wrote outside of a tensor"),
];
const HARDWARE: std::ops::RangeInclusive<u32> = 1200..=1206;
const HARDWARE_MEANING: &str = "the hardware or a link between cores failed; see dmesg, and replace the instance if it happens again";

/// Returns the code in an error's text with its meaning.
pub(crate) fn explain(text: &str) -> Option<String> {
    compiler_code(text).or_else(|| runtime_code(text))
}

fn compiler_code(text: &str) -> Option<String> {
    let code: String = text[text.find("NCC_")?..]
        .chars()
        .take_while(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || *c == '_')
        .collect();
    let (_, meaning) = COMPILER.iter().find(|(prefix, _)| code.starts_with(prefix))?;
    Some(format!("{code}: {meaning}"))
}

/// "nrt_execute ... status=1006", "NRT_STATUS 5", "nrt error code: 101".
fn runtime_code(text: &str) -> Option<String> {
    let lower = text.to_ascii_lowercase();
    let behind = &lower[lower.find("nrt")?..];
    let at = ["status", "code"].iter().filter_map(|word| behind.find(word)).min()?;
    let digits: String = behind[at..]
        .trim_start_matches(|c: char| !c.is_ascii_digit())
        .chars()
        .take_while(char::is_ascii_digit)
        .collect();
    let code = digits.parse().ok()?;
    let known = RUNTIME.iter().find(|(known, _)| *known == code).map(|(_, meaning)| *meaning);
    let meaning = known.or_else(|| HARDWARE.contains(&code).then_some(HARDWARE_MEANING))?;
    Some(format!("NRT {code}: {meaning}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: Option<(&str, &str)>) {
        let found = explain(text);
        match expect {
            None => assert_eq!(found, None, "{text}"),
            Some((code, word)) => {
                let found = found.unwrap_or_else(|| panic!("{text} has no explanation"));
                assert!(found.starts_with(&format!("{code}: ")) && found.contains(word), "{found}");
            }
        }
    }

    #[test]
    fn codes_are_found_among_many_lines() {
        check(
            "INTERNAL: neuronx-cc failed\n[ERROR] [NCC_EOOM002] needs 40 GB\nsee the log",
            Some(("NCC_EOOM002", "per_device_train_batch_size")),
        );
        check("error: NCC_EVRF007: sort", Some(("NCC_EVRF007", "operation")));
        check("NCC_INLA001", Some(("NCC_INLA001", "defect")));
        check("NCC_XYZ9 happened", Some(("NCC_XYZ9", "rejected")));
        check("nrt_execute failed: status_code=1006 (oob)", Some(("NRT 1006", "outside")));
        check("NRT error, status: 5", Some(("NRT 5", "NEURON_RT_EXEC_TIMEOUT")));
        check("nrt_load: code 1203", Some(("NRT 1203", "hardware")));
    }

    #[test]
    fn other_texts_have_no_explanation() {
        check("INVALID_ARGUMENT: shapes differ", None);
        check("current status: 5", None);
        check("nrt_init: status 999999", None);
        check("nrt without a number: status unknown", None);
    }
}
