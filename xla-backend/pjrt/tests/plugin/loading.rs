//! Plugins that are not there, or are not plugins.

use crate::support::cpu_plugin;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;
use traind_pjrt::{API_VERSION, Error, ErrorCode, Plugin};

/// A library made of this C source.
fn library(source: &str) -> (TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let (c, so) = (folder.path().join("fake.c"), folder.path().join("fake.so"));
    std::fs::write(&c, source).unwrap();
    let output =
        Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&so).arg(&c).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    (folder, so)
}

#[test]
fn a_plugin_is_loaded_once() {
    let (first, second) = (cpu_plugin(), cpu_plugin());
    assert_eq!(first, second);
    assert_eq!(first.api_version().major, API_VERSION.major);
    assert_eq!(API_VERSION.to_string(), "0.81");
}

#[test]
fn a_plugin_tells_its_versions() {
    let plugin = cpu_plugin();
    let [major, ..] = plugin.stablehlo_current_version().unwrap().unwrap();
    assert!(major >= 1);
    assert!(plugin.xla_version().unwrap().unwrap() >= 1);
}

#[test]
fn an_absent_file_is_not_found() {
    let error = Plugin::load("absent/plugin.so").unwrap_err();
    assert_eq!(error, Error::PluginNotFound { path: Path::new("absent/plugin.so").into() });
    assert_eq!(error.code(), ErrorCode::NotFound);
}

#[test]
fn a_text_file_is_not_a_library() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(b"not a library").unwrap();
    let error = Plugin::load(file.path()).unwrap_err();
    assert!(matches!(&error, Error::NotALibrary { path, .. } if path == file.path()), "{error}");
}

#[test]
fn a_library_without_the_symbol_is_not_a_plugin() {
    let (_folder, so) = library("int unrelated(void) { return 1; }");
    let error = Plugin::load(&so).unwrap_err();
    assert!(matches!(&error, Error::NotAPlugin { path, .. } if *path == so), "{error}");
    assert!(error.to_string().contains("GetPjrtApi"), "{error}");
}

#[test]
fn a_library_that_returns_null_is_not_a_plugin() {
    let (_folder, so) = library("const void* GetPjrtApi(void) { return 0; }");
    let error = Plugin::load(&so).unwrap_err();
    assert!(error.to_string().contains("returned null"), "{error}");
}

/// The head of a function table: its size, no extensions, and its version.
fn table(struct_size: usize, major: i32) -> String {
    format!(
        "#include <stddef.h>
         static struct {{ size_t size; void* ext; size_t version_size; void* version_ext;
                          int major, minor; }} table = {{ {struct_size}, 0, 24, 0, {major}, 7 }};
         const void* GetPjrtApi(void) {{ return &table; }}"
    )
}

#[test]
fn another_major_version_is_refused() {
    let (_folder, so) = library(&table(40, 3));
    let error = Plugin::load(&so).unwrap_err();
    assert!(matches!(&error, Error::VersionMismatch { found, .. } if found.major == 3), "{error}");
    assert!(error.to_string().contains("PJRT API 3.7"), "{error}");
}

#[test]
fn a_table_that_ends_early_lacks_what_comes_after() {
    let (_folder, so) = library(&table(40, 0));
    let error = Plugin::load(&so).unwrap_err();
    assert!(error.to_string().contains("PJRT_Event_Await"), "{error}");
}
