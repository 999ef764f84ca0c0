//! Conversions between enumerations whose variants have the same names.

/// Declares functions that return the variant of the same name.
macro_rules! by_name {
    ($($(#[$doc:meta])* $visible:vis fn $name:ident($from:ty) -> $to:ty { $($variant:ident),* })*) => {
        $(
            $(#[$doc])*
            $visible fn $name(named: $from) -> $to {
                match named {
                    $(<$from>::$variant => <$to>::$variant,)*
                }
            }
        )*
    };
}

pub(super) use by_name;
