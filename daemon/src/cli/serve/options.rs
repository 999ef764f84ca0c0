//! Groups of options of `traind serve` that are settings one for one.

use std::path::PathBuf;
use std::time::Duration;

use super::absolute;
use crate::host::discovery::{DevicePaths, NeuronPaths};
use crate::jobs::state::JobState;
use crate::notification::{Receiver, receivers};
use crate::settings::{Limits, Prices};

/// The cost of jobs.
#[derive(clap::Args)]
pub(super) struct PriceArgs {
    /// Price of this host per hour, in any currency; a job without resources.price_per_hour is billed
    /// for its share of the cores
    #[arg(long, value_name = "PRICE", value_parser = price)]
    price_per_hour: Option<f64>,
    /// Regular price per hour of a host that is a spot instance, from which savings are computed
    #[arg(long, value_name = "PRICE", value_parser = price, requires = "price_per_hour")]
    on_demand_price_per_hour: Option<f64>,
}

impl PriceArgs {
    pub(super) fn resolve(&self) -> Prices {
        Prices { per_hour: self.price_per_hour, on_demand_per_hour: self.on_demand_price_per_hour }
    }
}

fn price(text: &str) -> Result<f64, String> {
    let price: Option<f64> = text.parse().ok();
    let price = price.filter(|price| price.is_finite() && *price >= 0.0);
    price.ok_or_else(|| "must be a number, at least 0".to_owned())
}

/// Notifications about all jobs.
#[derive(clap::Args)]
pub(super) struct NotifyArgs {
    /// URL that gets a POST request with JSON when a job enters one of --notify-states; may be given
    /// several times
    #[arg(long, value_name = "URL")]
    notify_webhook: Vec<String>,
    /// File with the secret that signs these requests
    #[arg(long, value_name = "FILE")]
    notify_secret: Option<PathBuf>,
    /// Program that gets the same JSON on its standard input and runs as the daemon's user
    #[arg(long, value_name = "PATH")]
    notify_command: Option<PathBuf>,
    /// Job states that trigger notifications
    #[arg(
        long,
        value_name = "STATES",
        value_delimiter = ',',
        default_value = "completed,failed,cancelled"
    )]
    notify_states: Vec<JobState>,
}

impl NotifyArgs {
    pub(super) fn resolve(&self) -> anyhow::Result<Vec<Receiver>> {
        let states: Vec<String> =
            self.notify_states.iter().map(|state| state.name().to_owned()).collect();
        let secret = self.notify_secret.clone().map(absolute).transpose()?;
        let program = self.notify_command.clone().map(absolute).transpose()?;
        let command: Vec<String> =
            program.into_iter().map(|program| program.display().to_string()).collect();
        Ok(receivers(&states, &self.notify_webhook, secret.as_ref(), &command, true))
    }
}

/// Limits on callers.
#[derive(clap::Args)]
pub(super) struct LimitsArgs {
    /// Maximum number of connections per user
    #[arg(long, value_name = "N", default_value_t = 1024)]
    connections_per_user: usize,
    /// Maximum number of concurrent calls per user, including streams
    #[arg(long, value_name = "N", default_value_t = 1024)]
    calls_per_user: usize,
    /// Seconds that a call may take before its response begins
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    request_timeout: u64,
}

impl LimitsArgs {
    pub(super) fn resolve(&self) -> Limits {
        Limits {
            connections_per_user: self.connections_per_user,
            calls_per_user: self.calls_per_user,
            request_timeout: Duration::from_secs(self.request_timeout),
        }
    }
}

/// Where the host describes its devices.
#[derive(clap::Args)]
pub(super) struct DeviceArgs {
    /// Neuron's devices in sysfs [default: /sys/devices/virtual/neuron_device]
    #[arg(long, value_name = "DIR")]
    neuron_sysfs: Option<PathBuf>,
    /// Folder of neuron-ls and neuron-monitor [default: /opt/aws/neuron/bin]
    #[arg(long, value_name = "DIR")]
    neuron_tools: Option<PathBuf>,
    /// File with the version of Neuron's driver [default: /sys/module/neuron/version]
    #[arg(long, value_name = "FILE")]
    neuron_driver: Option<PathBuf>,
    /// Energy counters of the CPUs in sysfs [default: /sys/class/powercap]
    #[arg(long, value_name = "DIR")]
    powercap: Option<PathBuf>,
}

impl DeviceArgs {
    /// Refuses paths of Neuron's on another platform, which would look for nothing there.
    pub(super) fn resolve(&self, platform: &str) -> anyhow::Result<DevicePaths> {
        let given = [
            ("--neuron-sysfs", &self.neuron_sysfs),
            ("--neuron-tools", &self.neuron_tools),
            ("--neuron-driver", &self.neuron_driver),
        ];
        let given = given.into_iter().find(|(_, path)| path.is_some());
        if let Some((name, _)) = given.filter(|_| platform != "neuron") {
            anyhow::bail!("{name} is for --platform neuron, and the platform is {platform}");
        }
        let default = NeuronPaths::default();
        let neuron = NeuronPaths {
            sysfs: self.neuron_sysfs.clone().unwrap_or(default.sysfs),
            tools: self.neuron_tools.clone().unwrap_or(default.tools),
            driver: self.neuron_driver.clone().unwrap_or(default.driver),
        };
        Ok(DevicePaths { neuron, powercap: self.powercap.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_neurons_are_for_its_platform() {
        let path = || Some(PathBuf::from("/a"));
        let none = || DeviceArgs {
            neuron_sysfs: None,
            neuron_tools: None,
            neuron_driver: None,
            powercap: path(),
        };
        for (given, name) in [
            (DeviceArgs { neuron_sysfs: path(), ..none() }, "--neuron-sysfs"),
            (DeviceArgs { neuron_tools: path(), ..none() }, "--neuron-tools"),
            (DeviceArgs { neuron_driver: path(), ..none() }, "--neuron-driver"),
        ] {
            assert!(given.resolve("neuron").is_ok());
            for platform in ["cpu", "cuda"] {
                let error = given.resolve(platform).unwrap_err().to_string();
                assert!(error.contains(name) && error.contains(platform), "{error}");
            }
        }
        assert!(none().resolve("cpu").is_ok());
    }
}
