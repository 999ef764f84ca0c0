//! How a host learns the address and the key of the rendezvous: from a file that host 0 writes into a folder
//! that all hosts see, or from the environment.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use traind_durable::Replacement;

use crate::address::Address;
use crate::error::{KEY_VARIABLE, TicketError};
use crate::tls::JobKey;

/// The file in the folder that all hosts see.
const FILE: &str = "rendezvous";
/// The owner alone can read the key.
const MODE: u32 = 0o600;

/// Addresses at which host 0 may be reached, and the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ticket {
    pub addresses: Vec<Address>,
    pub key: JobKey,
}

impl Ticket {
    /// Writes the file in `folder`, which only its owner can read.
    pub fn write(&self, folder: &Path) -> Result<(), TicketError> {
        let path = folder.join(FILE);
        let addresses: Vec<String> = self.addresses.iter().map(Address::to_string).collect();
        let text = format!("{}\n{}\n", addresses.join(" "), self.key.to_hex());
        let file = Replacement::of(&path).with_mode(MODE);
        let written = file.write(|file| file.write_all(text.as_bytes()));
        written.map_err(|source| TicketError::Io { action: "write", path, source })
    }

    /// Reads the file in `folder`; `None` where host 0 has not written it yet.
    pub fn read(folder: &Path) -> Result<Option<Ticket>, TicketError> {
        let path = folder.join(FILE);
        let error = |action| {
            let path = path.clone();
            move |source| TicketError::Io { action, path, source }
        };
        let text = match fs::read_to_string(&path) {
            Err(absent) if absent.kind() == io::ErrorKind::NotFound => return Ok(None),
            text => text.map_err(error("read"))?,
        };
        if fs::metadata(&path).map_err(error("inspect"))?.mode() & 0o077 != 0 {
            return Err(TicketError::Exposed { path });
        }
        Ticket::parse(&text).map(Some).ok_or(TicketError::Invalid { path })
    }

    /// Removes the file, after which nobody can join.
    pub fn remove(folder: &Path) {
        // A file that stays behind has a key that no server accepts any more.
        let _ = fs::remove_file(folder.join(FILE));
    }

    fn parse(text: &str) -> Option<Ticket> {
        let (addresses, key) = text.split_once('\n')?;
        let addresses = addresses.split_whitespace().map(str::parse).collect::<Result<_, _>>();
        Some(Ticket { addresses: addresses.ok()?, key: JobKey::parse(key).ok()? })
    }
}

/// Returns the key that the environment holds, if it does.
pub fn key_of_environment(
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Option<JobKey>, TicketError> {
    let Some(text) = variable(KEY_VARIABLE).filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    let key = JobKey::parse(&text);
    key.map(Some).map_err(|error| TicketError::Key { problem: error.to_string() })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_ticket_is_read_as_it_was_written_and_by_its_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Ticket::read(folder.path()).unwrap(), None);
        let addresses = ["node:80", "[::1]:90"].map(|text| text.parse().unwrap()).to_vec();
        let ticket = Ticket { addresses, key: JobKey::generate().unwrap() };
        ticket.write(folder.path()).unwrap();
        assert_eq!(Ticket::read(folder.path()).unwrap(), Some(ticket));
        let path = folder.path().join(FILE);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(matches!(Ticket::read(folder.path()), Err(TicketError::Exposed { .. })));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&path, "node:80\n").unwrap();
        assert!(matches!(Ticket::read(folder.path()), Err(TicketError::Invalid { .. })));
    }

    #[test]
    fn a_key_of_the_environment_is_checked() {
        let key = JobKey::generate().unwrap();
        assert_eq!(key_of_environment(|_| Some(key.to_hex())).unwrap(), Some(key));
        assert_eq!(key_of_environment(|_| None).unwrap(), None);
        let error = key_of_environment(|_| Some("secret".to_owned())).unwrap_err().to_string();
        assert!(error.contains(KEY_VARIABLE) && error.contains("64"), "{error}");
    }
}
