//! One POST request to a webhook, signed if there is a secret. Redirects are not followed.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use aws_lc_rs::hmac;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HOST, USER_AGENT};
use hyper::{Request, Response, Uri};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use traind_durable::read_regular;

use super::NotifyError;
use crate::access::account::with_rights_of;
use crate::hex::hex;
use crate::jobs::store::Delivery;
use crate::tls;

const TIMEOUT: Duration = Duration::from_secs(15);
/// The size of the largest secret.
const SECRET_BYTES_MAX: u64 = 64 << 10;

pub(super) async fn send(
    delivery: &Delivery,
    url: &str,
    secret_file: Option<PathBuf>,
) -> Result<(), NotifyError> {
    let bad = || NotifyError::Address(url.to_owned());
    let uri: Uri = url.parse().map_err(|_| bad())?;
    let host = uri.host().ok_or_else(bad)?.to_owned();
    // Without a user and a password, which are of no use to the receiver's other programs.
    let authority = uri.authority().ok_or_else(bad)?.as_str();
    let authority = authority.rsplit_once('@').map_or(authority, |(_, host)| host).to_owned();
    let is_secure = uri.scheme_str() == Some("https");
    let port = uri.port_u16().unwrap_or(if is_secure { 443 } else { 80 });
    let path = uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
    let mut request = Request::post(path)
        .header(HOST, authority)
        .header(USER_AGENT, concat!("traind/", env!("CARGO_PKG_VERSION")))
        .header(CONTENT_TYPE, "application/json")
        .header("X-Traind-Event", &delivery.state)
        .header("X-Traind-Delivery", delivery.id.to_string());
    if let Some(path) = secret_file {
        let secret = secret(delivery, path).await?;
        let signature = hmac_sha256(&secret, delivery.body.as_bytes());
        request = request.header("X-Traind-Signature-256", format!("sha256={signature}"));
    }
    let request = request.body(Full::new(Bytes::from(delivery.body.clone())))?;
    let exchange = async {
        let response = exchange(request, &host, port, is_secure).await?;
        match response.status().is_success() {
            true => Ok(()),
            false => Err(NotifyError::Status(response.status())),
        }
    };
    tokio::time::timeout(TIMEOUT, exchange).await.unwrap_or(Err(NotifyError::Timeout(TIMEOUT)))
}

/// Reads the secret with the rights of the job's user. A line break at its end is not a part of it.
async fn secret(delivery: &Delivery, path: PathBuf) -> Result<Vec<u8>, NotifyError> {
    let (account, name) = (delivery.account, path.clone());
    let read = move || read_regular(&path, SECRET_BYTES_MAX);
    let read = move || with_rights_of(account, read).and_then(|read| read);
    let read = tokio::task::spawn_blocking(read).await.map_err(io::Error::other);
    let secret = read.and_then(|read| read);
    let mut secret = secret.map_err(|source| NotifyError::Secret { path: name, source })?;
    let kept = secret.trim_ascii_end().len();
    secret.truncate(kept);
    Ok(secret)
}

async fn exchange(
    request: Request<Full<Bytes>>,
    host: &str,
    port: u16,
    is_secure: bool,
) -> Result<Response<hyper::body::Incoming>, NotifyError> {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let stream = TcpStream::connect((host, port)).await.map_err(NotifyError::Connect)?;
    if !is_secure {
        return over(stream, request).await;
    }
    let name = ServerName::try_from(host.to_owned());
    let name = name.map_err(|_| NotifyError::Address(host.to_owned()))?;
    let connector = TlsConnector::from(tls::web_client()?);
    let stream = connector.connect(name, stream).await.map_err(NotifyError::Connect)?;
    over(stream, request).await
}

async fn over(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<Full<Bytes>>,
) -> Result<Response<hyper::body::Incoming>, NotifyError> {
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    Ok(sender.send_request(request).await?)
}

/// HMAC-SHA-256 in hexadecimal.
fn hmac_sha256(secret: &[u8], message: &[u8]) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
    hex(hmac::sign(&key, message).as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cases 2 and 6 of RFC 4231.
    #[test]
    fn signatures_are_those_of_the_rfc() {
        assert_eq!(
            hmac_sha256(b"Jefe", b"what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
        assert_eq!(
            hmac_sha256(&[0xaa; 131], b"Test Using Larger Than Block-Size Key - Hash Key First"),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"
        );
    }
}
