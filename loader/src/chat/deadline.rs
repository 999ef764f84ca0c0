//! A deadline for renderings. The budget pays for steps and for text, but not for all that a step may do: to compare
//! two lists that hold one list many times, or to write such a list, takes time that doubles with each level.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::ChatProblem;

/// The longest rendering; a budget is used up in less than a second.
const LONGEST: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 5 });

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
    receiver.recv_timeout(LONGEST).map_err(|_| failed("takes too long".to_owned()))
}
