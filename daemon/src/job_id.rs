//! Ids of jobs: ten random characters, so that two or three of them usually name a job.

use rustix::rand::{GetRandomFlags, getrandom};

/// No vowels, so no words; no letters that look like digits.
const ALPHABET: &[u8] = b"0123456789bcdfghjkmnpqrstvwxyz";
pub(crate) const LENGTH: usize = 10;

/// A new id. Thirty to the tenth is 6e14: the store's unique index guards the rest.
pub(crate) fn new() -> std::io::Result<String> {
    let mut id = String::with_capacity(LENGTH);
    while id.len() < LENGTH {
        let mut bytes = [0u8; 16];
        getrandom(&mut bytes, GetRandomFlags::empty())?;
        // Five bits a byte; a draw past the alphabet's end is dropped, to favour no letter.
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
