//! Per-user limits on shared resources, so that one user cannot exhaust them for others: a quota is refused beyond its
//! limit, a queue is waited for.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

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

/// A queue of calls of which each user has a part: calls of a user beyond it wait for that user's others, and no other
/// user waits for them.
#[derive(Clone, Debug)]
pub(crate) struct Turns {
    all: Arc<Semaphore>,
    of_user_max: usize,
    of_users: Arc<Mutex<HashMap<String, Weak<Semaphore>>>>,
}

/// A call's turn, until it is dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    all: Option<OwnedSemaphorePermit>,
    _of_user: OwnedSemaphorePermit,
    /// Kept while one of the user's calls has or waits for a turn.
    _shared: Arc<Semaphore>,
}

impl Turns {
    /// Turns for `max` calls at a time, of which a user has `of_user_max`.
    pub(crate) fn new(max: usize, of_user_max: usize) -> Turns {
        Turns { all: Arc::new(Semaphore::new(max)), of_user_max, of_users: Arc::default() }
    }

    /// Waits for a turn of `user`.
    pub(crate) async fn next(&self, user: &str) -> Result<Turn, AcquireError> {
        let shared = self.of_user(user);
        let of_user = shared.clone().acquire_owned().await?;
        let all = self.all.clone().acquire_owned().await?;
        Ok(Turn { all: Some(all), _of_user: of_user, _shared: shared })
    }

    fn of_user(&self, user: &str) -> Arc<Semaphore> {
        let mut of_users = self.of_users.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = of_users.get(user).and_then(Weak::upgrade) {
            return known;
        }
        // Former users take no memory.
        of_users.retain(|_, semaphore| semaphore.strong_count() > 0);
        let semaphore = Arc::new(Semaphore::new(self.of_user_max));
        of_users.insert(user.to_owned(), Arc::downgrade(&semaphore));
        semaphore
    }
}

impl Turn {
    /// Makes room for calls of other users, while this one still counts as its user's.
    pub(crate) fn make_room(&mut self) {
        self.all = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_users_calls_wait_for_each_other_and_others_do_not_wait_for_them() {
        let turns = Turns::new(3, 2);
        let _taken = [turns.next("ann").await.unwrap(), turns.next("ann").await.unwrap()];
        let mut waiting = std::pin::pin!(turns.next("ann"));
        let is_ready = futures_util::poll!(&mut waiting).is_ready();
        assert!(!is_ready, "ann has two turns");
        drop(turns.next("bob").await.unwrap());
        let bobs = turns.next("bob").await.unwrap();
        let mut more = std::pin::pin!(turns.next("cleo"));
        assert!(futures_util::poll!(&mut more).is_pending(), "all have three turns");
        let mut bobs = bobs;
        bobs.make_room();
        more.await.unwrap();
        drop(bobs);
        drop(_taken);
        waiting.await.unwrap();
        turns.next("dan").await.unwrap();
        assert_eq!(turns.of_users.lock().unwrap().len(), 1);
    }

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
