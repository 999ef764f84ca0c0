//! Numbers of options.

use std::str::FromStr;

/// Reads a number; infinity and NaN, which Rust reads too, mean nothing to an option.
pub(crate) fn finite<T: FromStr + Copy + Into<f64>>(text: &str) -> Result<T, String> {
    let number = text.parse().ok().filter(|number: &T| (*number).into().is_finite());
    number.ok_or_else(|| "expected a number".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_take_numbers_alone() {
        assert_eq!(finite::<f64>("-2.5"), Ok(-2.5));
        for text in ["nan", "inf", "-infinity", "1e400", "", "x"] {
            assert_eq!(finite::<f64>(text), Err("expected a number".to_owned()), "{text}");
        }
    }
}
