//! Working memory that a thread keeps from call to call.

use std::cell::RefCell;
use std::thread::LocalKey;

use crate::math::LANES;

/// A cache line, so that vectors in scratch memory cross none.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u32; LANES]);

thread_local! {
    static MEMORY: RefCell<Vec<Line>> = const { RefCell::new(Vec::new()) };
    /// Memory of products of matrices, which run inside of other kernels.
    #[cfg(target_arch = "x86_64")]
    static PANELS: RefCell<Vec<Line>> = const { RefCell::new(Vec::new()) };
}

/// Calls `work` with `N` slices of `len` floats each, a multiple of [`LANES`]. They hold
/// what was left there before. Calls do not nest.
pub(crate) fn with_scratch<const N: usize>(len: usize, work: impl FnOnce([&mut [f32]; N])) {
    assert!(len.is_multiple_of(LANES));
    with_slices(&MEMORY, [len; N], floats, work);
}

/// Calls `work` with slices of at least `lens` words, which begin with a cache line. They hold what was
/// left there before. Calls do not nest.
#[cfg(target_arch = "x86_64")]
pub(crate) fn with_words<const N: usize>(lens: [usize; N], work: impl FnOnce([&mut [u32]; N])) {
    with_slices(&MEMORY, lens.map(|len| len.next_multiple_of(LANES)), words, work);
}

/// Calls `work` with a slice of `len` floats, a multiple of [`LANES`], which begins with a cache line. The slice holds
/// what was left there before. Calls do not nest, but may lie inside of those of [`with_scratch`].
#[cfg(target_arch = "x86_64")]
pub(crate) fn with_panels(len: usize, work: impl FnOnce(&mut [f32])) {
    assert!(len.is_multiple_of(LANES));
    with_slices(&PANELS, [len], floats, |[panels]| work(panels));
}

fn with_slices<T, const N: usize>(
    memory: &'static LocalKey<RefCell<Vec<Line>>>,
    lens: [usize; N],
    view: impl FnOnce(&mut [Line]) -> &mut [T],
    work: impl FnOnce([&mut [T]; N]),
) {
    memory.with_borrow_mut(|memory| {
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
