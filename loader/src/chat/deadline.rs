//! A deadline for renderings. The budget pays for steps and for text, but not for all that a step may do: to compare
//! two lists that hold one list many times, or to write such a list, takes time that doubles with each level.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use crate::error::ChatProblem;

/// The time between looks at a rendering.
const TURN: Duration = Duration::from_millis(100);
/// The turns of the longest rendering, 5 seconds; a budget is used up in less than one. A process that is stopped
/// meanwhile loses one turn only.
const TURNS: usize = if cfg!(test) { 10 } else { 50 };

/// Does `work` on a thread of its own. After the deadline, nothing can stop the thread: it ends with the process,
/// which has no further use for the template.
pub(super) fn within<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ChatProblem> {
    let (sender, receiver) = mpsc::sync_channel(1);
    let failed = |message: String| ChatProblem::Template { message };
    thread::Builder::new()
        .name("chat-template".to_owned())
        .spawn(move || sender.send(work()))
        .map_err(|error| failed(format!("no thread could be started: {error}")))?;
    for _ in 0..TURNS {
        match receiver.recv_timeout(TURN) {
            Ok(result) => return Ok(result),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err(failed("panicked".to_owned())),
        }
    }
    Err(failed("takes too long".to_owned()))
}
