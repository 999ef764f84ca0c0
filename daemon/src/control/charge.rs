//! Counts processor time that the daemon's processes use for a user in the user's fair share: planners check jobs,
//! preparations do part of what their runs would do, and generators write texts with jobs' models.

use std::sync::Arc;
use std::time::Duration;

use crate::host::Host;
use crate::host::meter::Meter;
use crate::jobs::store::Store;
use crate::settings::Settings;

/// Counts the time of a call's processes for its user when it is dropped, which is also where the caller has left.
pub(crate) struct Charge {
    store: Store,
    settings: Arc<Settings>,
    user: String,
    meter: Meter,
}

impl Charge {
    pub(crate) fn new(store: &Store, settings: &Arc<Settings>, user: &str) -> Charge {
        let (store, settings) = (store.clone(), settings.clone());
        Charge { store, settings, user: user.to_owned(), meter: Meter::default() }
    }

    pub(super) fn user(&self) -> &str {
        &self.user
    }

    pub(super) fn meter(&self) -> &Meter {
        &self.meter
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        let (store, settings) = (self.store.clone(), self.settings.clone());
        let (user, meter) = (std::mem::take(&mut self.user), self.meter.clone());
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn_blocking(move || charge(&store, &settings.host, &user, &meter));
    }
}

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
