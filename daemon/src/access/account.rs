//! The account of this host that a job's processes run as, and how a process switches to it.
//!
//! Switching requires all of the capabilities in [`NEEDED`]. A process that has switched keeps
//! none of them and cannot regain any.

use std::collections::HashMap;
use std::ffi::{CString, OsString};
use std::fmt;
use std::io;
use std::num::ParseIntError;
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::unistd::{Gid, Uid, User, getgrouplist, setfsgid, setfsuid};
use rustix::process::getgid;
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set, set_capabilities,
    set_no_new_privs, set_thread_groups, set_thread_res_gid, set_thread_res_uid,
};
use serde::{Deserialize, Serialize};

/// Capabilities for becoming another user, giving folders away, reading them and killing that
/// user's processes. Root has all of them.
const NEEDED: CapabilitySet = CapabilitySet::SETUID
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::CHOWN)
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::KILL);

/// How long a user's name is cached.
const NAME_AGE_MAX: Duration = Duration::from_secs(60);

/// A user id and the group id of the user's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct Account {
    pub uid: u32,
    pub gid: u32,
}

/// An account's entry in the user database.
#[derive(Debug)]
pub(crate) struct Entry {
    account: Account,
    /// The user's name; absent for a user id without an entry.
    name: Option<String>,
    home: OsString,
    groups: Vec<rustix::process::Gid>,
}

#[derive(Debug, thiserror::Error)]
#[error("{0:?} is not an account: expected UID:GID")]
pub(crate) struct NoAccount(String);

impl Account {
    /// The account of this thread.
    pub(crate) fn own() -> Account {
        Account { uid: rustix::process::getuid().as_raw(), gid: getgid().as_raw() }
    }

    /// Looks up the account with this name.
    pub(crate) fn named(name: &str) -> io::Result<Option<Account>> {
        let user = User::from_name(name)?;
        Ok(user.map(|user| Account { uid: user.uid.as_raw(), gid: user.gid.as_raw() }))
    }

    /// Looks up the account with all its groups, as a login does. An account without an entry, as
    /// is common in containers, gets its one group and no home.
    pub(crate) fn look_up(self) -> io::Result<Entry> {
        let mut entry = Entry {
            account: self,
            name: None,
            home: "/".into(),
            groups: vec![rustix::process::Gid::from_raw(self.gid)],
        };
        if let Some(user) = User::from_uid(Uid::from_raw(self.uid))? {
            let name = CString::new(user.name.as_str())?;
            let groups = getgrouplist(&name, Gid::from_raw(self.gid))?;
            entry.groups =
                groups.iter().map(|group| rustix::process::Gid::from_raw(group.as_raw())).collect();
            entry.home = user.dir.into_os_string();
            entry.name = Some(user.name);
        }
        Ok(entry)
    }
}

impl Entry {
    /// Environment variables that depend on the user; those without a value are to be removed.
    pub(crate) fn environment(&self) -> [(&'static str, Option<OsString>); 6] {
        let name = || self.name.clone().map(OsString::from);
        [
            ("HOME", Some(self.home.clone())),
            ("USER", name()),
            ("LOGNAME", name()),
            ("XDG_CACHE_HOME", None),
            ("HF_HOME", None),
            ("HF_HUB_CACHE", None),
        ]
    }

    /// Switches this thread, and every process that it becomes or starts, to the account for good.
    pub(crate) fn assume(&self) -> io::Result<()> {
        let uid = rustix::process::Uid::from_raw(self.account.uid);
        let gid = rustix::process::Gid::from_raw(self.account.gid);
        // The groups first: without the old user id they can no longer be changed.
        set_thread_groups(&self.groups)?;
        set_thread_res_gid(gid, gid, gid)?;
        set_thread_res_uid(uid, uid, uid)?;
        // Only root loses its capabilities with its user id.
        clear_ambient_capability_set()?;
        let none = CapabilitySet::empty();
        set_capabilities(
            None,
            CapabilitySets { effective: none, permitted: none, inheritable: none },
        )?;
        Ok(set_no_new_privs(true)?)
    }
}

impl Entry {
    /// Gives this thread the account's access to files, and no other access. The thread keeps the
    /// daemon's user id, since a user who shares it could kill the daemon by a signal to the thread.
    fn assume_for_files(&self) -> io::Result<()> {
        set_thread_groups(&self.groups)?;
        let (uid, gid) = (Uid::from_raw(self.account.uid), Gid::from_raw(self.account.gid));
        setfsgid(gid);
        setfsuid(uid);
        // These calls never fail; they return the previous ids.
        let (now_uid, now_gid) = (setfsuid(uid), setfsgid(gid));
        if (now_uid, now_gid) != (uid, gid) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let none = CapabilitySet::empty();
        let permitted = capabilities(None)?.permitted;
        let sets = CapabilitySets { effective: none, permitted, inheritable: none };
        Ok(set_capabilities(None, sets)?)
    }
}

/// Returns the user's name, or the user id of a user without a name or whose lookup fails.
pub(crate) fn user_name(uid: u32) -> String {
    look_up_name(uid).unwrap_or_else(|_| uid.to_string())
}

/// Asks the system's user databases, which may include directory servers.
fn look_up_name(uid: u32) -> io::Result<String> {
    let user = User::from_uid(Uid::from_raw(uid))?;
    Ok(user.map_or_else(|| uid.to_string(), |user| user.name))
}

/// Names of users, cached since a lookup may ask a directory server; clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct UserNames {
    known: Arc<Mutex<HashMap<u32, (Instant, String)>>>,
}

impl UserNames {
    /// Returns the user's name, or the user id of a user without a name. Blocks the calling task, and
    /// no other, during a lookup.
    pub(crate) fn get(&self, uid: u32) -> io::Result<String> {
        if let Some((read, name)) = self.known().get(&uid)
            && read.elapsed() < NAME_AGE_MAX
        {
            return Ok(name.clone());
        }
        // A directory server may be slow to answer, and must not block other calls.
        let name = tokio::task::block_in_place(|| look_up_name(uid))?;
        let mut known = self.known();
        known.retain(|_, (read, _)| read.elapsed() < NAME_AGE_MAX);
        known.insert(uid, (Instant::now(), name.clone()));
        Ok(name)
    }

    fn known(&self) -> MutexGuard<'_, HashMap<u32, (Instant, String)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether this process may switch to other users.
pub(crate) fn may_switch() -> bool {
    capabilities(None).is_ok_and(|own| own.effective.contains(NEEDED))
}

/// Runs `work` with `account`'s access to files, or with the daemon's own if there is none.
pub(crate) fn with_rights_of<T: Send>(
    account: Option<Account>,
    work: impl FnOnce() -> T + Send,
) -> io::Result<T> {
    let Some(account) = account else { return Ok(work()) };
    let entry = account.look_up()?;
    // Linux keeps credentials per thread; this thread ends with the work.
    std::thread::scope(|scope| {
        let worker = scope.spawn(move || entry.assume_for_files().map(|()| work()));
        worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.uid, self.gid)
    }
}

impl FromStr for Account {
    type Err = NoAccount;

    fn from_str(text: &str) -> Result<Account, NoAccount> {
        let parse = |(uid, gid): (&str, &str)| -> Result<Account, ParseIntError> {
            Ok(Account { uid: uid.parse()?, gid: gid.parse()? })
        };
        let parsed = text.split_once(':').and_then(|numbers| parse(numbers).ok());
        parsed.ok_or_else(|| NoAccount(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    #[test]
    fn an_account_round_trips_through_a_command_line() {
        let account = Account { uid: 1000, gid: 100 };
        assert_eq!(account.to_string().parse::<Account>().unwrap(), account);
        for text in ["", "1000", "1000:", "ann:100", "-1:0"] {
            assert!(text.parse::<Account>().is_err(), "{text}");
        }
    }

    #[test]
    fn users_have_names_and_others_numbers() {
        let names = UserNames::default();
        for _ in 0..2 {
            assert_eq!(names.get(0).unwrap(), "root");
            assert_eq!(names.get(4_200_000_000).unwrap(), "4200000000");
        }
        assert_eq!(user_name(0), "root");
    }

    #[test]
    fn root_has_its_name_its_home_and_its_group() {
        let entry = Account { uid: 0, gid: 0 }.look_up().unwrap();
        assert_eq!(entry.name.as_deref(), Some("root"));
        assert!(entry.groups.contains(&rustix::process::Gid::ROOT));
        assert_eq!(Account::named("root").unwrap(), Some(Account { uid: 0, gid: 0 }));
        assert_eq!(Account::named("no-such-user-here").unwrap(), None);
    }

    #[test]
    fn work_runs_with_the_accounts_access_and_leaves_the_daemons_unchanged() {
        if !may_switch() {
            return eprintln!("skipped: requires the right to switch users");
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("closed");
        std::fs::write(&path, "").unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        let stranger = Account { uid: 4242, gid: 4243 };
        let own = Account::own();
        let look = || (Account::own(), std::fs::File::open(&path).is_ok(), may_switch());
        let seen = with_rights_of(Some(stranger), look).unwrap();
        assert_eq!(seen, (own, false, false), "a file of mode 0600 is closed to it");
        assert_eq!(with_rights_of(None, look).unwrap(), (own, true, true));
        let made = folder.path().join("made");
        let make = || std::fs::write(&made, "").is_ok();
        std::fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).unwrap();
        assert!(with_rights_of(Some(stranger), make).unwrap());
        let owner = std::fs::metadata(&made).unwrap();
        assert_eq!((owner.uid(), owner.gid()), (4242, 4243), "its files are the account's");
    }
}
