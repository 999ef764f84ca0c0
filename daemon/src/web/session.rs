//! From a request to the user it comes from, and from the user to what they may do.

use axum::extract::{FromRequestParts, Query, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use serde::Deserialize;

use super::Site;
use super::assets;
use super::failure::Failure;
use crate::access::Caller;
use crate::error::Error;

const COOKIE: &str = "traind_session";

#[derive(Deserialize)]
pub(super) struct Key {
    key: String,
}

/// `GET /login?key=`
pub(super) async fn log_in(State(site): State<Site>, Query(Key { key }): Query<Key>) -> Response {
    match site.daemon.logins.log_in(&key) {
        Ok(Some(session)) => {
            let name = cookie_name(&site);
            // Strict: a link on another page opens this one without it.
            let cookie = format!("{name}={session}; Path=/; HttpOnly; SameSite=Strict");
            ([(header::SET_COOKIE, cookie)], Redirect::to("/")).into_response()
        }
        Ok(None) => (StatusCode::UNAUTHORIZED, assets::strangers_page()).into_response(),
        Err(error) => Failure::from(Error::Random(error)).into_response(),
    }
}

/// Cookies are shared by all ports of a host, and so by all daemons on it.
fn cookie_name(site: &Site) -> String {
    let port = site.daemon.settings.web_address.map_or(0, |address| address.port());
    format!("{COOKIE}_{port}")
}

/// A user who is logged in.
pub(super) struct User(Caller);

impl User {
    /// The caller that this user is to a call of the RPC, if they may make it: the page does
    /// nothing that the RPC would refuse.
    pub(super) fn may(self, site: &Site, call: &str) -> Result<Caller, Failure> {
        let Caller { user, .. } = &self.0;
        let role_max = Some(self.0.role());
        let admitted = site.daemon.settings.access.admit(user.clone(), role_max, call);
        let mut caller = admitted.map_err(Error::from)?;
        caller.account = self.0.account;
        Ok(caller)
    }
}

impl FromRequestParts<Site> for User {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, site: &Site) -> Result<User, Failure> {
        let name = cookie_name(site);
        let session = cookie(&parts.headers, &name).ok_or(Failure::stranger())?;
        site.daemon.logins.caller(session).map(User).ok_or(Failure::stranger())
    }
}

fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let all = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    all.flat_map(|line| line.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .find_map(|(key, value)| (key == name).then_some(value))
}
