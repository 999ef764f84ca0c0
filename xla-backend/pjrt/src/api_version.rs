//! Versions of the PJRT C API.

use std::fmt;

/// Minor versions only add; another major version is another ABI.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ApiVersion {
    /// Changes where tables are no longer compatible.
    pub major: i32,
    /// Grows with every entry that is added.
    pub minor: i32,
}

impl fmt::Display for ApiVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}
