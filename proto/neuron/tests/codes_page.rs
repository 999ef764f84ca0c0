//! The page of codes. `TRAIND_WRITE_DOCS=1 cargo test -p traind-neuron --test codes_page` writes it anew; without that
//! it is checked.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::{env, fs};

use traind_neuron::{
    ALLOCATION_FAILED, COMPILER, Cause, MEMORY_FULL, RUNTIME, RuntimeCode, WITHOUT_PREFIX,
};

const PAGE: &str = "../../docs/neuron-codes.md";
const HEAD: &str = "\
# Codes of AWS Neuron

A failure of a job with `platform: neuron` begins with one of these codes, and says what this page says. Meanings are
those of AWS's header `nrt_status.h` and of its list of compiler errors for SDK 2.32; none was met on a device.
`resources.max_restarts` applies to statuses of which a restart may help. [NeuronCores](neuron.md) explains messages
without a code. The page is made of the tables in `proto/neuron/src/codes`.
";

fn row(cells: &[&str]) -> String {
    format!("| {} |\n", cells.join(" | "))
}

/// The first letter in upper case, which no meaning has of its own.
fn sentence(text: &str) -> String {
    let mut rest = text.chars();
    rest.next().map_or_else(String::new, |first| first.to_uppercase().chain(rest).collect())
}

fn word(cause: Cause) -> &'static str {
    if cause.may_pass() { "may help" } else { "does not help" }
}

/// `text`: what the runtime's text has besides the status.
fn status_row(code: &RuntimeCode, text: &str) -> String {
    let name = format!("`NRT {} ({})`{text}", code.status, code.name);
    row(&[&name, &sentence(code.meaning), word(code.cause), &sentence(code.remedy)])
}

fn page() -> String {
    let mut page = HEAD.to_owned();
    page += "\n## Statuses of the runtime\n\n| status | meaning | a restart | remedy |\n| --- | --- | --- | --- |\n";
    for code in RUNTIME {
        page += &status_row(code, "");
        if code.status == MEMORY_FULL.status {
            page += &status_row(&MEMORY_FULL, &format!(", `{ALLOCATION_FAILED} …`"));
        }
    }
    page += "\n## Codes of the compiler\n\nA compile that fails with one of these would fail again.\n\n\
        | code | meaning | remedy |\n| --- | --- | --- |\n";
    for code in COMPILER {
        // Whole codes end with three digits, and the others are those that begin so.
        let rest = if code.code.ends_with(|c: char| c.is_ascii_digit()) { "" } else { "…" };
        let name = format!("`NCC_{}{rest}`", code.code);
        page += &row(&[&name, &sentence(code.meaning), &sentence(code.remedy)]);
    }
    page += "\n## Codes without `NCC_`\n\nThose of older compilers, of their passes, and of compilers that did not end by \
        themselves.\n\n| code | meaning | a restart | remedy |\n| --- | --- | --- | --- |\n";
    for (index, (_, code)) in WITHOUT_PREFIX.iter().enumerate() {
        // Several texts may have one code.
        if WITHOUT_PREFIX[..index].iter().all(|(_, earlier)| earlier.code != code.code) {
            let name = format!("`{}`", code.code);
            page +=
                &row(&[&name, &sentence(code.meaning), word(code.cause), &sentence(code.remedy)]);
        }
    }
    page
}

#[test]
fn the_page_has_the_meaning_and_the_remedy_of_each_code() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(PAGE);
    let page = page();
    if env::var_os("TRAIND_WRITE_DOCS").is_some() {
        fs::write(&path, &page).unwrap();
    }
    let found = fs::read_to_string(&path).unwrap();
    let how = "write it with TRAIND_WRITE_DOCS=1 cargo test -p traind-neuron --test codes_page";
    assert!(found == page, "docs/neuron-codes.md is out of date; {how}");
}

/// A remedy is what somebody can do: a setting, a version, a file to read, or a report with what it needs.
#[test]
fn each_code_has_a_remedy_that_names_what_to_do() {
    const DOES: [&str; 14] = [
        "check", "end", "install", "lower", "raise", "read", "reload", "replace", "report",
        "restart", "run", "see", "set", "unset",
    ];
    let compiler = COMPILER.iter().chain(WITHOUT_PREFIX.iter().map(|(_, code)| code));
    let compiler = compiler.map(|code| (code.code.to_owned(), code.meaning, code.remedy));
    let runtime = RUNTIME
        .iter()
        .chain([&MEMORY_FULL])
        .map(|code| (code.name.to_owned(), code.meaning, code.remedy));
    for (code, meaning, remedy) in compiler.chain(runtime) {
        let words = remedy.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let does =
            words.filter(|word| DOES.contains(word) || ["add", "try", "look"].contains(word));
        assert!(!meaning.is_empty() && does.count() > 0, "{code}: {remedy}");
    }
}
