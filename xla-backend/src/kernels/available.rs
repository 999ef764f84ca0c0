//! Which kernels the programs of a device may call.

/// The kernels of a platform.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kernels {
    /// None: programs consist of what the compiler knows.
    #[default]
    None,
    /// The kernels of `traind-kernels`, on CPU devices.
    Own,
    /// cuDNN's attention, on NVIDIA's GPUs.
    CudnnAttention,
}

impl Kernels {
    /// Ours, if `are_own`.
    pub fn own_if(are_own: bool) -> Kernels {
        if are_own { Kernels::Own } else { Kernels::None }
    }
}

/// The choices of a job on GPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GpuOptions {
    /// The operands of float32 dots may be rounded for speed.
    pub tensor_float_32: bool,
    /// cuDNN computes attention where it can.
    pub cudnn_attention: bool,
}
