//! Rounds of exchanges: each host gives a part, and the round is complete when all have.
//!
//! The rounds of a channel follow one another. A host that begins one has received those before, so that a
//! round is forgotten once all hosts have begun a later one.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

/// The parts of a complete round, by host.
pub(crate) type Parts = Arc<Vec<Vec<u8>>>;

#[derive(Debug)]
pub(crate) struct Rounds {
    size: usize,
    shared: Mutex<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    channels: HashMap<String, Channel>,
    completed: u64,
}

#[derive(Debug, Default)]
struct Channel {
    rounds: BTreeMap<u64, Round>,
    /// The newest round that each host has begun.
    begun: HashMap<u32, u64>,
}

#[derive(Debug)]
struct Round {
    parts: Vec<Option<Vec<u8>>>,
    complete: watch::Sender<Option<Parts>>,
}

/// The state of a round after waiting.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Exchanged {
    Complete(Parts),
    /// The hosts whose parts are missing.
    Missing(Vec<u32>),
}

impl Rounds {
    pub(crate) fn new(size: u32) -> Rounds {
        Rounds { size: size as usize, shared: Mutex::default() }
    }

    /// Gives the part of host `rank`, and waits for the others. A host may repeat its part.
    pub(crate) async fn exchange(
        &self,
        (channel, round): (&str, u64),
        rank: u32,
        part: Vec<u8>,
        wait: Duration,
    ) -> Exchanged {
        let mut complete = self.give(channel, round, rank, part);
        let found = tokio::time::timeout(wait, complete.wait_for(Option::is_some)).await;
        let parts = found.ok().and_then(Result::ok).and_then(|parts| parts.clone());
        parts.map_or_else(|| Exchanged::Missing(self.missing(channel, round)), Exchanged::Complete)
    }

    /// Forgets the parts that an earlier process of host `rank` gave. Fails where a round is complete, which
    /// the new process cannot know.
    pub(crate) fn restart(&self, rank: u32) -> Result<(), ()> {
        let mut shared = self.lock();
        if shared.completed > 0 {
            return Err(());
        }
        for channel in shared.channels.values_mut() {
            channel.begun.remove(&rank);
            let rounds = channel.rounds.values_mut();
            rounds.for_each(|round| round.parts[rank as usize] = None);
        }
        Ok(())
    }

    fn give(
        &self,
        channel: &str,
        number: u64,
        rank: u32,
        part: Vec<u8>,
    ) -> watch::Receiver<Option<Parts>> {
        let mut shared = self.lock();
        let Shared { channels, completed } = &mut *shared;
        let channel = channels.entry(channel.to_owned()).or_default();
        channel.begin(rank, number, self.size);
        let round = channel.rounds.entry(number).or_insert_with(|| Round::new(self.size));
        if round.complete.borrow().is_none() {
            round.parts[rank as usize] = Some(part);
            *completed += u64::from(round.complete());
        }
        round.complete.subscribe()
    }

    fn missing(&self, channel: &str, round: u64) -> Vec<u32> {
        let shared = self.lock();
        let round = shared.channels.get(channel).and_then(|channel| channel.rounds.get(&round));
        let parts = round.map(|round| round.parts.as_slice()).unwrap_or_default();
        let missing = (0..).zip(parts).filter(|(_, part)| part.is_none());
        missing.map(|(rank, _)| rank).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Channel {
    fn begin(&mut self, rank: u32, round: u64, size: usize) {
        let newest = self.begun.entry(rank).or_default();
        *newest = round.max(*newest);
        if self.begun.len() == size {
            let oldest = self.begun.values().min().copied().unwrap_or_default();
            self.rounds = self.rounds.split_off(&oldest);
        }
    }
}

impl Round {
    fn new(size: usize) -> Round {
        Round { parts: vec![None; size], complete: watch::Sender::new(None) }
    }

    /// Completes the round if all parts are there.
    fn complete(&mut self) -> bool {
        if self.parts.iter().any(Option::is_none) {
            return false;
        }
        let parts = self.parts.iter_mut().filter_map(Option::take).collect();
        self.complete.send_replace(Some(Arc::new(parts)));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::ZERO;

    fn parts(bytes: &[&[u8]]) -> Exchanged {
        Exchanged::Complete(Arc::new(bytes.iter().map(|part| part.to_vec()).collect()))
    }

    #[tokio::test]
    async fn a_round_is_complete_when_all_hosts_gave_their_part() {
        let rounds = Rounds::new(3);
        let give = |rank, part: &'static [u8]| rounds.exchange(("a", 0), rank, part.to_vec(), NOW);
        assert_eq!(give(2, b"c").await, Exchanged::Missing(vec![0, 1]));
        assert_eq!(give(0, b"a").await, Exchanged::Missing(vec![1]));
        // Repeats the call of before.
        assert_eq!(give(0, b"a").await, Exchanged::Missing(vec![1]));
        let all = parts(&[b"a", b"b", b"c"]);
        assert_eq!(give(1, b"b").await, all);
        assert_eq!(give(2, b"c").await, all);
        assert_eq!(
            rounds.exchange(("b", 0), 2, Vec::new(), NOW).await,
            Exchanged::Missing(vec![0, 1])
        );
    }

    #[tokio::test]
    async fn rounds_that_all_have_received_are_forgotten() {
        let rounds = Rounds::new(2);
        for round in 0..5 {
            for rank in [1, 0, 1] {
                rounds.exchange(("a", round), rank, vec![rank as u8], NOW).await;
            }
        }
        assert_eq!(rounds.lock().channels["a"].rounds.len(), 1);
        rounds.exchange(("a", 5), 1, Vec::new(), NOW).await;
        // Host 0 may still wait for the answer of round 4.
        assert_eq!(rounds.exchange(("a", 4), 0, Vec::new(), NOW).await, parts(&[&[0], &[1]]));
    }

    #[tokio::test]
    async fn a_host_can_restart_until_the_hosts_have_met() {
        let rounds = Rounds::new(2);
        rounds.exchange(("join", 0), 1, b"old".to_vec(), NOW).await;
        assert_eq!(rounds.restart(1), Ok(()));
        let alone = rounds.exchange(("join", 0), 0, b"first".to_vec(), NOW).await;
        assert_eq!(alone, Exchanged::Missing(vec![1]));
        let both = rounds.exchange(("join", 0), 1, b"new".to_vec(), NOW).await;
        assert_eq!(both, parts(&[b"first", b"new"]));
        assert_eq!(rounds.restart(1), Err(()));
    }
}
