//! The page's files, which are part of this program.

use axum::extract::Path;
use axum::http::{StatusCode, header};
use axum::response::{Html, IntoResponse, Response};

use super::failure::Failure;
use super::session::User;

const HTML: &str = include_str!("assets/index.html");
const STRANGERS: &str = include_str!("assets/strangers.html");

const JS: &str = "text/javascript; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";

const FILES: &[(&str, &str, &str)] = &[
    ("style.css", CSS, include_str!("assets/style.css")),
    ("app.js", JS, include_str!("assets/app.js")),
    ("dom.js", JS, include_str!("assets/dom.js")),
    ("format.js", JS, include_str!("assets/format.js")),
    ("chart.js", JS, include_str!("assets/chart.js")),
    ("overview.js", JS, include_str!("assets/overview.js")),
    ("cores.js", JS, include_str!("assets/cores.js")),
    ("job.js", JS, include_str!("assets/job.js")),
    ("compare.js", JS, include_str!("assets/compare.js")),
    ("icon.svg", "image/svg+xml", include_str!("assets/icon.svg")),
];

/// `GET /`
pub(super) async fn page(user: Result<User, Failure>) -> Response {
    match user {
        Ok(_) => Html(HTML).into_response(),
        Err(_) => (StatusCode::UNAUTHORIZED, strangers_page()).into_response(),
    }
}

/// What those see who are not logged in.
pub(super) fn strangers_page() -> Html<&'static str> {
    Html(STRANGERS)
}

/// `GET /assets/NAME`. They hold no secrets, and the page for strangers has its style among them.
pub(super) async fn asset(Path(name): Path<String>) -> Response {
    match FILES.iter().find(|(known, ..)| *known == name) {
        Some((_, kind, text)) => ([(header::CONTENT_TYPE, *kind)], *text).into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}
