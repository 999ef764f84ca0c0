//! `slurm`: options of jobs that Slurm places.

use crate::section::section;

section! {
    /// Options of jobs that Slurm places, under the names of `sbatch`.
    pub struct Slurm {
        /// Partition; by default the cluster's default one.
        partition: Option<String> = None;
        /// Account to charge; by default the user's default one.
        account: Option<String> = None;
        /// Quality of service.
        qos: Option<String> = None;
        /// Features that hosts must have.
        constraint: Option<String> = None;
        /// Hosts to avoid, such as `node[3-5,9]`.
        exclude: Option<String> = None;
        /// Further options of `sbatch`, such as `--reservation=night`. Each has the form `--NAME` or
        /// `--NAME=VALUE`.
        options: Vec<String> = Vec::new();
    }
}
