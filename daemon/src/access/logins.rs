//! Logins to the web page: one-time keys, and the sessions that they open.
//!
//! Both are kept only in memory: after a restart of the daemon users log in again.

use std::collections::HashMap;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::rand::{GetRandomFlags, getrandom};

use crate::access::Caller;
use crate::hex::hex;

const KEY_LIFETIME: Duration = Duration::from_secs(60);
/// The lifetime of a session, measured from its last request.
const SESSION_LIFETIME: Duration = Duration::from_secs(12 * 3600);
/// The most keys, and most sessions. A new one evicts the least recently used of the user with the most.
const SECRETS_MAX: usize = 1024;

#[derive(Default)]
pub(crate) struct Logins {
    keys: Mutex<Secrets>,
    sessions: Mutex<Secrets>,
}

impl Logins {
    /// Creates a key that opens one session for this caller.
    pub(crate) fn create_key(&self, caller: Caller) -> io::Result<String> {
        let key = secret()?;
        lock(&self.keys).insert(key.clone(), caller, Instant::now());
        Ok(key)
    }

    /// Exchanges a key for a session; `None` if the key is unknown or expired.
    pub(crate) fn log_in(&self, key: &str) -> io::Result<Option<String>> {
        let now = Instant::now();
        let Some(caller) = lock(&self.keys).take(key, now, KEY_LIFETIME) else { return Ok(None) };
        let session = secret()?;
        lock(&self.sessions).insert(session.clone(), caller, now);
        Ok(Some(session))
    }

    /// Returns the session's caller and extends its lifetime; `None` if it is unknown or expired.
    pub(crate) fn caller(&self, session: &str) -> Option<Caller> {
        let now = Instant::now();
        let mut sessions = lock(&self.sessions);
        let caller = sessions.take(session, now, SESSION_LIFETIME)?;
        sessions.insert(session.to_owned(), caller.clone(), now);
        Some(caller)
    }
}

/// Secrets with their callers and the time of their last use.
#[derive(Default)]
struct Secrets(HashMap<String, (Caller, Instant)>);

impl Secrets {
    fn insert(&mut self, secret: String, caller: Caller, now: Instant) {
        if self.0.len() >= SECRETS_MAX {
            self.evict();
        }
        self.0.insert(secret, (caller, now));
    }

    /// Makes room. Nobody can end the sessions of others by logging in again and again.
    fn evict(&mut self) {
        let mut counts = HashMap::<&str, usize>::new();
        for (caller, _) in self.0.values() {
            *counts.entry(&caller.user).or_default() += 1;
        }
        let most = counts.into_iter().max_by_key(|(_, count)| *count).map(|(user, _)| user);
        let of_user = self.0.iter().filter(|(_, (caller, _))| Some(caller.user.as_str()) == most);
        let oldest = of_user.min_by_key(|(_, (_, at))| *at).map(|(secret, _)| secret.clone());
        oldest.and_then(|secret| self.0.remove(&secret));
    }

    fn take(&mut self, secret: &str, now: Instant, lifetime: Duration) -> Option<Caller> {
        let (caller, at) = self.0.remove(secret)?;
        (now.saturating_duration_since(at) < lifetime).then_some(caller)
    }
}

fn lock(secrets: &Mutex<Secrets>) -> MutexGuard<'_, Secrets> {
    secrets.lock().unwrap_or_else(PoisonError::into_inner)
}

/// 256 random bits. They cannot be guessed, so lookups need not take constant time.
fn secret() -> io::Result<String> {
    let mut bytes = [0u8; 32];
    let mut filled = 0;
    while filled < bytes.len() {
        filled += getrandom(&mut bytes[filled..], GetRandomFlags::empty())?;
    }
    Ok(hex(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Access;

    fn caller(user: &str) -> Caller {
        let access = Access::open([user.to_owned()]);
        access.admit(user.to_owned(), None, "/traind.v1.Jobs/ListJobs").unwrap()
    }

    fn ann() -> Caller {
        caller("ann")
    }

    #[test]
    fn a_key_works_once_and_a_session_many_times() {
        let logins = Logins::default();
        let key = logins.create_key(ann()).unwrap();
        let session = logins.log_in(&key).unwrap().unwrap();
        assert_eq!(logins.log_in(&key).unwrap(), None, "a key works once");
        for _ in 0..3 {
            assert_eq!(logins.caller(&session), Some(ann()));
        }
        assert_eq!(logins.caller(&key), None, "a key is not a session");
        assert_eq!(logins.log_in("").unwrap(), None);
        assert_eq!((key.len(), session.len()), (64, 64));
    }

    #[test]
    fn old_secrets_expire_and_excess_ones_are_evicted() {
        let mut secrets = Secrets::default();
        let start = Instant::now();
        for index in 0..SECRETS_MAX as u64 + 2 {
            secrets.insert(index.to_string(), ann(), start + Duration::from_secs(index));
        }
        assert_eq!(secrets.0.len(), SECRETS_MAX);
        let late = start + Duration::from_secs(SECRETS_MAX as u64);
        assert_eq!(secrets.take("0", late, SESSION_LIFETIME), None, "evicted");
        assert_eq!(secrets.take("2", late, Duration::from_secs(60)), None, "too old");
        let newest = (SECRETS_MAX as u64).to_string();
        assert!(secrets.take(&newest, late, Duration::from_secs(60)).is_some());
    }

    #[test]
    fn many_logins_of_one_user_end_no_sessions_of_others() {
        let mut secrets = Secrets::default();
        let start = Instant::now();
        secrets.insert("bobs".to_owned(), caller("bob"), start);
        for index in 0..2 * SECRETS_MAX as u64 {
            secrets.insert(index.to_string(), ann(), start + Duration::from_secs(index));
        }
        assert_eq!(secrets.0.len(), SECRETS_MAX);
        assert_eq!(secrets.take("bobs", start, SESSION_LIFETIME), Some(caller("bob")));
    }
}
