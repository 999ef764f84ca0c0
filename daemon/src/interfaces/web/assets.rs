//! The page's files, embedded in this program.

use axum::extract::Path;
use axum::http::{StatusCode, header};
use axum::response::{Html, IntoResponse, Response};

const HTML: &str = include_str!("assets/index.html");

const JS: &str = "text/javascript; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";

const FILES: &[(&str, &str, &str)] = &[
    ("style.css", CSS, include_str!("assets/style.css")),
    ("app.js", JS, include_str!("assets/app.js")),
    ("dom.js", JS, include_str!("assets/dom.js")),
    ("format.js", JS, include_str!("assets/format.js")),
    ("request.js", JS, include_str!("assets/request.js")),
    ("chart.js", JS, include_str!("assets/chart.js")),
    ("login.js", JS, include_str!("assets/login.js")),
    ("overview.js", JS, include_str!("assets/overview.js")),
    ("cores.js", JS, include_str!("assets/cores.js")),
    ("job.js", JS, include_str!("assets/job.js")),
    ("compare.js", JS, include_str!("assets/compare.js")),
    ("plan.js", JS, include_str!("assets/plan.js")),
    ("icon.svg", "image/svg+xml", include_str!("assets/icon.svg")),
];

/// `GET /`. The page needs no session; its contents do.
pub(super) async fn page() -> Html<&'static str> {
    Html(HTML)
}

/// `GET /assets/NAME`. Assets contain no secrets.
pub(super) async fn asset(Path(name): Path<String>) -> Response {
    match FILES.iter().find(|(known, ..)| *known == name) {
        Some((_, kind, text)) => ([(header::CONTENT_TYPE, *kind)], *text).into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}
