//! `traind.v1.Tokens`.

use std::sync::Arc;

use tonic::{Request, Response, Status};
use traind_proto::v1;

use crate::access::tokens::{Token, is_user_name};
use crate::control::daemon::Daemon;
use crate::control::error::Error;
use crate::interfaces::convert;
use crate::interfaces::server::guard::{audited, peer};
use crate::jobs::store::Store;

/// Ten years.
const LIFETIME_SECONDS_MAX: u64 = 315_360_000;

pub(crate) struct Tokens {
    daemon: Arc<Daemon>,
}

impl Tokens {
    pub(crate) fn new(daemon: Arc<Daemon>) -> Tokens {
        Tokens { daemon }
    }
}

#[tonic::async_trait]
impl v1::tokens_server::Tokens for Tokens {
    async fn create_token(
        &self,
        request: Request<v1::CreateTokenRequest>,
    ) -> Result<Response<v1::CreateTokenResponse>, Status> {
        let (by, note) = (peer::caller(&request)?.user, audited::note(&request));
        let (token, secret) = generate(request.into_inner())?;
        note.subject(&format!("{} of {}", token.id, token.user));
        let stored = token.clone();
        let stored = self.daemon.store.run(move |store| store.create_token(&stored)).await;
        stored.map_err(Error::from)?;
        tracing::info!(token = token.id, user = token.user, by, "token created");
        self.daemon.tokens.insert(token.clone());
        let token = Some(convert::token(token));
        Ok(Response::new(v1::CreateTokenResponse { token, secret }))
    }

    async fn list_tokens(
        &self,
        _: Request<v1::ListTokensRequest>,
    ) -> Result<Response<v1::ListTokensResponse>, Status> {
        let tokens = self.daemon.store.run(Store::tokens).await.map_err(Error::from)?;
        let tokens = tokens.into_iter().map(convert::token).collect();
        Ok(Response::new(v1::ListTokensResponse { tokens }))
    }

    async fn revoke_token(
        &self,
        request: Request<v1::RevokeTokenRequest>,
    ) -> Result<Response<v1::Token>, Status> {
        let (by, note) = (peer::caller(&request)?.user, audited::note(&request));
        let id = request.into_inner().id;
        note.subject(&id);
        let wanted = id.clone();
        let found = self.daemon.store.run(move |store| store.revoke_token(&wanted)).await;
        let token = found.map_err(Error::from)?.ok_or(Error::NoToken { id })?;
        self.daemon.tokens.remove(&token.id);
        tracing::info!(token = token.id, user = token.user, by, "token revoked");
        Ok(Response::new(convert::token(token)))
    }
}

fn generate(request: v1::CreateTokenRequest) -> Result<(Token, String), Error> {
    let role_max = convert::role_from_proto(request.role_max)?;
    let v1::CreateTokenRequest { user, lifetime_seconds, .. } = request;
    if !is_user_name(&user) {
        let description = "must be 1 to 128 printable characters without spaces".to_owned();
        return Err(Error::Request { field: "user", description });
    }
    if lifetime_seconds > LIFETIME_SECONDS_MAX {
        let description = format!("is {lifetime_seconds}; at most {LIFETIME_SECONDS_MAX}");
        return Err(Error::Request { field: "lifetime_seconds", description });
    }
    let lifetime = Some(lifetime_seconds).filter(|seconds| *seconds > 0);
    Token::generate(user, role_max, lifetime).map_err(Error::Random)
}
