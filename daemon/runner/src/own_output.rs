//! The standard output for an answer alone.

use std::fs::File;
use std::io;

/// Returns the standard output, and sends to standard error what others print, such as the dots of Neuron's compiler.
pub(crate) fn own_output() -> io::Result<File> {
    let out = rustix::io::dup(io::stdout())?;
    rustix::stdio::dup2_stdout(io::stderr())?;
    Ok(out.into())
}
