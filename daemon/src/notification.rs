//! Notifications of state changes: where they go, and what they say.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use traind_job_file::Notify;

/// A receiver of notifications.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Receiver {
    /// The names of the states that it hears of.
    pub states: Vec<String>,
    pub way: Way,
    /// Whether the operator named it, and not a job file.
    pub is_operators: bool,
}

/// The way of a notification.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Way {
    Webhook { url: String, secret_file: Option<PathBuf> },
    Command { words: Vec<String> },
}

/// The receivers that a job file names.
pub(crate) fn receivers_of(notify: &Notify) -> Vec<Receiver> {
    let Notify { states, webhooks, secret_file, command } = notify;
    receivers(states, webhooks, secret_file.as_ref(), command, false)
}

/// Receivers with the same states.
pub(crate) fn receivers(
    states: &[String],
    webhooks: &[String],
    secret_file: Option<&PathBuf>,
    command: &[String],
    is_operators: bool,
) -> Vec<Receiver> {
    let webhook =
        |url: &String| Way::Webhook { url: url.clone(), secret_file: secret_file.cloned() };
    let command = (!command.is_empty()).then(|| Way::Command { words: command.to_vec() });
    let ways = webhooks.iter().map(webhook).chain(command);
    ways.map(|way| Receiver { states: states.to_vec(), way, is_operators }).collect()
}
