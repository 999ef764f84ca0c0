//! Output that several commands share: tables, a job's fields, progress, and errors.

pub(crate) mod core_view;
pub(crate) mod failure;
pub(crate) mod follow;
pub(crate) mod list;
mod progress;
pub(crate) mod split;
pub(crate) mod table;

pub(crate) use crate::interfaces::job_view;
