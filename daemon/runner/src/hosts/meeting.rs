//! Meets the other hosts: host 0 serves, and all join.

use std::path::{Path, PathBuf};
use std::time::Duration;

use traind_rendezvous::{
    Client, JobKey, Meeting, Placement, Server, Ticket, WatchSettings, key_of_environment,
};

use super::watchdog::{self, Watched};
use super::{Hosts, Met};
use crate::error::{RunError, RunResult};

/// How long hosts wait for one another at the start, in seconds.
const PATIENCE: (&str, u64) = ("TRAIND_RENDEZVOUS_SECONDS", 600);
/// The silence after which a host is lost, in seconds.
const SILENCE: (&str, u64) = ("TRAIND_HOST_SILENCE_SECONDS", 20);
/// A folder that all hosts see, instead of the run folder.
const FOLDER: &str = "TRAIND_RENDEZVOUS_DIR";
/// The channel in which all hosts meet first.
const START: &str = "start";

/// The place where the hosts meet.
#[derive(Clone, Debug)]
pub(crate) struct MeetingPlace {
    pub placement: Placement,
    /// The folder of the ticket.
    pub folder: PathBuf,
}

impl MeetingPlace {
    /// The hosts of `placement` meet in the job's run folder, or where the environment says.
    pub(crate) fn new(placement: Placement, run_dir: &Path) -> MeetingPlace {
        let folder = std::env::var_os(FOLDER).filter(|folder| !folder.is_empty());
        let folder = folder.map_or_else(|| run_dir.to_owned(), PathBuf::from);
        MeetingPlace { placement, folder }
    }
}

impl Hosts {
    /// Waits until all hosts have joined, and watches them from then on.
    pub(crate) fn meet(&self, place: &MeetingPlace, watched: Watched) -> RunResult<()> {
        if self.is_alone() {
            return Ok(());
        }
        let settings = WatchSettings { silence_max: seconds(SILENCE)?, ..WatchSettings::default() };
        let key = key_of_environment(|name| std::env::var(name).ok())
            .map_err(traind_rendezvous::RendezvousError::from)?;
        let server = self.is_first().then(|| serve(place, key.clone(), settings)).transpose()?;
        let patience = seconds(PATIENCE)?;
        let client = Client::join(Meeting {
            rank: self.rank,
            size: self.size,
            host: self.name(),
            coordinator: place.placement.coordinator.clone(),
            folder: Some(place.folder.clone()),
            key,
            patience,
        })?;
        client.barrier(START, Some(patience))?;
        if self.is_first() {
            Ticket::remove(&place.folder);
        }
        watchdog::start(self, &client, settings, watched);
        // Nobody else meets these hosts.
        let _ = self.met.set(Met { client, server, silence_max: settings.silence_max });
        Ok(())
    }
}

/// Serves the hosts, and publishes the ticket where the environment of the others has no key.
fn serve(place: &MeetingPlace, key: Option<JobKey>, settings: WatchSettings) -> RunResult<Server> {
    let Placement { size, coordinator, .. } = &place.placement;
    let publishes = key.is_none();
    let key = key.map_or_else(JobKey::generate, Ok)?;
    let server = Server::start(*size, coordinator.as_ref(), publishes, key, settings)?;
    if publishes {
        let written = server.ticket().write(&place.folder);
        written.map_err(traind_rendezvous::RendezvousError::from)?;
    }
    Ok(server)
}

/// The seconds that the variable `name` holds, or `default`.
fn seconds((name, default): (&'static str, u64)) -> RunResult<Duration> {
    let Ok(text) = std::env::var(name) else { return Ok(Duration::from_secs(default)) };
    let refused = |problem: String| RunError::Field { name, value: text.clone(), problem };
    match text.parse::<u64>() {
        Ok(0) | Err(_) => Err(refused("must be a number of seconds above 0".to_owned())),
        Ok(seconds) => Ok(Duration::from_secs(seconds)),
    }
}
