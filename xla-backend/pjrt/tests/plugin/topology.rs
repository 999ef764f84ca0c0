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

/// GPUs that are not there, if there is a plugin for them.
#[expect(clippy::print_stderr, reason = "says that a test is skipped")]
fn h100s(topology: &str) -> Option<Topology> {
    let Some(plugin) = cuda_plugin() else {
        eprintln!("not tested: TRAIND_TEST_CUDA_PLUGIN names no plugin");
        return None;
    };
    let options = CreateOptions::new().with("target_config", H100).with("topology", topology);
    Some(Topology::new(plugin, &options).unwrap())
}

#[test]
fn programs_compile_for_gpus_that_are_not_there() {
    let Some(topology) = h100s("1x1x2") else { return };
    assert_eq!((topology.platform_name(), topology.devices().len()), ("cuda", 2));
    let program = topology.compile(SUM_OF_TWO, &CompileOptions::replicas(2)).unwrap();
    let memory = program.compiled_memory_stats().unwrap().unwrap();
    assert_eq!((memory.argument_bytes, memory.output_bytes), (16, 16));
    let instructions = program.optimized_program().unwrap().instructions().unwrap();
    assert!(instructions.iter().any(|instruction| instruction.opcode.starts_with("all-reduce")));
    let too_many = topology.compile(SUM_OF_TWO, &CompileOptions::replicas(3)).unwrap_err();
    assert!(too_many.to_string().contains("num_replicas"), "{too_many}");
}

/// Attention as the compiler's call of cuDNN: queries, keys and values [4, 128, 8, 64], causal.
const FUSED_ATTENTION: &str = r#"
module @fused_attention {
  func.func public @main(
    %q: tensor<4x128x8x64xbf16>, %k: tensor<4x128x8x64xbf16>, %v: tensor<4x128x8x64xbf16>
  ) -> tensor<4x8x128x64xbf16> {
    %0:2 = stablehlo.custom_call @"__cudnn$fmhaSoftmax"(%q, %k, %v) {
      api_version = 2 : i32,
      backend_config = "{\22cudnn_fmha_backend_config\22: {\22fmha_scale\22: 0.125, \22mask_type\22: \22CAUSAL\22, \22is_flash_attention\22: true}}"
    } : (tensor<4x128x8x64xbf16>, tensor<4x128x8x64xbf16>, tensor<4x128x8x64xbf16>)
      -> (tensor<4x8x128x64xbf16>, tensor<0xui8>)
    return %0#0 : tensor<4x8x128x64xbf16>
  }
}
"#;

/// A program that calls cuDNN compiles without it and keeps the call, for which the device's process builds a graph.
#[test]
fn calls_of_cudnn_compile_for_gpus_that_are_not_there() {
    let Some(topology) = h100s("1x1x1") else { return };
    let program = topology.compile(FUSED_ATTENTION, &CompileOptions::replicas(1)).unwrap();
    let instructions = program.optimized_program().unwrap().instructions().unwrap();
    let targets: Vec<&str> = instructions.iter().map(|it| &*it.custom_call_target).collect();
    assert!(targets.contains(&"__cudnn$fmhaSoftmax"), "{instructions:?}");
}
