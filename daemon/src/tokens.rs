//! Bearer tokens: made here, kept as hashes, checked without the disk.
//!
//! A secret is `traind_ID_RANDOM`. The random part has 256 bits, so that a plain SHA-256
//! is as good as a slow hash: there is nothing to guess.

use std::collections::HashMap;
use std::fmt::Write;
use std::io;
use std::sync::{PoisonError, RwLock};

use rustix::rand::{GetRandomFlags, getrandom};
use sha2::{Digest, Sha256};

use crate::access::Role;
use crate::{clock, job_id};

const PREFIX: &str = "traind_";
const USER_CHARACTERS_MAX: usize = 128;

/// A token as it is stored: whoever reads the store can make no call with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub id: String,
    pub user: String,
    /// Most that calls with it may do.
    pub role_max: Option<Role>,
    pub digest: Vec<u8>,
    /// Microseconds since 1970.
    pub create_time: i64,
    pub expire_time: Option<i64>,
}

impl Token {
    /// A new token and its secret.
    pub(crate) fn draw(
        user: String,
        role_max: Option<Role>,
        lifetime_seconds: Option<u64>,
    ) -> io::Result<(Token, String)> {
        let id = job_id::new()?;
        let secret = format!("{PREFIX}{id}_{}", random()?);
        let create_time = clock::now();
        let lifetime = lifetime_seconds.and_then(|seconds| i64::try_from(seconds).ok());
        let expire_time =
            lifetime.map(|seconds| create_time.saturating_add(seconds.saturating_mul(1_000_000)));
        let digest = digest(&secret);
        Ok((Token { id, user, role_max, digest, create_time, expire_time }, secret))
    }

    fn is_valid(&self, secret: &str, now: i64) -> bool {
        // Digests may be compared in any time: what they are of cannot be steered.
        self.digest == digest(secret) && self.expire_time.is_none_or(|end| now < end)
    }
}

/// Whether somebody can be called so: names appear in logs and in the access file.
pub(crate) fn is_user_name(name: &str) -> bool {
    let count = name.chars().count();
    (1..=USER_CHARACTERS_MAX).contains(&count)
        && name.chars().all(|c| !c.is_control() && !c.is_whitespace())
}

/// All tokens that work, as the store has them.
#[derive(Debug, Default)]
pub(crate) struct Tokens {
    by_id: RwLock<HashMap<String, Token>>,
}

impl Tokens {
    pub(crate) fn new(tokens: Vec<Token>) -> Tokens {
        let by_id = tokens.into_iter().map(|token| (token.id.clone(), token)).collect();
        Tokens { by_id: RwLock::new(by_id) }
    }

    pub(crate) fn insert(&self, token: Token) {
        let mut by_id = self.by_id.write().unwrap_or_else(PoisonError::into_inner);
        by_id.insert(token.id.clone(), token);
    }

    pub(crate) fn remove(&self, id: &str) {
        self.by_id.write().unwrap_or_else(PoisonError::into_inner).remove(id);
    }

    /// Whose secret this is, and the most that it may do.
    pub(crate) fn user_of(&self, secret: &str) -> Option<(String, Option<Role>)> {
        let (id, _) = secret.strip_prefix(PREFIX)?.split_once('_')?;
        let by_id = self.by_id.read().unwrap_or_else(PoisonError::into_inner);
        let token = by_id.get(id).filter(|token| token.is_valid(secret, clock::now()))?;
        Some((token.user.clone(), token.role_max))
    }
}

fn digest(secret: &str) -> Vec<u8> {
    Sha256::digest(secret).to_vec()
}

fn random() -> io::Result<String> {
    let mut bytes = [0u8; 32];
    // Up to 256 bytes arrive at once, always.
    getrandom(&mut bytes, GetRandomFlags::empty())?;
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_names_its_user_until_it_is_revoked_or_expires() {
        let (token, secret) = Token::draw("ann".into(), Some(Role::Viewer), None).unwrap();
        let tokens = Tokens::new(vec![token.clone()]);
        assert_eq!(tokens.user_of(&secret), Some(("ann".into(), Some(Role::Viewer))));
        assert_eq!(tokens.user_of(&format!("{secret}0")), None);
        assert_eq!(tokens.user_of(&secret[..secret.len() - 1]), None);
        assert_eq!(tokens.user_of(&token.id), None);
        tokens.remove(&token.id);
        assert_eq!(tokens.user_of(&secret), None);

        let (token, secret) = Token::draw("ann".into(), None, Some(0)).unwrap();
        tokens.insert(token);
        assert_eq!(tokens.user_of(&secret), None, "expired");
    }

    #[test]
    fn the_secret_is_not_in_what_is_stored() {
        let (token, secret) = Token::draw("ann".into(), None, None).unwrap();
        let random = secret.rsplit('_').next().unwrap();
        assert_eq!(random.len(), 64);
        assert!(!format!("{token:?}").contains(random));
    }

    #[test]
    fn names_are_printable() {
        assert!(is_user_name("ann@example.org"));
        for name in ["", "a b", "a\n", &"x".repeat(129)] {
            assert!(!is_user_name(name), "{name:?}");
        }
    }
}
