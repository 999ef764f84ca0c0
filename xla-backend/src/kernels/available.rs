//! Which kernels the programs of a device may call.

use crate::dtype::DType;

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

    /// Whether products in bfloat16 are best recorded as products of float32 tensors that a kernel rounds.
    pub fn round_to_bf16(self) -> bool {
        self == Kernels::Own
    }

    /// The type of the operands and results of products that a job computes in `dtype`.
    pub fn operand_dtype(self, dtype: DType) -> DType {
        if dtype == DType::BF16 && self.round_to_bf16() { DType::F32 } else { dtype }
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
