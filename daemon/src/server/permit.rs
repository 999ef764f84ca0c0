//! A response that counts as a call under way until its last byte is gone or the client is.

use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::body::{Bytes, Frame, SizeHint};
use tokio::sync::OwnedSemaphorePermit;
use tonic::Status;
use tonic::body::Body;

pub(super) struct Counted {
    body: Body,
    _permit: OwnedSemaphorePermit,
}

impl Counted {
    pub(super) fn body(body: Body, permit: OwnedSemaphorePermit) -> Body {
        Body::new(Counted { body, _permit: permit })
    }
}

impl hyper::body::Body for Counted {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
