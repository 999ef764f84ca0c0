//! Bearer tokens: generated here, stored as hashes, checked in memory.
//!
//! A secret is `traind_ID_RANDOM`. The random part has 256 bits and cannot be guessed, so a
//! plain SHA-256 is as safe as a slow password hash.

use std::collections::HashMap;
use std::io;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use rustix::rand::{GetRandomFlags, getrandom};
use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;

use crate::access::Role;
use crate::hex::hex;
use crate::{clock, job_id};

const PREFIX: &str = "traind_";
const USER_CHARACTERS_MAX: usize = 128;
/// The longest wait before the clock is read again, which may have been set.
const CLOCK_PERIOD: Duration = Duration::from_secs(30);

/// A token as stored. A reader of the store cannot make calls with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub id: String,
    pub user: String,
    /// Upper bound of the role of calls with this token.
    pub role_max: Option<Role>,
    pub digest: Vec<u8>,
    /// Microseconds since 1970.
    pub create_time: i64,
    pub expire_time: Option<i64>,
}

impl Token {
    /// Generates a token and its secret.
    pub(crate) fn generate(
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
        // No constant-time comparison: a caller cannot choose a secret by its digest.
        self.digest == digest(secret) && !self.has_expired(now)
    }

    fn has_expired(&self, now: i64) -> bool {
        self.expire_time.is_some_and(|end| end <= now)
    }
}

/// Whether `name` is a valid user name: names appear in logs and in the access file.
pub(crate) fn is_user_name(name: &str) -> bool {
    let count = name.chars().count();
    (1..=USER_CHARACTERS_MAX).contains(&count)
        && name.chars().all(|c| !c.is_control() && !c.is_whitespace())
}

/// Resolves when the clock `now` has reached `end`. It may be set, and is read again after `period`.
async fn until_time(end: i64, now: impl Fn() -> i64, period: Duration) {
    while let Ok(left @ 1..) = u64::try_from(end.saturating_sub(now())) {
        tokio::time::sleep(Duration::from_micros(left).min(period)).await;
    }
}

/// All tokens that are not revoked, as in the store.
#[derive(Debug, Default)]
pub(crate) struct Tokens {
    by_id: RwLock<HashMap<String, LiveToken>>,
}

#[derive(Debug)]
struct LiveToken {
    token: Token,
    /// A token that is cancelled when the access token is revoked.
    revoked: CancellationToken,
}

impl From<Token> for LiveToken {
    fn from(token: Token) -> LiveToken {
        LiveToken { token, revoked: CancellationToken::new() }
    }
}

/// The identity of a caller, before the access rules are applied.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Bearer {
    pub user: String,
    /// Upper bound of the role of calls with this token.
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
        if let Some(LiveToken { revoked, .. }) = self.write().remove(id) {
            revoked.cancel();
        }
    }

    /// Returns the bearer of `secret`, or `None` if the secret is not valid.
    pub(crate) fn bearer_of(&self, secret: &str) -> Option<Bearer> {
        let (id, _) = secret.strip_prefix(PREFIX)?.split_once('_')?;
        let by_id = self.read();
        let LiveToken { token, .. } = by_id.get(id)?;
        token.is_valid(secret, clock::now()).then(|| Bearer {
            user: token.user.clone(),
            role_max: token.role_max,
            token_id: Some(token.id.clone()),
        })
    }

    /// Whether the token with this id is neither revoked nor expired.
    pub(crate) fn is_live(&self, id: &str) -> bool {
        self.read().get(id).is_some_and(|known| !known.token.has_expired(clock::now()))
    }

    /// Resolves when the token is revoked or expires.
    pub(crate) async fn until_end(&self, id: &str) {
        let known =
            self.read().get(id).map(|known| (known.revoked.clone(), known.token.expire_time));
        let Some((revoked, expire_time)) = known else { return };
        let expires = async {
            match expire_time {
                Some(end) => until_time(end, clock::now, CLOCK_PERIOD).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = revoked.cancelled() => {}
            () = expires => {}
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, HashMap<String, LiveToken>> {
        self.by_id.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, HashMap<String, LiveToken>> {
        self.by_id.write().unwrap_or_else(PoisonError::into_inner)
    }
}

fn digest(secret: &str) -> Vec<u8> {
    Sha256::digest(secret).to_vec()
}

fn random() -> io::Result<String> {
    let mut bytes = [0u8; 32];
    // The kernel fills up to 256 bytes in one call.
    getrandom(&mut bytes, GetRandomFlags::empty())?;
    Ok(hex(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_names_its_user_until_it_is_revoked_or_expires() {
        let (token, secret) = Token::generate("ann".into(), Some(Role::Viewer), None).unwrap();
        let tokens = Tokens::new(vec![token.clone()]);
        let (user, token_id) = ("ann".to_owned(), Some(token.id.clone()));
        let ann = Bearer { user, role_max: Some(Role::Viewer), token_id };
        assert_eq!(tokens.bearer_of(&secret), Some(ann));
        assert_eq!(tokens.bearer_of(&format!("{secret}0")), None);
        assert_eq!(tokens.bearer_of(&secret[..secret.len() - 1]), None);
        assert_eq!(tokens.bearer_of(&token.id), None);
        assert!(tokens.is_live(&token.id));
        tokens.remove(&token.id);
        assert_eq!(tokens.bearer_of(&secret), None);
        assert!(!tokens.is_live(&token.id));

        let (token, secret) = Token::generate("ann".into(), None, Some(0)).unwrap();
        tokens.insert(token.clone());
        assert_eq!(tokens.bearer_of(&secret), None, "expired");
        assert!(!tokens.is_live(&token.id));
    }

    #[tokio::test]
    async fn waiting_for_a_tokens_end_resolves_when_it_is_revoked_or_expired() {
        let generate = |seconds| Token::generate("ann".into(), None, seconds).unwrap().0;
        let (revoked, expired) = (generate(None), generate(Some(0)));
        let tokens = Tokens::new(vec![revoked.clone(), expired.clone()]);
        tokens.until_end(&expired.id).await;
        tokens.until_end("unknown").await;
        let waiting = tokens.until_end(&revoked.id);
        let revoking = async { tokens.remove(&revoked.id) };
        let ended = async { tokio::join!(waiting, revoking) };
        tokio::time::timeout(Duration::from_secs(180), ended).await.unwrap();
    }

    #[tokio::test]
    async fn a_token_expires_by_a_clock_that_is_set() {
        const YEAR: i64 = 365 * 24 * 3600 * 1_000_000;
        // As on a host that starts in the past, and gets the time from the network.
        let reads = std::cell::Cell::new(0);
        let now = || {
            reads.set(reads.get() + 1);
            if reads.get() < 3 { 0 } else { YEAR }
        };
        let ended = until_time(YEAR, now, Duration::from_millis(1));
        tokio::time::timeout(Duration::from_secs(180), ended).await.unwrap();
        assert_eq!(reads.get(), 3);
    }

    #[test]
    fn the_secret_is_not_stored() {
        let (token, secret) = Token::generate("ann".into(), None, None).unwrap();
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
