//! The treatment of numbers too small for a full mantissa.
#![allow(unsafe_code)]

use std::arch::asm;

/// Lets the calling thread's instructions take such numbers for zero, as XLA does on its threads: with
/// them arithmetic is many times slower, and parts of a program would differ. For threads that end
/// [deferred calls](crate::DeferredCall), on which programs continue.
#[cfg(target_arch = "x86_64")]
pub fn flush_to_zero() {
    const RESULTS_AND_OPERANDS: u32 = 1 << 15 | 1 << 6;
    let mut control = 0_u32;
    // SAFETY: both instructions access the four bytes of `control`. The thread computes with numbers
    // in XLA's code alone, which expects this setting.
    unsafe {
        asm!("stmxcsr [{0}]", in(reg) &mut control, options(nostack, preserves_flags));
        control |= RESULTS_AND_OPERANDS;
        asm!("ldmxcsr [{0}]", in(reg) &control, options(nostack, preserves_flags));
    }
}

/// Lets the calling thread's instructions take such numbers for zero, by a bit of the floating-point control register.
#[cfg(target_arch = "aarch64")]
pub fn flush_to_zero() {
    const FLUSH: u64 = 1 << 24;
    // SAFETY: the register is the thread's own. The thread computes with numbers in XLA's code alone,
    // which expects this setting.
    unsafe {
        let mut control: u64;
        asm!("mrs {0}, fpcr", out(reg) control, options(nomem, nostack, preserves_flags));
        control |= FLUSH;
        asm!("msr fpcr, {0}", in(reg) control, options(nomem, nostack, preserves_flags));
    }
}
