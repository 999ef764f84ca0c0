//! Abilities of a client's devices, found when it is made, as far as programs depend on them.

use traind_pjrt::Client;

use super::bits_are_exact;
use crate::error::Result;
use crate::runtime::donation::donation_works;
use crate::runtime::platform::{forms, keeps_arguments};
use crate::stablehlo::Forms;

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

impl DeviceTraits {
    /// Tries integers and donation on NeuronCores, about which users report contradictory results.
    pub fn of(client: &Client) -> Result<DeviceTraits> {
        let platform = client.platform_name();
        if forms(platform) != Forms::Neuron {
            return Ok(DeviceTraits::default());
        }
        let splits_integers = !bits_are_exact(client, false)?;
        Ok(DeviceTraits {
            splits_integers,
            keeps_arguments: !keeps_arguments(platform) && !donation_works(client)?,
            has_other_bits: splits_integers && !bits_are_exact(client, true)?,
        })
    }
}
