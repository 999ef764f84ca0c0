//! Fields of notifications.

use std::path::Path;

use crate::problems::{FIELD_UNUSED, Problems};
use crate::schema::JobFile;
use crate::schema::notify::STATES;

/// Each is a request of the daemon at each change of state.
const WEBHOOKS_MAX: usize = 16;

/// Reports notifications that could never arrive.
pub(crate) fn check(job: &JobFile, problems: &mut Problems) {
    let notify = &job.notify;
    for state in notify.states.iter().filter(|state| !STATES.contains(&state.as_str())) {
        let description = format!("`{state}` is not a job state; known are {}", STATES.join(", "));
        problems.violation("notify.states", description);
    }
    if notify.webhooks.len() > WEBHOOKS_MAX {
        let count = notify.webhooks.len();
        let description = format!("has {count} URLs; must be at most {WEBHOOKS_MAX}");
        problems.violation("notify.webhooks", description);
    }
    for url in notify.webhooks.iter().filter(|url| !is_web_address(url)) {
        let description = format!("`{url}` is not a URL such as https://example.com/hook");
        problems.violation("notify.webhooks", description);
    }
    let program = notify.command.first();
    if program.is_some_and(|program| !Path::new(program).is_absolute()) {
        problems.violation("notify.command", "must begin with the absolute path of a program");
    }
    if notify.secret_file.is_some() && notify.webhooks.is_empty() {
        let description = "has no effect without notify.webhooks, whose requests it signs";
        problems.warning(FIELD_UNUSED, "notify.secret_file", description);
    }
}

fn is_web_address(url: &str) -> bool {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    let host = rest.and_then(|rest| rest.split(['/', '?']).next()).unwrap_or_default();
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(&byte);
    !host.is_empty() && !host.contains('@') && url.bytes().all(is_plain)
}
