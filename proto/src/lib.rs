//! The communication of traind's processes: the gRPC services and messages of
//! `traind.v1`, the durable event log that a runner writes and the daemon
//! reads, and the machine-readable reasons of errors. Imports nothing of ours.

pub mod error_chain;
pub mod event_log;
pub mod profile_steps;
pub mod program_folder;
mod program_text;
pub mod reasons;
pub mod run_status;
pub mod sample_ledger;

/// The package `traind.v1`, generated from `traind/v1/*.proto`.
pub mod v1 {
    tonic::include_proto!("traind.v1");
}

/// Encoded `FileDescriptorSet` of `traind.v1` and all it imports, for the
/// server's reflection service.
pub const FILE_DESCRIPTOR_SET: &[u8] =
    include_bytes!(concat!(env!("OUT_DIR"), "/traind_descriptor.bin"));
