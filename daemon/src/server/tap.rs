//! A response's body that something goes along with until its last byte is gone or the client is.

use std::pin::Pin;
use std::task::{Context, Poll};

use http_body::{Frame, SizeHint};
use hyper::body::Bytes;
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
