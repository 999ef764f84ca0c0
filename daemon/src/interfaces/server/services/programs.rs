//! Streams of a job's programs, from the run folder. The job's user can put anything there, so sizes and
//! numbers are limited.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Take};
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
        move || names(&run_dir)
    })
    .await?
    {
        let described = read({
            let (run_dir, name) = (run_dir.clone(), name.clone());
            move || description(&run_dir, &name)
        });
        if !send(sender, described.await?).await {
            return Ok(());
        }
        let mut text = match with_text {
            true => Some(Text::open(run_dir, &name)?),
            false => None,
        };
        // Read in parts, so that a long text is never in memory, and not after the client has left.
        while let Some(mut rest) = text.take() {
            let (part, rest) = read(move || Ok((rest.part()?, rest))).await?;
            let Some(part) = part else { break };
            if !send(sender, Piece::Text(part)).await {
                return Ok(());
            }
            text = Some(rest);
        }
    }
    Ok(())
}

/// Returns whether the client is still there.
async fn send(sender: &Sender<ProgramPiece>, piece: Piece) -> bool {
    sender.send(Ok(ProgramPiece { piece: Some(piece) })).await.is_ok()
}

/// Reads on a thread that may block.
async fn read<T: Send + 'static>(
    read: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(read).await.map_err(io::Error::other)?
}

/// The names of the programs, sorted.
fn names(run_dir: &RunDir) -> io::Result<Vec<String>> {
    let files = run_dir.names(&run_dir.programs(), 2 * PROGRAMS_MAX)?;
    let described =
        files.iter().filter_map(|name| name.strip_suffix(DESCRIPTION)?.strip_suffix('.'));
    let mut names: Vec<String> = described.map(str::to_owned).collect();
    names.sort_unstable();
    Ok(names)
}

/// The description of one program.
fn description(run_dir: &RunDir, name: &str) -> io::Result<Piece> {
    let mut bytes = Vec::new();
    let file = run_dir.open(&program_file(&run_dir.programs(), name, DESCRIPTION))?;
    file.take(DESCRIPTION_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(Piece::Program(decode(&bytes)?))
}

/// A text that is read in parts of at most [`TEXT_BYTES`].
struct Text<R> {
    rest: Take<R>,
    /// The first bytes of a character that the next part completes.
    begun: Vec<u8>,
}

impl Text<File> {
    fn open(run_dir: &RunDir, name: &str) -> io::Result<Text<File>> {
        let file = run_dir.open(&program_file(&run_dir.programs(), name, TEXT))?;
        Ok(Text::of(file))
    }
}

impl<R: Read> Text<R> {
    fn of(file: R) -> Text<R> {
        Text { rest: file.take(TEXT_BYTES_MAX), begun: Vec::new() }
    }

    /// Reads the next part; `None` after the last one.
    fn part(&mut self) -> io::Result<Option<String>> {
        let mut bytes = std::mem::take(&mut self.begun);
        let wanted = (TEXT_BYTES - bytes.len()) as u64;
        let read = self.rest.by_ref().take(wanted).read_to_end(&mut bytes)?;
        if bytes.is_empty() {
            return Ok(None);
        }
        let valid = match std::str::from_utf8(&bytes) {
            Ok(text) => text.len(),
            // The end of a part may be within a character, the end of the text may not.
            Err(error) if error.error_len().is_none() && read > 0 => error.valid_up_to(),
            Err(error) => return Err(io::Error::new(ErrorKind::InvalidData, error)),
        };
        self.begun = bytes.split_off(valid);
        String::from_utf8(bytes)
            .map(Some)
            .map_err(|error| io::Error::new(ErrorKind::InvalidData, error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(bytes: impl Read) -> io::Result<Vec<String>> {
        let mut text = Text::of(bytes);
        std::iter::from_fn(|| text.part().transpose()).collect()
    }

    #[test]
    fn the_parts_of_a_text_are_whole_characters() {
        let text = format!("a{}", "é".repeat(TEXT_BYTES));
        let parts = parts(text.as_bytes()).unwrap();
        assert!(parts.len() > 1 && parts.iter().all(|part| part.len() <= TEXT_BYTES));
        assert_eq!(parts.concat(), text);
    }

    #[test]
    fn a_text_that_is_none_is_an_error_and_an_endless_one_is_read_in_parts() {
        for wrong in [&b"a\xff"[..], b"a\xc3"] {
            assert_eq!(parts(wrong).unwrap_err().kind(), ErrorKind::InvalidData, "{wrong:?}");
        }
        let mut endless = Text::of(io::repeat(b'a'));
        for _ in 0..3 {
            assert_eq!(endless.part().unwrap().map(|part| part.len()), Some(TEXT_BYTES));
        }
    }
}
