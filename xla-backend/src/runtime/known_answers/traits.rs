//! Finds out what the devices of a client are able to do, when it is made.

use traind_pjrt::Client;

use super::bits_are_exact;
use crate::error::Result;
use crate::runtime::donation::donation_works;
use crate::runtime::platform::{forms, keeps_arguments};
use crate::runtime::{Compiler, DeviceTraits, ExecutableCache};
use crate::stablehlo::Forms;

impl DeviceTraits {
    /// Tries integers and donation on NeuronCores, about which users report contradictory results. The programs that do
    /// so are read from `cache` where it has them: a compile takes minutes.
    pub fn of(client: &Client, cache: Option<&ExecutableCache>) -> Result<DeviceTraits> {
        let platform = client.platform_name();
        if forms(platform) != Forms::Neuron {
            return Ok(DeviceTraits::default());
        }
        let compiler = Compiler::for_first_device(client, cache)?;
        let splits_integers = !bits_are_exact(&compiler, false)?;
        Ok(DeviceTraits {
            splits_integers,
            keeps_arguments: !keeps_arguments(platform) && !donation_works(&compiler)?,
            has_other_bits: splits_integers && !bits_are_exact(&compiler, true)?,
        })
    }
}
