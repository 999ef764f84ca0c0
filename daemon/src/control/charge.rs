//! Counts processor time that the daemon's processes use for a user in the user's fair share: planners check jobs, and
//! preparations do part of what their runs would do.

use std::time::Duration;

use crate::host::Host;
use crate::host::meter::Meter;
use crate::jobs::store::Store;

/// Counts the metered time for `user`. Blocks.
pub(super) fn charge(store: &Store, host: &Host, user: &str, meter: &Meter) {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let core_seconds = core_seconds(meter.time(), host, processors);
    // No process was started: the plan was known.
    if core_seconds == 0.0 {
        return;
    }
    if let Err(error) = store.charge(user, core_seconds) {
        // What the user asked for does not fail by that.
        tracing::warn!(user, core_seconds, %error, "count processor time in a fair share");
    }
}

/// The core time that processor time comes to. The cores of a CPU are processors; all processors of a host with devices
/// count as much as all devices, which runs hold with their part of the host.
fn core_seconds(time: Duration, host: &Host, processors: usize) -> f64 {
    match host.platform.as_str() {
        "cpu" => time.as_secs_f64(),
        _ => time.as_secs_f64() * host.cores.len() as f64 / processors as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Settings;

    #[test]
    fn processor_time_counts_as_its_part_of_the_host() {
        let mut host = Settings::example().host;
        let (cores, time) = (host.cores.len() as f64, Duration::from_secs(6));
        assert_eq!(core_seconds(time, &host, 64), 6.0);
        host.platform = "cuda".to_owned();
        assert_eq!(core_seconds(time, &host, 64), 6.0 * cores / 64.0);
    }
}
