//! The choices that `docs/models.md` lists: those that are declared.

#![allow(clippy::unwrap_used)] // helpers of tests fail by panicking

use std::path::Path;

use traind_choices::{LabelsKind, Loss, Optim};

/// The page, with one space between words.
fn page() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/models.md");
    let page = std::fs::read_to_string(path).unwrap();
    page.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn check(expect: &str) {
    assert!(page().contains(expect), "docs/models.md does not say:\n{expect}");
}

#[test]
fn the_page_has_the_losses_of_each_kind_of_labels() {
    for (kind, labels) in [
        (LabelsKind::Classes, "one class per row or word; tokens of language models"),
        (LabelsKind::Flags, "several classes per row"),
        (LabelsKind::Numbers, "numbers"),
    ] {
        let default = kind.default_loss();
        assert!(default.labels().contains(&kind));
        let fits = |loss: &&Loss| **loss != default && loss.labels().contains(&kind);
        let others = Loss::ALL.iter().filter(fits).map(|loss| format!("`{loss}`"));
        let losses: Vec<String> =
            std::iter::once(format!("`{default}` (the default)")).chain(others).collect();
        check(&format!("| {labels} | {} |", losses.join(", ")));
    }
}

#[test]
fn the_page_has_the_optimizers() {
    let names: Vec<String> = Optim::ALL.iter().map(|optim| format!("`{optim}`")).collect();
    let Some((last, others)) = names.split_last() else { panic!("there are no optimizers") };
    check(&format!("`train.optim` is {} or {last},", others.join(", ")));
}
