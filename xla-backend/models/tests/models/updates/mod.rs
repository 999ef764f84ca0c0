//! Updates of the parameters.

mod clip;
mod optimizers;
mod param_groups;
mod training;
