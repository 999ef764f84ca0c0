//! Declares C structs and remembers how they are laid out.

/// A struct of the C API: starts with `struct_size` and `extension_start`, and
/// is valid when all its other bytes are zero.
///
/// # Safety
/// Implemented by [`c_structs!`] only, for `repr(C)` structs of integers, floats,
/// bools, raw pointers, nullable function pointers and structs of those.
pub(crate) unsafe trait CStruct: Sized {
    /// The value of `struct_size`: the offset past the last field, without the
    /// padding that `size_of` adds.
    const STRUCT_SIZE: usize;

    /// The struct with `struct_size` filled in and everything else zero.
    fn new() -> Self {
        // SAFETY: the trait promises that all-zero bytes are a valid value.
        let mut zeroed: Self = unsafe { std::mem::zeroed() };
        // SAFETY: the trait promises that a `usize` stands first.
        unsafe { (&raw mut zeroed).cast::<usize>().write(Self::STRUCT_SIZE) };
        zeroed
    }
}

/// The greatest of the offsets just past each field.
pub(crate) const fn end_of_fields(ends: &[usize]) -> usize {
    let (mut end, mut index) = (0, 0);
    while index < ends.len() {
        if ends[index] > end {
            end = ends[index];
        }
        index += 1;
    }
    end
}

/// The layout that `header_check` compares with C.
#[cfg(test)]
pub(crate) struct StructLayout {
    pub(crate) c_name: &'static str,
    pub(crate) struct_size: usize,
    pub(crate) size_of: usize,
    pub(crate) fields: &'static [FieldLayout],
}

#[cfg(test)]
pub(crate) struct FieldLayout {
    pub(crate) c_name: &'static str,
    pub(crate) offset: usize,
    pub(crate) size: usize,
}

/// The C name of a field: the one after `as`, or the Rust one.
#[cfg(test)]
macro_rules! c_field_name {
    ($field:ident) => {
        stringify!($field)
    };
    ($field:ident $c_field:ident) => {
        stringify!($c_field)
    };
}

/// `C_name => RustName { field: type, renamed as c_field: type }` ...
macro_rules! c_structs {
    ($(
        $(#[$meta:meta])*
        $c_name:ident => $name:ident { $( $field:ident $(as $c_field:ident)? : $type:ty ),* $(,)? }
    )*) => {
        $(
            $(#[$meta])*
            #[repr(C)]
            #[derive(Clone, Copy)]
            pub(crate) struct $name {
                pub(crate) struct_size: usize,
                pub(crate) extension_start: *mut std::ffi::c_void,
                $( pub(crate) $field: $type, )*
            }

            // SAFETY: `repr(C)`, `struct_size` first, and the field types are
            // those which the trait allows.
            unsafe impl $crate::ffi::layout::CStruct for $name {
                const STRUCT_SIZE: usize = $crate::ffi::layout::end_of_fields(&[
                    std::mem::offset_of!($name, extension_start) + size_of::<usize>(),
                    $( std::mem::offset_of!($name, $field) + size_of::<$type>(), )*
                ]);
            }
        )*

        #[cfg(test)]
        pub(crate) const LAYOUTS: &[$crate::ffi::layout::StructLayout] = &[$(
            $crate::ffi::layout::StructLayout {
                c_name: stringify!($c_name),
                struct_size: <$name as $crate::ffi::layout::CStruct>::STRUCT_SIZE,
                size_of: size_of::<$name>(),
                fields: &[
                    $crate::ffi::layout::FieldLayout {
                        c_name: "extension_start",
                        offset: std::mem::offset_of!($name, extension_start),
                        size: size_of::<*mut std::ffi::c_void>(),
                    },
                    $( $crate::ffi::layout::FieldLayout {
                        c_name: c_field_name!($field $($c_field)?),
                        offset: std::mem::offset_of!($name, $field),
                        size: size_of::<$type>(),
                    }, )*
                ],
            },
        )*];
    };
}
