//! The environment of a template: the settings, filters and functions that transformers gives it,
//! and the budget of a rendering.

use std::collections::BTreeMap;

use minijinja::syntax::SyntaxConfig;
use minijinja::{AutoEscape, Environment, Error, ErrorKind, Value};

use super::{json, marks, methods, python, time};

/// The name of the only template.
const NAME: &str = "chat_template";
/// The budget of a rendering beyond what its variables take: one unit pays for a step, or for 64
/// bytes of text or of lists.
const FUEL: u64 = 1 << 18;

/// Parses a template.
pub(super) fn of_template(source: &str) -> Result<Environment<'static>, Error> {
    let mut environment = Environment::new();
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?;
    environment.set_syntax(syntax);
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_unknown_method_callback(methods::call);
    python::add_to(&mut environment);
    environment.add_filter("tojson", json::filter);
    environment.add_filter(marks::FILTER, marks::filter);
    environment.add_function("raise_exception", raise_exception);
    environment.add_function("strftime_now", time::strftime_now);
    environment.set_fuel(Some(FUEL));
    // Jinja2 reads all line ends as line feeds.
    let source = source.replace("\r\n", "\n").replace('\r', "\n");
    environment.add_template_owned(NAME, marks::with_filters(&source))?;
    Ok(environment)
}

/// Renders the template.
pub(super) fn render(
    environment: &Environment<'_>,
    variables: BTreeMap<String, Value>,
) -> Result<String, Error> {
    environment.get_template(NAME)?.render(variables)
}

/// Returns the message of an error, with its line.
pub(super) fn message(error: &Error) -> String {
    let text = match error.kind() {
        ErrorKind::OutOfFuel => "takes too many steps or too much memory".to_owned(),
        kind => match error.detail() {
            Some(detail) => detail.to_owned(),
            None => kind.to_string(),
        },
    };
    match error.line() {
        Some(line) => format!("{text} (line {line} of the template)"),
        None => text,
    }
}

/// Fails with a message of the template.
fn raise_exception(message: &str) -> Result<Value, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, message.to_owned()))
}
