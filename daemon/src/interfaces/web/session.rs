//! The user of a request, and their permissions.
//!
//! The page sends its session in the Authorization header, not in a cookie: browsers send cookies to
//! all ports of a host, of which another may be served by another user.

use axum::Json;
use axum::extract::{FromRequestParts, State};
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Site;
use super::failure::Failure;
use crate::access::Caller;
use crate::access::audit::Event;
use crate::control::error::Error;
use crate::interfaces::http::bearer_secret;
use crate::interfaces::server::guard::rights;

#[derive(Deserialize)]
pub(super) struct Key {
    key: String,
}

/// `POST /api/login`: exchanges a key for a session.
pub(super) async fn log_in(
    State(site): State<Site>,
    Json(Key { key }): Json<Key>,
) -> Result<Json<Value>, Failure> {
    let session = site.daemon.logins.log_in(&key).map_err(Error::Random)?;
    let session = session.ok_or_else(Failure::unauthenticated)?;
    Ok(Json(json!({ "session": session })))
}

/// A logged-in user.
pub(super) struct User(Caller);

impl User {
    /// Begins the line of the audit log for what the user does by the page.
    pub(super) fn event(&self, call: &str, subject: &str) -> Event {
        Event {
            call: call.to_owned(),
            user: self.0.user.clone(),
            role: self.0.role().to_string(),
            origin: "web page".to_owned(),
            token: self.0.token.clone().unwrap_or_default(),
            subject: subject.to_owned(),
            ..Event::default()
        }
    }

    /// Returns the user as a caller of the RPC `call`, if they may make it: the page can do nothing
    /// that the RPC would refuse.
    pub(super) fn authorize(self, site: &Site, call: &str) -> Result<Caller, Failure> {
        let Caller { user, .. } = &self.0;
        let role_max = Some(self.0.role());
        let admitted = site.daemon.settings.access.now().admit(user.clone(), role_max, call);
        let mut caller = admitted.map_err(Error::from)?;
        (caller.account, caller.token) = (self.0.account, self.0.token);
        caller.may_start = self.0.may_start;
        rights::refuse_start(&caller, call)?;
        Ok(caller)
    }
}

impl FromRequestParts<Site> for User {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, site: &Site) -> Result<User, Failure> {
        let session = parts.headers.get(AUTHORIZATION).and_then(bearer_secret);
        let caller = session.and_then(|session| site.daemon.logins.caller(session));
        // A session ends with the token that requested it.
        let is_live = |caller: &Caller| {
            caller.token.as_ref().is_none_or(|token| site.daemon.tokens.is_live(token))
        };
        caller.filter(is_live).map(User).ok_or_else(Failure::unauthenticated)
    }
}
