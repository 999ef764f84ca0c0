//! Compiling for devices that this machine lacks.

use crate::support::{SUM_OF_TWO, cpu_plugin};
use traind_pjrt::{CompileOptions, CreateOptions, Plugin, Topology};

/// An H100 (SXM) as XLA's `GpuTargetConfigProto` describes it; numbers from NVIDIA's data sheet.
const H100: &str = "
gpu_device_info {
  threads_per_block_limit: 1024
  threads_per_warp: 32
  shared_memory_per_block: 49152
  shared_memory_per_core: 233472
  shared_memory_per_block_optin: 232448
  threads_per_core_limit: 2048
  core_count: 132
  fpus_per_core: 128
  block_dim_limit_x: 2147483647
  block_dim_limit_y: 65535
  block_dim_limit_z: 65535
  memory_bandwidth: 3352320000000
  l2_cache_size: 52428800
  clock_rate_ghz: 1.98
  device_memory_size: 84942979072
  registers_per_core_limit: 65536
  registers_per_block_limit: 65536
  cuda_compute_capability { major: 9 feature_extension: ACCELERATED_FEATURES }
}
platform_name: \"CUDA\"
";

/// The CUDA plugin, where the environment names one.
fn cuda_plugin() -> Option<Plugin> {
    let path = std::env::var_os("TRAIND_TEST_CUDA_PLUGIN")?;
    Some(Plugin::load(path).unwrap())
}

#[test]
fn a_plugin_without_topologies_says_so() {
    let error = Topology::new(cpu_plugin(), &CreateOptions::new()).unwrap_err();
    assert!(error.is_unimplemented(), "{error}");
}

#[test]
fn programs_compile_for_gpus_that_are_not_there() {
    let Some(plugin) = cuda_plugin() else {
        eprintln!("not tested: TRAIND_TEST_CUDA_PLUGIN names no plugin");
        return;
    };
    let options = CreateOptions::new().with("target_config", H100).with("topology", "1x1x2");
    let topology = Topology::new(plugin, &options).unwrap();
    assert_eq!((topology.platform_name(), topology.devices().len()), ("cuda", 2));
    let program = topology.compile(SUM_OF_TWO, &CompileOptions::replicas(2)).unwrap();
    let memory = program.compiled_memory_stats().unwrap().unwrap();
    assert_eq!((memory.argument_bytes, memory.output_bytes), (16, 16));
    let instructions = program.optimized_program().unwrap().instructions().unwrap();
    assert!(instructions.iter().any(|instruction| instruction.opcode.starts_with("all-reduce")));
    let too_many = topology.compile(SUM_OF_TWO, &CompileOptions::replicas(3)).unwrap_err();
    assert!(too_many.to_string().contains("num_replicas"), "{too_many}");
}
