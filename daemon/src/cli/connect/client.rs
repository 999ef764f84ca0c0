//! Reaching the daemon: by its socket, or through TLS on another host.

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

/// As large as the daemon's largest answer.
const MESSAGE_BYTES_MAX: usize = 16 * 1024 * 1024;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const KEEPALIVE: Duration = Duration::from_secs(30);
/// How long a daemon that is killed and started again may be away.
const AWAY_MAX: Duration = Duration::from_secs(10);
/// How long its socket may refuse a first connection.
const REFUSED_MAX: Duration = Duration::from_secs(3);
const RETRY_FIRST: Duration = Duration::from_millis(20);
const RETRY_MAX: Duration = Duration::from_secs(1);

/// A connection that shows its token with each call, if it has one.
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

/// Makes a call that may be made twice: again, ever less often, while the daemon is away, and when
/// it says so where it has too much to do.
pub(crate) async fn repeat<T, F>(mut call: impl FnMut() -> F) -> Result<T, Status>
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
        } else if let Some(wanted) = status.get_details_retry_info().and_then(|i| i.retry_delay) {
            tokio::time::sleep(about(wanted)).await;
        } else {
            return Err(status);
        }
    }
}

/// The job meant by an id, the beginning of one, or a name.
pub(crate) async fn get_job(
    jobs: &JobsClient<Connection>,
    reference: &str,
) -> Result<v1::Job, Status> {
    repeat(|| {
        let (mut jobs, job_id) = (jobs.clone(), reference.to_owned());
        async move { jobs.get_job(v1::GetJobRequest { job_id }).await }
    })
    .await
}

/// Whether nobody answered. A broken connection comes as `Unknown`; a daemon that is there and
/// refuses tells why.
fn is_absence(status: &Status) -> bool {
    let broken = matches!(status.code(), Code::Unavailable | Code::Unknown | Code::Cancelled);
    broken && status.get_details_error_info().is_none()
}

/// Half to one and a half of it: those who were refused together do not come back together.
fn about(delay: Duration) -> Duration {
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

/// Looks now, so that a missing daemon is said at once; reconnects by itself later.
async fn connect_unix(path: &Path) -> anyhow::Result<Channel> {
    reach(path).await.with_context(|| {
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
    // Calls connect, and those that may be repeated survive a daemon that dies right now.
    Ok(endpoint().connect_with_connector_lazy(connector))
}

/// A socket that is there and refuses may be that of a daemon which is just started again.
async fn reach(path: &Path) -> std::io::Result<()> {
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
    let stream = shake_hands(address, name.clone(), tls.clone()).await;
    let stream = stream.with_context(|| format!("reach the daemon at {address}"))?;
    hear(stream).await.with_context(|| {
        format!("the daemon at {address} hung up; does it know who signed --client-cert, and is that in its time?")
    })?;
    let address = address.to_owned();
    let connector = service_fn(move |_: Uri| {
        let (address, name, tls) = (address.clone(), name.clone(), tls.clone());
        async move { shake_hands(&address, name, tls).await.map(TokioIo::new) }
    });
    endpoint().connect_with_connector(connector).await.context("connect to the daemon")
}

async fn shake_hands(
    address: &str,
    name: ServerName<'static>,
    tls: Arc<ClientConfig>,
) -> std::io::Result<TlsStream<TcpStream>> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    TlsConnector::from(tls).connect(name, stream).await
}

/// Waits for the daemon's first word. Hands are shaken before it has looked at a certificate, and
/// only here is heard why it takes none.
async fn hear(mut stream: TlsStream<TcpStream>) -> std::io::Result<()> {
    match tokio::time::timeout(CONNECT_TIMEOUT, stream.read_u8()).await {
        Ok(heard) => heard.map(drop),
        // One that is slow to speak may still answer.
        Err(_) => Ok(()),
    }
}

/// The connectors know where the daemon is; TLS is their work too.
fn endpoint() -> Endpoint {
    Endpoint::from_static("http://traind")
        .connect_timeout(CONNECT_TIMEOUT)
        .http2_keep_alive_interval(KEEPALIVE)
        .keep_alive_while_idle(true)
}
