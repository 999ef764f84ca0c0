//! Corruption of valid files.

use crate::Random;

/// Extreme values for lengths and offsets.
const NUMBERS: [u64; 5] = [0, u64::MAX, i64::MAX as u64, 1 << 31, 1 << 16];

/// Applies up to five changes: bit flips, cuts, repetitions, extreme numbers and insertions.
pub fn damaged(good: &[u8], words: &[&[u8]], random: &mut Random) -> Vec<u8> {
    let mut bytes = good.to_vec();
    for _ in 0..=random.below(4) {
        change(&mut bytes, words, random);
        if bytes.is_empty() {
            bytes.push(0);
        }
    }
    bytes
}

fn change(bytes: &mut Vec<u8>, words: &[&[u8]], random: &mut Random) {
    let place = random.below(bytes.len());
    let length = random.below(16) + 1;
    let end = (place + length).min(bytes.len());
    match random.below(7) {
        0 => bytes[place] ^= 1 << random.below(8),
        1 => bytes[place] = random.number() as u8,
        2 => bytes.truncate(place.max(1)),
        3 => drop(bytes.drain(place..end)),
        4 => {
            let piece = bytes[place..end].to_vec();
            let to = random.below(bytes.len());
            bytes.splice(to..to, piece);
        }
        5 => {
            let number = NUMBERS[random.below(NUMBERS.len())];
            let piece = &number.to_le_bytes()[..[1, 2, 4, 8][random.below(4)]];
            let end = (place + piece.len()).min(bytes.len());
            bytes.splice(place..end, piece.iter().copied());
        }
        _ => {
            let word = words[random.below(words.len())];
            bytes.splice(place..place, word.iter().copied());
        }
    }
}
