//! Who may do what: a role for every user, and the role that every call takes.
//!
//! Whoever can open the socket has a name, which the kernel vouches for; on the network a
//! client certificate or a token gives one. A user sees and
//! ends their own jobs alone, an admin everybody's. That a core is taken, and by which job,
//! is shown to all who may look: sharing a machine takes that much.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::Deserialize;

use crate::access::account::Account;

/// Each may do all that those before may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Role {
    /// Looks at cores, plugins and own jobs.
    Viewer,
    /// Submits jobs and cancels own ones.
    Submitter,
    /// Sees and cancels all jobs, drains the daemon and hands out tokens.
    Admin,
}

/// The role that each call takes. One that is missing here is for admins.
pub(crate) const REQUIRED: &[(&str, Role)] = &[
    ("/traind.v1.Jobs/CreateJob", Role::Submitter),
    ("/traind.v1.Jobs/PlanJob", Role::Submitter),
    ("/traind.v1.Jobs/GetJob", Role::Viewer),
    ("/traind.v1.Jobs/ListJobs", Role::Viewer),
    ("/traind.v1.Jobs/WatchJob", Role::Viewer),
    ("/traind.v1.Jobs/CancelJob", Role::Submitter),
    ("/traind.v1.Jobs/GetSamples", Role::Viewer),
    ("/traind.v1.Cores/ListCores", Role::Viewer),
    ("/traind.v1.Cores/WatchCores", Role::Viewer),
    ("/traind.v1.Plugins/ListPlugins", Role::Viewer),
    ("/traind.v1.Web/CreateLogin", Role::Viewer),
    ("/traind.v1.Admin/Drain", Role::Admin),
    ("/traind.v1.Tokens/CreateToken", Role::Admin),
    ("/traind.v1.Tokens/ListTokens", Role::Admin),
    ("/traind.v1.Tokens/RevokeToken", Role::Admin),
    ("/grpc.health.v1.Health/Check", Role::Viewer),
    ("/grpc.health.v1.Health/Watch", Role::Viewer),
    ("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", Role::Viewer),
];

/// The access file, or what holds without one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Access {
    /// Of users who are not named; without it they may do nothing.
    default_role: Option<Role>,
    #[serde(default)]
    users: BTreeMap<String, Role>,
    /// Users of this host whose jobs those of callers from the network are.
    #[serde(default)]
    accounts: BTreeMap<String, String>,
    /// Of callers from the network who are not named there; without it the daemon's own.
    default_account: Option<String>,
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
        let access: Access = serde_saphyr::from_str(&text).map_err(|error| AccessError::Parse {
            path: path.to_owned(),
            detail: error.to_string(),
        })?;
        for name in access.accounts.values().chain(&access.default_account) {
            if account(name)?.is_none() {
                return Err(AccessError::NoAccount { path: path.to_owned(), name: name.clone() });
            }
        }
        Ok(access)
    }

    /// Whether callers from the network may have no account of this host.
    pub(crate) fn leaves_strangers(&self) -> bool {
        self.default_account.is_none()
    }

    /// The account of this host that jobs of a caller from the network belong to, if the file
    /// gives one.
    pub(crate) fn account_of(&self, user: &str) -> Result<Option<Account>, AccessError> {
        let name = self.accounts.get(user).or(self.default_account.as_ref());
        name.map_or(Ok(None), |name| account(name))
    }

    /// Without an access file: `admins` are admins, everybody else submits.
    pub(crate) fn open(admins: impl IntoIterator<Item = String>) -> Access {
        let users = admins.into_iter().map(|user| (user, Role::Admin)).collect();
        Access { default_role: Some(Role::Submitter), users, ..Access::default() }
    }

    /// Whether `user`, who may do no more than `role_max`, may make the call with this path.
    pub(crate) fn admit(
        &self,
        user: String,
        role_max: Option<Role>,
        path: &str,
    ) -> Result<Caller, Denied> {
        let required = required(path);
        let role = self.users.get(&user).copied().or(self.default_role);
        match role.map(|role| role_max.map_or(role, |most| role.min(most))) {
            Some(role) if role >= required => Ok(Caller { user, role, account: None, token: None }),
            role => Err(Denied { user, role, required }),
        }
    }

    /// Refuses a caller who was admitted to the call and would not be now, or as less.
    pub(crate) fn still_admits(&self, caller: &Caller, path: &str) -> Result<(), Denied> {
        let Caller { user, role: required, .. } = caller;
        let now = self.admit(user.clone(), Some(*required), path)?;
        if now.role == *required {
            return Ok(());
        }
        Err(Denied { user: user.clone(), role: Some(now.role), required: *required })
    }
}

fn account(name: &str) -> Result<Option<Account>, AccessError> {
    let error = |source| AccessError::LookUp { name: name.to_owned(), source };
    Account::named(name).map_err(error)
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
    /// Whose processes their jobs are, unless the daemon's own.
    pub account: Option<Account>,
    /// Id of the token that says who they are, if one does.
    pub token: Option<String>,
}

impl Caller {
    /// What this caller may do at most, whatever the access file says of the user.
    pub(crate) fn role(&self) -> Role {
        self.role
    }

    #[cfg(test)]
    pub(crate) fn example() -> Caller {
        Caller { user: "ann".into(), role: Role::Submitter, account: None, token: None }
    }

    /// Whose jobs are in sight: those of one user, or all.
    pub(crate) fn scope(&self) -> Option<String> {
        (self.role < Role::Admin).then(|| self.user.clone())
    }
}

/// A call that a user may not make.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("this takes the role {required}, and {user} {}", .role.map_or("has none".to_owned(), |role| format!("is {role}")))]
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

    /// Paths of all methods of all services but the runner's own.
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
    fn every_call_says_which_role_it_takes() {
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

    /// What the schema says of each call of ours: the line "Role: viewer." of its comment.
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
    fn calls_take_the_role_that_the_schema_says() {
        let own = REQUIRED.iter().filter(|(path, _)| path.starts_with("/traind."));
        let own: BTreeMap<_, _> =
            own.map(|(path, role)| ((*path).to_owned(), role.to_string())).collect();
        assert_eq!(own, declared());
    }

    #[test]
    fn a_token_may_do_no_more_than_it_was_made_for() {
        let access = Access::open(["ann".to_owned()]);
        let drain = "/traind.v1.Admin/Drain";
        let admit = |most| access.admit("ann".to_owned(), most, drain).is_ok();
        assert!(admit(None) && admit(Some(Role::Admin)) && !admit(Some(Role::Submitter)));
        let create = "/traind.v1.Jobs/CreateJob";
        let bob = access.admit("bob".to_owned(), Some(Role::Admin), drain);
        assert!(bob.is_err(), "no more than the user either");
        assert!(access.admit("bob".to_owned(), Some(Role::Admin), create).is_ok());
    }

    #[test]
    fn a_call_that_nobody_thought_of_is_for_admins() {
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
        check(yaml, "bob", drain, Err("this takes the role admin, and bob is submitter"));
        check(yaml, "eve", create, Err("this takes the role submitter, and eve is viewer"));
        let closed = "users: {ann: admin}\n";
        let list = "/traind.v1.Jobs/ListJobs";
        check(closed, "eve", list, Err("this takes the role viewer, and eve has none"));
    }

    #[test]
    fn a_misspelt_role_or_key_is_refused() {
        for yaml in ["users: {ann: root}", "user: {ann: admin}"] {
            assert!(serde_saphyr::from_str::<Access>(yaml).is_err(), "{yaml}");
        }
    }
}
