//! A job to hand over to a cluster.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use traind_job_file::RunSpec;

use crate::access::account::Account;

/// One attempt of a job, as a cluster gets it.
#[derive(Debug)]
pub(crate) struct Submission<'a> {
    pub spec: &'a RunSpec,
    /// The runner's program, on every host.
    pub runner: &'a Path,
    /// The run folder, which every host sees.
    pub run_dir: &'a Path,
    /// File for the runners' output.
    pub log: PathBuf,
    /// The runners' environment.
    pub environment: BTreeMap<OsString, OsString>,
    /// The user whose job it is; `None` for the daemon's own.
    pub account: Option<Account>,
    /// Hosts that failed too often.
    pub avoided: &'a [String],
}

impl Submission<'_> {
    /// Name of a file in the run folder that stops the runners of an attempt which was given up. A
    /// cluster may start a job whose submission seemed to fail.
    pub(crate) fn void_file(attempt: u32) -> String {
        format!("void-{attempt}")
    }
}
