//! A response's body that something goes along with until its last byte is gone or the client is.

use std::pin::Pin;
use std::task::{Context, Poll};

use http_body::{Frame, SizeHint};
use hyper::body::Bytes;
use hyper::http::HeaderMap;
use tonic::Status;
use tonic::body::Body;

struct Tapped<F> {
    body: Body,
    on_frame: F,
}

/// The same body, with `on_frame` shown each of its frames. What the closure holds is let go
/// with the body.
pub(super) fn tapped<F>(body: Body, on_frame: F) -> Body
where
    F: FnMut(&Frame<Bytes>) + Send + Unpin + 'static,
{
    Body::new(Tapped { body, on_frame })
}

/// The same body until `end` resolves, whose status is the last that the client hears.
pub(super) fn cut_off<E>(body: Body, end: E) -> Body
where
    E: Future<Output = Status> + Send + 'static,
{
    Body::new(CutOff { body: Some(body), end: Box::pin(end) })
}

struct CutOff<E> {
    /// Let go when it is cut off, and what feeds it with it.
    body: Option<Body>,
    end: Pin<Box<E>>,
}

impl<E: Future<Output = Status>> http_body::Body for CutOff<E> {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let CutOff { body, end } = &mut *self;
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

impl<F: FnMut(&Frame<Bytes>) + Unpin> http_body::Body for Tapped<F> {
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
