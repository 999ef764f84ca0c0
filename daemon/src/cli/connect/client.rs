//! Clients of the daemon, over its socket or over TLS.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use hyper_util::rt::TokioIo;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;
use tonic::metadata::AsciiMetadataValue;
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint, Uri};
use tonic::{Code, Request, Response, Status};
use tonic_types::StatusExt;
use tower::service_fn;
use traind_proto::v1;
use traind_proto::v1::admin_client::AdminClient;
use traind_proto::v1::cores_client::CoresClient;
use traind_proto::v1::jobs_client::JobsClient;
use traind_proto::v1::tokens_client::TokensClient;
use traind_proto::v1::web_client::WebClient;

use crate::cli::Global;
use crate::paths;

/// The size limit of the daemon's responses.
const MESSAGE_BYTES_MAX: usize = 16 * 1024 * 1024;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const KEEPALIVE: Duration = Duration::from_secs(30);
/// How long a daemon may take to restart.
const AWAY_MAX: Duration = Duration::from_secs(10);
/// How long the socket may refuse the first connection.
const REFUSED_MAX: Duration = Duration::from_secs(3);
const RETRY_FIRST: Duration = Duration::from_millis(20);
const RETRY_MAX: Duration = Duration::from_secs(1);

/// A connection that sends its token with each call, if it has one.
pub(crate) type Connection = InterceptedService<Channel, Authorization>;

#[derive(Clone)]
pub(crate) struct Authorization(Option<AsciiMetadataValue>);

impl Interceptor for Authorization {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(value) = &self.0 {
            request.metadata_mut().insert("authorization", value.clone());
        }
        Ok(request)
    }
}

pub(crate) async fn jobs(global: &Global) -> anyhow::Result<JobsClient<Connection>> {
    let client = JobsClient::new(connection(global).await?);
    Ok(client.max_decoding_message_size(MESSAGE_BYTES_MAX))
}

pub(crate) async fn cores(global: &Global) -> anyhow::Result<CoresClient<Connection>> {
    Ok(CoresClient::new(connection(global).await?))
}

pub(crate) async fn admin(global: &Global) -> anyhow::Result<AdminClient<Connection>> {
    Ok(AdminClient::new(connection(global).await?))
}

pub(crate) async fn tokens(global: &Global) -> anyhow::Result<TokensClient<Connection>> {
    Ok(TokensClient::new(connection(global).await?))
}

pub(crate) async fn web(global: &Global) -> anyhow::Result<WebClient<Connection>> {
    Ok(WebClient::new(connection(global).await?))
}

/// Makes an idempotent call, with retries: with backoff while the daemon is away, and after the delay
/// that an overloaded daemon sets.
pub(crate) async fn retry<T, F>(mut call: impl FnMut() -> F) -> Result<T, Status>
where
    F: Future<Output = Result<Response<T>, Status>>,
{
    let (start, mut delay) = (Instant::now(), RETRY_FIRST);
    loop {
        let status = match call().await {
            Err(status) if start.elapsed() < AWAY_MAX => status,
            result => return result.map(Response::into_inner),
        };
        if is_absence(&status) {
            tokio::time::sleep(delay).await;
            delay = (2 * delay).min(RETRY_MAX);
        } else if let Some(delay) = status.get_details_retry_info().and_then(|i| i.retry_delay) {
            tokio::time::sleep(jittered(delay)).await;
        } else {
            return Err(status);
        }
    }
}

/// Returns the job with an id, a prefix of one, or a name.
pub(crate) async fn get_job(
    jobs: &JobsClient<Connection>,
    reference: &str,
) -> Result<v1::Job, Status> {
    retry(|| {
        let (mut jobs, job_id) = (jobs.clone(), reference.to_owned());
        async move { jobs.get_job(v1::GetJobRequest { job_id }).await }
    })
    .await
}

/// Whether the daemon did not answer. A broken connection has the code `Unknown`; an error from the
/// daemon has details.
fn is_absence(status: &Status) -> bool {
    let broken = matches!(status.code(), Code::Unavailable | Code::Unknown | Code::Cancelled);
    broken && status.get_details_error_info().is_none()
}

/// Jitters a delay by half of it, so that clients refused together do not return together.
fn jittered(delay: Duration) -> Duration {
    let fraction = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().subsec_micros();
    delay.mul_f64(0.5 + f64::from(fraction % 1000) / 1000.0)
}

async fn connection(global: &Global) -> anyhow::Result<Connection> {
    let Some(address) = &global.remote.address else {
        let channel = connect_unix(&socket(global)).await?;
        return Ok(InterceptedService::new(channel, Authorization(None)));
    };
    let authorization = Authorization(global.remote.authorization()?);
    let channel = connect_network(address, global.remote.tls()?).await?;
    Ok(InterceptedService::new(channel, authorization))
}

fn socket(global: &Global) -> PathBuf {
    global.socket.clone().unwrap_or_else(paths::client_socket)
}

/// Connects once at the start, so that a missing daemon is an error; reconnects automatically later.
async fn connect_unix(path: &Path) -> anyhow::Result<Channel> {
    probe(path).await.map_err(|error| {
        let context = unanswered(path, error.kind());
        anyhow::Error::from(error).context(context)
    })?;
    let path = path.to_owned();
    // tonic wants an address; the connector ignores it and opens the socket.
    let connector = service_fn(move |_: Uri| {
        let path = path.clone();
        async move { UnixStream::connect(path).await.map(TokioIo::new) }
    });
    // Connects with the first call, so that retries cover a daemon that dies right now.
    Ok(endpoint().connect_with_connector_lazy(connector))
}

fn unanswered(path: &Path, kind: ErrorKind) -> String {
    let path = path.display();
    match kind {
        ErrorKind::PermissionDenied => format!(
            "you may not use {path}, which is for the members of its group (`serve --socket-group`) who can enter its \
             folder; name the socket of another daemon with --socket"
        ),
        _ => format!(
            "no daemon answers on {path}; start one with `traind serve`, or name its socket with --socket"
        ),
    }
}

/// Connects to the socket, with retries while it refuses, as that of a restarting daemon does.
async fn probe(path: &Path) -> std::io::Result<()> {
    let start = Instant::now();
    loop {
        match UnixStream::connect(path).await {
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset
                ) && start.elapsed() < REFUSED_MAX =>
            {
                tokio::time::sleep(RETRY_FIRST).await;
            }
            result => return result.map(drop),
        }
    }
}

async fn connect_network(address: &str, tls: Arc<ClientConfig>) -> anyhow::Result<Channel> {
    let (host, _) = address.rsplit_once(':').context("--address must be HOST:PORT")?;
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    let name = ServerName::try_from(host).context("--address must be HOST:PORT")?;
    let stream = handshake(address, name.clone(), tls.clone()).await;
    let stream = stream.with_context(|| format!("connect to the daemon at {address}"))?;
    check_accepted(stream).await.with_context(|| {
        format!("the daemon at {address} closed the connection; does it trust the authority of --client-cert, and is the certificate valid now?")
    })?;
    let address = address.to_owned();
    let connector = service_fn(move |_: Uri| {
        let (address, name, tls) = (address.clone(), name.clone(), tls.clone());
        async move { handshake(&address, name, tls).await.map(TokioIo::new) }
    });
    endpoint().connect_with_connector(connector).await.context("connect to the daemon")
}

async fn handshake(
    address: &str,
    name: ServerName<'static>,
    tls: Arc<ClientConfig>,
) -> std::io::Result<TlsStream<TcpStream>> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    TlsConnector::from(tls).connect(name, stream).await
}

/// Waits for the daemon's first byte. With TLS 1.3, a refused client certificate is reported only
/// after the handshake.
async fn check_accepted(mut stream: TlsStream<TcpStream>) -> std::io::Result<()> {
    match tokio::time::timeout(CONNECT_TIMEOUT, stream.read_u8()).await {
        Ok(read) => read.map(drop),
        // A slow daemon may still answer.
        Err(_) => Ok(()),
    }
}

/// An endpoint for connectors, which resolve the address and do TLS.
fn endpoint() -> Endpoint {
    Endpoint::from_static("http://traind")
        .connect_timeout(CONNECT_TIMEOUT)
        .http2_keep_alive_interval(KEEPALIVE)
        .keep_alive_while_idle(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_of_others_is_no_missing_daemon() {
        let said = |kind| unanswered(Path::new("/run/traind/traind.sock"), kind);
        assert!(said(ErrorKind::NotFound).starts_with("no daemon answers on /run/traind"));
        let denied = said(ErrorKind::PermissionDenied);
        assert!(
            denied.contains("members of its group") && !denied.contains("no daemon"),
            "{denied}"
        );
    }
}
