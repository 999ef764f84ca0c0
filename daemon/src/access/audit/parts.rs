//! The part of the main log that each user may fill, so that nobody can push others' lines out.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Lines that a user may write at once: a hundredth of the main log.
pub(super) const BURST: u32 = 20_000;
/// The time after which a user may write another one. At this rate one user fills the main log in eight months.
const PERIOD: Duration = Duration::from_secs(10);
/// The number of users beyond which those who may write as much as at first are forgotten.
const KNOWN_MAX: usize = 1024;

/// Where a line belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Main,
    /// The main log, and the user's next line may belong to the overflow.
    LastInMain,
    Overflow,
}

/// The parts of all users.
#[derive(Debug)]
pub(super) struct Parts {
    burst: f64,
    of_users: Mutex<HashMap<String, Part>>,
}

/// The lines that a user could write at some moment.
#[derive(Clone, Copy, Debug)]
struct Part {
    left: f64,
    as_of: Instant,
}

impl Parts {
    /// Parts of so many lines at once.
    pub(super) fn new(burst: u32) -> Parts {
        Parts { burst: burst.into(), of_users: Mutex::default() }
    }

    /// Takes the place of a line of `user`.
    pub(super) fn place(&self, user: &str, now: Instant) -> Place {
        let mut parts = self.of_users.lock().unwrap_or_else(PoisonError::into_inner);
        if parts.len() >= KNOWN_MAX {
            parts.retain(|_, part| self.at(*part, now).left < self.burst);
        }
        let part = parts.entry(user.to_owned()).or_insert(Part { left: self.burst, as_of: now });
        *part = self.at(*part, now);
        if part.left < 1.0 {
            return Place::Overflow;
        }
        part.left -= 1.0;
        if part.left < 1.0 { Place::LastInMain } else { Place::Main }
    }

    fn at(&self, part: Part, now: Instant) -> Part {
        let elapsed = now.saturating_duration_since(part.as_of).as_secs_f64();
        Part { left: (part.left + elapsed / PERIOD.as_secs_f64()).min(self.burst), as_of: now }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_fills_a_part_and_others_have_theirs() {
        let (parts, start) = (Parts::new(BURST), Instant::now());
        let burst = BURST as usize;
        let places: Vec<Place> = (0..=burst).map(|_| parts.place("ann", start)).collect();
        assert!(places[..burst - 1].iter().all(|place| *place == Place::Main));
        assert_eq!(places[burst - 1..], [Place::LastInMain, Place::Overflow]);
        assert_eq!(parts.place("bob", start), Place::Main);
        let later = start + PERIOD;
        assert_eq!(parts.place("ann", later), Place::LastInMain);
        assert_eq!(parts.place("ann", later), Place::Overflow);
        let day = Duration::from_secs(24 * 3600);
        let in_main = |now| {
            let places = (0..burst).map(|_| parts.place("ann", now));
            places.filter(|place| *place != Place::Overflow).count()
        };
        assert_eq!(in_main(later + day), 8640);
        assert_eq!(in_main(later + 100 * day), burst);
    }

    #[test]
    fn former_users_take_no_memory() {
        let (parts, start) = (Parts::new(BURST), Instant::now());
        for number in 0..10 * KNOWN_MAX as u32 {
            parts.place(&format!("user-{number}"), start + number * PERIOD);
        }
        assert!(parts.of_users.lock().unwrap().len() <= KNOWN_MAX);
    }
}
