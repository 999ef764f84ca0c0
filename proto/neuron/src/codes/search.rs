//! Finds a code among the many lines of a PJRT error.

use std::fmt;

use super::compiler::{WITHOUT_PREFIX, of_code};
use super::runtime::{ALLOCATION_FAILED, MEMORY_FULL, PHRASES, RUNTIME, UNKNOWN, of_status};
use super::texts::TEXTS;
use super::{Cause, CompilerCode, RuntimeCode};

/// A code of an error with its meaning and remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The code, such as `NCC_EOOM002` or `NRT 1006 (EXEC_OOB)`; empty if the error has none.
    pub code: String,
    /// The core as the runtime names it, such as `ND 0:NC 4`, where the error has one.
    pub core: Option<String>,
    pub cause: Cause,
    pub meaning: &'static str,
    pub remedy: &'static str,
}

impl Explanation {
    /// Whether the compiler refused a program for what it is, so that it would again.
    pub fn is_refusal(&self) -> bool {
        use Cause::{Indices, Integers, Operation, Size};
        !self.code.is_empty()
            && !self.code.starts_with("NRT ")
            && matches!(self.cause, Size | Operation | Integers | Indices)
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.code, &self.core) {
            (code, Some(core)) if !code.is_empty() => write!(f, "{code} on {core}: ")?,
            (code, None) if !code.is_empty() => write!(f, "{code}: ")?,
            _ => {}
        }
        f.write_str(self.meaning)?;
        if self.remedy.is_empty() { Ok(()) } else { write!(f, "; {}", self.remedy) }
    }
}

/// Explains the code in an error's text.
pub fn explain(text: &str) -> Option<Explanation> {
    let known = compiler(text).or_else(|| runtime(text)).or_else(|| without_code(text));
    known.or_else(|| unknown_status(text))
}

/// A code in brackets comes first: a bare one may be in flags or paths that the error repeats.
fn compiler(text: &str) -> Option<Explanation> {
    let prefixed = code_after(text, "[NCC_");
    let older = || {
        let mut known = WITHOUT_PREFIX.iter().filter(|(mark, _)| text.contains(mark));
        known.next().map(|(_, code)| (code.code.to_owned(), code))
    };
    let bare = || code_after(text, "NCC_");
    let (code, entry) = prefixed.or_else(older).or_else(bare)?;
    Some(of_compiler(code, entry))
}

fn code_after(text: &str, mark: &str) -> Option<(String, &'static CompilerCode)> {
    let behind = &text[text.find(mark)? + mark.len()..];
    let end = behind.find(|c: char| !c.is_ascii_uppercase() && !c.is_ascii_digit());
    let code = &behind[..end.unwrap_or(behind.len())];
    Some((format!("NCC_{code}"), of_code(code)?))
}

fn of_compiler(code: String, entry: &CompilerCode) -> Explanation {
    let CompilerCode { cause, meaning, remedy, .. } = *entry;
    Explanation { code, core: None, cause, meaning, remedy }
}

fn runtime(text: &str) -> Option<Explanation> {
    let code = memory_full(text)
        .or_else(|| named(text))
        .or_else(|| numbered(text))
        .or_else(|| phrased(text))?;
    let RuntimeCode { status, name, cause, meaning, remedy } = *code;
    let code = format!("NRT {status} ({name})");
    Some(Explanation { code, core: core(text), cause, meaning, remedy })
}

/// "Failed to allocate 4.000GB (alignment: none, usage: tensors) on ND 0:NC 4". GPUs fail to allocate in other words.
fn memory_full(text: &str) -> Option<&'static RuntimeCode> {
    let behind = &text[text.find(ALLOCATION_FAILED)?..];
    behind.contains(" on ND ").then_some(&MEMORY_FULL)
}

/// "ND 0:NC 4", or the first core of "Requested:lnc0-lnc1".
fn core(text: &str) -> Option<String> {
    let until = |text: &str, is_end: fn(char) -> bool| {
        text[..text.find(is_end).unwrap_or(text.len())].to_owned()
    };
    if let Some(at) = text.find("ND ") {
        let (device, behind) = text[at + 3..].split_once(":NC ")?;
        let core = until(behind, |c| !c.is_ascii_digit());
        let are_numbers = [device, &core].iter().all(|it| it.parse::<u32>().is_ok());
        return are_numbers.then(|| format!("ND {device}:NC {core}"));
    }
    const REQUESTED: &str = "Requested:";
    let at = text.find(REQUESTED)? + REQUESTED.len();
    Some(until(&text[at..], |c| !c.is_ascii_alphanumeric() && c != '-'))
}

/// The longest name of a status in the text, such as `NRT_EXEC_OOB`.
fn named(text: &str) -> Option<&'static RuntimeCode> {
    let is_named = |code: &&RuntimeCode| {
        let name = format!("NRT_{}", code.name);
        let mut behind = text.match_indices(&name).map(|(at, _)| &text[at + name.len()..]);
        behind.any(|rest| !rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_'))
    };
    RUNTIME.iter().filter(is_named).max_by_key(|code| code.name.len())
}

/// "nrt_execute ... status=1006", "NRT_STATUS 5", "nrt error code: 101", "completed with err: 1006".
fn numbered(text: &str) -> Option<&'static RuntimeCode> {
    let (_, number) = status_number(text)?;
    of_status(number)
}

/// A number that stands where the runtime writes a status, and what is between it and the words before it.
fn status_number(text: &str) -> Option<(String, u32)> {
    let lower = text.to_ascii_lowercase();
    const COMPLETED: &str = "completed with err";
    let behind = match lower.find(COMPLETED) {
        Some(at) => &lower[at + COMPLETED.len()..],
        None => {
            let behind = &lower[lower.find("nrt")?..];
            let ends = ["status", "code"].iter().filter_map(|it| Some(behind.find(it)? + it.len()));
            &behind[ends.min()?..]
        }
    };
    let digits = behind.trim_start_matches(|c: char| !c.is_ascii_digit());
    let between = behind[..behind.len() - digits.len()].to_owned();
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    Some((between, digits[..end].parse().ok()?))
}

/// A status, by number or name, that the table lacks. A number counts only right behind its word.
fn unknown_status(text: &str) -> Option<Explanation> {
    let is_beside = |between: &str| {
        between.trim_start_matches("_code").trim_matches([' ', '=', ':', '(']).is_empty()
    };
    let number = status_number(text).filter(|(between, number)| is_beside(between) && *number > 0);
    let name = unknown_name(text).map(|name| format!("({name})"));
    let number = number.map(|(_, number)| number.to_string());
    if name.is_none() && number.is_none() {
        return None;
    }
    let words = ["NRT".to_owned()].into_iter().chain(number).chain(name);
    let code = words.collect::<Vec<_>>().join(" ");
    let RuntimeCode { cause, meaning, remedy, .. } = UNKNOWN;
    Some(Explanation { code, core: core(text), cause, meaning, remedy })
}

/// A name such as `NRT_EXEC_NEW`, without its beginning.
fn unknown_name(text: &str) -> Option<&str> {
    const MARK: &str = "NRT_";
    let is_of_name = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    let names = text.match_indices(MARK).filter_map(|(at, _)| {
        let behind = &text[at + MARK.len()..];
        let end = behind.find(|c| !is_of_name(c)).unwrap_or(behind.len());
        (!text[..at].ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_'))
            .then(|| &behind[..end])
    });
    names.filter(|name| !["", "SUCCESS", "STATUS"].contains(name)).last()
}

fn phrased(text: &str) -> Option<&'static RuntimeCode> {
    let (_, status) = PHRASES.iter().find(|(phrase, _)| text.contains(phrase))?;
    of_status(*status)
}

fn without_code(text: &str) -> Option<Explanation> {
    let (_, cause, meaning) = TEXTS.iter().find(|(part, ..)| text.contains(part))?;
    Some(Explanation { code: String::new(), core: None, cause: *cause, meaning, remedy: "" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::COMPILER;

    #[track_caller]
    fn check(text: &str, expect: Option<(&str, Cause)>) {
        let found = explain(text);
        let found = found.as_ref().map(|found| (found.code.as_str(), found.cause));
        assert_eq!(found, expect, "{text}");
    }

    #[test]
    fn codes_are_found_among_many_lines() {
        check(
            "INTERNAL: neuronx-cc failed\n[ERROR] [NCC_EOOM002] Maximum peak HBM usage of 18.12GB\nsee the log",
            Some(("NCC_EOOM002", Cause::Size)),
        );
        check("error: [NCC_EVRF029] Operation sort", Some(("NCC_EVRF029", Cause::Operation)));
        check("[NCC_EVRF007]", Some(("NCC_EVRF007", Cause::Size)));
        check("[NCC_EVRF024] too large", Some(("NCC_EVRF024", Cause::Size)));
        check("[INTERNAL_ERROR] [NCC_IXLV002] x", Some(("NCC_IXLV002", Cause::Defect)));
        check("NCC_XYZ9 happened", Some(("NCC_XYZ9", Cause::Operation)));
        for (killed, code, cause) in [
            ("[F137] neuronx-cc was forcibly killed - This most", "F137", Cause::HostMemory),
            (
                "Command '['neuronx-cc', 'compile']' died with <Signals.SIGKILL: 9>.",
                "F137",
                Cause::HostMemory,
            ),
            ("neuronx-cc returned non-zero exit status -9", "F137", Cause::HostMemory),
            ("neuronx-cc returned non-zero exit status 137.", "F137", Cause::HostMemory),
            ("[F139] neuronx-cc terminated abnormally - Please", "F134", Cause::Defect),
            (
                "Command '['neuronx-cc', 'compile']' died with <Signals.SIGSEGV: 11>.",
                "F134",
                Cause::Defect,
            ),
        ] {
            check(killed, Some((code, cause)));
            assert!(!explain(killed).unwrap().is_refusal(), "{killed}");
        }
        check("[TEN404] Internal tensorizer error: a", Some(("TEN404", Cause::Defect)));
        check(
            "[XTP002] Number of instructions (8658944) is over the threshold (5000000)",
            Some(("XTP002", Cause::Size)),
        );
        check(
            "F hilo/MLIRPasses/Transforms/VerifyAliasing.cc:125] false && \"Read after write\"",
            Some(("VerifyAliasing", Cause::Defect)),
        );
    }

    #[test]
    fn codes_without_a_prefix_are_found_by_their_texts() {
        for (mark, code) in WITHOUT_PREFIX {
            check(
                &format!("RunNeuronCCImpl: failed\n{mark} in a line"),
                Some((code.code, code.cause)),
            );
        }
    }

    #[test]
    fn only_what_a_program_is_makes_a_refusal() {
        let is_refusal = |text: &str| explain(text).unwrap().is_refusal();
        assert!(is_refusal("[NCC_EOOM002] x") && is_refusal("[NCC_EVRF029] Operation sort"));
        // Memory of a core that another process has, a missing file, and a compiler that broke off.
        for passing in
            ["NRT_RESOURCE", "NRT_EXEC_OOB", "[NCC_EVRF059] x", "[NLA001] Unhandled exception"]
        {
            assert!(!is_refusal(passing), "{passing}");
        }
    }

    #[test]
    fn a_code_in_brackets_comes_before_those_in_paths_and_flags() {
        check(
            "Command '['neuronx-cc', '--dump=/tmp/NCC_EUOC002']' failed: [ERROR] [NCC_EVRF061] all-reduce",
            Some(("NCC_EVRF061", Cause::Integers)),
        );
    }

    #[test]
    fn statuses_are_found_by_number_name_and_phrase() {
        check(
            "nrt_execute failed: status_code=1006 (oob)",
            Some(("NRT 1006 (EXEC_OOB)", Cause::Indices)),
        );
        check("NRT error, status: 5", Some(("NRT 5 (TIMEOUT)", Cause::Timeout)));
        check("Inference completed with err: 1006.", Some(("NRT 1006 (EXEC_OOB)", Cause::Indices)));
        check(
            "Failure: NRT_EXEC_SW_NQ_OVERFLOW in nrt_execute()",
            Some(("NRT 1204 (EXEC_SW_NQ_OVERFLOW)", Cause::Setup)),
        );
        check(
            "NRT:nrt_allocate_neuron_cores NeuronCore(s) not available - Requested:nc1-nc1 Available:0",
            Some(("NRT 4 (RESOURCE)", Cause::Busy)),
        );
        check("execution timeout (30000 ms) on model x", Some(("NRT 5 (TIMEOUT)", Cause::Timeout)));
        for code in RUNTIME {
            let expected = (format!("NRT {} ({})", code.status, code.name), code.cause);
            for text in [format!("NRT_{}", code.name), format!("nrt status: {}", code.status)] {
                check(&text, Some((&expected.0, expected.1)));
            }
        }
    }

    #[test]
    fn the_core_is_named() {
        let core = |text: &str| explain(text).and_then(|found| found.core);
        let full = "Failed to allocate 4.000GB (alignment: none, usage: tensors) on ND 0:NC 4, NRT_RESOURCE";
        check(full, Some(("NRT 4 (RESOURCE)", Cause::Size)));
        assert_eq!(core(full).as_deref(), Some("ND 0:NC 4"));
        let busy = "NeuronCore(s) not available - Requested:nc1-nc1 Available:0";
        assert_eq!(core(busy).as_deref(), Some("nc1-nc1"));
        assert_eq!(core("NRT_EXEC_OOB"), None);
        let text = explain("ND 3:NC 1 NRT_EXEC_OOB").unwrap().to_string();
        assert!(text.starts_with("NRT 1006 (EXEC_OOB) on ND 3:NC 1: a program read"), "{text}");
        check("RESOURCE_EXHAUSTED: Failed to allocate request for 2.0GiB on GPU 0", None);
    }

    #[test]
    fn texts_without_a_code_have_a_meaning() {
        for (text, cause, _) in TEXTS {
            check(&format!("INVALID_ARGUMENT: {text}: a"), Some(("", *cause)));
        }
    }

    #[test]
    fn other_texts_have_no_explanation() {
        check("INVALID_ARGUMENT: shapes differ", None);
        check("current status: 5", None);
        check("nrt without a number: status unknown", None);
        check("NRT_SUCCESS, status: 0", None);
        check("nrt: the code is in line 7000 of the file", None);
        check("NEURON_RT_EXEC_TIMEOUT is 0", None);
    }

    #[test]
    fn a_status_or_code_that_is_not_known_has_a_general_remedy() {
        for (text, code) in [
            ("nrt_init: status 999999", "NRT 999999"),
            ("nrt_execute failed: NRT_EXEC_NEW status=1300", "NRT 1300 (EXEC_NEW)"),
            ("ND 0:NC 1 nrt error code: 1207", "NRT 1207"),
            ("Inference completed with err: 1208.", "NRT 1208"),
            ("Failure: NRT_EXEC_NEWER in nrt_execute()", "NRT (EXEC_NEWER)"),
        ] {
            check(text, Some((code, Cause::Unknown)));
            let found = explain(text).unwrap();
            assert!(found.remedy.contains("nrt_status.h") && !found.is_refusal(), "{found}");
        }
        assert_eq!(
            explain("ND 0:NC 1 nrt status: 1300").unwrap().core.as_deref(),
            Some("ND 0:NC 1")
        );
        let unknown = explain("[ERROR] [NCC_EXYZ001] a").unwrap();
        assert!(unknown.remedy.contains("log-neuron-cc.txt"), "{unknown}");
        // The compiler's name in a message alone.
        let failed = "INTERNAL: RunNeuronCCImpl: error condition error != 0: returned non-zero exit status 70.";
        check(failed, Some(("", Cause::Defect)));
        assert!(explain(failed).unwrap().meaning.contains("log-neuron-cc.txt"));
    }

    #[test]
    fn whole_codes_stand_before_their_prefixes() {
        for (index, entry) in COMPILER.iter().enumerate() {
            let earlier = COMPILER[..index].iter().find(|it| entry.code.starts_with(it.code));
            assert_eq!(earlier, None, "{} is never found", entry.code);
        }
    }
}
