//! The standard output for an answer alone.

use std::fs::File;
use std::io;

use anyhow::Context as _;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::daemon_end::read_request;
use crate::error::leave_out_earlier_lines;

/// Answers the request on standard input, both as JSON.
pub(crate) fn answer_request<Request: DeserializeOwned, Answer: Serialize>(
    answer: impl FnOnce(&Request) -> anyhow::Result<Answer>,
) -> anyhow::Result<()> {
    answer_read(|| serde_json::from_reader(io::stdin().lock()).context("read the request"), answer)
}

/// Answers the daemon's request, and ends at once when the daemon does.
pub(crate) fn answer_daemon<Request: DeserializeOwned, Answer: Serialize>(
    answer: impl FnOnce(&Request) -> anyhow::Result<Answer>,
) -> anyhow::Result<()> {
    answer_read(read_request, answer)
}

fn answer_read<Request, Answer: Serialize>(
    read: impl FnOnce() -> anyhow::Result<Request>,
    answer: impl FnOnce(&Request) -> anyhow::Result<Answer>,
) -> anyhow::Result<()> {
    leave_out_earlier_lines();
    let mut out = own_output().context("open the standard output")?;
    serde_json::to_writer(&mut out, &answer(&read()?)?).context("write the answer")
}

/// Returns the standard output, and sends to standard error what others print, such as the dots of Neuron's compiler.
pub(crate) fn own_output() -> io::Result<File> {
    let out = rustix::io::dup(io::stdout())?;
    rustix::stdio::dup2_stdout(io::stderr())?;
    Ok(out.into())
}
