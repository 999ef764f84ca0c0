//! `traind`: the training daemon and its command line in one binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    traind::cli::main()
}
