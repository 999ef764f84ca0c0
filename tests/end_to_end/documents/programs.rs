//! Commands of documents besides those of `traind`: scripts exist and can be executed, packages that
//! `cargo` is to build exist, and Python is valid and uses names of the client.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use super::{Document, check, quoted, repository};

const EXECUTABLE: u32 = 0o111;

/// Checks Python source on standard input, and that the client in the folder of the first argument has
/// the names that it uses.
const CHECK_PYTHON: &str = "
import ast, pathlib, sys
tree = ast.parse(sys.stdin.read())
client = ast.parse((pathlib.Path(sys.argv[1]) / '__init__.py').read_text())
exported = {value.value for node in client.body if isinstance(node, ast.Assign)
            and node.targets[0].id == '__all__' for value in node.value.elts}
modules = {path.stem for path in pathlib.Path(sys.argv[1]).iterdir()}
for node in ast.walk(tree):
    if isinstance(node, ast.Attribute) and getattr(node.value, 'id', '') == 'traind':
        if node.attr not in exported | modules:
            sys.exit('traind has no ' + node.attr)
";

#[test]
fn every_script_and_package_exists() {
    check(|document: &Document| {
        let blocks = ["sh", "console"].into_iter().flat_map(|language| document.blocks(language));
        let lines: Vec<&str> = blocks.flat_map(str::lines).collect();
        let prose = document.prose();
        let commands = lines.into_iter().chain(quoted(&prose));
        commands.filter_map(problem).collect::<Vec<_>>()
    });
}

#[test]
fn mistakes_in_commands_are_reported() {
    for right in ["$ scripts/test --peers", "cargo test -p traind-loader x", "ls scripts/x"] {
        assert_eq!(problem(right), None);
    }
    for wrong in ["scripts/tset", "scripts/README.md --help", "cargo build -p traind-x"] {
        assert!(problem(wrong).is_some(), "{wrong}");
    }
}

#[test]
fn every_example_in_python_is_valid() {
    let Some(python) = std::env::var_os("TRAIND_TEST_PYTHON") else { return };
    let client = repository().join("proto/python/src/traind");
    check(|document: &Document| {
        let blocks = document.blocks("python").map(|block| {
            let source = tempfile::NamedTempFile::new().unwrap();
            fs::write(source.path(), block).unwrap();
            let mut command = Command::new(&python);
            command.args(["-c", CHECK_PYTHON]).arg(&client).stdin(source.reopen().unwrap());
            let output = command.output().unwrap();
            let errors = String::from_utf8_lossy(&output.stderr).into_owned();
            (!output.status.success()).then(|| format!("{errors}\n{block}"))
        });
        blocks.flatten().collect::<Vec<_>>()
    });
}

fn problem(line: &str) -> Option<String> {
    let mut words = line.trim_start_matches("$ ").split_whitespace();
    match words.next()? {
        "cargo" => words.skip_while(|word| *word != "-p").nth(1).and_then(unknown_package),
        script if script.starts_with("scripts/") && line.contains(' ') => not_executable(script),
        script if script.starts_with("scripts/") => {
            let path = repository().join(script);
            (!path.exists() && !script.contains(['{', '*', 'N'])).then(|| format!("no {script}"))
        }
        _ => None,
    }
}

fn not_executable(script: &str) -> Option<String> {
    let metadata = fs::metadata(repository().join(script));
    let is_program =
        metadata.is_ok_and(|it| it.is_file() && it.permissions().mode() & EXECUTABLE != 0);
    (!is_program).then(|| format!("{script} is not a program"))
}

fn unknown_package(name: &str) -> Option<String> {
    let lock = fs::read_to_string(repository().join("Cargo.lock")).unwrap();
    (!lock.contains(&format!("name = \"{name}\"\n"))).then(|| format!("no package {name}"))
}
