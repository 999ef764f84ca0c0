//! Floating-point operations: those of training by transformers' count, and those that devices
//! offer.

use traind_models::{ParameterSpec, Role};

/// The FLOPs of training by transformers' `floating_point_ops`: six for each position, padding
/// included, and each element of `trainer_elements`.
pub fn trainer_flos(positions: f64, trainer_elements: usize) -> f64 {
    6.0 * positions * trainer_elements as f64
}

/// The elements that `floating_point_ops` counts: those of all parameters but embeddings.
pub(super) fn trainer_elements(parameters: &[ParameterSpec]) -> usize {
    let counted = parameters.iter().filter(|parameter| parameter.role != Role::Embedding);
    counted.map(|parameter| parameter.shape.element_count()).sum()
}

/// The type that dots are computed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// bfloat16 or float16.
    Half,
    /// TensorFloat-32, in which GPUs multiply float32.
    TensorFloat32,
    /// float32.
    Float32,
}

/// Returns the peak FLOP/s of one core in dots, from the vendors' data sheets; `None` for unknown
/// devices and for CPUs.
pub fn peak(device_kind: &str, precision: Precision) -> Option<f64> {
    const TERA: f64 = 1e12;
    const PEAKS: &[(&str, [f64; 3])] = &[
        ("H200", [989.4, 494.7, 66.9]),
        ("H100 PCIe", [756.0, 378.0, 51.2]),
        ("H100 NVL", [835.5, 417.7, 60.0]),
        ("H100", [989.4, 494.7, 66.9]),
        ("A100", [312.0, 156.0, 19.5]),
        ("V100", [125.0, 15.7, 15.7]),
        ("L40S", [362.0, 183.0, 91.6]),
        ("A10G", [70.0, 35.0, 31.2]),
        ("L4", [121.0, 60.0, 30.3]),
    ];
    let of_gpu = || {
        let (_, peaks) = PEAKS.iter().find(|(name, _)| device_kind.contains(name))?;
        Some(peaks.map(|peak| TERA * peak))
    };
    // Their compiler casts nothing by itself (`--auto-cast=none`), so float32 stays float32.
    let of_neuron = traind_neuron::core_kind(device_kind).map(|kind| {
        let [half, _, float32] = kind.peak_flops;
        [half, float32, float32]
    });
    let [half, tensor_float_32, float32] = of_neuron.or_else(of_gpu)?;
    Some(match precision {
        Precision::Half => half,
        Precision::TensorFloat32 => tensor_float_32,
        Precision::Float32 => float32,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peaks_are_of_the_named_device() {
        use Precision::{Float32, Half, TensorFloat32};
        assert_eq!(peak("NVIDIA H100 80GB HBM3", Half), Some(989.4e12));
        assert_eq!(peak("NVIDIA H100 PCIe", TensorFloat32), Some(378.0e12));
        assert_eq!(peak("NVIDIA H100 NVL", Half), Some(835.5e12));
        assert_eq!(peak("NVIDIA L40S", Float32), Some(91.6e12));
        assert_eq!(peak("NVIDIA L4", Half), Some(121.0e12));
        assert_eq!(peak("cpu", Float32), None);
        assert_eq!(peak("NC_v2", TensorFloat32), Some(23.75e12), "`train.tf32` is for GPUs");
        assert_eq!([Half, Float32].map(|it| peak("NC_v3d", it)), [Some(166.75e12), Some(45.25e12)]);
        assert_eq!(peak("NC_v3", Half), Some(83.375e12));
        assert_eq!(peak("NC_v4d", TensorFloat32), Some(45.75e12));
    }
}
