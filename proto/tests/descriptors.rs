//! The schema as clients see it through reflection.

#![allow(clippy::unwrap_used)] // helpers of tests fail by panicking

use std::collections::BTreeSet;

use prost::Message;
use prost_types::{DescriptorProto, EnumDescriptorProto, FileDescriptorProto, FileDescriptorSet};
use traind_proto::FILE_DESCRIPTOR_SET;

fn all_files() -> Vec<FileDescriptorProto> {
    FileDescriptorSet::decode(FILE_DESCRIPTOR_SET).unwrap().file
}

fn our_files() -> impl Iterator<Item = FileDescriptorProto> {
    all_files().into_iter().filter(|file| file.package() == "traind.v1")
}

/// Paths of the declarations that have a comment in front of them.
fn commented(file: &FileDescriptorProto) -> BTreeSet<Vec<i32>> {
    let locations = &file.source_code_info.as_ref().unwrap().location;
    let with_comment =
        locations.iter().filter(|location| !location.leading_comments().trim().is_empty());
    with_comment.map(|location| location.path.clone()).collect()
}

/// Paths (see `SourceCodeInfo.Location.path`) and names of all declarations.
fn declarations(file: &FileDescriptorProto) -> Vec<(Vec<i32>, String)> {
    let mut found = Vec::new();
    for (index, message) in (0..).zip(&file.message_type) {
        found.push((vec![4, index], message.name().to_owned()));
        for (at, field) in (0..).zip(&message.field) {
            found.push((vec![4, index, 2, at], format!("{}.{}", message.name(), field.name())));
        }
    }
    for (index, values) in (0..).zip(&file.enum_type) {
        found.push((vec![5, index], values.name().to_owned()));
        for (at, value) in (0..).zip(&values.value) {
            found.push((vec![5, index, 2, at], value.name().to_owned()));
        }
    }
    for (index, service) in (0..).zip(&file.service) {
        found.push((vec![6, index], service.name().to_owned()));
        for (at, method) in (0..).zip(&service.method) {
            found.push((vec![6, index, 2, at], format!("{}.{}", service.name(), method.name())));
        }
    }
    found
}

#[test]
fn everything_has_a_comment() {
    for file in our_files() {
        let commented = commented(&file);
        let bare: Vec<_> = declarations(&file)
            .into_iter()
            .filter(|(path, _)| !commented.contains(path))
            .map(|(_, name)| name)
            .collect();
        assert!(bare.is_empty(), "{}: without a comment: {bare:?}", file.name());
    }
}

#[test]
fn reflection_finds_every_service_and_import() {
    let services: BTreeSet<_> = our_files()
        .flat_map(|file| file.service)
        .map(|service| service.name().to_owned())
        .collect();
    assert_eq!(
        services,
        ["Admin", "Cores", "Jobs", "Plugins", "Runner", "Tokens", "Web"].map(str::to_owned).into()
    );
    let files = all_files();
    let names: BTreeSet<_> = files.iter().map(FileDescriptorProto::name).collect();
    for import in files.iter().flat_map(|file| &file.dependency) {
        assert!(names.contains(import.as_str()), "{import}");
    }
}

#[test]
fn messages_and_enumerations_follow_the_style_guide() {
    for file in our_files() {
        file.message_type.iter().for_each(check_message);
        file.enum_type.iter().for_each(check_enum);
    }
}

fn check_message(message: &DescriptorProto) {
    let lower_snake = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    for field in &message.field {
        assert!(field.name().chars().all(lower_snake), "{}.{}", message.name(), field.name());
    }
}

fn check_enum(values: &EnumDescriptorProto) {
    let mut prefix = String::new();
    for c in values.name().chars() {
        if c.is_ascii_uppercase() && !prefix.is_empty() {
            prefix.push('_');
        }
        prefix.push(c.to_ascii_uppercase());
    }
    assert_eq!(values.value[0].number(), 0);
    assert_eq!(values.value[0].name(), format!("{prefix}_UNSPECIFIED"));
    for value in &values.value {
        assert!(value.name().starts_with(&format!("{prefix}_")), "{}", value.name());
    }
}
