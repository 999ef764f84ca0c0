//! Ids of jobs: ten random characters, of which a prefix of two or three usually identifies a job.

use rustix::rand::{GetRandomFlags, getrandom};

/// Letters without vowels, which would form words, and without those that resemble digits.
const ALPHABET: &[u8] = b"0123456789bcdfghjkmnpqrstvwxyz";
pub(crate) const LENGTH: usize = 10;

/// Generates an id. There are 6e14 of them; the store's unique index catches a collision.
pub(crate) fn new() -> std::io::Result<String> {
    let mut id = String::with_capacity(LENGTH);
    while id.len() < LENGTH {
        let mut bytes = [0u8; 16];
        getrandom(&mut bytes, GetRandomFlags::empty())?;
        // Five bits per byte; values past the alphabet's end are dropped, so that all are equally likely.
        let letters = bytes.iter().filter_map(|byte| ALPHABET.get(usize::from(byte & 31)));
        id.extend(letters.take(LENGTH - id.len()).map(|letter| char::from(*letter)));
    }
    Ok(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_lower_case_and_differ() {
        let ids: std::collections::BTreeSet<_> = (0..1000).map(|_| new().unwrap()).collect();
        assert_eq!(ids.len(), 1000);
        for id in ids {
            assert_eq!(id.len(), LENGTH);
            assert!(id.bytes().all(|b| b.is_ascii_digit() || b.is_ascii_lowercase()), "{id}");
        }
    }
}
