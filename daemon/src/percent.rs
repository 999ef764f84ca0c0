//! Shares in percent.

/// `part` of `whole`; 0 where the whole is nothing.
pub(crate) fn percent(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { 100.0 * part / whole } else { 0.0 }
}
