//! Receives requests before they are handled, so that no call waits for one that does not arrive.

use std::time::{Duration, Instant};

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use tonic::body::Body;

use super::body::observed;
use crate::control::error::Error;
use crate::interfaces::server::REQUEST_BYTES_MAX;
use crate::interfaces::server::quota::{Turn, Turns};

/// How long a request may take to arrive.
const ARRIVAL_MAX: Duration = Duration::from_secs(10);
/// Bytes that a request may have without waiting for its turn. Only job files, and texts to generate with, are larger.
const SMALL_BYTES_MAX: usize = 16 << 10;
/// The most larger requests in memory before they are handled, and those of one user.
const LARGE_MAX: usize = 16;
const LARGE_OF_USER_MAX: usize = 4;
/// A flag for compression, and the length of a message.
const PREFIX_BYTES: usize = 5;
/// Calls whose requests are streams.
const STREAMING: &str = "/grpc.reflection.";

/// Requests that arrive.
#[derive(Clone)]
pub(super) struct Arrivals {
    large: Turns,
    within: Duration,
}

/// A request's bytes, and its turn if it is large.
#[derive(Default)]
struct Arrived {
    bytes: Vec<u8>,
    turn: Option<Turn>,
}

impl Arrivals {
    /// `request_timeout`: the time that a call may take.
    pub(super) fn new(request_timeout: Duration) -> Arrivals {
        let large = Turns::new(LARGE_MAX, LARGE_OF_USER_MAX);
        Arrivals { large, within: request_timeout.min(ARRIVAL_MAX) }
    }

    /// The body of a call, once the whole request of `user` is there.
    pub(super) async fn receive(&self, path: &str, body: Body, user: &str) -> Result<Body, Error> {
        if path.starts_with(STREAMING) {
            return Ok(body);
        }
        let Arrived { bytes, turn } = self.whole(body, user).await?;
        let body = Body::new(Full::new(Bytes::from(bytes)));
        Ok(match turn {
            // Until the service has read it.
            Some(turn) => observed(body, move |_| {
                let _ = &turn;
            }),
            None => body,
        })
    }

    /// Receives a request to its end, or to where it is too large. The wait for a turn is none for the request.
    async fn whole(&self, mut body: Body, user: &str) -> Result<Arrived, Error> {
        let (mut arrived, mut left) = (Arrived::default(), self.within);
        loop {
            let start = Instant::now();
            let next = tokio::time::timeout(left, body.frame()).await;
            left = left.saturating_sub(start.elapsed());
            let frame = match next.map_err(|_| Error::SlowRequest(self.within))? {
                Some(Ok(frame)) => frame,
                // The service refuses what is incomplete.
                Some(Err(_)) | None => return Ok(arrived),
            };
            let Ok(data) = frame.into_data() else { continue };
            arrived.bytes.extend_from_slice(&data);
            if is_too_large(&arrived.bytes) {
                return Ok(arrived);
            }
            if arrived.bytes.len() > SMALL_BYTES_MAX && arrived.turn.is_none() {
                let busy = |_| Error::Busy { what: "large requests" };
                arrived.turn = Some(self.large.next(user).await.map_err(busy)?);
            }
        }
    }
}

/// Whether the service refuses a request that begins like this for its size.
fn is_too_large(bytes: &[u8]) -> bool {
    let announced = bytes.get(1..PREFIX_BYTES).and_then(|length| length.try_into().ok());
    let announced = announced.map_or(0, |length| u32::from_be_bytes(length) as usize);
    bytes.len().max(announced) > REQUEST_BYTES_MAX + PREFIX_BYTES
}

#[cfg(test)]
mod tests {
    use futures_util::StreamExt;
    use http_body::Frame;
    use http_body_util::StreamBody;

    use super::*;

    /// A body of chunks, which ends or not.
    fn body(chunks: Vec<Vec<u8>>, ends: bool) -> Body {
        let chunks = chunks.into_iter().map(|it| Ok::<_, Error>(Frame::data(Bytes::from(it))));
        let chunks = futures_util::stream::iter(chunks);
        match ends {
            true => Body::new(StreamBody::new(chunks)),
            false => Body::new(StreamBody::new(chunks.chain(futures_util::stream::pending()))),
        }
    }

    fn arrivals(within: Duration) -> Arrivals {
        Arrivals { large: Turns::new(2, 1), within }
    }

    async fn bytes(received: Result<Body, Error>) -> usize {
        received.unwrap().collect().await.unwrap().to_bytes().len()
    }

    const LONG: Duration = Duration::from_secs(600);
    const CALL: &str = "/traind.v1.Jobs/GetJob";

    #[tokio::test]
    async fn a_request_that_does_not_arrive_is_given_up() {
        let whole = vec![vec![0; 5], vec![7; 100]];
        let arrivals = arrivals(Duration::from_millis(20));
        assert_eq!(
            bytes(arrivals.receive(CALL, body(whole.clone(), true), "ann").await).await,
            105
        );
        let slow = arrivals.receive(CALL, body(whole.clone(), false), "ann").await;
        assert!(matches!(slow, Err(Error::SlowRequest(_))), "{slow:?}");
        let stream = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
        assert!(arrivals.receive(stream, body(whole, false), "ann").await.is_ok());
    }

    #[tokio::test]
    async fn requests_that_are_too_large_are_received_no_further() {
        let arrivals = arrivals(LONG);
        let announced = vec![vec![0, 0xff, 0xff, 0xff, 0xff]];
        assert_eq!(bytes(arrivals.receive(CALL, body(announced, false), "ann").await).await, 5);
        let chunk = vec![0; 1 << 20];
        let endless = body(vec![chunk; 3], false);
        assert_eq!(bytes(arrivals.receive(CALL, endless, "ann").await).await, 2 << 20);
    }

    /// A user's large requests wait for each other, and that is no fault of theirs.
    #[tokio::test]
    async fn large_requests_of_a_user_wait_for_each_other() {
        let large = || body(vec![vec![0; SMALL_BYTES_MAX], vec![0; 1]], true);
        let arrivals = arrivals(LONG);
        let first = arrivals.receive(CALL, large(), "ann").await.unwrap();
        let mut second = std::pin::pin!(arrivals.receive(CALL, large(), "ann"));
        assert!(futures_util::poll!(&mut second).is_pending());
        let small = body(vec![vec![0; SMALL_BYTES_MAX]], true);
        assert_eq!(bytes(arrivals.receive(CALL, small, "ann").await).await, SMALL_BYTES_MAX);
        let others = arrivals.receive(CALL, large(), "bob").await;
        assert_eq!(bytes(others).await, SMALL_BYTES_MAX + 1);
        drop(first);
        assert_eq!(bytes(second.await).await, SMALL_BYTES_MAX + 1);
    }
}
