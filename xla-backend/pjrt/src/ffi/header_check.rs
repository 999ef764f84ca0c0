//! Compares every declaration of this module with the header that ships beside
//! the CPU plugin, by having the C compiler print its own view.

use super::layout::StructLayout;
use super::{api, buffer, client, core, device, enums, event, executable, topology};
use crate::{dtype, error};
use std::ffi::c_int;
use std::fmt::Write;
use std::path::Path;
use std::process::Command;

/// `(name, value)` pairs, one for each thing that must agree.
type Facts = Vec<(String, i64)>;

fn structs() -> impl Iterator<Item = &'static StructLayout> {
    [
        buffer::LAYOUTS,
        client::LAYOUTS,
        core::LAYOUTS,
        device::LAYOUTS,
        event::LAYOUTS,
        executable::LAYOUTS,
        topology::LAYOUTS,
    ]
    .into_iter()
    .flatten()
}

fn constants() -> impl Iterator<Item = &'static (&'static str, c_int)> {
    [enums::CONSTANTS, error::ERROR_CODES, dtype::BUFFER_TYPES].into_iter().flatten()
}

/// Returns the layout in Rust, each fact named by the C expression for it.
fn facts_in_rust() -> Facts {
    let mut facts = Facts::new();
    let mut add = |expression: String, value: usize| facts.push((expression, value as i64));
    for layout in structs() {
        let name = layout.c_name;
        add(format!("{name}_STRUCT_SIZE"), layout.struct_size);
        add(format!("sizeof({name})"), layout.size_of);
        for field in layout.fields {
            let c_name = field.c_name;
            add(format!("offsetof({name}, {c_name})"), field.offset);
            add(format!("sizeof((({name}*)0)->{c_name})"), field.size);
        }
    }
    for (entry, offset) in api::ENTRIES {
        add(format!("offsetof(PJRT_Api, {entry})"), *offset);
    }
    add("sizeof(PJRT_Api)".to_owned(), size_of::<api::Api>());
    facts.extend(constants().map(|(name, value)| (name.to_string(), i64::from(*value))));
    facts
}

/// A C program that prints the value of each expression, a line each.
fn c_program(header: &Path, facts: &Facts) -> String {
    let mut program = format!("#include <stdio.h>\n#include {header:?}\nint main(void) {{\n");
    for (expression, _) in facts {
        writeln!(program, "  printf(\"%lld\\n\", (long long)({expression}));").unwrap();
    }
    program + "  return 0;\n}\n"
}

/// The values that C gives.
fn values_in_c(program: &str) -> Vec<i64> {
    let folder = tempfile::tempdir().unwrap();
    let (source, binary) = (folder.path().join("facts.c"), folder.path().join("facts"));
    std::fs::write(&source, program).unwrap();
    let compiled = Command::new("cc").arg(&source).arg("-o").arg(&binary).output().unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let printed = Command::new(&binary).output().unwrap().stdout;
    String::from_utf8(printed).unwrap().lines().map(|line| line.parse().unwrap()).collect()
}

#[test]
fn declarations_agree_with_the_header() {
    let plugin =
        crate::installed::installed_plugin("cpu").expect("run `traind plugins install cpu`");
    let header = plugin.with_file_name("pjrt_c_api.h");
    assert!(header.is_file(), "{} is absent: run `traind plugins install cpu`", header.display());
    if Command::new("cc").arg("--version").output().is_err() {
        eprintln!("not compared with the header: this machine has no C compiler `cc`");
        return;
    }
    let rust = facts_in_rust();
    let c = values_in_c(&c_program(&header, &rust));
    assert_eq!(rust.len(), c.len());
    let wrong: Vec<_> = rust.iter().zip(c).filter(|((_, rust), c)| rust != c).collect();
    assert!(wrong.is_empty(), "Rust and C differ: {wrong:#?}");
}

/// A table that lost an entry in the middle would still agree entry by entry.
#[test]
fn every_entry_of_the_table_is_declared() {
    const POINTER: usize = size_of::<usize>();
    let offsets: Vec<usize> = api::ENTRIES.iter().skip(1).map(|(_, offset)| *offset).collect();
    assert!(offsets.windows(2).all(|pair| pair[1] == pair[0] + POINTER));
    assert_eq!(offsets.last(), Some(&(size_of::<api::Api>() - POINTER)));
}
