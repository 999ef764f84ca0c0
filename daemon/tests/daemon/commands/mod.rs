//! The commands of `traind` besides the daemon.

mod command_line;
mod doctor;
mod top;
