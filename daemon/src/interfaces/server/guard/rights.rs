//! Ends streams whose caller loses the permission: the token is revoked or expires, or the access
//! file no longer grants the role.

use std::sync::Arc;

use crate::access::Caller;
use crate::control::daemon::Daemon;
use crate::control::error::Error;

/// Resolves when the caller would no longer be admitted to the call.
pub(crate) async fn revoked(daemon: Arc<Daemon>, caller: Caller, path: String) -> Error {
    let token_ends = async {
        match &caller.token {
            Some(id) => daemon.tokens.until_end(id).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = token_ends => Error::InvalidToken,
        denied = daemon.settings.access.until_denied(&caller, &path) => denied.into(),
    }
}
