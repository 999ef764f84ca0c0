//! Per-user limits on shared resources, so that one user cannot exhaust them for others.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A number of permits for each user; clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Quota {
    max: usize,
    taken: Arc<Mutex<HashMap<String, usize>>>,
}

/// One of a user's permits, returned when it is dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    user: String,
    quota: Quota,
}

impl Quota {
    pub(crate) fn new(max: usize) -> Quota {
        Quota { max, taken: Arc::default() }
    }

    /// Takes a permit; `None` if the user has none left.
    pub(crate) fn take(&self, user: &str) -> Option<Permit> {
        let mut taken = self.taken();
        let count = taken.entry(user.to_owned()).or_default();
        if *count >= self.max {
            return None;
        }
        *count += 1;
        Some(Permit { user: user.to_owned(), quota: self.clone() })
    }

    fn taken(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut taken = self.quota.taken();
        if let Some(count) = taken.get_mut(&self.user) {
            *count -= 1;
            // Drops the entry, so that former users take no memory.
            if *count == 0 {
                taken.remove(&self.user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_user_has_separate_permits_which_are_returned() {
        let quota = Quota::new(2);
        let permits = [quota.take("ann"), quota.take("ann")];
        assert!(permits.iter().all(Option::is_some) && quota.take("ann").is_none());
        assert!(quota.take("bob").is_some());
        drop(permits);
        assert!(quota.take("ann").is_some());
        assert!(quota.taken().is_empty());
    }
}
