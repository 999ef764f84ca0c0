//! Jobs that a cluster places.

mod kubernetes;
mod slurm;
