//! Structures that arguments point to, whose sizes the plugin compares as it does those of the arguments.

use std::ffi::c_void;

use traind_pjrt::STRUCTURES;

use super::errors;
use super::records::{Compile, Execute, Layout, ToHost};

/// The error of a structure whose size is not the one of the plugin's header. `None` if there is none.
///
/// # Safety
/// `args` are the arguments of the entry `name`.
pub(super) unsafe fn of_wrong_size(name: &str, args: *const c_void) -> Option<*mut c_void> {
    // SAFETY: the promise above: what arguments point to begins with its size, unless it is null.
    unsafe {
        match name {
            "PJRT_Client_Compile" => {
                wrong("PJRT_Program", (*args.cast::<Compile>()).program.cast())
            }
            "PJRT_LoadedExecutable_Execute" => {
                wrong("PJRT_ExecuteOptions", (*args.cast::<Execute>()).options)
            }
            "PJRT_Buffer_ToHostBuffer" => {
                let layout = (*args.cast::<ToHost>()).layout.cast::<Layout>();
                let tiled = layout.as_ref()?.tiled.as_ptr();
                wrong("PJRT_Buffer_MemoryLayout", layout.cast())
                    .or_else(|| wrong("PJRT_Buffer_MemoryLayout_Tiled", tiled.cast()))
            }
            _ => None,
        }
    }
}

/// # Safety
/// `structure` begins with its size, or is null.
unsafe fn wrong(name: &str, structure: *const c_void) -> Option<*mut c_void> {
    // SAFETY: the promise above.
    let given = *unsafe { structure.cast::<usize>().as_ref() }?;
    let (_, expected) = STRUCTURES.iter().find(|(known, _)| *known == name)?;
    (given != *expected).then(|| errors::wrong_size(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_structures_are_compared() {
        for (name, size) in STRUCTURES {
            let of = |size: usize| unsafe { wrong(name, (&raw const size).cast()) };
            assert_eq!(of(size), None, "{name}");
            for other in [size - 8, size + 8] {
                let error = of(other).unwrap();
                assert!(errors::is_own(error), "{name}");
                errors::destroy(error);
            }
        }
        assert_eq!(unsafe { wrong("PJRT_Program", std::ptr::null()) }, None);
    }
}
