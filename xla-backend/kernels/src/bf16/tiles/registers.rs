//! The instructions of AMX: tiles of sixteen lines of 64 bytes, and products of two of them.
#![allow(unsafe_code, reason = "tiles are registers that only assembly names")]

use std::arch::asm;
use std::marker::PhantomData;
use std::sync::LazyLock;

use crate::math::LANES;
use crate::matrix::MatrixMut;

/// Sixteen lines of sixteen pairs of bfloat16 numbers. A step of a product has one of each panel.
pub(super) type Tile = [[u32; LANES]; LANES];

/// The rows and columns that are computed together: two by two tiles of sums, which leave two registers for each
/// factor.
pub(super) const SIDE: usize = 2 * LANES;

/// The bytes of a line of a tile.
const LINE: usize = 4 * LANES;

/// Whether this processor multiplies tiles of bfloat16 numbers, and the operating system permits it.
pub(in crate::bf16) fn is_supported() -> bool {
    static IS_SUPPORTED: LazyLock<bool> = LazyLock::new(|| has_instructions() && is_permitted());
    *IS_SUPPORTED
}

fn has_instructions() -> bool {
    use std::arch::x86_64::{__cpuid_count, __get_cpuid_max};
    const BF16: u32 = 1 << 22;
    const TILE: u32 = 1 << 24;
    __get_cpuid_max(0).0 >= 7 && __cpuid_count(7, 0).edx & (BF16 | TILE) == BF16 | TILE
}

/// Asks Linux for the room in which it keeps a thread's tiles while others run.
#[cfg(target_os = "linux")]
fn is_permitted() -> bool {
    const ARCH_REQ_XCOMP_PERM: libc::c_long = 0x1023;
    const XTILEDATA: libc::c_long = 18;
    // SAFETY: the call takes numbers, and changes nothing but what this process may do.
    unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XTILEDATA) == 0 }
}

#[cfg(not(target_os = "linux"))]
fn is_permitted() -> bool {
    false
}

/// The tile registers of this thread, which are in use until this is dropped.
pub(super) struct Registers(PhantomData<*const ()>);

impl Registers {
    /// Panics where AMX [is not supported](is_supported).
    pub(super) fn acquire() -> Registers {
        assert!(is_supported(), "this processor has no tiles");
        let mut configuration = [0u8; 64];
        configuration[0] = 1;
        for tile in 0..8 {
            configuration[16 + 2 * tile] = LINE as u8;
            configuration[48 + tile] = LANES as u8;
        }
        // SAFETY: the instruction reads 64 bytes, and no tile holds anything yet.
        unsafe {
            asm!(
                "ldtilecfg [{}]",
                in(reg) configuration.as_ptr(),
                options(nostack, readonly, preserves_flags),
            );
        }
        Registers(PhantomData)
    }

    /// Adds the products of two panels of rows with two panels of columns to a bias, or to what the result holds.
    pub(super) fn add_products(
        &self,
        bias: Option<&[f32; SIDE]>,
        to: &mut MatrixMut<'_>,
        lhs: &[Tile],
        rhs: &[Tile],
    ) {
        let steps = lhs.len() / 2;
        assert!(steps > 0 && lhs.len() == 2 * steps && rhs.len() == lhs.len(), "panels differ");
        let [rows, columns] = to.sizes();
        assert!(rows == SIDE && columns == SIDE, "the result is of other shape");
        let stride = to.layout.row_stride;
        let elements = to.elements.as_mut_ptr();
        let below = LANES * stride;
        // All rows begin with the same numbers if the distance from one to the next is zero.
        let (from, from_below, from_stride) = match bias {
            Some(bias) => (bias.as_ptr(), bias.as_ptr(), 0),
            None => (elements.cast_const(), elements.wrapping_add(below).cast_const(), stride),
        };
        // SAFETY: panels have a tile for each step, and the bias and the result have the elements of four tiles. The
        // registers were configured.
        unsafe {
            asm!(
                "tileloadd tmm0, [{from} + {from_stride}*1]",
                "tileloadd tmm1, [{from} + {from_stride}*1 + 64]",
                "tileloadd tmm2, [{from_below} + {from_stride}*1]",
                "tileloadd tmm3, [{from_below} + {from_stride}*1 + 64]",
                "2:",
                "tileloadd tmm4, [{upper} + {line}*1]",
                "tileloadd tmm6, [{left} + {line}*1]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "tileloadd tmm7, [{right} + {line}*1]",
                "tdpbf16ps tmm1, tmm4, tmm7",
                "tileloadd tmm5, [{lower} + {line}*1]",
                "tdpbf16ps tmm2, tmm5, tmm6",
                "tdpbf16ps tmm3, tmm5, tmm7",
                "add {upper}, 1024",
                "add {lower}, 1024",
                "add {left}, 1024",
                "add {right}, 1024",
                "dec {steps}",
                "jnz 2b",
                "tilestored [{to} + {to_stride}*1], tmm0",
                "tilestored [{to} + {to_stride}*1 + 64], tmm1",
                "tilestored [{to_below} + {to_stride}*1], tmm2",
                "tilestored [{to_below} + {to_stride}*1 + 64], tmm3",
                from = in(reg) from,
                from_below = in(reg) from_below,
                from_stride = in(reg) size_of::<f32>() * from_stride,
                to = in(reg) elements,
                to_below = in(reg) elements.wrapping_add(below),
                to_stride = in(reg) size_of::<f32>() * stride,
                upper = inout(reg) lhs.as_ptr() => _,
                lower = inout(reg) lhs[steps..].as_ptr() => _,
                left = inout(reg) rhs.as_ptr() => _,
                right = inout(reg) rhs[steps..].as_ptr() => _,
                line = in(reg) LINE,
                steps = inout(reg) steps => _,
                out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                options(nostack),
            );
        }
    }
}

impl Drop for Registers {
    fn drop(&mut self) {
        // SAFETY: nobody needs what the tiles hold.
        unsafe { asm!("tilerelease", options(nostack, nomem, preserves_flags)) }
    }
}
