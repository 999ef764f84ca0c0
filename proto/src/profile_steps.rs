//! The steps that a profile of a running job records.

/// The steps of a request that names none.
pub const DEFAULT: u32 = 3;
/// The most that one request may name.
pub const MAX: u32 = 100;
