//! A stream ends with the right to it: when the token that asked for it is revoked or expires, and
//! when the access file takes the role away.

use std::sync::Arc;

use crate::access::Caller;
use crate::control::daemon::Daemon;
use crate::control::error::Error;

/// Resolves when the caller has lost what admitted them to the call.
pub(crate) async fn lost(daemon: Arc<Daemon>, caller: Caller, path: String) -> Error {
    let token_ends = async {
        match &caller.token {
            Some(id) => daemon.tokens.until_end(id).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = token_ends => Error::Token,
        denied = daemon.settings.access.until_denied(&caller, &path) => denied.into(),
    }
}
