//! `slurm`: options of jobs that Slurm places.

use crate::section::section;

section! {
    /// Options for jobs scheduled by Slurm, under the names of `sbatch`.
    pub struct Slurm {
        /// Partition; defaults to the cluster's default.
        partition: Option<String> = None;
        /// Account to charge; defaults to the user's default.
        account: Option<String> = None;
        /// Quality of service.
        qos: Option<String> = None;
        /// Features that hosts must have.
        constraint: Option<String> = None;
        /// Hosts to exclude, such as `node[3-5,9]`.
        exclude: Option<String> = None;
        /// Additional options for `sbatch`, such as `--reservation=night`, each in the form
        /// `--NAME` or `--NAME=VALUE`.
        options: Vec<String> = Vec::new();
    }
}
