//! What one user may take at a time of what all share, so that nobody's excess is another
//! one's refusal.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A number of places for each user; clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Quota {
    most: usize,
    taken: Arc<Mutex<HashMap<String, usize>>>,
}

/// One of a user's places, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    who: String,
    quota: Quota,
}

impl Quota {
    pub(crate) fn new(most: usize) -> Quota {
        Quota { most, taken: Arc::default() }
    }

    /// `None` where the user has all of theirs.
    pub(crate) fn take(&self, who: &str) -> Option<Place> {
        let mut taken = self.taken();
        let count = taken.entry(who.to_owned()).or_default();
        if *count >= self.most {
            return None;
        }
        *count += 1;
        Some(Place { who: who.to_owned(), quota: self.clone() })
    }

    fn taken(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.quota.taken();
        if let Some(count) = taken.get_mut(&self.who) {
            *count -= 1;
            // Users come and go; nothing is kept of who left.
            if *count == 0 {
                taken.remove(&self.who);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_user_has_places_of_their_own_and_gets_them_back() {
        let quota = Quota::new(2);
        let places = [quota.take("ann"), quota.take("ann")];
        assert!(places.iter().all(Option::is_some) && quota.take("ann").is_none());
        assert!(quota.take("bob").is_some());
        drop(places);
        assert!(quota.take("ann").is_some());
        assert!(quota.taken().is_empty());
    }
}
