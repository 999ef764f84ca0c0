//! Jobs with `platform: neuron` on the twin of Neuron's plugin, compiler and tools.

// A machine that cannot run the tests fails them.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod commands;
mod contact;
mod failures;
mod families;
mod hosts;
mod installed;
mod jobs;
mod options;
mod places;
mod product;
mod script;
mod tools;
