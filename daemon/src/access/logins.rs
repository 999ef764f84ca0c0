//! Who is logged in: keys that work once, and the sessions that they became.
//!
//! Both are kept in memory alone: after a restart of the daemon people log in again.

use std::collections::HashMap;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::rand::{GetRandomFlags, getrandom};

use crate::access::Caller;

const KEY_LIFETIME: Duration = Duration::from_secs(60);
/// Since the last request.
const SESSION_LIFETIME: Duration = Duration::from_secs(12 * 3600);
/// The oldest goes where another comes.
const HELD_MAX: usize = 1024;

#[derive(Default)]
pub(crate) struct Logins {
    keys: Mutex<Held>,
    sessions: Mutex<Held>,
}

impl Logins {
    /// A key that lets a browser in once, as this caller.
    pub(crate) fn invite(&self, caller: Caller) -> io::Result<String> {
        let key = secret()?;
        lock(&self.keys).insert(key.clone(), caller, Instant::now());
        Ok(key)
    }

    /// Turns a key into a session, if it is good.
    pub(crate) fn log_in(&self, key: &str) -> io::Result<Option<String>> {
        let now = Instant::now();
        let Some(caller) = lock(&self.keys).take(key, now, KEY_LIFETIME) else { return Ok(None) };
        let session = secret()?;
        lock(&self.sessions).insert(session.clone(), caller, now);
        Ok(Some(session))
    }

    /// Whose session it is; being used keeps it alive.
    pub(crate) fn caller(&self, session: &str) -> Option<Caller> {
        let now = Instant::now();
        let mut sessions = lock(&self.sessions);
        let caller = sessions.take(session, now, SESSION_LIFETIME)?;
        sessions.insert(session.to_owned(), caller.clone(), now);
        Some(caller)
    }
}

/// Secrets with their callers and when they were used last.
#[derive(Default)]
struct Held(HashMap<String, (Caller, Instant)>);

impl Held {
    fn insert(&mut self, secret: String, caller: Caller, now: Instant) {
        if self.0.len() >= HELD_MAX {
            let oldest = self.0.iter().min_by_key(|(_, (_, at))| *at).map(|(key, _)| key.clone());
            oldest.and_then(|key| self.0.remove(&key));
        }
        self.0.insert(secret, (caller, now));
    }

    fn take(&mut self, secret: &str, now: Instant, lifetime: Duration) -> Option<Caller> {
        let (caller, at) = self.0.remove(secret)?;
        (now.saturating_duration_since(at) < lifetime).then_some(caller)
    }
}

fn lock(held: &Mutex<Held>) -> MutexGuard<'_, Held> {
    held.lock().unwrap_or_else(PoisonError::into_inner)
}

/// 256 random bits: nobody guesses them, so looking one up need not take constant time.
fn secret() -> io::Result<String> {
    let mut bytes = [0u8; 32];
    let mut filled = 0;
    while filled < bytes.len() {
        filled += getrandom(&mut bytes[filled..], GetRandomFlags::empty())?;
    }
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Access;

    fn ann() -> Caller {
        let access = Access::open(["ann".to_owned()]);
        access.admit("ann".to_owned(), None, "/traind.v1.Jobs/ListJobs").unwrap()
    }

    #[test]
    fn a_key_works_once_and_a_session_goes_on() {
        let logins = Logins::default();
        let key = logins.invite(ann()).unwrap();
        let session = logins.log_in(&key).unwrap().unwrap();
        assert_eq!(logins.log_in(&key).unwrap(), None, "a key works once");
        for _ in 0..3 {
            assert_eq!(logins.caller(&session), Some(ann()));
        }
        assert_eq!(logins.caller(&key), None, "a key is no session");
        assert_eq!(logins.log_in("").unwrap(), None);
        assert_eq!((key.len(), session.len()), (64, 64));
    }

    #[test]
    fn what_is_old_or_too_much_goes() {
        let mut held = Held::default();
        let start = Instant::now();
        for index in 0..HELD_MAX as u64 + 2 {
            held.insert(index.to_string(), ann(), start + Duration::from_secs(index));
        }
        assert_eq!(held.0.len(), HELD_MAX);
        let late = start + Duration::from_secs(HELD_MAX as u64);
        assert_eq!(held.take("0", late, SESSION_LIFETIME), None, "made way");
        assert_eq!(held.take("2", late, Duration::from_secs(60)), None, "too old");
        let newest = (HELD_MAX as u64).to_string();
        assert!(held.take(&newest, late, Duration::from_secs(60)).is_some());
    }
}
