//! The commands of `traind` besides the daemon.

mod command_line;
mod demo;
mod doctor;
mod top;
