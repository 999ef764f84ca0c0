//! Who calls: the user at the other end of the unix socket.

use tonic::Request;

use crate::access::Caller;
use crate::control::error::Error;

/// Whom the guard let in.
pub(crate) fn caller<T>(request: &Request<T>) -> Result<Caller, Error> {
    request.extensions().get::<Caller>().cloned().ok_or(Error::Nobody)
}
