//! Compiles programs for GPUs that this machine need not have.

use std::path::{Path, PathBuf};

use traind_pjrt::{
    CompileOptions, CompiledProgram, CreateOptions, OptionOverride, Plugin, Topology,
};

use super::gpu_target::GpuTarget;
use super::platform::with_platform_options;
use crate::error::Result;
use crate::stablehlo::Program;

/// The folder of `site-packages` from the plugin's file up.
const SITE_DEPTH: usize = 3;
/// The folder there that has `ptxas` and libdevice.
const CUDA_DATA_DIR: &str = "nvidia/cu13";

/// A compiler without devices.
#[derive(Debug)]
pub struct AheadOfTime {
    topology: Topology,
    cuda_data_dir: Option<PathBuf>,
}

impl AheadOfTime {
    /// Compiles for `hosts` with `per_host` GPUs each, by the plugin at `plugin`. It needs `ptxas` and
    /// libdevice, which pip and `traind plugins install` put beside it; else `XLA_FLAGS` must name their folder
    /// by `xla_gpu_cuda_data_dir`.
    pub fn for_gpus(
        plugin: &Path,
        gpu: GpuTarget,
        hosts: usize,
        per_host: usize,
    ) -> Result<AheadOfTime> {
        let options = CreateOptions::new()
            .with("target_config", gpu.text().as_str())
            .with("topology", format!("1x{hosts}x{per_host}").as_str());
        let beside = plugin.ancestors().nth(SITE_DEPTH).map(|site| site.join(CUDA_DATA_DIR));
        let topology = Topology::new(Plugin::load(plugin)?, &options)?;
        Ok(AheadOfTime { topology, cuda_data_dir: beside.filter(|folder| folder.is_dir()) })
    }

    /// Compiles a program for as many of the first GPUs as it has replicas, with cuBLAS for all dots: there is
    /// no device on which to compare it with kernels that XLA generates, and it takes the larger workspace.
    pub fn compile(&self, program: &Program) -> Result<CompiledProgram> {
        let mut options = CompileOptions::replicas(program.num_replicas)
            .with_override("xla_gpu_autotune_level", OptionOverride::Int64(0))
            .with_override("xla_gpu_enable_triton_gemm", OptionOverride::Bool(false));
        if let Some(folder) = &self.cuda_data_dir {
            let folder = OptionOverride::String(folder.display().to_string());
            options = options.with_override("xla_gpu_cuda_data_dir", folder);
        }
        let options = with_platform_options(options, self.topology.platform_name());
        Ok(self.topology.compile(&program.text, &options)?)
    }
}
