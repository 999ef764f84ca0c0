//! Counts every call and measures its duration up to the end of the response.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use hyper::http::{HeaderMap, Request, Response};
use tonic::body::Body;
use tonic::{Code, Status};
use tower::{Layer, Service};

use super::body::observed;
use crate::interfaces::metrics::{Call, Calls};

/// Puts an [`Observed`] in front of the services.
#[derive(Clone)]
pub(crate) struct Observe {
    calls: Arc<Calls>,
}

#[derive(Clone)]
pub(crate) struct Observed<S> {
    calls: Arc<Calls>,
    inner: S,
}

impl Observe {
    pub(crate) fn new(calls: Arc<Calls>) -> Observe {
        Observe { calls }
    }
}

impl<S> Layer<S> for Observe {
    type Service = Observed<S>;

    fn layer(&self, inner: S) -> Observed<S> {
        Observed { calls: self.calls.clone(), inner }
    }
}

impl<S> Service<Request<Body>> for Observed<S>
where
    S: Service<Request<Body>, Response = Response<Body>>,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let call = self.calls.named(request.uri().path());
        let mut watch =
            Watch { calls: self.calls.clone(), call, since: Instant::now(), code: None };
        let answer = self.inner.call(request);
        Box::pin(async move {
            let (parts, body) = answer.await?.into_parts();
            // A call that fails at once has its status in the headers.
            watch.see(&parts.headers);
            let body = observed(body, move |frame| {
                if let Some(trailers) = frame.trailers_ref() {
                    watch.see(trailers);
                }
            });
            Ok(Response::from_parts(parts, body))
        })
    }
}

/// Counts a call when it is dropped; without a status, the client has disconnected.
struct Watch {
    calls: Arc<Calls>,
    call: Call,
    since: Instant,
    code: Option<Code>,
}

impl Watch {
    fn see(&mut self, headers: &HeaderMap) {
        self.code = Status::from_header_map(headers).map(|status| status.code()).or(self.code);
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let code = self.code.unwrap_or(Code::Cancelled);
        self.calls.ended(&self.call, code, self.since.elapsed());
    }
}
