//! Abilities of a client's devices, as far as programs depend on them.

/// The findings of a client. Devices that nobody suspects are not tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceTraits {
    /// Sums, products and comparisons of 32-bit integers are computed in float32, so that programs compute them by
    /// parts.
    pub splits_integers: bool,
    /// Results that replace arguments are wrong or refused, so that none does.
    pub keeps_arguments: bool,
    /// Random bits differ from those of other platforms even so.
    pub has_other_bits: bool,
}
