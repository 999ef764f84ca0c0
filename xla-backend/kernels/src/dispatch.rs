//! One source for several instruction sets. A function declared with [`vectorized!`]
//! is compiled once for each of them, its loops turned into vector instructions by
//! the compiler, and the widest that the processor has is chosen at run time.

use std::sync::LazyLock;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    /// Instructions that every processor of the architecture has.
    Portable,
    #[cfg(target_arch = "aarch64")]
    Neon,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Level {
    pub(crate) fn of_processor() -> Level {
        static LEVEL: LazyLock<Level> = LazyLock::new(Level::detect);
        *LEVEL
    }

    #[cfg(target_arch = "x86_64")]
    fn detect() -> Level {
        let avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
        let avx512 = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl");
        match (avx2, avx512) {
            (true, true) => Level::Avx512,
            (true, false) => Level::Avx2,
            (false, _) => Level::Portable,
        }
    }

    /// Vectors are part of the architecture.
    #[cfg(target_arch = "aarch64")]
    fn detect() -> Level {
        Level::Neon
    }

    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    fn detect() -> Level {
        Level::Portable
    }
}

/// Declares a function whose body is compiled for each instruction set.
macro_rules! vectorized {
    ($(
        $(#[$meta:meta])*
        $visibility:vis fn $name:ident($($argument:ident: $type:ty),* $(,)?) $body:block
    )*) => {$(
        $(#[$meta])*
        $visibility fn $name($($argument: $type),*) {
            #[inline(always)]
            fn body($($argument: $type),*) $body

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
            fn avx512($($argument: $type),*) {
                body($($argument),*)
            }

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma")]
            fn avx2($($argument: $type),*) {
                body($($argument),*)
            }

            #[allow(unsafe_code, reason = "the one call into code for instructions that not all have")]
            match $crate::dispatch::Level::of_processor() {
                // SAFETY: the processor was asked for these instructions.
                #[cfg(target_arch = "x86_64")]
                $crate::dispatch::Level::Avx512 => unsafe { avx512($($argument),*) },
                // SAFETY: as above.
                #[cfg(target_arch = "x86_64")]
                $crate::dispatch::Level::Avx2 => unsafe { avx2($($argument),*) },
                _ => body($($argument),*),
            }
        }
    )*};
}

pub(crate) use vectorized;
