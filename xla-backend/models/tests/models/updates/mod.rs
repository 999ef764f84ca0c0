//! Updates of the parameters.

mod clip;
mod optimizers;
mod training;
