//! Working memory that a thread keeps from call to call.

use std::cell::RefCell;

use crate::math::LANES;

/// A cache line, so that vectors in scratch memory cross none.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([f32; LANES]);

thread_local! {
    static MEMORY: RefCell<Vec<Line>> = const { RefCell::new(Vec::new()) };
}

/// Calls `work` with `N` slices of `len` floats each, a multiple of [`LANES`]. They hold
/// what was left there before. Calls do not nest.
pub(crate) fn with_scratch<const N: usize>(len: usize, work: impl FnOnce([&mut [f32]; N])) {
    assert!(len.is_multiple_of(LANES));
    MEMORY.with_borrow_mut(|memory| {
        let lines = N * len / LANES;
        if memory.len() < lines {
            memory.resize(lines, Line([0.0; LANES]));
        }
        let mut rest = floats(&mut memory[..lines]);
        work(std::array::from_fn(|_| {
            let (part, others) = std::mem::take(&mut rest).split_at_mut(len);
            rest = others;
            part
        }));
    });
}

#[allow(unsafe_code, reason = "a slice of aligned lines is a slice of floats")]
fn floats(lines: &mut [Line]) -> &mut [f32] {
    // SAFETY: a line is sixteen floats without padding, and any bits are floats.
    unsafe { std::slice::from_raw_parts_mut(lines.as_mut_ptr().cast(), lines.len() * LANES) }
}
