//! No other part of the runner turns a value of the job file into one of trainer or loader.

use std::path::Path;

use super::{declared, sources};

/// A path at the beginning of `text`, in segments.
fn path_at(text: &str) -> Vec<&str> {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == ':';
    let end = text.find(|letter| !is_part(letter)).unwrap_or(text.len());
    text[..end].split("::").filter(|segment| !segment.is_empty()).collect()
}

/// The arms of a `match` in which a value of `enums` becomes one of another enumeration, with nothing besides.
fn conversions(text: &str, enums: &dyn Fn(&str) -> bool) -> Vec<String> {
    let is_type = |name: &str| name.starts_with(char::is_uppercase);
    let mut found = Vec::new();
    for (at, _) in text.match_indices("=>") {
        let before = text[..at].trim_end();
        let is_part = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == ':';
        let pattern = &before[before.trim_end_matches(is_part).len()..];
        let value = text[at + "=>".len()..].trim_start();
        let [.., named, _] = path_at(pattern)[..] else { continue };
        let [.., own, variant] = path_at(value)[..] else { continue };
        let is_whole = value[value.find(variant).unwrap_or(0) + variant.len()..].starts_with(',');
        if enums(named) && is_type(own) && is_type(variant) && is_whole {
            found.push(format!("{pattern} => {own}::{variant}"));
        }
    }
    found
}

#[test]
fn conversions_are_in_the_recipe_alone() {
    let (enums, own) = (declared(), Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    // The models have an enumeration of this name, too.
    let is_named = |name: &str| name != "ProblemType" && enums.contains(name);
    let elsewhere = sources(&own).into_iter().filter(|(file, _)| !file.starts_with("recipe"));
    let found = elsewhere.flat_map(|(file, text)| {
        let found = conversions(&text, &is_named).into_iter();
        found.map(|it| format!("src/{file}: {it}")).collect::<Vec<_>>()
    });
    assert_eq!(found.collect::<Vec<_>>(), [""; 0], "move them to src/recipe");
}

#[test]
fn an_arm_that_converts_is_found() {
    let found = |text: &str| conversions(text, &|name| name == "Fsdp");
    let arm = "match a {\n    job_file::Fsdp::No => state::Fsdp::No,\n}";
    assert_eq!(found(arm), ["job_file::Fsdp::No => Fsdp::No"]);
    for other in ["Fsdp::No => None,", "Fsdp::No => Sharding::of(1),", "Own::No => Fsdp::No,"] {
        assert_eq!(found(other), [""; 0], "{other}");
    }
}
