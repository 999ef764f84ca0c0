//! The folder of a run directory that holds the job's programs: of each one its text, and the
//! message that describes it. The runner writes, the daemon reads.

use std::io;
use std::path::{Path, PathBuf};

use prost::Message as _;

use crate::v1;

/// Name of the folder in a run directory.
pub const PROGRAM_FOLDER: &str = "programs";
/// The extension of the message's file.
pub const DESCRIPTION: &str = "pb";
/// The extension of the text's file: StableHLO.
pub const TEXT: &str = "mlir";

/// The file of a program in `folder`.
pub fn program_file(folder: &Path, name: &str, extension: &str) -> PathBuf {
    folder.join(format!("{name}.{extension}"))
}

/// Encodes a description.
pub fn encode(program: &v1::Program) -> Vec<u8> {
    program.encode_to_vec()
}

/// Decodes a description.
pub fn decode(bytes: &[u8]) -> io::Result<v1::Program> {
    v1::Program::decode(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}
