//! The order of requests for texts. One is answered at a time, and others are refused and come again: without an order,
//! a user who asks again and again would keep all others out.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a user who was refused comes before others. Clients come again after one second and a half at most.
const PATIENCE: Duration = Duration::from_secs(3);

/// The line of users; clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct Line(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    is_busy: bool,
    /// Users who were refused, each once, and when they last came.
    refused: VecDeque<(String, Instant)>,
}

/// The turn of a request, until it is dropped.
#[derive(Debug)]
pub(super) struct Turn(Line);

impl Line {
    /// Returns the user's turn, or none while another request is answered, or while a user is expected who was refused
    /// before this one.
    pub(super) fn enter(&self, user: &str, now: Instant) -> Option<Turn> {
        let mut state = self.state();
        state.refused.retain(|(_, came)| now.saturating_duration_since(*came) < PATIENCE);
        let place = state.refused.iter().position(|(refused, _)| refused == user);
        let is_next = place == Some(0) || state.refused.is_empty();
        if is_next && !state.is_busy {
            state.refused.pop_front();
            state.is_busy = true;
            return Some(Turn(self.clone()));
        }
        match place {
            Some(place) => state.refused[place].1 = now,
            None => state.refused.push_back((user.to_owned(), now)),
        }
        None
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.state().is_busy = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_who_were_refused_come_before_one_who_asks_again_and_again() {
        let (line, start) = (Line::default(), Instant::now());
        let after = |seconds: u64| start + Duration::from_secs(seconds);
        let first = line.enter("ann", start);
        assert!(first.is_some());
        for user in ["bob", "ann", "cleo", "ann", "bob"] {
            assert!(line.enter(user, after(1)).is_none(), "{user}");
        }
        drop(first);
        assert!(line.enter("ann", after(2)).is_none(), "bob was refused before");
        assert!(line.enter("cleo", after(2)).is_none(), "bob was refused before");
        drop(line.enter("bob", after(2)).unwrap());
        // Ann came before cleo. She does not come again, and is expected for some seconds.
        assert!(line.enter("cleo", after(3)).is_none());
        assert!(line.enter("cleo", after(4)).is_none());
        let cleos = line.enter("cleo", after(5));
        assert!(cleos.is_some());
        assert!(line.enter("dan", after(5)).is_none(), "cleo's is answered");
        drop(cleos);
        drop(line.enter("dan", after(6)).unwrap());
        drop(line.enter("eve", after(6)).unwrap());
        assert!(line.state().refused.is_empty());
    }
}
