//! C enums as constants: a plugin newer than us may answer values that a Rust
//! enum could not hold.

use std::ffi::c_int;

/// `RUST_NAME = C_name = value`, and a table of them for `header_check`.
macro_rules! c_constants {
    ($($name:ident = $c_name:ident = $value:expr;)*) => {
        $( pub(crate) const $name: c_int = $value; )*

        #[cfg(test)]
        pub(crate) const CONSTANTS: &[(&str, c_int)] = &[$( (stringify!($c_name), $value), )*];
    };
}

c_constants! {
    API_MAJOR = PJRT_API_MAJOR = 0;
    API_MINOR = PJRT_API_MINOR = 81;

    NAMED_STRING = PJRT_NamedValue_kString = 0;
    NAMED_INT64 = PJRT_NamedValue_kInt64 = 1;
    NAMED_INT64_LIST = PJRT_NamedValue_kInt64List = 2;
    NAMED_FLOAT = PJRT_NamedValue_kFloat = 3;
    NAMED_BOOL = PJRT_NamedValue_kBool = 4;

    HOST_IMMUTABLE_ONLY_DURING_CALL = PJRT_HostBufferSemantics_kImmutableOnlyDuringCall = 0;
    HOST_IMMUTABLE_ZERO_COPY = PJRT_HostBufferSemantics_kImmutableZeroCopy = 2;

    LAYOUT_TILED = PJRT_Buffer_MemoryLayout_Type_Tiled = 0;
}
