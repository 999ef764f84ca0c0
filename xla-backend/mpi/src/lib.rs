//! Reductions and gathers across the hosts of a job by MPI, inside programs for CPU devices, whose plugin has no
//! collectives between processes.
//!
//! [`World::start`] loads a library of the MPI ABI and joins the other processes. A program calls
//! [`HostCollective`] for a buffer of each of its devices; the call ends when the same device of every
//! process of its group has made the same call. [`World::send`] and [`World::receive`] exchange messages outside of
//! programs.
//!
//! One thread makes all calls of MPI, so that a library needs no support of threads. Calls of a
//! device are issued in the order in which its program makes them, which has to be the same in all
//! processes: lowering makes each depend on the one before.

mod abi;
mod collective;
mod engine;
mod error;
mod kernel;
mod library;
mod measure;
mod message;
mod process;
mod totals;
mod world;

pub use collective::{Collective, Reduction};
pub use error::{Error, Result};
pub use kernel::HostCollective;
pub use library::{LIBRARY_VARIABLE, installed_library};
pub use measure::Cost;
pub use message::Peer;
pub use process::{PmiServer, Process};
pub use totals::Statistics;
pub use world::World;
