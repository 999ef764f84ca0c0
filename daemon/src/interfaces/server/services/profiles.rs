//! Profiles of running jobs, from their runners. A runner has its user's rights, so what it sends is bounded.

use std::sync::Arc;

use tonic::Streaming;
use traind_proto::profile_steps;
use traind_proto::v1::ProfilePiece;
use traind_proto::v1::profile_piece::Piece;

use crate::control::daemon::Daemon;
use crate::control::error::Error;
use crate::interfaces::server::stream::{self, Messages, Sender};
use crate::jobs::run_dir::RunDir;
use crate::jobs::state::JobState;
use crate::jobs::store::Job;
use crate::jobs::supervisor;

const CHANNEL: usize = 4;
const TRACE_BYTES_MAX: usize = 1 << 30;

/// Has the runner of a job record its next `steps`. Returns when that is arranged, with the stream of the answer.
pub(super) async fn of_job(
    daemon: Arc<Daemon>,
    job: Job,
    steps: u32,
) -> Result<Messages<ProfilePiece>, Error> {
    let steps = match steps {
        0 => profile_steps::DEFAULT,
        1..=profile_steps::MAX => steps,
        _ => {
            let description = format!("is {steps}; must be 0 to {}", profile_steps::MAX);
            return Err(Error::Request { field: "steps", description });
        }
    };
    let refused = |problem: String| Error::Profile { id: job.id.clone(), problem };
    if job.state != JobState::Running {
        return Err(refused(format!("it is {}, not running", job.state)));
    }
    if job.is_elsewhere() {
        return Err(refused("its runner is on another host".to_owned()));
    }
    let socket = RunDir::new(&daemon.settings.state_dir, &job.id).socket();
    let recorded = supervisor::profile(socket, steps).await.map_err(refused)?;
    Ok(stream::fed(daemon.closing.clone(), CHANNEL, |sender| async move {
        feed(recorded, &sender).await.map_err(|problem| Error::Profile { id: job.id, problem })
    }))
}

async fn feed(
    mut recorded: Streaming<ProfilePiece>,
    sender: &Sender<ProfilePiece>,
) -> Result<(), String> {
    let mut rest = TRACE_BYTES_MAX;
    let mut is_recorded = false;
    while let Some(piece) = recorded.message().await.map_err(|it| supervisor::problem(&it))? {
        is_recorded = true;
        if let Some(Piece::Trace(part)) = &piece.piece {
            rest = rest.checked_sub(part.len()).ok_or("its trace is too large")?;
        }
        if sender.send(Ok(piece)).await.is_err() {
            return Ok(());
        }
    }
    if is_recorded { Ok(()) } else { Err(supervisor::ENDED.to_owned()) }
}
