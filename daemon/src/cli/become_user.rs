//! The user that `traind`'s own subcommands become before they execute another program.

use std::process::Command;

use anyhow::Context;

use crate::access::account::Entry;

/// Becomes the user, whom the environment of `command` will name.
pub(super) fn become_user(entry: &Entry, command: &mut Command) -> anyhow::Result<()> {
    for (name, value) in entry.environment() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    entry.assume().context("switch to the user")
}
