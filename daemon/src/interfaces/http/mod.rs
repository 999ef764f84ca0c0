//! Plain HTTP on loopback, for browsers and Prometheus.
//!
//! There is no encryption, so an address that other hosts can reach is refused at startup; they
//! connect through ssh or an authenticating proxy. Requests must name the loopback host, so that a
//! web site cannot make its visitors' browsers read from the daemon (DNS rebinding). Every user of
//! this host can connect, so slow clients are disconnected and the number of connections is
//! limited, which protects the daemon's file descriptors. A request counts once its body has arrived, and
//! connections without a session make room for new ones, so that nobody waits for a stranger.

mod seats;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::to_bytes;
use axum::extract::{DefaultBodyLimit, Request};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tower::limit::GlobalConcurrencyLimitLayer;
use tower::{Service, service_fn};

use seats::{Seat, Seats};

/// Connections on which a request with a session succeeded, such as that of a page that follows a job.
const KNOWN_MAX: usize = 1024;
/// All others. The oldest one is closed for a new one.
const STRANGERS_MAX: usize = 512;
const REQUESTS_MAX: usize = 64;
/// Limit from the connection, or the previous response, to the end of a request's head.
const HEAD_TIMEOUT: Duration = Duration::from_secs(15);
/// Limit from there to the end of the request's body.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// Limit from there to the start of the response.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);
/// Delay after a failed accept, which usually means too many open files.
const RETRY: Duration = Duration::from_millis(100);
const REQUEST_BYTES_MAX: usize = 16 * 1024;
/// Limit on a head. Connections of strangers have as much in memory.
const HEAD_BYTES_MAX: usize = 32 * 1024;

#[derive(Debug, thiserror::Error)]
pub(crate) enum HttpError {
    #[error(
        "{setting} {address} can be reached from other machines, and has no encryption; \
         listen on 127.0.0.1 or [::1] and forward the port through ssh or a proxy with TLS"
    )]
    NotLoopback { setting: &'static str, address: SocketAddr },
    #[error("{setting} {address}: {source}")]
    Bind { setting: &'static str, address: SocketAddr, source: io::Error },
}

/// Returns the secret of a header `Authorization: Bearer`, if it has this form.
pub(crate) fn bearer_secret(value: &HeaderValue) -> Option<&str> {
    Some(value.to_str().ok()?.strip_prefix("Bearer ")?.trim())
}

/// Binds the address that `setting` names.
pub(crate) async fn bind(
    setting: &'static str,
    address: SocketAddr,
) -> Result<TcpListener, HttpError> {
    if !address.ip().is_loopback() {
        return Err(HttpError::NotLoopback { setting, address });
    }
    let bound = TcpListener::bind(address).await;
    bound.map_err(|source| HttpError::Bind { setting, address, source })
}

/// Serves until `closing` is cancelled, which also ends streams.
pub(crate) async fn serve(listener: TcpListener, router: Router, closing: CancellationToken) {
    serve_seats(listener, router, Seats::new(STRANGERS_MAX, KNOWN_MAX), closing).await;
}

async fn serve_seats(
    listener: TcpListener,
    router: Router,
    seats: Seats,
    closing: CancellationToken,
) {
    let router = guarded(router);
    let accepting = async {
        loop {
            seats.settled().await;
            match listener.accept().await {
                Ok((stream, _)) => {
                    let seat = Arc::new(seats.enter());
                    let serving = serve_client(stream, router.clone(), seat, HEAD_TIMEOUT);
                    tokio::spawn(closing.clone().run_until_cancelled_owned(serving));
                }
                Err(error) => {
                    tracing::warn!(%error, "accept an HTTP connection");
                    tokio::time::sleep(RETRY).await;
                }
            }
        }
    };
    closing.run_until_cancelled(accepting).await;
}

fn guarded(router: Router) -> Router {
    router
        .layer(middleware::from_fn(limit_response_time))
        .layer(middleware::from_fn(require_loopback_host))
        .layer(DefaultBodyLimit::max(REQUEST_BYTES_MAX))
        .layer(GlobalConcurrencyLimitLayer::new(REQUESTS_MAX))
        // Outermost: a request whose body does not arrive is none of those.
        .layer(middleware::from_fn(|request, next| receive_body(request, next, BODY_TIMEOUT)))
}

/// Receives the whole body, which is small.
async fn receive_body(request: Request, next: Next, timeout: Duration) -> Response {
    let (head, body) = request.into_parts();
    match tokio::time::timeout(timeout, to_bytes(body, REQUEST_BYTES_MAX)).await {
        Ok(Ok(body)) => next.run(Request::from_parts(head, body.into())).await,
        Ok(Err(_)) => {
            let message = format!("the request has no body of at most {REQUEST_BYTES_MAX} bytes");
            (StatusCode::PAYLOAD_TOO_LARGE, message).into_response()
        }
        Err(_) => (StatusCode::REQUEST_TIMEOUT, "the request's body took too long").into_response(),
    }
}

/// Serves one client until it disconnects, sends no request within `head_timeout`, or loses its seat.
async fn serve_client(stream: TcpStream, router: Router, seat: Arc<Seat>, head_timeout: Duration) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(head_timeout).max_buf_size(HEAD_BYTES_MAX);
    let displaced = seat.displaced().clone();
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let has_session = request.headers().contains_key(header::AUTHORIZATION);
        let (mut router, seat) = (router.clone(), seat.clone());
        async move {
            let response = router.call(request).await;
            if has_session && response.as_ref().is_ok_and(|it| it.status().is_success()) {
                seat.admit();
            }
            response
        }
    });
    let serving = http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
    if let Some(Err(error)) = displaced.run_until_cancelled(serving).await {
        tracing::debug!(%error, "serve an HTTP connection");
    }
}

async fn limit_response_time(request: Request, next: Next) -> Response {
    match tokio::time::timeout(RESPONSE_TIMEOUT, next.run(request)).await {
        Ok(response) => response,
        Err(_) => (StatusCode::SERVICE_UNAVAILABLE, "the response took too long").into_response(),
    }
}

async fn require_loopback_host(request: Request, next: Next) -> Response {
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    if host.is_some_and(is_loopback_name) {
        return next.run(request).await;
    }
    let message = "the request does not name this machine's loopback address";
    (StatusCode::MISDIRECTED_REQUEST, message).into_response()
}

fn is_loopback_name(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    ["localhost", "127.0.0.1", "[::1]"].contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;
    use axum::routing::post;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio_util::sync::DropGuard;

    #[test]
    fn only_loopback_hosts_are_served() {
        for host in ["localhost", "localhost:9400", "127.0.0.1:80", "[::1]", "[::1]:9400"] {
            assert!(is_loopback_name(host), "{host}");
        }
        for host in ["example.org", "localhost.example.org:9400", "10.0.0.7:9400", "", ":9400"] {
            assert!(!is_loopback_name(host), "{host}");
        }
    }

    /// A proxy in front of the page connects from this host: its headers about the caller are anyone's words.
    #[tokio::test]
    async fn headers_of_proxies_replace_no_host() {
        let mut router = guarded(Router::new().route("/", post(|| async { "served" })));
        for host in ["localhost", "example.org"] {
            let request = Request::post("/").header(header::HOST, host);
            let request = request
                .header("Forwarded", "for=127.0.0.1;host=localhost;proto=https")
                .header("X-Forwarded-Host", "localhost")
                .header("X-Forwarded-For", "127.0.0.1");
            let served = router.call(request.body(Body::empty()).unwrap()).await.unwrap();
            assert_eq!(served.status().is_success(), host == "localhost", "{host}");
        }
    }

    #[tokio::test]
    async fn a_public_address_is_refused() {
        let refused = bind("--metrics-address", "0.0.0.0:0".parse().unwrap()).await.unwrap_err();
        assert!(refused.to_string().contains("forward the port"), "{refused}");
        let bound = bind("--metrics-address", "127.0.0.1:0".parse().unwrap()).await.unwrap();
        let taken = bind("--metrics-address", bound.local_addr().unwrap()).await.unwrap_err();
        assert!(taken.to_string().contains("in use"), "{taken}");
    }

    #[tokio::test]
    async fn a_slow_client_is_disconnected() {
        let listener = bind("--web-address", "127.0.0.1:0".parse().unwrap()).await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        client.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ").await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let seat = Arc::new(Seats::new(1, 1).enter());
        let serving = serve_client(stream, guarded(Router::new()), seat, Duration::from_millis(20));
        let ended = tokio::time::timeout(Duration::from_secs(180), serving).await;
        assert!(ended.is_ok(), "the connection stays open");
        let mut response = String::new();
        client.read_to_string(&mut response).await.unwrap();
        assert!(!response.starts_with("HTTP/1.1 200"), "{response}");
    }

    /// Serves bodies as they came, until the guard is dropped.
    async fn echoing(seats: Seats) -> (SocketAddr, DropGuard) {
        let listener = bind("--web-address", "127.0.0.1:0".parse().unwrap()).await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().route("/", post(|body: String| async { body }));
        let closing = CancellationToken::new();
        tokio::spawn(serve_seats(listener, router, seats, closing.clone()));
        (address, closing.drop_guard())
    }

    /// 512 heads of 400 KB, which hyper reads, took 100 MB.
    #[tokio::test]
    async fn a_long_head_is_refused() {
        let (address, _closing) = echoing(Seats::new(9, 1)).await;
        for (bytes, expect) in [(HEAD_BYTES_MAX / 2, "200 "), (HEAD_BYTES_MAX, "431 ")] {
            let long = "x".repeat(bytes);
            let head =
                format!("POST / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX: {long}");
            let mut client = TcpStream::connect(address).await.unwrap();
            client.write_all(head.as_bytes()).await.unwrap();
            if bytes < HEAD_BYTES_MAX {
                client.write_all(b"\r\n\r\n").await.unwrap();
            }
            let mut response = String::new();
            client.read_to_string(&mut response).await.unwrap();
            assert!(response.starts_with(&format!("HTTP/1.1 {expect}")), "{response}");
        }
    }

    /// As many unfinished bodies as requests are served at once, and more.
    #[tokio::test]
    async fn nobody_waits_for_the_bodies_of_strangers() {
        let (address, _closing) = echoing(Seats::new(REQUESTS_MAX + 8, 1)).await;
        let head =
            "POST / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 5\r\n\r\n";
        let mut strangers = Vec::new();
        for _ in 0..REQUESTS_MAX + 64 {
            let mut stranger = TcpStream::connect(address).await.unwrap();
            // One that was displaced is closed.
            let _ = stranger.write_all(format!("{head}abc").as_bytes()).await;
            strangers.push(stranger);
        }
        let answered = async {
            let mut client = TcpStream::connect(address).await.unwrap();
            client.write_all(format!("{head}hello").as_bytes()).await.unwrap();
            let mut response = String::new();
            client.read_to_string(&mut response).await.unwrap();
            response
        };
        let response = tokio::time::timeout(BODY_TIMEOUT / 2, answered).await.unwrap();
        assert!(response.starts_with("HTTP/1.1 200") && response.ends_with("hello"), "{response}");
        // The oldest stranger has made room.
        let mut end = Vec::new();
        let closed = strangers[0].read_to_end(&mut end).await;
        assert!(closed.is_err() || !end.starts_with(b"HTTP/1.1 200"), "{end:?}");
    }

    #[tokio::test]
    async fn a_body_that_does_not_arrive_is_given_up() {
        let receive = |request, next| receive_body(request, next, Duration::from_millis(20));
        let mut router = Router::new()
            .route("/", post(|body: String| async { body }))
            .layer(middleware::from_fn(receive));
        let endless = Body::from_stream(futures_util::stream::pending::<io::Result<&[u8]>>());
        let request = Request::post("/").body(endless).unwrap();
        assert_eq!(router.call(request).await.unwrap().status(), StatusCode::REQUEST_TIMEOUT);
        let long = Request::post("/").body(Body::from(vec![b'a'; REQUEST_BYTES_MAX + 1])).unwrap();
        assert_eq!(router.call(long).await.unwrap().status(), StatusCode::PAYLOAD_TOO_LARGE);
    }
}
