//! The commands of `traind` besides the daemon.

mod backup;
mod command_line;
mod demo;
mod doctor;
mod gc;
mod top;
