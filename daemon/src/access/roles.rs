//! Access control: a role for every user, and the role that every call requires.
//!
//! A caller on the socket has the user name that the kernel reports; on the network a client
//! certificate or a token names the caller. Users see and cancel only their own jobs, admins
//! all jobs. Every viewer sees which core is taken by which job, which users of a shared
//! machine need to know.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use serde::Deserialize;

use crate::access::account::Account;
use crate::access::sharing::{FairShares, Group, Sharing};

/// Each role includes the permissions of those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Role {
    /// Views cores, plugins and own jobs.
    Viewer,
    /// Submits jobs and cancels own ones.
    Submitter,
    /// Views and cancels all jobs, drains the daemon and issues tokens.
    Admin,
}

/// The role that each call requires. A call missing here requires admin.
const REQUIRED: &[(&str, Role)] = &[
    ("/traind.v1.Jobs/CreateJob", Role::Submitter),
    ("/traind.v1.Jobs/ForkJob", Role::Submitter),
    ("/traind.v1.Jobs/AdoptRun", Role::Submitter),
    ("/traind.v1.Jobs/PlanJob", Role::Submitter),
    ("/traind.v1.Jobs/GetJob", Role::Viewer),
    ("/traind.v1.Jobs/ListJobs", Role::Viewer),
    ("/traind.v1.Jobs/WatchJob", Role::Viewer),
    ("/traind.v1.Jobs/WatchHost", Role::Viewer),
    ("/traind.v1.Jobs/CancelJob", Role::Submitter),
    ("/traind.v1.Jobs/GetSamples", Role::Viewer),
    ("/traind.v1.Jobs/GenerateTexts", Role::Submitter),
    ("/traind.v1.Jobs/ListPrograms", Role::Viewer),
    ("/traind.v1.Jobs/ProfileJob", Role::Submitter),
    ("/traind.v1.Cores/ListCores", Role::Viewer),
    ("/traind.v1.Cores/WatchCores", Role::Viewer),
    ("/traind.v1.Cores/ReturnCores", Role::Admin),
    ("/traind.v1.Cores/TestCores", Role::Admin),
    ("/traind.v1.Cores/ListShares", Role::Viewer),
    ("/traind.v1.Plugins/ListPlugins", Role::Viewer),
    ("/traind.v1.Web/CreateLogin", Role::Viewer),
    ("/traind.v1.Admin/Drain", Role::Admin),
    ("/traind.v1.Admin/RemoveJobs", Role::Admin),
    ("/traind.v1.Admin/ReadAudit", Role::Admin),
    ("/traind.v1.Tokens/CreateToken", Role::Admin),
    ("/traind.v1.Tokens/ListTokens", Role::Admin),
    ("/traind.v1.Tokens/RevokeToken", Role::Admin),
    ("/grpc.health.v1.Health/Check", Role::Viewer),
    ("/grpc.health.v1.Health/Watch", Role::Viewer),
    ("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", Role::Viewer),
];

/// The access file, or the rules that apply without one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Access {
    /// Role of users who are not listed; without it they have none.
    default_role: Option<Role>,
    #[serde(default)]
    users: BTreeMap<String, Role>,
    /// Maps callers from the network to the accounts of this host that run their jobs.
    #[serde(default)]
    accounts: BTreeMap<String, String>,
    /// Account for callers from the network who are not listed; without it they start nothing where
    /// jobs run as their submitters.
    default_account: Option<String>,
    #[serde(default)]
    groups: BTreeMap<String, Group>,
    /// Group of users that no group lists.
    default_group: Option<String>,
    fair_shares: Option<FairShares>,
    /// The three keys above, once they are checked.
    #[serde(skip)]
    sharing: Arc<Sharing>,
}

#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    #[error("read the access file {path}: {source}", path = .path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("the access file {path}: {detail}", path = .path.display())]
    Parse { path: PathBuf, detail: String },
    #[error("the access file {path}: this host has no user {name}", path = .path.display())]
    NoAccount { path: PathBuf, name: String },
    #[error("look up the user {name}: {source}")]
    LookUp { name: String, source: io::Error },
}

impl Access {
    pub(crate) fn load(path: &Path) -> Result<Access, AccessError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| AccessError::Read { path: path.to_owned(), source })?;
        let access = Access::parse(&text)
            .map_err(|detail| AccessError::Parse { path: path.to_owned(), detail })?;
        for name in access.accounts.values().chain(&access.default_account) {
            if look_up(name)?.is_none() {
                return Err(AccessError::NoAccount { path: path.to_owned(), name: name.clone() });
            }
        }
        Ok(access)
    }

    /// Reads the text of an access file. Accounts are not looked up.
    pub(crate) fn parse(text: &str) -> Result<Access, String> {
        let mut access: Access = serde_saphyr::from_str(text).map_err(|error| error.to_string())?;
        let groups = std::mem::take(&mut access.groups);
        let sharing = Sharing::new(groups, access.default_group.as_deref(), access.fair_shares)?;
        access.sharing = Arc::new(sharing);
        Ok(access)
    }

    /// The groups of users, with their limits and shares.
    pub(crate) fn sharing(&self) -> Arc<Sharing> {
        self.sharing.clone()
    }

    /// Whether callers from the network may lack an account.
    pub(crate) fn leaves_callers_without_account(&self) -> bool {
        self.default_account.is_none()
    }

    /// Returns the account that runs the jobs of a caller from the network, if the file gives one.
    pub(crate) fn account_of(&self, user: &str) -> Result<Option<Account>, AccessError> {
        let name = self.accounts.get(user).or(self.default_account.as_ref());
        name.map_or(Ok(None), |name| look_up(name))
    }

    /// The rules without an access file: `admins` are admins, all others may submit.
    pub(crate) fn open(admins: impl IntoIterator<Item = String>) -> Access {
        let users = admins.into_iter().map(|user| (user, Role::Admin)).collect();
        Access { default_role: Some(Role::Submitter), users, ..Access::default() }
    }

    /// Checks that `user`, whose role is capped at `role_max`, may make the call with this path.
    pub(crate) fn admit(
        &self,
        user: String,
        role_max: Option<Role>,
        path: &str,
    ) -> Result<Caller, Denied> {
        let required = required(path);
        let role = self.users.get(&user).copied().or(self.default_role);
        match role.map(|role| role_max.map_or(role, |role_max| role.min(role_max))) {
            Some(role) if role >= required => Ok(Caller::new(user, role)),
            role => Err(Denied { user, role, required }),
        }
    }

    /// Refuses a caller who was admitted to the call, but has since lost that role.
    pub(crate) fn still_admits(&self, caller: &Caller, path: &str) -> Result<(), Denied> {
        let Caller { user, role: required, .. } = caller;
        let now = self.admit(user.clone(), Some(*required), path)?;
        if now.role == *required {
            return Ok(());
        }
        Err(Denied { user: user.clone(), role: Some(now.role), required: *required })
    }
}

fn look_up(name: &str) -> Result<Option<Account>, AccessError> {
    Account::named(name).map_err(|source| AccessError::LookUp { name: name.to_owned(), source })
}

fn required(path: &str) -> Role {
    let known = REQUIRED.iter().find(|(known, _)| *known == path);
    known.map_or(Role::Admin, |(_, role)| *role)
}

/// A user who was admitted to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Caller {
    pub user: String,
    role: Role,
    /// The account that runs their jobs; `None` for the daemon's own.
    pub account: Option<Account>,
    /// Id of the token that identified them, if one did.
    pub token: Option<String>,
    /// Whether calls may start processes for them. One without an account would start them as the daemon.
    pub may_start: bool,
}

impl Caller {
    fn new(user: String, role: Role) -> Caller {
        Caller { user, role, account: None, token: None, may_start: true }
    }

    /// The role that admitted the caller: the user's own, capped by the token.
    pub(crate) fn role(&self) -> Role {
        self.role
    }

    #[cfg(test)]
    pub(crate) fn example() -> Caller {
        Caller::new("ann".into(), Role::Submitter)
    }

    /// The user whose jobs the caller sees; `None` for all users.
    pub(crate) fn scope(&self) -> Option<String> {
        (self.role < Role::Admin).then(|| self.user.clone())
    }
}

/// Refusal of a call that the user's role does not permit.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("this requires the role {required}, and {user} {}", .role.map_or("has none".to_owned(), |role| format!("is {role}")))]
pub struct Denied {
    user: String,
    role: Option<Role>,
    required: Role,
}

impl Role {
    pub(crate) const ALL: [Role; 3] = [Role::Viewer, Role::Submitter, Role::Admin];

    fn name(self) -> &'static str {
        match self {
            Role::Viewer => "viewer",
            Role::Submitter => "submitter",
            Role::Admin => "admin",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that is no role.
#[derive(Debug, thiserror::Error)]
#[error("unknown role {0:?}")]
pub(crate) struct UnknownRole(String);

impl FromStr for Role {
    type Err = UnknownRole;

    fn from_str(name: &str) -> Result<Role, UnknownRole> {
        let found = Role::ALL.into_iter().find(|role| role.name() == name);
        found.ok_or_else(|| UnknownRole(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use prost::Message;
    use prost_types::FileDescriptorSet;

    use super::*;

    /// Paths of all methods of all services except the runner's.
    fn served() -> BTreeSet<String> {
        let ours = FileDescriptorSet::decode(traind_proto::FILE_DESCRIPTOR_SET).unwrap();
        let health = FileDescriptorSet::decode(tonic_health::pb::FILE_DESCRIPTOR_SET).unwrap();
        let mut paths = BTreeSet::new();
        for file in ours.file.into_iter().chain(health.file) {
            for service in file.service.iter().filter(|service| service.name() != "Runner") {
                let service_name = format!("{}.{}", file.package(), service.name());
                paths
                    .extend(service.method.iter().map(|m| format!("/{service_name}/{}", m.name())));
            }
        }
        paths
    }

    #[test]
    fn every_call_has_a_required_role() {
        let listed: BTreeSet<String> =
            REQUIRED.iter().map(|(path, _)| (*path).to_owned()).collect();
        assert_eq!(listed.len(), REQUIRED.len(), "none twice");
        let described = served();
        let missing: Vec<_> = described.difference(&listed).collect();
        assert!(missing.is_empty(), "without a role: {missing:?}");
        let unknown: Vec<_> =
            listed.difference(&described).filter(|path| !path.contains("reflection")).collect();
        assert!(unknown.is_empty(), "no such call: {unknown:?}");
    }

    /// The role that the schema documents for each call: the line "Role: viewer." of its comment.
    fn declared() -> BTreeMap<String, String> {
        let files = FileDescriptorSet::decode(traind_proto::FILE_DESCRIPTOR_SET).unwrap().file;
        let mut declared = BTreeMap::new();
        for file in files.into_iter().filter(|file| file.package() == "traind.v1") {
            let locations = &file.source_code_info.as_ref().unwrap().location;
            for location in locations.iter().filter(|l| matches!(l.path[..], [6, _, 2, _])) {
                let service = &file.service[location.path[1] as usize];
                let method = &service.method[location.path[3] as usize];
                let comment = location.leading_comments();
                let role = comment.lines().find_map(|line| line.trim().strip_prefix("Role: "));
                let path = format!("/{}.{}/{}", file.package(), service.name(), method.name());
                if let Some(role) = role {
                    declared.insert(path, role.trim_end_matches('.').to_owned());
                }
            }
        }
        declared
    }

    #[test]
    fn required_roles_match_the_schema() {
        let own = REQUIRED.iter().filter(|(path, _)| path.starts_with("/traind."));
        let own: BTreeMap<_, _> =
            own.map(|(path, role)| ((*path).to_owned(), role.to_string())).collect();
        assert_eq!(own, declared());
    }

    #[test]
    fn a_token_caps_its_users_role() {
        let access = Access::open(["ann".to_owned()]);
        let drain = "/traind.v1.Admin/Drain";
        let admit = |role_max| access.admit("ann".to_owned(), role_max, drain).is_ok();
        assert!(admit(None) && admit(Some(Role::Admin)) && !admit(Some(Role::Submitter)));
        let create = "/traind.v1.Jobs/CreateJob";
        let bob = access.admit("bob".to_owned(), Some(Role::Admin), drain);
        assert!(bob.is_err(), "a token does not raise the user's role");
        assert!(access.admit("bob".to_owned(), Some(Role::Admin), create).is_ok());
    }

    #[test]
    fn an_unlisted_call_requires_admin() {
        assert_eq!(required("/traind.v1.Jobs/DeleteEverything"), Role::Admin);
    }

    fn check(yaml: &str, user: &str, path: &str, expect: Result<Option<&str>, &str>) {
        let access: Access = serde_saphyr::from_str(yaml).unwrap();
        let admitted = access.admit(user.to_owned(), None, path);
        let seen = admitted.map(|caller| caller.scope()).map_err(|denied| denied.to_string());
        assert_eq!(seen, expect.map(|s| s.map(str::to_owned)).map_err(str::to_owned));
    }

    #[test]
    fn the_access_file_decides() {
        let yaml = "default_role: viewer\nusers: {ann: admin, bob: submitter}\n";
        let (create, drain) = ("/traind.v1.Jobs/CreateJob", "/traind.v1.Admin/Drain");
        check(yaml, "ann", drain, Ok(None));
        check(yaml, "bob", create, Ok(Some("bob")));
        check(yaml, "bob", drain, Err("this requires the role admin, and bob is submitter"));
        check(yaml, "eve", create, Err("this requires the role submitter, and eve is viewer"));
        let closed = "users: {ann: admin}\n";
        let list = "/traind.v1.Jobs/ListJobs";
        check(closed, "eve", list, Err("this requires the role viewer, and eve has none"));
    }

    #[test]
    fn a_misspelt_role_or_key_is_refused() {
        for yaml in ["users: {ann: root}", "user: {ann: admin}"] {
            assert!(serde_saphyr::from_str::<Access>(yaml).is_err(), "{yaml}");
        }
    }
}
