//! The twin's programs, by the name under which they are called: `neuronx-cc`, `neuron-ls`, `neuron-monitor`; as
//! itself, `neuron-twin sysfs DIR` writes a tree like the driver's, `neuron-twin packages DIR` the versions of
//! compiler and runtime where packages have them, and `neuron-twin check` refuses options that the twin does not have.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use traind_twin::{
    Machine, Options, neuron_ls, neuron_monitor, neuronx_cc, write_packages, write_sysfs,
};

fn main() -> ExitCode {
    let mut arguments = std::env::args();
    let name = arguments.next().unwrap_or_default();
    let arguments: Vec<String> = arguments.collect();
    let name = Path::new(&name).file_name().unwrap_or_default().to_string_lossy().into_owned();
    if name == "neuronx-cc" {
        return ExitCode::from(neuronx_cc(&arguments));
    }
    match run(&name, &arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report(&error);
            ExitCode::FAILURE
        }
    }
}

fn run(name: &str, arguments: &[String]) -> Result<(), String> {
    let options = Options::of_environment()?;
    let machine = Machine::of_environment(&options)?;
    match (name, arguments) {
        ("neuron-ls", _) => {
            let locks = std::env::var_os("TRAIND_TWIN_LOCKS");
            print(&neuron_ls(&machine, locks.as_deref().map(Path::new)).to_string());
        }
        ("neuron-monitor", _) => loop {
            print(&neuron_monitor(&machine).to_string());
            std::thread::sleep(Duration::from_secs(1));
        },
        (_, [command, folder]) if command == "sysfs" => {
            write_sysfs(&machine, &options.driver, Path::new(folder))
                .map_err(|error| format!("{folder}: {error}"))?;
        }
        (_, [command, folder]) if command == "packages" => {
            write_packages(&options, Path::new(folder))
                .map_err(|error| format!("{folder}: {error}"))?;
        }
        // The options were read.
        (_, [command]) if command == "check" => {}
        _ => return Err("usage: neuron-twin sysfs|packages DIR, or neuron-twin check".to_owned()),
    }
    Ok(())
}

#[allow(clippy::print_stderr, reason = "the errors of a program")]
fn report(error: &str) {
    eprintln!("{error}");
}

#[allow(clippy::print_stdout, reason = "the interface of a program")]
fn print(line: &str) {
    println!("{line}");
}
