//! Products of float32 matrices whose operands are rounded to bfloat16 first and that are summed in float32. On
//! processors that multiply pairs of bfloat16 numbers, they are twice as fast as others, and with AMX many times.

#[cfg(target_arch = "x86_64")]
mod pairs;
#[cfg(target_arch = "x86_64")]
mod product;
mod rounded;
#[cfg(target_arch = "x86_64")]
mod tiles;
#[cfg(target_arch = "x86_64")]
mod vector;

use std::sync::LazyLock;

#[cfg(target_arch = "x86_64")]
use crate::dispatch::Level;
use crate::matrix::{Matrix, MatrixMut};
#[cfg(target_arch = "x86_64")]
use product::Product;

/// The matrix to which a product is added.
#[derive(Clone, Copy, Debug)]
pub enum Addend<'a> {
    /// An element for each column. An empty one counts as zeros.
    Bias(&'a [f32]),
    /// The elements that the result holds.
    Sum,
}

/// `to = lhs rhs + addend`, of operands rounded to bfloat16.
pub fn multiply(to: MatrixMut<'_>, lhs: Matrix<'_>, rhs: Matrix<'_>, addend: Addend<'_>) {
    let sizes = [lhs.rows(), rhs.columns()];
    assert_eq!(rhs.rows(), lhs.columns(), "the operands do not match");
    assert_eq!(to.sizes(), sizes, "the result is of other shape");
    if let Addend::Bias(bias) = addend {
        assert!(bias.is_empty() || bias.len() == rhs.columns(), "the bias is of other width");
    }
    Kernel::of_processor().multiply(to, lhs, rhs, addend);
}

/// How products are computed, the fastest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kernel {
    /// By AMX: tiles of bfloat16 numbers.
    #[cfg(target_arch = "x86_64")]
    Tiles,
    /// By AVX512-BF16: vectors of pairs of bfloat16 numbers.
    #[cfg(target_arch = "x86_64")]
    Pairs,
    /// By float32 numbers that were rounded.
    Rounded,
}

impl Kernel {
    const ALL: &[Kernel] = &[
        #[cfg(target_arch = "x86_64")]
        Kernel::Tiles,
        #[cfg(target_arch = "x86_64")]
        Kernel::Pairs,
        Kernel::Rounded,
    ];

    fn of_processor() -> Kernel {
        static KERNEL: LazyLock<Kernel> = LazyLock::new(|| {
            let is_fast = |kernel: &&Kernel| kernel.is_supported() && kernel.is_fast();
            Kernel::ALL.iter().find(is_fast).copied().unwrap_or(Kernel::Rounded)
        });
        *KERNEL
    }

    /// Whether this processor has the instructions.
    fn is_supported(self) -> bool {
        match self {
            #[cfg(target_arch = "x86_64")]
            Kernel::Tiles => Kernel::Pairs.is_supported() && tiles::is_supported(),
            #[cfg(target_arch = "x86_64")]
            Kernel::Pairs => {
                Level::of_processor() == Level::Avx512 && is_x86_feature_detected!("avx512bf16")
            }
            Kernel::Rounded => true,
        }
    }

    /// Whether the instructions are faster than those for float32.
    fn is_fast(self) -> bool {
        match self {
            // Intel's processors multiply half as many pairs in a cycle as single float32 numbers.
            #[cfg(target_arch = "x86_64")]
            Kernel::Pairs => !is_intel(),
            _ => true,
        }
    }

    fn multiply(self, to: MatrixMut<'_>, lhs: Matrix<'_>, rhs: Matrix<'_>, addend: Addend<'_>) {
        #[allow(unsafe_code, reason = "the calls into code for instructions that not all have")]
        match self {
            // SAFETY: the processor was asked for these instructions.
            #[cfg(target_arch = "x86_64")]
            Kernel::Tiles => unsafe { tiles::multiply(&Product::new(lhs, rhs, addend), to) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Kernel::Pairs => unsafe { pairs::multiply(&Product::new(lhs, rhs, addend), to) },
            Kernel::Rounded => rounded::multiply(to, lhs, rhs, addend),
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn is_intel() -> bool {
    let vendor = std::arch::x86_64::__cpuid(0);
    [vendor.ebx, vendor.edx, vendor.ecx].map(u32::to_le_bytes).as_flattened() == b"GenuineIntel"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(count: usize, factor: u32) -> Vec<f32> {
        let number = |index: u32| (index.wrapping_mul(factor) >> 8) as f32 / 8_388_608.0 - 1.0;
        (1..=count as u32).map(number).collect()
    }

    /// A matrix of so many rows and columns, in one of the two layouts.
    fn matrix(elements: &[f32], [rows, columns]: [usize; 2], is_transposed: bool) -> Matrix<'_> {
        match is_transposed {
            true => Matrix::new(elements, [columns, rows], rows).transposed(),
            false => Matrix::new(elements, [rows, columns], columns),
        }
    }

    /// Kernels for processors with fewer instructions are tested on those with more, too.
    #[test]
    fn products_of_all_kernels_are_the_same() {
        let layouts = [[false, true], [false, false], [true, false], [true, true]];
        let sizes = [[5, 1030, 1100], [70, 96, 33], [1100, 40, 600], [64, 64, 64]];
        for ([rows, columns, depth], [lhs_transposed, rhs_transposed]) in
            sizes.into_iter().flat_map(|sizes| layouts.map(|layout| (sizes, layout)))
        {
            let lhs = numbers(rows * depth, 0x9e37_79b9);
            let rhs = numbers(columns * depth, 0x85eb_ca6b);
            let bias = numbers(columns, 0xc2b2_ae35);
            let product = |kernel: Kernel| {
                let mut result = vec![f32::NAN; rows * columns];
                let lhs = matrix(&lhs, [rows, depth], lhs_transposed);
                let rhs = matrix(&rhs, [depth, columns], rhs_transposed);
                for addend in [Addend::Bias(&bias), Addend::Sum] {
                    let to = MatrixMut::new(&mut result, [rows, columns], columns);
                    kernel.multiply(to, lhs, rhs, addend);
                }
                result
            };
            let expected = product(Kernel::Rounded);
            for kernel in Kernel::ALL.iter().filter(|kernel| kernel.is_supported()) {
                for (one, other) in product(*kernel).iter().zip(&expected) {
                    // Two thousand products below 1, which are added in another order.
                    assert!((one - other).abs() < 2e-4, "{kernel:?}: {one}, {other}");
                }
            }
        }
    }
}
