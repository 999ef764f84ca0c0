//! In front of every call: learns who calls, and refuses what they may not do.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use hyper::http::{Request, Response};
use tonic::Status;
use tonic::body::Body;
use tonic::transport::server::UdsConnectInfo;
use tower::{Layer, Service};

use super::peer;
use crate::access::{Access, Caller};
use crate::error::Error;

/// Puts a [`Guarded`] in front of the services.
#[derive(Clone)]
pub(super) struct Guard {
    access: Arc<Access>,
}

#[derive(Clone)]
pub(super) struct Guarded<S> {
    access: Arc<Access>,
    inner: S,
}

impl Guard {
    pub(super) fn new(access: Access) -> Guard {
        Guard { access: Arc::new(access) }
    }
}

impl<S> Layer<S> for Guard {
    type Service = Guarded<S>;

    fn layer(&self, inner: S) -> Guarded<S> {
        Guarded { access: self.access.clone(), inner }
    }
}

impl<S> Service<Request<Body>> for Guarded<S>
where
    S: Service<Request<Body>, Response = Response<Body>>,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        match admit(&self.access, &request) {
            Ok(caller) => {
                request.extensions_mut().insert(caller);
                Box::pin(self.inner.call(request))
            }
            Err(error) => Box::pin(async move { Ok(Status::from(error).into_http()) }),
        }
    }
}

fn admit(access: &Access, request: &Request<Body>) -> Result<Caller, Error> {
    let info = request.extensions().get::<UdsConnectInfo>();
    let credentials = info.and_then(|info| info.peer_cred).ok_or(Error::Nobody)?;
    Ok(access.admit(peer::user_name(credentials.uid()), request.uri().path())?)
}
