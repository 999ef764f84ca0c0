//! Messages between two hosts, beside their programs.

use std::sync::mpsc::{Receiver, channel};

use traind_mpi::{Peer, Result, World};

/// More than MPI sends before the other process expects it.
const LARGE: usize = 24 << 20;
/// Messages with each tag.
const COUNT: u8 = 20;
const TAGS: [u32; 3] = [0, 7, Peer::TAG_MAX];

/// The messages that each host sends in these checks, and their bytes.
pub(crate) fn sent() -> (u64, u64) {
    let small = TAGS.len() as u64 * u64::from(COUNT);
    (small + 2 + 1, small * 3 + 2 * LARGE as u64 + 9)
}

fn send(world: &World, to: Peer, bytes: Vec<u8>) -> Receiver<Result<Vec<u8>>> {
    let (sender, taken) = channel();
    world.send(to, bytes, move |outcome| drop(sender.send(outcome))).unwrap();
    taken
}

fn receive(world: &World, from: Peer, length: usize) -> Receiver<Result<Vec<u8>>> {
    let (sender, arrived) = channel();
    world.receive(from, length, move |outcome| drop(sender.send(outcome))).unwrap();
    arrived
}

fn bytes(received: &Receiver<Result<Vec<u8>>>) -> Vec<u8> {
    received.recv().unwrap().unwrap()
}

/// The hosts expect the tags in other orders than they send them.
pub(crate) fn those_with_one_tag_arrive_in_order(world: &World, rank: usize) {
    let other = 1 - rank;
    for number in 0..COUNT {
        for tag in TAGS {
            send(world, Peer { rank: other, tag }, vec![rank as u8, number, tag as u8]);
        }
    }
    for tag in TAGS.into_iter().rev() {
        let from = Peer { rank: other, tag };
        let expected: Vec<_> = (0..COUNT).map(|_| receive(world, from, 3)).collect();
        for (number, received) in expected.iter().enumerate() {
            assert_eq!(bytes(received), [other as u8, number as u8, tag as u8]);
        }
    }
}

/// Each host sends first, and neither waits for the other.
pub(crate) fn large_ones_are_sent_before_the_other_host_expects_them(world: &World, rank: usize) {
    let other = Peer { rank: 1 - rank, tag: 1 };
    let sent: Vec<_> = (0..2).map(|it| send(world, other, vec![it + 1; LARGE])).collect();
    for number in 1..=2 {
        let received = bytes(&receive(world, other, LARGE));
        assert!(received.len() == LARGE && received.iter().all(|byte| *byte == number));
    }
    // They come back, so that their memory can be used again.
    for (number, sent) in (1..=2).zip(&sent) {
        assert_eq!(bytes(sent)[LARGE - 1], number);
    }
}

pub(crate) fn longer_ones_than_expected_are_errors(world: &World, rank: usize) {
    let other = Peer { rank: 1 - rank, tag: 2 };
    let received = receive(world, other, 8);
    send(world, other, vec![0; 9]);
    let error = received.recv().unwrap().unwrap_err().to_string();
    assert!(error.contains("MPI_Test"), "{error}");
}
