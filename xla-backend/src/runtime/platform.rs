//! Compile options of each platform.

use traind_pjrt::{CompileOptions, OptionOverride};

use crate::mesh::Mesh;
use crate::stablehlo::{DotPrecision, Forms, Reach};

/// Left to itself, XLA rounds the operands of float32 dots to TensorFloat-32 on GPUs that have
/// it, ten bits of mantissa. PyTorch does so only on request.
pub(super) fn dot_precision(platform: &str, tensor_float_32: bool) -> DotPrecision {
    match platform {
        "cuda" if !tensor_float_32 => DotPrecision::Highest,
        _ => DotPrecision::Platform,
    }
}

/// The hosts of `mesh` that one program spans: those with the same stages, except on CPU devices, whose collectives end
/// at their process.
pub(super) fn reach(platform: &str, mesh: &Mesh) -> Reach {
    match mesh.hosts() {
        1 => Reach::Host,
        _ if platform == "cpu" => Reach::Host,
        hosts => Reach::Hosts(hosts),
    }
}

/// The forms of operations in programs for a platform.
pub(super) fn forms(platform: &str) -> Forms {
    if platform == "neuron" { Forms::Neuron } else { Forms::Xla }
}

/// Whether arguments stay as they are, since donation is switched off: some users of NeuronCores report wrong results.
pub(super) fn keeps_arguments(platform: &str) -> bool {
    platform == "neuron" && !traind_choices::NEURON_DONATION.is_on()
}

/// Bytes of an intermediate value in bfloat16 or float16: XLA computes them in float32 on CPU devices.
pub(super) fn half_bytes(platform: &str) -> usize {
    if platform == "cpu" { 4 } else { 2 }
}

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

/// Switched off on GPUs: hosts that divide the search for the fastest kernels wait for one another,
/// and so for ever where one of them finds the program in its cache.
const CUDA_OFF: [&str; 1] = ["xla_gpu_shard_autotuning"];

/// Switched on for GPUs: otherwise gradients of lookups are added up atomically, in any order, and a
/// resumed run ends with other weights than an uninterrupted one.
const CUDA_ON: [&str; 1] = ["xla_gpu_exclude_nondeterministic_ops"];

/// `options` with what `platform` (a client's platform name) needs.
pub fn with_platform_options(options: CompileOptions, platform: &str) -> CompileOptions {
    let (off, on): (&[&str], &[&str]) = match platform {
        "cpu" => (&CPU_OFF, &[]),
        "cuda" => (&CUDA_OFF, &CUDA_ON),
        _ => (&[], &[]),
    };
    let flags = off.iter().map(|flag| (*flag, false)).chain(on.iter().map(|flag| (*flag, true)));
    flags.fold(options, |options, (flag, value)| {
        options.with_override(flag, OptionOverride::Bool(value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mesh::HostGrid;

    #[test]
    fn programs_span_the_hosts_except_those_of_cpu_devices() {
        let mesh = Mesh::data_parallel(4).unwrap();
        assert_eq!(reach("cuda", &mesh), Reach::Host);
        let on_two = mesh.on_hosts(2, 1).unwrap();
        assert_eq!(reach("cpu", &on_two), Reach::Host);
        assert_eq!(reach("cuda", &on_two), Reach::Hosts(2));
        assert_eq!(reach("neuron", &on_two), Reach::Hosts(2));
    }

    #[test]
    fn programs_span_the_hosts_with_the_same_stages_alone() {
        let of_grid = |data| {
            let grid = HostGrid { data, pipeline: 2, pipeline_is_slower: false };
            Mesh::data_parallel(4).unwrap().on_grid(grid, 1).unwrap()
        };
        assert_eq!(reach("cuda", &of_grid(1)), Reach::Host);
        assert_eq!(reach("cuda", &of_grid(3)), Reach::Hosts(3));
        assert_eq!(reach("cpu", &of_grid(3)), Reach::Host);
    }

    #[test]
    fn float32_is_float32_on_gpus_unless_told() {
        assert_eq!(dot_precision("cuda", false), DotPrecision::Highest);
        assert_eq!(dot_precision("cuda", true), DotPrecision::Platform);
        assert_eq!(dot_precision("neuron", false), DotPrecision::Platform);
        assert_eq!(dot_precision("cpu", false), DotPrecision::Platform);
    }
}
