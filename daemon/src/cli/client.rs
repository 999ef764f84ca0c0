//! Reaching the daemon.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint, Uri};
use tower::service_fn;
use traind_proto::v1::admin_client::AdminClient;
use traind_proto::v1::cores_client::CoresClient;
use traind_proto::v1::jobs_client::JobsClient;

use super::Global;
use crate::paths;

/// As large as the daemon's largest answer.
const MESSAGE_BYTES_MAX: usize = 16 * 1024 * 1024;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const KEEPALIVE: Duration = Duration::from_secs(30);

pub(crate) async fn jobs(global: &Global) -> anyhow::Result<JobsClient<Channel>> {
    let channel = connect(&socket(global)).await?;
    Ok(JobsClient::new(channel).max_decoding_message_size(MESSAGE_BYTES_MAX))
}

pub(crate) async fn cores(global: &Global) -> anyhow::Result<CoresClient<Channel>> {
    Ok(CoresClient::new(connect(&socket(global)).await?))
}

pub(crate) async fn admin(global: &Global) -> anyhow::Result<AdminClient<Channel>> {
    Ok(AdminClient::new(connect(&socket(global)).await?))
}

fn socket(global: &Global) -> PathBuf {
    global.socket.clone().unwrap_or_else(paths::client_socket)
}

/// Connects now, so that a missing daemon is said at once; reconnects by itself later.
async fn connect(path: &Path) -> anyhow::Result<Channel> {
    UnixStream::connect(path).await.with_context(|| {
        format!(
            "no daemon answers on {}; start one with `traind serve`, or name its socket with --socket",
            path.display()
        )
    })?;
    let path = path.to_owned();
    // The address is not used: the connector knows the socket.
    let connector = service_fn(move |_: Uri| {
        let path = path.clone();
        async move { UnixStream::connect(path).await.map(TokioIo::new) }
    });
    let endpoint = Endpoint::from_static("http://traind")
        .connect_timeout(CONNECT_TIMEOUT)
        .http2_keep_alive_interval(KEEPALIVE)
        .keep_alive_while_idle(true);
    endpoint.connect_with_connector(connector).await.context("connect to the daemon")
}
