//! Lists for programs to read.

use anyhow::Context;
use clap::ValueEnum;
use serde::Serialize;

/// How a list is printed.
#[derive(Clone, Copy, Default, ValueEnum)]
pub(crate) enum ListFormat {
    #[default]
    Table,
    Json,
}

/// Prints a JSON array.
pub(crate) fn print_json<T: Serialize>(items: impl Iterator<Item = T>) -> anyhow::Result<()> {
    let items: Vec<T> = items.collect();
    println!("{}", serde_json::to_string_pretty(&items).context("print as JSON")?);
    Ok(())
}
