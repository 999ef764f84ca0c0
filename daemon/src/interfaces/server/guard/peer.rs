//! The caller of a request.

use tonic::Request;

use crate::access::Caller;
use crate::control::error::Error;

/// Returns the caller that the guard admitted.
pub(crate) fn caller<T>(request: &Request<T>) -> Result<Caller, Error> {
    request.extensions().get::<Caller>().cloned().ok_or(Error::Unauthenticated)
}
