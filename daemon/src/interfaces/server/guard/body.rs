//! Wrappers of response bodies: one that observes frames, and one that ends early.

use std::pin::Pin;
use std::task::{Context, Poll};

use http_body::{Frame, SizeHint};
use hyper::body::Bytes;
use hyper::http::HeaderMap;
use tonic::Status;
use tonic::body::Body;

struct Observed<F> {
    body: Body,
    on_frame: F,
}

/// Returns the body with `on_frame` called for each of its frames. The closure is dropped with
/// the body.
pub(super) fn observed<F>(body: Body, on_frame: F) -> Body
where
    F: FnMut(&Frame<Bytes>) + Send + Unpin + 'static,
{
    Body::new(Observed { body, on_frame })
}

/// Returns the body, ended with the status of `end` if that resolves first.
pub(super) fn take_until<E>(body: Body, end: E) -> Body
where
    E: Future<Output = Status> + Send + 'static,
{
    Body::new(TakeUntil { body: Some(body), end: Box::pin(end) })
}

struct TakeUntil<E> {
    /// The answer's body, dropped with its producer when it is ended early.
    body: Option<Body>,
    end: Pin<Box<E>>,
}

impl<E: Future<Output = Status>> http_body::Body for TakeUntil<E> {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let TakeUntil { body, end } = &mut *self;
        let Some(living) = body else { return Poll::Ready(None) };
        let Poll::Ready(status) = end.as_mut().poll(context) else {
            return Pin::new(living).poll_frame(context);
        };
        *body = None;
        let mut trailers = HeaderMap::new();
        Poll::Ready(Some(status.add_header(&mut trailers).map(|()| Frame::trailers(trailers))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(http_body::Body::is_end_stream)
    }
}

impl<F: FnMut(&Frame<Bytes>) + Unpin> http_body::Body for Observed<F> {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if let Poll::Ready(Some(Ok(frame))) = &polled {
            (self.on_frame)(frame);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
