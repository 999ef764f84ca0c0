//! What each platform's compiler is told besides the program.

use traind_pjrt::{CompileOptions, OptionOverride};

/// Switched off on CPU devices:
///
/// - a dot spread over threads: a CPU device stands for one core of the host, and all devices
///   have work, so that it loses to synchronization;
/// - XNNPACK, which XLA prefers on some processors: its thread pool waits for the very threads
///   that a collective blocks, and so for ever;
/// - the scheduler that looks for concurrency within a program: it keeps more alive than it
///   gains, rematerialized activations among it.
const CPU_OFF: [&str; 3] = [
    "xla_cpu_multi_thread_eigen",
    "xla_cpu_use_xnnpack",
    "xla_cpu_enable_concurrency_optimized_scheduler",
];

/// `options` with what `platform` (a client's platform name) needs.
pub fn with_platform_options(options: CompileOptions, platform: &str) -> CompileOptions {
    let off: &[&str] = if platform == "cpu" { &CPU_OFF } else { &[] };
    off.iter()
        .fold(options, |options, flag| options.with_override(*flag, OptionOverride::Bool(false)))
}
