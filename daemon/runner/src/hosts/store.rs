//! The rendezvous as the store by which the processes of one device client find each other.

use std::time::Duration;

use traind_pjrt::{ErrorCode, KeyValueStore, StoreError};
use traind_rendezvous::{Client, RendezvousError};

/// A store that the hosts of a group share.
#[derive(Debug)]
pub(super) struct RendezvousStore {
    rendezvous: Client,
    /// The text before the keys of the group's plugins, which must not meet those of others.
    prefix: String,
}

impl RendezvousStore {
    /// The store of the hosts that give the same number.
    pub(super) fn of_group(rendezvous: Client, group: usize) -> RendezvousStore {
        RendezvousStore { rendezvous, prefix: format!("pjrt/{group}/") }
    }

    fn prefixed(&self, key: &str) -> String {
        format!("{}{key}", self.prefix)
    }
}

impl KeyValueStore for RendezvousStore {
    fn get(&self, key: &str, wait: Duration) -> Result<Vec<u8>, StoreError> {
        Ok(self.rendezvous.get(&self.prefixed(key), wait).map_err(Refusal)?)
    }

    fn try_get(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.rendezvous.try_get(&self.prefixed(key)).map_err(Refusal)?)
    }

    fn put(&self, key: &str, value: Vec<u8>) -> Result<(), StoreError> {
        Ok(self.rendezvous.put(&self.prefixed(key), value).map_err(Refusal)?)
    }
}

/// An error of the rendezvous as plugins get it.
struct Refusal(RendezvousError);

impl From<Refusal> for StoreError {
    fn from(Refusal(error): Refusal) -> StoreError {
        let code = match error {
            RendezvousError::NoValue { .. } => ErrorCode::DeadlineExceeded,
            _ => ErrorCode::Unavailable,
        };
        StoreError { code, message: error.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use traind_rendezvous::{JobKey, Meeting, Server, WatchSettings};

    use super::*;

    /// The stores of two hosts, the first of which serves.
    fn stores() -> (Server, [RendezvousStore; 2]) {
        let key = JobKey::generate().unwrap();
        let server = Server::start(2, None, true, key.clone(), WatchSettings::default()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        server.ticket().write(folder.path()).unwrap();
        let join = |rank| {
            let meeting = Meeting {
                rank,
                size: 2,
                host: format!("host-{rank}"),
                coordinator: None,
                folder: Some(folder.path().to_owned()),
                key: None,
                patience: Duration::from_secs(60),
            };
            RendezvousStore::of_group(Client::join(meeting).unwrap(), 0)
        };
        let stores = [0, 1].map(join);
        (server, stores)
    }

    #[test]
    fn a_value_of_one_host_reaches_the_other() {
        let (_server, [first, second]) = stores();
        assert_eq!(second.try_get("local_topology/0").unwrap(), None);
        let value = vec![0, 159, 146, 150];
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| second.get("local_topology/0", Duration::from_secs(60)));
            first.put("local_topology/0", value.clone()).unwrap();
            assert_eq!(waiting.join().unwrap().unwrap(), value);
        });
        assert_eq!(second.try_get("local_topology/0").unwrap(), Some(value));
        // Others do not see the keys of plugins, nor do the plugins of hosts with other stages.
        assert_eq!(first.rendezvous.try_get("local_topology/0").unwrap(), None);
        let other = RendezvousStore::of_group(first.rendezvous.clone(), 1);
        assert_eq!(other.try_get("local_topology/0").unwrap(), None);
    }

    #[test]
    fn a_value_that_nobody_gives_is_late() {
        let (_server, [first, _]) = stores();
        let error = first.get("nccl_id", Duration::from_millis(10)).unwrap_err();
        assert_eq!(error.code, ErrorCode::DeadlineExceeded);
        assert!(error.message.contains("nccl_id"), "{error}");
    }
}
