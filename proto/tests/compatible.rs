//! The schema only grows: every call, field and value that a release had keeps its number and type.
//! `TRAIND_WRITE_FIXTURES=1` writes the schema of this version, which is done once for each release.

#![allow(clippy::unwrap_used)] // helpers of tests fail by panicking

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use prost::Message;
use prost_types::{DescriptorProto, EnumDescriptorProto, FileDescriptorSet};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/schemas")
}

/// A line for each call, field and value.
fn schema() -> BTreeSet<String> {
    let mut lines = BTreeSet::new();
    for file in FileDescriptorSet::decode(traind_proto::FILE_DESCRIPTOR_SET).unwrap().file {
        if file.package() != "traind.v1" {
            continue;
        }
        for service in &file.service {
            lines.extend(service.method.iter().map(|it| {
                let stream = if it.server_streaming() { " stream" } else { "" };
                let (request, response) = (it.input_type(), it.output_type());
                format!("call {}.{} {request}{stream} {response}", service.name(), it.name())
            }));
        }
        file.message_type.iter().for_each(|it| message(&mut lines, "", it));
        file.enum_type.iter().for_each(|it| values(&mut lines, "", it));
    }
    lines
}

fn message(lines: &mut BTreeSet<String>, outer: &str, message_type: &DescriptorProto) {
    let name = format!("{outer}{}", message_type.name());
    for field in &message_type.field {
        let kind = format!("{:?} {:?} {}", field.r#type(), field.label(), field.type_name());
        lines.insert(format!("field {name}.{} = {} {}", field.name(), field.number(), kind.trim()));
    }
    let inner = format!("{name}.");
    message_type.nested_type.iter().for_each(|it| self::message(lines, &inner, it));
    message_type.enum_type.iter().for_each(|it| values(lines, &inner, it));
}

fn values(lines: &mut BTreeSet<String>, outer: &str, kind: &EnumDescriptorProto) {
    let name = format!("{outer}{}", kind.name());
    lines.extend(
        kind.value.iter().map(|it| format!("value {name}.{} = {}", it.name(), it.number())),
    );
}

#[test]
fn everything_that_a_release_had_is_still_there() {
    let now = schema();
    assert!(now.len() > 300, "{}", now.len());
    let current = folder().join(format!("{}.txt", env!("CARGO_PKG_VERSION")));
    if std::env::var_os("TRAIND_WRITE_FIXTURES").is_some() {
        fs::create_dir_all(folder()).unwrap();
        let text: String = now.iter().map(|line| format!("{line}\n")).collect();
        fs::write(&current, text).unwrap();
    }
    assert!(current.exists(), "{} is missing: set TRAIND_WRITE_FIXTURES=1", current.display());
    for entry in fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        let gone: Vec<&str> = text.lines().filter(|line| !now.contains(*line)).collect();
        assert!(gone.is_empty(), "changed since {}: {gone:#?}", path.display());
    }
}
