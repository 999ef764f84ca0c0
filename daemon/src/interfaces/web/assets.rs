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

#[cfg(test)]
mod tests {
    use super::*;

    /// Names, messages and labels of jobs are their users' text.
    #[test]
    fn text_is_never_parsed_as_markup_or_script() {
        const PARSERS: [&str; 7] = [
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "createContextualFragment",
            "eval(",
            "new Function",
        ];
        for (name, _, text) in FILES {
            let found = PARSERS.iter().find(|parser| text.contains(**parser));
            assert!(found.is_none(), "{name} has {found:?}");
        }
        // Markup of the page has no scripts of its own, which the policy would have to allow.
        assert!(!HTML.contains("<script>") && !HTML.contains("onclick"), "{HTML}");
    }

    /// A link's address begins with a fragment of the page, never with a job's text.
    #[test]
    fn no_link_leads_where_a_job_says() {
        for (name, _, text) in FILES.iter().filter(|(name, ..)| name.ends_with(".js")) {
            for at in text.match_indices("href: ").map(|(at, _)| at + "href: ".len()) {
                let target: String = text[at..].chars().take(4).collect();
                assert!(
                    target.starts_with("`#/") || target.starts_with("\"#/"),
                    "{name}: {target}"
                );
            }
        }
    }
}
