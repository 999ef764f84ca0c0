//! The demonstration's labelled texts: the descriptions of Debian's or Ubuntu's packages with their
//! sections, or generated texts where there is no package index.
//!
//! Where the host's own index is empty, as before the first `apt-get update`, one is fetched into the
//! cache folder, which needs no root and leaves the host as it was.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::Context;
use sha2::{Digest, Sha256};

use super::generated;
use super::row::Row;

/// The most frequent classes that are kept.
const CLASSES: usize = 20;
/// Fewer descriptions are not worth training on.
const DESCRIPTIONS_MIN: usize = 2000;

/// The rows to train on and to validate with.
pub(super) struct Texts {
    pub train: Vec<Row>,
    pub validation: Vec<Row>,
    pub source: &'static str,
}

impl Texts {
    /// Collects rows; the same packages give the same ones.
    pub(super) fn collect(train: usize, validation: usize, apt_dir: &Path) -> Texts {
        let count = train + validation;
        let described = package_descriptions(apt_dir);
        let (rows, source) = if described.len() >= count.max(DESCRIPTIONS_MIN) {
            (described, "package descriptions and their sections")
        } else {
            (generated::rows(count), "generated texts and their topics")
        };
        let mut rows = shuffled(most_frequent(rows)).into_iter();
        let validation = rows.by_ref().take(validation).collect();
        Texts { train: rows.take(train).collect(), validation, source }
    }

    /// Writes `train.csv` and `validation.csv`.
    pub(super) fn write(&self, folder: &Path) -> anyhow::Result<()> {
        for (name, rows) in [("train.csv", &self.train), ("validation.csv", &self.validation)] {
            let path = folder.join(name);
            fs::write(&path, csv(rows)).with_context(|| format!("write {}", path.display()))?;
        }
        Ok(())
    }
}

fn csv(rows: &[Row]) -> String {
    let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
    let lines = rows.iter().map(|row| format!("{},{}\n", quoted(&row.text), quoted(&row.label)));
    ["text,label\n".to_owned()].into_iter().chain(lines).collect()
}

/// Keeps the rows of the most frequent labels.
fn most_frequent(rows: Vec<Row>) -> Vec<Row> {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for row in &rows {
        *counts.entry(&row.label).or_default() += 1;
    }
    let mut labels: Vec<(&str, usize)> = counts.into_iter().collect();
    labels.sort_by_key(|&(label, count)| (usize::MAX - count, label));
    let kept: HashSet<String> =
        labels.into_iter().take(CLASSES).map(|(label, _)| label.to_owned()).collect();
    rows.into_iter().filter(|row| kept.contains(&row.label)).collect()
}

/// Orders rows by the hash of their text alone.
fn shuffled(mut rows: Vec<Row>) -> Vec<Row> {
    rows.sort_by_cached_key(|row| Sha256::digest(row.text.as_bytes()));
    rows
}

fn package_descriptions(apt_dir: &Path) -> Vec<Row> {
    let own = parse(&dump(None));
    if !own.is_empty() {
        return own;
    }
    fetch(apt_dir).map(|config| parse(&dump(Some(&config)))).unwrap_or_default()
}

/// Reads the stanzas of an index, each description once. Only the first line of a description is in it.
fn parse(index: &str) -> Vec<Row> {
    let mut seen = HashSet::new();
    let rows = index.split("\n\n").filter_map(|stanza| {
        let field = |name: &str| {
            let lines = stanza.lines().filter_map(|line| line.split_once(": "));
            lines.into_iter().find(|(key, _)| *key == name).map(|(_, value)| value.trim())
        };
        let text = field("Description").or_else(|| field("Description-en"))?;
        let label = field("Section")?.rsplit('/').next()?;
        Some(Row { text: text.to_owned(), label: label.to_owned() })
    });
    rows.filter(|row| !row.text.is_empty() && seen.insert(row.text.clone())).collect()
}

/// The index of all available packages; empty if there is none.
fn dump(config: Option<&Path>) -> String {
    let mut command = Command::new("apt-cache");
    command.arg("dumpavail").env("LC_ALL", "C").stderr(Stdio::null());
    if let Some(config) = config {
        command.env("APT_CONFIG", config);
    }
    let output = command.output().ok().filter(|output| output.status.success());
    output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default()
}

/// Fetches the index of the host's package sources into a folder; returns the configuration to read it
/// with, or nothing on hosts without apt.
fn fetch(folder: &Path) -> Option<std::path::PathBuf> {
    let (lists, config) = (folder.join("lists"), folder.join("apt.conf"));
    fs::create_dir_all(lists.join("partial")).ok()?;
    fs::write(&config, apt_settings(&lists)).ok()?;
    let mut command = Command::new("apt-get");
    command.arg("update").env("APT_CONFIG", &config);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut update = command.spawn().ok()?;
    eprintln!("fetching the package index");
    // A part of the sources may be unreachable; the number of rows decides.
    update.wait().ok()?;
    Some(config)
}

fn apt_settings(lists: &Path) -> String {
    let lists = lists.display().to_string();
    let settings = [
        ("Dir::State::lists", lists.as_str()),
        ("Dir::Cache::pkgcache", ""),
        ("Dir::Cache::srcpkgcache", ""),
        ("APT::Sandbox::User", ""),
        ("Debug::NoLocking", "1"),
        ("Acquire::Languages", "none"),
        ("Acquire::http::Timeout", "30"),
        ("Acquire::https::Timeout", "30"),
    ];
    settings.iter().map(|(name, value)| format!("{name} \"{value}\";\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(text: &str, label: &str) -> Row {
        Row { text: text.to_owned(), label: label.to_owned() }
    }

    #[test]
    fn descriptions_are_read_once_with_the_last_part_of_their_section() {
        let index = "Package: first\nDescription: a game of chess\nTag: game::board,\n uitoolkit::gtk\n\
                     Section: universe/games\n\nPackage: second\nDescription-en: reads mail\n\
                     Section: mail\n\nPackage: copy\nDescription: a game of chess\nSection: oldlibs\n\n\
                     Package: no-section\nDescription: is of no use here\n";
        assert_eq!(parse(index), [row("a game of chess", "games"), row("reads mail", "mail")]);
        assert!(parse("").is_empty());
    }

    #[test]
    fn the_rarest_classes_are_left_out() {
        let rows = (0..=CLASSES).flat_map(|class| {
            (0..=class)
                .map(move |index| row(&format!("{class} {index}"), &format!("class {class}")))
        });
        let kept = most_frequent(rows.collect());
        assert!(kept.iter().all(|row| row.label != "class 0"));
        assert!(kept.iter().any(|row| row.label == "class 1"));
    }

    #[test]
    fn csv_keeps_quotes_and_commas() {
        let rows = [row("a \"quoted\", text", "x")];
        assert_eq!(csv(&rows), "text,label\n\"a \"\"quoted\"\", text\",\"x\"\n");
    }
}
