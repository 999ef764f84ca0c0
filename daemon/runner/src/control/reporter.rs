//! Where the parts of a run report what they do.

use super::{Activity, Journal};

#[derive(Clone, Debug)]
pub(crate) struct Reporter {
    pub journal: Journal,
    pub activity: Activity,
}
