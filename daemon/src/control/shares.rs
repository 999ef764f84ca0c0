//! The shares of groups and users: what each may use of the host, has used of late and holds now.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use traind_proto::v1::{GroupShare, ListSharesResponse, UserShare};

use super::daemon::Daemon;
use super::dispatch::usage;
use super::error::Error;
use crate::access::sharing::{Group, Sharing};
use crate::jobs::scheduler::due_cores;
use crate::jobs::state::JobState;
use crate::jobs::store::{Job, Store, StoreError};
use crate::percent::percent;

impl Daemon {
    /// The shares of all groups, with the users whom a caller with this scope may see.
    pub(crate) async fn shares(&self, scope: Option<String>) -> Result<ListSharesResponse, Error> {
        let sharing = self.settings.access.now().sharing();
        let cores = self.settings.host.cores.len().saturating_sub(self.fences.cores().len());
        let read = move |store: &Store| shares(store, &sharing, cores, scope.as_deref());
        Ok(self.store.run(read).await?)
    }
}

fn shares(
    store: &Store,
    sharing: &Sharing,
    cores: usize,
    scope: Option<&str>,
) -> Result<ListSharesResponse, StoreError> {
    let mut jobs = store.unfinished()?;
    jobs.retain(|job| !job.is_elsewhere());
    let usage = usage(store, sharing, &jobs, store.moment())?;
    let users = users(&jobs, usage.as_ref());
    let is_fair = usage.is_some();
    Ok(ListSharesResponse {
        groups: groups(sharing, users, is_fair.then_some(cores), scope),
        cores: cores as u32,
        half_life_hours: sharing.fair_shares.map_or(0, |it| it.half_life_hours()),
    })
}

/// All users who have jobs or have used cores, by name.
fn users(jobs: &[Arc<Job>], usage: Option<&HashMap<String, f64>>) -> BTreeMap<String, UserShare> {
    let mut users: BTreeMap<String, UserShare> = BTreeMap::new();
    let named = |name: &str| UserShare { name: name.to_owned(), ..UserShare::default() };
    for (user, core_seconds) in usage.into_iter().flatten() {
        users.entry(user.clone()).or_insert_with(|| named(user)).usage_core_seconds = *core_seconds;
    }
    for job in jobs {
        let user = users.entry(job.owner.clone()).or_insert_with(|| named(&job.owner));
        match job.state {
            JobState::Pending => user.waiting_jobs += 1,
            _ => {
                user.running_jobs += 1;
                user.held_cores += job.cores.len() as u32;
            }
        }
    }
    users
}

/// `fair_cores`: the cores that are shared fairly, if any are.
fn groups(
    sharing: &Sharing,
    users: BTreeMap<String, UserShare>,
    fair_cores: Option<usize>,
    scope: Option<&str>,
) -> Vec<GroupShare> {
    let no_group = sharing.groups().len();
    let mut members: BTreeMap<usize, Vec<UserShare>> =
        (0..no_group).map(|it| (it, Vec::new())).collect();
    for (name, user) in users {
        members.entry(sharing.number_of(&name).unwrap_or(no_group)).or_default().push(user);
    }
    let of_group = |(number, users)| group_share(sharing.groups().get(number), users);
    let mut groups: Vec<GroupShare> = members.into_iter().map(of_group).collect();
    match fair_cores {
        Some(cores) => compare(&mut groups, cores),
        None => groups.iter_mut().for_each(|group| group.share = 0),
    }
    for group in &mut groups {
        group.users.retain(|user| scope.is_none_or(|scope| scope == user.name));
    }
    groups
}

/// The share and the limits of a group, and the sums of its users.
fn group_share(group: Option<&Group>, mut users: Vec<UserShare>) -> GroupShare {
    let usage: f64 = users.iter().map(|user| user.usage_core_seconds).sum();
    for user in &mut users {
        user.usage_percent = percent(user.usage_core_seconds, usage);
    }
    let sum = |count: fn(&UserShare) -> u32| users.iter().map(count).sum();
    let limits = group.map(|group| &group.limits);
    GroupShare {
        name: group.map(|group| group.name.clone()).unwrap_or_default(),
        share: group.map_or(1, |group| group.share.get()),
        usage_core_seconds: usage,
        held_cores: sum(|user| user.held_cores),
        running_jobs: sum(|user| user.running_jobs),
        waiting_jobs: sum(|user| user.waiting_jobs),
        cores_max: limits.and_then(|limits| limits.cores),
        running_jobs_max: limits.and_then(|limits| limits.running_jobs),
        waiting_jobs_max: limits.and_then(|limits| limits.queued_jobs),
        users,
        ..GroupShare::default()
    }
}

/// Compares the groups with their shares of so many cores.
fn compare(groups: &mut [GroupShare], cores: usize) {
    let shares: f64 = groups.iter().map(|group| f64::from(group.share)).sum();
    let usage: f64 = groups.iter().map(|group| group.usage_core_seconds).sum();
    for group in groups {
        let share = f64::from(group.share);
        group.share_percent = percent(share, shares);
        group.usage_percent = percent(group.usage_core_seconds, usage);
        let due = due_cores(share, shares, cores) as u32;
        // A limit is all that a group can have of its share.
        group.due_cores = group.cores_max.map_or(due, |most| due.min(most));
        group.borrowed_cores = group.held_cores.saturating_sub(group.due_cores);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::state::Outcome;
    use crate::jobs::store::NewJob;

    const GROUPS: &str = "groups:\n  vision: {members: [ann, bob], share: 3, limits: {cores: 6}}\n  \
                          speech: {members: [cleo]}\n";

    /// Ann holds three cores and has one job more, cleo holds two and dave, of no group, one.
    fn store() -> (tempfile::TempDir, Store) {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("traind.db")).unwrap();
        let jobs: [(&str, &str, &[u32]); 5] = [
            ("ended", "bob", &[7]),
            ("a", "ann", &[0, 1, 2]),
            ("b", "ann", &[]),
            ("c", "cleo", &[3, 4]),
            ("d", "dave", &[5]),
        ];
        for (id, owner, cores) in jobs {
            let (id, owner, output_dir) = (id.to_owned(), owner.to_owned(), format!("/out/{id}"));
            store
                .create(&NewJob { id: id.clone(), owner, output_dir, ..NewJob::default() })
                .unwrap();
            if !cores.is_empty() {
                store.place(&id, cores).unwrap();
            }
        }
        store.settle("ended", Outcome::Completed, None).unwrap();
        (folder, store)
    }

    #[test]
    fn groups_are_compared_with_their_shares() {
        let (_folder, store) = store();
        let sharing = Sharing::example(&format!("{GROUPS}fair_shares: {{half_life_hours: 12}}"));
        let found = shares(&store, &sharing, 5, None).unwrap();
        assert_eq!((found.cores, found.half_life_hours), (5, 12));
        let names: Vec<&str> = found.groups.iter().map(|group| group.name.as_str()).collect();
        assert_eq!(names, ["speech", "vision", ""]);
        let [speech, vision, others] = &found.groups[..] else { panic!("{found:?}") };
        assert_eq!((vision.share, vision.share_percent), (3, 60.0));
        assert_eq!((vision.due_cores, vision.held_cores, vision.borrowed_cores), (3, 3, 0));
        assert_eq!((vision.running_jobs, vision.waiting_jobs, vision.cores_max), (1, 1, Some(6)));
        assert_eq!((speech.due_cores, speech.held_cores, speech.borrowed_cores), (1, 2, 1));
        assert_eq!((others.share_percent, others.held_cores), (20.0, 1));
        let limited =
            Sharing::example(&format!("{GROUPS}fair_shares: {{}}").replace("cores: 6", "cores: 2"));
        let found = shares(&store, &limited, 5, None).unwrap();
        assert_eq!((found.groups[1].due_cores, found.groups[1].borrowed_cores), (2, 1));
        let users: Vec<&str> = vision.users.iter().map(|user| user.name.as_str()).collect();
        assert_eq!(users, ["ann", "bob"], "bob has used a core");
        let parts: f64 = vision.users.iter().map(|user| user.usage_percent).sum();
        assert!((parts - 100.0).abs() < 1e-9, "{vision:?}");
        let all: f64 = found.groups.iter().map(|group| group.usage_percent).sum();
        assert!((all - 100.0).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn a_user_sees_all_groups_and_no_other_user() {
        let (_folder, store) = store();
        let sharing = Sharing::example(&format!("{GROUPS}fair_shares: {{}}"));
        let all = shares(&store, &sharing, 8, None).unwrap();
        let own = shares(&store, &sharing, 8, Some("cleo")).unwrap();
        let users: Vec<&str> =
            own.groups.iter().flat_map(|it| &it.users).map(|user| user.name.as_str()).collect();
        assert_eq!(users, ["cleo"]);
        let held = |found: &ListSharesResponse| -> Vec<u32> {
            found.groups.iter().map(|group| group.held_cores).collect()
        };
        assert_eq!(held(&own), held(&all));
    }

    #[test]
    fn without_fair_shares_there_are_no_shares() {
        let (_folder, store) = store();
        let found = shares(&store, &Sharing::example(GROUPS), 8, None).unwrap();
        let vision = &found.groups[1];
        assert_eq!((found.half_life_hours, vision.share, vision.share_percent), (0, 0, 0.0));
        assert_eq!((vision.due_cores, vision.borrowed_cores), (0, 0));
        assert_eq!((vision.held_cores, vision.waiting_jobs), (3, 1));
    }
}
