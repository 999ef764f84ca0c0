//! The access file while the daemon runs: reloaded on request, with open streams notified.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::sync::watch;

use crate::access::{Access, AccessError, Caller, Denied};

/// The access rules in force; clones share them.
#[derive(Clone, Debug)]
pub(crate) struct LiveAccess {
    file: Option<PathBuf>,
    now: Arc<watch::Sender<Access>>,
}

impl LiveAccess {
    pub(crate) fn load(file: &Path) -> Result<LiveAccess, AccessError> {
        let now = Arc::new(watch::Sender::new(Access::load(file)?));
        Ok(LiveAccess { file: Some(file.to_owned()), now })
    }

    /// Rules that no file can change.
    pub(crate) fn fixed(access: Access) -> LiveAccess {
        LiveAccess { file: None, now: Arc::new(watch::Sender::new(access)) }
    }

    /// Reloads the file. An invalid file leaves the rules as they are.
    pub(crate) fn reload(&self) -> Result<(), AccessError> {
        if let Some(file) = &self.file {
            self.now.send_replace(Access::load(file)?);
        }
        Ok(())
    }

    /// The rules in force. Must not be held across an await: `reload` waits for it.
    pub(crate) fn now(&self) -> watch::Ref<'_, Access> {
        self.now.borrow()
    }

    /// Resolves when a caller who was admitted to the call would be refused, or admitted with a
    /// lesser role.
    pub(crate) async fn until_denied(&self, caller: &Caller, path: &str) -> Denied {
        let mut news = self.now.subscribe();
        loop {
            if let Err(denied) = news.borrow_and_update().still_admits(caller, path) {
                return denied;
            }
            // The sender lives as long as `self`.
            let _ = news.changed().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_invalid_file_changes_nothing_and_a_valid_one_notifies_streams() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("access.yaml");
        let write = |text: &str| std::fs::write(&file, text).unwrap();
        write("users: {ann: admin, bob: viewer}\n");
        let access = LiveAccess::load(&file).unwrap();
        let path = "/traind.v1.Jobs/WatchJob";
        let ann = access.now().admit("ann".into(), None, path).unwrap();
        let bob = access.now().admit("bob".into(), None, path).unwrap();
        write("users: {ann: root}\n");
        assert!(access.reload().is_err());
        assert!(access.now().admit("ann".into(), None, path).is_ok());
        write("users: {ann: submitter, bob: admin}\n");
        access.reload().unwrap();
        let denied = access.until_denied(&ann, path).await.to_string();
        assert_eq!(denied, "this requires the role admin, and ann is submitter");
        let waits =
            tokio::time::timeout(std::time::Duration::ZERO, access.until_denied(&bob, path));
        assert!(waits.await.is_err(), "a raised role ends no stream");
    }
}
