//! Records the programs that the cores run: the forward pass, a training step, an evaluation step
//! and the values that it reads back. Nothing here compiles or runs a program.
//!
//! Imports `state` and `error`.

mod batch;
mod chunk_steps;
mod config;
mod eval_step;
mod forward;
mod generate_step;
mod job_programs;
mod programs;
mod readout;
mod schedule;
#[cfg(test)]
pub(crate) mod tests;
mod train_step;

pub(crate) use batch::BatchLayout;
pub(crate) use chunk_steps::{METRIC_SUMS, SUMS};
pub(crate) use config::{ForwardConfig, OptimizerConfig, StepConfig};
pub(crate) use eval_step::{EvalStep, LOSS_DIVISOR, LOSS_SUM, WEIGHT_SUM};
pub(crate) use forward::ForwardPass;
pub(crate) use generate_step::{GenerateStep, SCORES, Weights};
pub(crate) use job_programs::JobPrograms;
pub(crate) use programs::{Program, ProgramShape, StepPrograms};
pub(crate) use readout::{Readout, RowOutput, scalar};
pub(crate) use schedule::{Direction, Pass, Schedule, backward_places};
pub(crate) use train_step::{GRAD_NORM, LOSS, LOSS_SCALE, METRICS, TrainStep, UPDATED};
