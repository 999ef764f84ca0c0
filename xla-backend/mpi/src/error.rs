//! Why a process cannot exchange data with the others.

use std::path::PathBuf;

use traind_pjrt::KernelError;

pub type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    #[error(
        "load the MPI library {path}: {reason}; run `traind plugins install mpi`, or set TRAIND_PLUGIN_MPI to a \
         library of the MPI ABI"
    )]
    Library { path: PathBuf, reason: String },
    #[error(
        "{path} is not a library of the MPI ABI, version 1: it lacks {symbol}. MPICH 5 has \
         libmpi_abi.so.1, which `traind plugins install mpi` installs too"
    )]
    NotTheAbi { path: PathBuf, symbol: &'static str },
    #[error("{call} failed: {message}")]
    Call { call: &'static str, message: String },
    #[error(
        "MPI started {found_size} processes and made this one number {found_rank}, but the job has \
         {size} hosts and this is number {rank}"
    )]
    Place { rank: usize, size: usize, found_rank: usize, found_size: usize },
    #[error("MPI can be started once in a process")]
    StartedBefore,
    #[error("MPI was not started in this process")]
    NotStarted,
    #[error("the program runs on device {device}, but MPI was started for {devices}")]
    Device { device: usize, devices: usize },
    #[error("MPI has ended in this process")]
    Ended,
    #[error("the thread of MPI: {reason}")]
    Thread { reason: String },
}

/// The error of a call of a program.
pub(crate) fn refusal(error: Error) -> KernelError {
    KernelError(error.to_string())
}
