//! Sums of events in a window of time that ends now.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

#[derive(Debug)]
pub(super) struct Window<T> {
    pub length: Duration,
    entries: VecDeque<(Instant, T)>,
}

impl<T> Window<T> {
    pub(super) fn new(length: Duration) -> Window<T> {
        Window { length, entries: VecDeque::new() }
    }

    /// Adds what happens now, and forgets what is no longer in the window.
    pub(super) fn add(&mut self, now: Instant, value: T) {
        while self.entries.front().is_some_and(|(at, _)| now.duration_since(*at) > self.length) {
            self.entries.pop_front();
        }
        self.entries.push_back((now, value));
    }

    /// Whether nothing is kept, be it in the window or not.
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn recent(&self, now: Instant) -> impl Iterator<Item = &T> {
        let recent = move |(at, _): &&(Instant, T)| now.duration_since(*at) <= self.length;
        self.entries.iter().filter(recent).map(|(_, value)| value)
    }
}
