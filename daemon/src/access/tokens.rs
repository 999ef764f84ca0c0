//! Bearer tokens: made here, kept as hashes, checked without the disk.
//!
//! A secret is `traind_ID_RANDOM`. The random part has 256 bits, so that a plain SHA-256
//! is as good as a slow hash: there is nothing to guess.

use std::collections::HashMap;
use std::fmt::Write;
use std::io;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use rustix::rand::{GetRandomFlags, getrandom};
use sha2::{Digest, Sha256};

use tokio_util::sync::CancellationToken;

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
        self.digest == digest(secret) && !self.has_expired(now)
    }

    fn has_expired(&self, now: i64) -> bool {
        self.expire_time.is_some_and(|end| end <= now)
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
    by_id: RwLock<HashMap<String, Working>>,
}

#[derive(Debug)]
struct Working {
    token: Token,
    /// Ends what the token began.
    revoked: CancellationToken,
}

impl From<Token> for Working {
    fn from(token: Token) -> Working {
        Working { token, revoked: CancellationToken::new() }
    }
}

/// Who calls, as a token or something else says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Bearer {
    pub user: String,
    /// Most that calls with it may do.
    pub role_max: Option<Role>,
    pub token_id: Option<String>,
}

impl Tokens {
    pub(crate) fn new(tokens: Vec<Token>) -> Tokens {
        let by_id = tokens.into_iter().map(|token| (token.id.clone(), token.into())).collect();
        Tokens { by_id: RwLock::new(by_id) }
    }

    pub(crate) fn insert(&self, token: Token) {
        self.write().insert(token.id.clone(), token.into());
    }

    pub(crate) fn remove(&self, id: &str) {
        if let Some(Working { revoked, .. }) = self.write().remove(id) {
            revoked.cancel();
        }
    }

    /// Whose secret this is, and the most that it may do.
    pub(crate) fn bearer_of(&self, secret: &str) -> Option<Bearer> {
        let (id, _) = secret.strip_prefix(PREFIX)?.split_once('_')?;
        let by_id = self.read();
        let Working { token, .. } = by_id.get(id)?;
        let bearer = |token: &Token| Bearer {
            user: token.user.clone(),
            role_max: token.role_max,
            token_id: Some(token.id.clone()),
        };
        token.is_valid(secret, clock::now()).then(|| bearer(token))
    }

    /// Whether the token with this id is neither revoked nor expired.
    pub(crate) fn works(&self, id: &str) -> bool {
        self.read().get(id).is_some_and(|known| !known.token.has_expired(clock::now()))
    }

    /// Resolves when it works no more.
    pub(crate) async fn until_end(&self, id: &str) {
        let known =
            self.read().get(id).map(|known| (known.revoked.clone(), known.token.expire_time));
        let Some((revoked, expire_time)) = known else { return };
        let expires = async {
            let Some(end) = expire_time else { return std::future::pending().await };
            let left = u64::try_from(end.saturating_sub(clock::now())).unwrap_or(0);
            tokio::time::sleep(Duration::from_micros(left)).await;
        };
        tokio::select! {
            () = revoked.cancelled() => {}
            () = expires => {}
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, HashMap<String, Working>> {
        self.by_id.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, HashMap<String, Working>> {
        self.by_id.write().unwrap_or_else(PoisonError::into_inner)
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
        let (user, token_id) = ("ann".to_owned(), Some(token.id.clone()));
        let ann = Bearer { user, role_max: Some(Role::Viewer), token_id };
        assert_eq!(tokens.bearer_of(&secret), Some(ann));
        assert_eq!(tokens.bearer_of(&format!("{secret}0")), None);
        assert_eq!(tokens.bearer_of(&secret[..secret.len() - 1]), None);
        assert_eq!(tokens.bearer_of(&token.id), None);
        assert!(tokens.works(&token.id));
        tokens.remove(&token.id);
        assert_eq!(tokens.bearer_of(&secret), None);
        assert!(!tokens.works(&token.id));

        let (token, secret) = Token::draw("ann".into(), None, Some(0)).unwrap();
        tokens.insert(token.clone());
        assert_eq!(tokens.bearer_of(&secret), None, "expired");
        assert!(!tokens.works(&token.id));
    }

    #[tokio::test]
    async fn the_end_of_a_token_is_told_to_who_waits() {
        let draw = |seconds| Token::draw("ann".into(), None, seconds).unwrap().0;
        let (revoked, expired) = (draw(None), draw(Some(0)));
        let tokens = Tokens::new(vec![revoked.clone(), expired.clone()]);
        tokens.until_end(&expired.id).await;
        tokens.until_end("unknown").await;
        let waiting = tokens.until_end(&revoked.id);
        let revoking = async { tokens.remove(&revoked.id) };
        let ended = async { tokio::join!(waiting, revoking) };
        tokio::time::timeout(Duration::from_secs(30), ended).await.unwrap();
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
