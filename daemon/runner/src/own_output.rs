//! The standard output for an answer alone.

use std::fs::File;
use std::io;

use anyhow::Context as _;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Answers the request on standard input, both as JSON.
pub(crate) fn answer_request<Request: DeserializeOwned, Answer: Serialize>(
    answer: impl FnOnce(&Request) -> anyhow::Result<Answer>,
) -> anyhow::Result<()> {
    let mut out = own_output().context("open the standard output")?;
    let request = serde_json::from_reader(io::stdin().lock()).context("read the request")?;
    serde_json::to_writer(&mut out, &answer(&request)?).context("write the answer")
}

/// Returns the standard output, and sends to standard error what others print, such as the dots of Neuron's compiler.
pub(crate) fn own_output() -> io::Result<File> {
    let out = rustix::io::dup(io::stdout())?;
    rustix::stdio::dup2_stdout(io::stderr())?;
    Ok(out.into())
}
