//! A line of the audit log, and the chain of their hashes.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::clock;
use crate::hex::hex;

/// The longest value of a field, in characters: some are words of callers.
const CHARACTERS_MAX: usize = 256;

/// A call that may have changed something.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Event {
    pub call: String,
    pub user: String,
    /// Empty if the caller has none.
    pub role: String,
    /// How the caller was identified.
    pub origin: String,
    /// The id of the caller's token, if one identified the caller.
    pub token: String,
    pub request_id: String,
    /// The job, token or user that the call is about.
    pub subject: String,
    /// The name of the gRPC code.
    pub outcome: String,
}

/// An event that is to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Noted {
    pub(super) event: Event,
    /// Microseconds since 1970.
    pub(super) time: i64,
    pub(super) overflow: Option<u64>,
}

impl Noted {
    /// An event that happens now.
    pub(super) fn now(mut event: Event, overflow: Option<u64>) -> Noted {
        let Event { call, user, role, origin, token, request_id, subject, outcome } = &mut event;
        for field in [call, user, role, origin, token, request_id, subject, outcome] {
            *field = clipped(field);
        }
        Noted { event, time: clock::now(), overflow }
    }
}

fn clipped(text: &str) -> String {
    text.chars().take(CHARACTERS_MAX).collect()
}

/// A line of the log.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Entry {
    pub(super) number: u64,
    time: String,
    call: String,
    user: String,
    role: String,
    origin: String,
    token: String,
    request_id: String,
    subject: String,
    outcome: String,
    /// The hash of the line before; empty for the first one.
    previous: String,
    /// SHA-256 of the line with this field empty.
    pub(super) hash: String,
    /// The number in the overflow from which lines of this user may continue, on the last line before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    overflow: Option<u64>,
}

impl Entry {
    /// The entry for what is to be written.
    pub(super) fn of(noted: &Noted, number: u64, previous: &str) -> Entry {
        let Noted { event, time, overflow } = noted;
        let mut entry = Entry {
            number,
            time: clock::timestamp(*time).to_string(),
            call: event.call.clone(),
            user: event.user.clone(),
            role: event.role.clone(),
            origin: event.origin.clone(),
            token: event.token.clone(),
            request_id: event.request_id.clone(),
            subject: event.subject.clone(),
            outcome: event.outcome.clone(),
            previous: previous.to_owned(),
            hash: String::new(),
            overflow: *overflow,
        };
        entry.hash = entry.digest();
        entry
    }

    /// The entry as a line without its end.
    pub(super) fn line(&self) -> String {
        // Numbers and texts can always be written.
        serde_json::to_string(self).unwrap_or_default()
    }

    fn digest(&self) -> String {
        let unsealed = Entry { hash: String::new(), ..self.clone() };
        hex(&Sha256::digest(unsealed.line().as_bytes()))
    }
}

/// A problem of the log.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Broken {
    #[error("the line after entry {0} is not an entry of the audit log")]
    NotAnEntry(u64),
    #[error("entry {0} was changed")]
    Changed(u64),
    #[error("entry {found} follows entry {last}: entries are missing")]
    Missing { last: u64, found: u64 },
    #[error("entry {0} does not continue the entry before it, which was replaced")]
    Detached(u64),
}

/// Verifies lines one after the other.
#[derive(Debug, Default)]
pub(crate) struct Chain {
    last: Option<(u64, String)>,
}

impl Chain {
    /// The number and the hash of the last line.
    pub(crate) fn last(&self) -> Option<(u64, &str)> {
        self.last.as_ref().map(|(number, hash)| (*number, hash.as_str()))
    }

    /// Checks the next line. The first line of a log whose older files were removed may have any number.
    pub(crate) fn check(&mut self, line: &str) -> Result<(), Broken> {
        let last = self.last.as_ref().map_or(0, |(number, _)| *number);
        let entry: Entry = serde_json::from_str(line).map_err(|_| Broken::NotAnEntry(last))?;
        let number = entry.number;
        if entry.line() != line || entry.digest() != entry.hash {
            return Err(Broken::Changed(number));
        }
        if let Some((last, hash)) = &self.last {
            if number != last + 1 {
                return Err(Broken::Missing { last: *last, found: number });
            }
            if entry.previous != *hash {
                return Err(Broken::Detached(number));
            }
        }
        self.last = Some((number, entry.hash));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines() -> Vec<String> {
        let (mut lines, mut previous) = (Vec::new(), String::new());
        for number in 1..=4 {
            let event = Event { user: format!("user-{number}"), ..Event::default() };
            let entry = Entry::of(&Noted::now(event, None), number, &previous);
            previous.clone_from(&entry.hash);
            lines.push(entry.line());
        }
        lines
    }

    fn check(change: impl FnOnce(&mut Vec<String>), expect: Option<Broken>) {
        let mut lines = lines();
        change(&mut lines);
        let mut chain = Chain::default();
        let broken = lines.iter().find_map(|line| chain.check(line).err());
        assert_eq!(broken, expect);
    }

    #[test]
    fn fields_are_clipped() {
        let event = Event { subject: "x".repeat(1 << 20), ..Event::default() };
        let line = Entry::of(&Noted::now(event, Some(7)), 1, "").line();
        assert!(line.len() < 1024 && line.ends_with(r#""overflow":7}"#), "{line}");
        Chain::default().check(&line).unwrap();
    }

    #[test]
    fn tampering_is_found() {
        check(|_| {}, None);
        check(|lines| drop(lines.remove(0)), None);
        check(|lines| lines[1] = lines[1].replace("user-2", "user-9"), Some(Broken::Changed(2)));
        check(|lines| lines[1] += " ", Some(Broken::Changed(2)));
        check(|lines| drop(lines.remove(1)), Some(Broken::Missing { last: 1, found: 3 }));
        check(|lines| lines.swap(1, 2), Some(Broken::Missing { last: 1, found: 3 }));
        check(|lines| lines[2] = "{}".into(), Some(Broken::NotAnEntry(2)));
        let forge =
            |previous: &str| Entry::of(&Noted::now(Event::default(), None), 2, previous).line();
        let forged = forge("");
        check(|lines| lines[1] = forged, Some(Broken::Detached(2)));
        let reseal = |lines: &mut Vec<String>| {
            let first: Entry = serde_json::from_str(&lines[0]).unwrap();
            lines[1] = forge(&first.hash);
        };
        check(reseal, Some(Broken::Detached(3)));
    }
}
