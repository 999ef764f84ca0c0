//! Streams of a job's programs, from the run folder. The job's user can put anything there, so sizes and
//! numbers are limited.

use std::fs;
use std::io::{self, ErrorKind, Read as _};
use std::path::Path;
use std::sync::Arc;

use traind_proto::program_folder::{DESCRIPTION, TEXT, decode, program_file};
use traind_proto::v1::ProgramPiece;
use traind_proto::v1::program_piece::Piece;

use crate::control::daemon::Daemon;
use crate::control::error::Error;
use crate::interfaces::server::stream::{self, Messages, Sender};
use crate::jobs::run_dir::RunDir;

const CHANNEL: usize = 4;
/// Bytes of a message with text, far below the limit of a gRPC message.
const TEXT_BYTES: usize = 1 << 20;
const TEXT_BYTES_MAX: u64 = 1 << 30;
const DESCRIPTION_BYTES_MAX: u64 = 16 << 20;
/// The most programs of a job; a run compiles about a dozen.
const PROGRAMS_MAX: usize = 1024;

/// Streams the programs of the job whose run folder is `run_dir`, by name.
pub(super) fn of_job(
    daemon: Arc<Daemon>,
    run_dir: RunDir,
    with_text: bool,
) -> Messages<ProgramPiece> {
    stream::fed(daemon.closing.clone(), CHANNEL, |sender| async move {
        feed(&run_dir, with_text, &sender).await.map_err(Error::Programs)
    })
}

async fn feed(run_dir: &RunDir, with_text: bool, sender: &Sender<ProgramPiece>) -> io::Result<()> {
    for name in read({
        let run_dir = run_dir.clone();
        move || names(&run_dir.programs())
    })
    .await?
    {
        let pieces = read({
            let (run_dir, name) = (run_dir.clone(), name.clone());
            move || pieces(&run_dir, &name, with_text)
        });
        for piece in pieces.await? {
            if sender.send(Ok(ProgramPiece { piece: Some(piece) })).await.is_err() {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Reads on a thread that may block.
async fn read<T: Send + 'static>(
    read: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(read).await.map_err(io::Error::other)?
}

/// The names of the programs, sorted.
fn names(folder: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let files = entries.take(2 * PROGRAMS_MAX).flatten().map(|entry| entry.path());
    let described = files.filter(|path| path.extension().is_some_and(|found| found == DESCRIPTION));
    let mut names: Vec<String> =
        described.filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned())).collect();
    names.sort_unstable();
    Ok(names)
}

/// The messages about one program.
fn pieces(run_dir: &RunDir, name: &str, with_text: bool) -> io::Result<Vec<Piece>> {
    let folder = run_dir.programs();
    let mut bytes = Vec::new();
    let file = run_dir.open(&program_file(&folder, name, DESCRIPTION))?;
    file.take(DESCRIPTION_BYTES_MAX).read_to_end(&mut bytes)?;
    let mut pieces = vec![Piece::Program(decode(&bytes)?)];
    if with_text {
        let mut text = String::new();
        let file = run_dir.open(&program_file(&folder, name, TEXT))?;
        file.take(TEXT_BYTES_MAX).read_to_string(&mut text)?;
        pieces.extend(parts(&text).map(|part| Piece::Text(part.to_owned())));
    }
    Ok(pieces)
}

/// Cuts a text into parts of at most [`TEXT_BYTES`].
fn parts(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (part, after) = rest.split_at(rest.floor_char_boundary(TEXT_BYTES));
        rest = after;
        (!part.is_empty()).then_some(part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_text_are_whole_characters() {
        let text = "é".repeat(TEXT_BYTES);
        let parts: Vec<&str> = parts(&text).collect();
        assert!(parts.len() > 1 && parts.iter().all(|part| part.len() <= TEXT_BYTES));
        assert_eq!(parts.concat(), text);
    }
}
