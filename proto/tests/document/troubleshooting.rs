//! `docs/troubleshooting.md` has a section for each reason.

use std::collections::BTreeSet;

use traind_proto::reasons;

/// The sections of reasons: headings of the third level, with the text up to the next heading.
fn sections(page: &str) -> Vec<(&str, &str)> {
    let sections = page.split("\n### ").skip(1);
    let split = sections.map(|section| section.split_once('\n').unwrap());
    split.map(|(title, text)| (title, text.split("\n## ").next().unwrap())).collect()
}

#[test]
fn every_reason_has_one_section_and_every_section_a_reason() {
    let page = super::page("troubleshooting.md");
    let titles: Vec<&str> = sections(&page).into_iter().map(|(title, _)| title).collect();
    let found: BTreeSet<&str> = titles.iter().copied().collect();
    let known: BTreeSet<&str> = reasons::ALL.iter().map(|(name, _)| *name).collect();
    let missing: Vec<_> = known.difference(&found).collect();
    assert!(missing.is_empty(), "docs/troubleshooting.md lacks a section for {missing:?}");
    let unknown: Vec<_> = found.difference(&known).collect();
    assert!(
        unknown.is_empty(),
        "sections of docs/troubleshooting.md without a reason: {unknown:?}"
    );
    assert_eq!(titles.len(), found.len(), "a reason has two sections");
}

#[test]
fn every_section_has_a_message_a_cause_and_a_remedy() {
    for (title, text) in sections(&super::page("troubleshooting.md")) {
        for part in ["\n```text\n", "\n**Cause.** ", "\n**Remedy.** "] {
            assert_eq!(text.matches(part).count(), 1, "{title}: {part:?}");
        }
    }
}
