//! Access control: roles and the access file, accounts of this host, bearer tokens, logins to the
//! web page, groups and their shares, the folders and URLs that jobs may name, and the audit log.
//! Imports `clock`, `hex` and `job_id` only.

pub(crate) mod account;
pub(crate) mod audit;
pub(crate) mod live;
pub(crate) mod logins;
mod roles;
pub(crate) mod roots;
pub(crate) mod sharing;
pub(crate) mod tokens;

pub(crate) use roles::{Access, AccessError, Caller, Denied, Role};
