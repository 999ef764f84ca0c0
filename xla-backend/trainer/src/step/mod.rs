//! Records the programs that the cores run: the forward pass, a training step, an evaluation step
//! and the values that it reads back. Nothing here compiles or runs a program.
//!
//! Imports `state` and `error`.

mod batch;
mod cached_steps;
mod chunk_steps;
mod config;
mod eval_step;
#[cfg(test)]
pub(crate) mod fixture;
mod forward;
mod generate_step;
mod job_programs;
mod pipeline_order;
mod programs;
mod readout;
mod train_step;

pub use batch::BatchLayout;
pub(crate) use chunk_steps::{METRIC_SUMS, SUMS};
pub use config::{EmbeddingObjective, ForwardConfig, OptimizerConfig, SetObjective, StepConfig};
pub use eval_step::EvalStep;
pub use eval_step::{LOSS_DIVISOR, LOSS_SUM, WEIGHT_SUM};
pub use forward::ForwardPass;
pub use generate_step::{GenerateStep, SCORES, Weights};
pub use job_programs::{DeclaredStages, JobPrograms};
pub use pipeline_order::PipelineOrder;
pub(crate) use pipeline_order::{Direction, LastChunk, Pass, backward_places};
pub use programs::{Program, ProgramShape, StepPrograms};
pub use readout::{Readout, RowValues, scalar};
pub use train_step::TrainStep;
pub use train_step::{GRAD_NORM, LOSS, LOSS_SCALE, METRICS, UPDATED};
