//! Compiling: the compiler's stand-in refuses or accepts a program, and the wrapped plugin gets it as the options
//! change it.

use std::ffi::c_void;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Output};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::behaviour::{STARTED, Started};
use super::errors::{self, INTERNAL};
use super::failures::note_program;
use super::records::Compile;
use crate::Options;
use crate::indices::with_compared_indices;
use crate::options::{Errors, WorkFolder};
use crate::rewriting::rewritten;

/// Runs the compiler from `PATH` as the plugin does. `None` if it accepts the program.
///
/// # Safety
/// `args` are those of `PJRT_Client_Compile`.
pub(super) unsafe fn compile(args: *mut c_void) -> Option<*mut c_void> {
    // SAFETY: the promise above: the program's bytes live during the call.
    let code = unsafe {
        let program = &*(*args.cast::<Compile>()).program;
        std::slice::from_raw_parts(program.code, program.size)
    };
    if let Err(text) = run_compiler(code) {
        return Some(errors::new(INTERNAL, &text));
    }
    let options = STARTED.get().map(|started| &started.options)?;
    let code = String::from_utf8_lossy(code);
    note_program(name(&code));
    let rewritten = match rewritten(&code, options, rounding_seed()) {
        Ok(changed) => changed,
        Err(text) => return Some(errors::new(INTERNAL, &text)),
    };
    let compared = with_compared_indices(rewritten.as_deref().unwrap_or(&code));
    let changed = compared.or(rewritten)?.into_bytes().leak();
    // SAFETY: the promise above; the changed program lives as long as the process.
    unsafe {
        let args = &mut *args.cast::<Compile>();
        let (code, size) = (changed.as_ptr(), changed.len());
        let mut program = *args.program;
        (program.code, program.size) = (code, size);
        args.program = Box::leak(Box::new(program));
    }
    None
}

/// The seed of stochastic rounding, where the environment asks for it. The runtime's default is 0.
pub(super) fn rounding_seed() -> Option<u32> {
    let read = |name: &str| std::env::var(name).ok();
    let is_on = read("NEURON_RT_STOCHASTIC_ROUNDING_EN").as_deref() == Some("1");
    let seed = read("NEURON_RT_STOCHASTIC_ROUNDING_SEED").and_then(|seed| seed.parse().ok());
    is_on.then(|| seed.unwrap_or_default())
}

/// A new folder for a program and what the compiler makes of it.
fn work_folder(options: &Options) -> Result<PathBuf, String> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let parent = match options.work_folder {
        WorkFolder::TmpDir => std::env::temp_dir(),
        WorkFolder::Tmp => {
            let user = std::env::var("USER").unwrap_or_else(|_| "root".to_owned());
            PathBuf::from(format!("/tmp/{user}/neuroncc_compile_workdir"))
        }
    };
    let folder = parent.join(format!("neuronxcc-{}-{number}", std::process::id()));
    match std::fs::create_dir_all(&folder) {
        Ok(()) => Ok(folder),
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => Err(format!(
            "RunNeuronCCImpl: PermissionError: [Errno 13] Permission denied: '{}'",
            folder.display()
        )),
        Err(error) => Err(format!("RunNeuronCCImpl: {}: {error}", folder.display())),
    }
}

fn run_compiler(code: &[u8]) -> Result<(), String> {
    let started = STARTED.get().ok_or("nrt status=13: not initialized")?;
    let folder = work_folder(&started.options)?;
    let text = |error: std::io::Error| format!("RunNeuronCCImpl: {}: {error}", folder.display());
    let [program, neff] = ["file.code", "file.neff"].map(|name| folder.join(name));
    std::fs::write(&program, code).map_err(text)?;
    let mut arguments = vec![
        "compile".to_owned(),
        "--framework=XLA".to_owned(),
        format!("--target={}", started.machine.instance.generation.target()),
        "--verbose=35".to_owned(),
        "--enable-internal-neff-wrapper".to_owned(),
        format!("--output={}", neff.display()),
        program.display().to_string(),
    ];
    let flags = std::env::var("NEURON_CC_FLAGS").unwrap_or_default();
    arguments.extend(flags.split_whitespace().map(str::to_owned));
    let output = Command::new("neuronx-cc")
        .args(&arguments)
        .stdout(std::process::Stdio::inherit())
        .output()
        .map_err(|error| format!("RunNeuronCCImpl: neuronx-cc: {error}"))?;
    let loaded = std::fs::read_to_string(&neff);
    let _ = std::fs::remove_dir_all(&folder);
    if !output.status.success() {
        return Err(not_compiled(&started.options, &arguments, &output));
    }
    let loaded = loaded.map_err(|error| format!("nrt_load failed: {}: {error}", neff.display()))?;
    open_collectives(started, number(code, "mhlo.num_replicas = "))?;
    if loaded.is_empty() {
        return Ok(());
    }
    let brief = "PJRT_Client_Compile: error condition error != 0:";
    Err(errors::logged(&started.options, format!("nrt_load failed: {loaded}"), brief))
}

/// Takes the port of collectives for a program of several replicas, where the process has its cores.
pub(super) fn open_collectives(started: &Started, replicas: usize) -> Result<(), String> {
    if replicas == 1 || !started.has_cores {
        return Ok(());
    }
    started.processes.open_root(Duration::from_millis(started.options.meet_ms))
}

/// The error of the compiler, which has written its own words to standard error.
#[allow(clippy::print_stderr, clippy::disallowed_methods, reason = "as the real compiler does")]
fn not_compiled(options: &Options, arguments: &[String], output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    eprint!("{said}");
    let command = format!(
        "RunNeuronCCImpl: error condition error != 0: <class 'subprocess.CalledProcessError'>: Command \
         '['neuronx-cc', '{}']' {}.",
        arguments.join("', '"),
        ended(output.status),
    );
    match options.errors {
        Errors::Whole => format!("{command}\n{said}"),
        Errors::Brief => command,
    }
}

/// How a process ended, as Python's `subprocess` words it.
fn ended(status: ExitStatus) -> String {
    match status.signal() {
        Some(9) => "died with <Signals.SIGKILL: 9>".to_owned(),
        Some(signal) => format!("died with <Signals.SIG: {signal}>"),
        None => format!("returned non-zero exit status {}", status.code().unwrap_or_default()),
    }
}

/// The name of a program; empty if it has none.
fn name(code: &str) -> &str {
    let behind = code.split_once("module @").map(|(_, behind)| behind);
    behind.and_then(|behind| behind.split_whitespace().next()).unwrap_or_default()
}

/// The number behind `key` in a program; 1 if it has none.
fn number(code: &[u8], key: &str) -> usize {
    let text = String::from_utf8_lossy(code);
    let behind = text.find(key).map(|at| &text[at + key.len()..]).unwrap_or_default();
    let digits: String = behind.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or(1)
}
