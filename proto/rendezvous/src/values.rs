//! Values under keys, for which callers can wait.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

type Value = Option<Vec<u8>>;

#[derive(Debug, Default)]
pub(crate) struct Values {
    by_key: Mutex<HashMap<String, watch::Sender<Value>>>,
}

impl Values {
    /// Stores a value, which replaces an earlier one.
    pub(crate) fn put(&self, key: &str, value: Vec<u8>) {
        self.slot(key).send_replace(Some(value));
    }

    /// Returns the value of `key`, if there is one within `wait`.
    pub(crate) async fn get(&self, key: &str, wait: Duration) -> Value {
        let mut slot = self.slot(key).subscribe();
        let found = tokio::time::timeout(wait, slot.wait_for(Option::is_some)).await;
        found.ok()?.ok()?.clone()
    }

    fn slot(&self, key: &str) -> watch::Sender<Value> {
        let mut by_key = self.by_key.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = by_key.get(key) {
            return slot.clone();
        }
        by_key.entry(key.to_owned()).or_insert_with(|| watch::Sender::new(None)).clone()
    }
}
