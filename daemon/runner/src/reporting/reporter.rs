//! The handles by which the parts of a run report events and status.

use super::{Activity, Journal};

#[derive(Clone, Debug)]
pub(crate) struct Reporter {
    pub journal: Journal,
    pub activity: Activity,
}
