//! Status and profiles of a running runner, over the socket in its run folder.

use std::error::Error as _;
use std::path::PathBuf;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint, Uri};
use tonic::{Status, Streaming};
use tower::service_fn;
use traind_proto::v1::{self, runner_client::RunnerClient};

/// How long to wait for the runner's answer.
const TIMEOUT: Duration = Duration::from_millis(500);
/// How long to wait for the runner's answer where a person waits too.
const PROFILE_TIMEOUT: Duration = Duration::from_secs(10);
/// The runner may be starting, may have ended, or may be too old to be asked.
const NO_RUNNER: &str = "no runner of it serves this host";

/// The runner has ended while it was asked.
pub(crate) const ENDED: &str = "its runner ended before the steps were recorded";

/// Returns the status of the runner that serves `socket`, or `None` if no runner serves it or
/// the runner does not answer in time. `energy_joules`: what the job has used so far, if known.
pub(crate) async fn runner_status(
    socket: PathBuf,
    energy_joules: Option<f64>,
) -> Option<v1::RunnerStatus> {
    let answer = async {
        let mut client = RunnerClient::new(connect(socket).await.ok()?);
        Some(client.get_status(v1::GetStatusRequest { energy_joules }).await.ok()?.into_inner())
    };
    tokio::time::timeout(TIMEOUT, answer).await.ok().flatten()
}

/// Asks the runner that serves `socket` to record its next steps. Returns when it has arranged that.
pub(crate) async fn profile(
    socket: PathBuf,
    steps: u32,
) -> Result<Streaming<v1::ProfilePiece>, String> {
    let answer = async {
        let channel = connect(socket).await.map_err(|_| NO_RUNNER.to_owned())?;
        let mut client = RunnerClient::new(channel);
        let answer = client.profile(v1::ProfileRequest { steps }).await;
        Ok(answer.map_err(|status| problem(&status))?.into_inner())
    };
    let answer = tokio::time::timeout(PROFILE_TIMEOUT, answer).await;
    answer.unwrap_or_else(|_| Err("its runner does not answer".to_owned()))
}

/// The runner's words, or that it has ended, which HTTP reports in terms of its frames.
pub(crate) fn problem(status: &Status) -> String {
    match status.source() {
        Some(_) => ENDED.to_owned(),
        None => status.message().to_owned(),
    }
}

async fn connect(socket: PathBuf) -> Result<Channel, tonic::transport::Error> {
    // tonic wants an address; the connector ignores it and opens the socket.
    let connector = service_fn(move |_: Uri| {
        let socket = socket.clone();
        async move { UnixStream::connect(socket).await.map(TokioIo::new) }
    });
    Endpoint::from_static("http://runner").connect_with_connector(connector).await
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;
    use tokio::net::UnixListener;

    use super::*;

    /// The connection closes, as when the runner's process ends.
    #[tokio::test]
    async fn a_runner_that_ends_is_said_to_have_ended() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("runner.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let end = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.read_u8().await.unwrap();
        };
        let (profile, ()) = tokio::join!(profile(socket, 1), end);
        assert_eq!(profile.err().as_deref(), Some(ENDED));
        let said = problem(&Status::failed_precondition("training ended before a step"));
        assert_eq!(said, "training ended before a step");
    }
}
