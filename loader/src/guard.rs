//! The border to parsers that panic on malformed input (parquet, tokenizers): a panic inside
//! becomes an error that names the file. Aborts and endless memory are the runner's business.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use crate::error::{Error, Result};

/// Runs `body`; a panic in it becomes [`Error::Panicked`]. The values that `body` touched are
/// dropped by the caller together with the error, so broken invariants in them are never seen.
pub(crate) fn guard<T>(
    file: &Path,
    operation: &'static str,
    body: impl FnOnce() -> Result<T>,
) -> Result<T> {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| {
        Err(Error::Panicked {
            file: file.to_path_buf(),
            operation,
            message: panic_message(panic.as_ref()),
        })
    })
}

/// The text of a panic, which `panic!` carries as one of two string types.
pub fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a message".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_an_error_naming_the_file() {
        let error = guard::<()>(Path::new("a.parquet"), "decode", || panic!("index {}", 7))
            .expect_err("must fail");
        assert_eq!(
            error.to_string(),
            "a.parquet: malformed: reading it broke off in decode: index 7"
        );
    }
}
