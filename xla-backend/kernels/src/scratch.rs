//! Working memory that a thread keeps from call to call.

use std::cell::RefCell;

use crate::math::LANES;

/// A cache line, so that vectors in scratch memory cross none.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u32; LANES]);

thread_local! {
    static MEMORY: RefCell<Vec<Line>> = const { RefCell::new(Vec::new()) };
}

/// Calls `work` with `N` slices of `len` floats each, a multiple of [`LANES`]. They hold
/// what was left there before. Calls do not nest.
pub(crate) fn with_scratch<const N: usize>(len: usize, work: impl FnOnce([&mut [f32]; N])) {
    assert!(len.is_multiple_of(LANES));
    with_slices([len; N], floats, work);
}

/// Calls `work` with slices of at least `lens` words, which begin with a cache line. They hold what was
/// left there before. Calls do not nest.
#[cfg(target_arch = "x86_64")]
pub(crate) fn with_words<const N: usize>(lens: [usize; N], work: impl FnOnce([&mut [u32]; N])) {
    with_slices(lens.map(|len| len.next_multiple_of(LANES)), words, work);
}

fn with_slices<T, const N: usize>(
    lens: [usize; N],
    view: impl FnOnce(&mut [Line]) -> &mut [T],
    work: impl FnOnce([&mut [T]; N]),
) {
    MEMORY.with_borrow_mut(|memory| {
        let lines = lens.iter().sum::<usize>() / LANES;
        if memory.len() < lines {
            memory.resize(lines, Line([0; LANES]));
        }
        let mut rest = view(&mut memory[..lines]);
        work(lens.map(|len| {
            let (part, others) = std::mem::take(&mut rest).split_at_mut(len);
            rest = others;
            part
        }));
    });
}

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code, reason = "a slice of aligned lines is a slice of words")]
fn words(lines: &mut [Line]) -> &mut [u32] {
    // SAFETY: a line is sixteen words without padding.
    unsafe { std::slice::from_raw_parts_mut(lines.as_mut_ptr().cast(), lines.len() * LANES) }
}

#[allow(unsafe_code, reason = "a slice of aligned lines is a slice of floats")]
fn floats(lines: &mut [Line]) -> &mut [f32] {
    // SAFETY: a line is sixteen floats without padding, and any bits are floats.
    unsafe { std::slice::from_raw_parts_mut(lines.as_mut_ptr().cast(), lines.len() * LANES) }
}
