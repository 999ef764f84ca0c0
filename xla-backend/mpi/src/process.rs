//! The place of this process among those of a job, and how it finds the others.
#![allow(unsafe_code)]

use std::env;
use std::os::fd::{IntoRawFd, OwnedFd};

/// A process, one a host.
#[derive(Debug)]
pub struct Process {
    /// The number among the processes of the job, from 0.
    pub rank: usize,
    /// The number of processes.
    pub size: usize,
    /// Programs reduce over the processes that give the same number here.
    pub group: usize,
    /// Absent where a launcher of MPI has started the process.
    pub pmi: Option<PmiServer>,
}

/// The connection over which MPI meets the other processes: its other end answers the version 1 of
/// MPICH's process management interface.
#[derive(Debug)]
pub struct PmiServer {
    pub connection: OwnedFd,
}

impl Process {
    /// Lets MPI find the connection by the variables that it reads when it starts. From then on the
    /// connection is MPI's, which uses it once more when the process exits.
    pub(crate) fn announce(&mut self) {
        let Some(server) = self.pmi.take() else { return };
        let variables = [
            ("PMI_FD", server.connection.into_raw_fd().to_string()),
            ("PMI_RANK", self.rank.to_string()),
            ("PMI_SIZE", self.size.to_string()),
        ];
        for (name, value) in variables {
            // SAFETY: the standard library orders its own uses of the environment, and
            // `World::start` asks to be called before other code reads it from other threads.
            unsafe { env::set_var(name, value) };
        }
        // This names an outer launcher, which would be asked first.
        // SAFETY: as above.
        unsafe { env::remove_var("PMI_PORT") };
    }
}
