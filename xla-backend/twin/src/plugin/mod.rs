//! `GetPjrtApi`: a function table whose entries check the sizes of their arguments, answer themselves or call the CPU
//! plugin's.
#![allow(unsafe_code)]

mod behaviour;
mod compiling;
mod errors;
mod execution;
mod failures;
mod indices;
mod limit;
mod processes;
mod records;
mod serialized;
mod structures;
mod table;
