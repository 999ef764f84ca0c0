//! The audit log: a line for every call that may change something, each with a hash over itself and the
//! hash of the line before. It has no secrets and no job files.

mod calls;
mod entry;
mod log;
mod parts;
mod ring;

pub(crate) use calls::changes;
pub(crate) use entry::{Chain, Event};
pub(crate) use log::AuditLog;
