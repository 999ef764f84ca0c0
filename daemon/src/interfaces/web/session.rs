//! From a request to the user it comes from, and from the user to what they may do.
//!
//! A page says with each request whose session it is. No cookie does: browsers send cookies to all
//! ports of a host, and on another one may be the server of another user.

use axum::Json;
use axum::extract::{FromRequestParts, State};
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Site;
use super::failure::Failure;
use crate::access::Caller;
use crate::control::error::Error;

#[derive(Deserialize)]
pub(super) struct Key {
    key: String,
}

/// `POST /api/login`: a key for a session.
pub(super) async fn log_in(
    State(site): State<Site>,
    Json(Key { key }): Json<Key>,
) -> Result<Json<Value>, Failure> {
    let session = site.daemon.logins.log_in(&key).map_err(Error::Random)?;
    let session = session.ok_or_else(Failure::stranger)?;
    Ok(Json(json!({ "session": session })))
}

/// A user who is logged in.
pub(super) struct User(Caller);

impl User {
    /// The caller that this user is to a call of the RPC, if they may make it: the page does
    /// nothing that the RPC would refuse.
    pub(super) fn may(self, site: &Site, call: &str) -> Result<Caller, Failure> {
        let Caller { user, .. } = &self.0;
        let role_max = Some(self.0.role());
        let admitted = site.daemon.settings.access.now().admit(user.clone(), role_max, call);
        let mut caller = admitted.map_err(Error::from)?;
        (caller.account, caller.token) = (self.0.account, self.0.token);
        Ok(caller)
    }
}

impl FromRequestParts<Site> for User {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, site: &Site) -> Result<User, Failure> {
        let session = parts.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let session = session.and_then(|text| text.strip_prefix("Bearer "));
        let caller = session.and_then(|session| site.daemon.logins.caller(session));
        // A session lasts no longer than the token with which it was asked for.
        let works = |caller: &Caller| {
            caller.token.as_ref().is_none_or(|token| site.daemon.tokens.works(token))
        };
        caller.filter(works).map(User).ok_or_else(Failure::stranger)
    }
}
