//! The operations on the CPU plugin: values, gradients, bits and
//! the text of programs.

// Helpers of tests may unwrap as the tests do.
#![allow(clippy::unwrap_used)]

mod accumulation;
mod collectives;
mod compiling;
mod cudnn_attention;
mod evaluator;
mod forward;
mod gradient_table;
mod gradients;
mod kernels;
mod known_answers;
mod long_rows;
mod lowering;
mod mesh;
mod neuron_forms;
mod random;
mod rematerialization;
