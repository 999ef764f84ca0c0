//! Groups of users in the access file: their limits, and their fair shares of the cores.
//!
//! A user belongs to one group at most. Limits bound what a group has at one time; fair shares bound
//! nothing, but decide whose job comes next.

use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroU32;
use std::time::Duration;

use serde::Deserialize;

/// How users share this host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sharing {
    groups: Vec<Group>,
    by_user: HashMap<String, usize>,
    /// The group of users that no group lists.
    default_group: Option<usize>,
    pub fair_shares: Option<FairShares>,
}

/// A group, as in the access file.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Group {
    #[serde(skip)]
    pub name: String,
    #[serde(default)]
    members: Vec<String>,
    /// Share of the cores, relative to the shares of the other groups.
    #[serde(default = "one")]
    pub share: NonZeroU32,
    #[serde(default)]
    pub limits: GroupLimits,
}

/// Limits of a group; what is not set is not limited.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GroupLimits {
    /// The most cores that its jobs hold at a time.
    pub cores: Option<u32>,
    /// The most of its jobs that hold cores at a time.
    pub running_jobs: Option<u32>,
    /// The most of its jobs that wait at a time.
    pub queued_jobs: Option<u32>,
    /// The most disk space of its jobs' folders, in GiB.
    pub disk_gib: Option<u32>,
    /// The most space of each member's own cache, in GiB.
    pub cache_gib: Option<u32>,
    /// Highest priority of its jobs.
    pub priority_max: Option<i64>,
}

/// Settings of the fair shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FairShares {
    /// Time after which core time counts half.
    #[serde(default = "a_day")]
    half_life_hours: NonZeroU32,
    /// Whether jobs on cores that another group lent are preempted when that group needs them.
    #[serde(default = "yes")]
    pub preempt: bool,
    /// The shortest time for which a job keeps cores that another group lent.
    #[serde(default = "five")]
    loan_minutes: u32,
}

impl FairShares {
    pub(crate) fn half_life_hours(self) -> u32 {
        self.half_life_hours.get()
    }

    pub(crate) fn half_life(self) -> Duration {
        Duration::from_secs(u64::from(self.half_life_hours()) * 3600)
    }

    pub(crate) fn loan(self) -> Duration {
        Duration::from_secs(u64::from(self.loan_minutes) * 60)
    }
}

fn one() -> NonZeroU32 {
    NonZeroU32::MIN
}

fn a_day() -> NonZeroU32 {
    NonZeroU32::MIN.saturating_add(23)
}

fn yes() -> bool {
    true
}

fn five() -> u32 {
    5
}

impl Sharing {
    /// Checks the groups of an access file. An error says which key is wrong.
    pub(super) fn new(
        groups: BTreeMap<String, Group>,
        default_group: Option<&str>,
        fair_shares: Option<FairShares>,
    ) -> Result<Sharing, String> {
        let mut by_user = HashMap::new();
        let named = |(name, group)| Group { name, ..group };
        let groups: Vec<Group> = groups.into_iter().map(named).collect();
        for (index, group) in groups.iter().enumerate() {
            for member in &group.members {
                let before: Option<usize> = by_user.insert(member.clone(), index);
                if let Some(before) = before.filter(|before| *before != index) {
                    let (first, second) = (&groups[before].name, &group.name);
                    return Err(format!(
                        "groups: {member} is a member of {first} and of {second}; a user belongs to \
                         one group"
                    ));
                }
            }
        }
        let find = |name: &str| groups.iter().position(|group| group.name == name);
        let default_group = match default_group {
            Some(name) => Some(find(name).ok_or_else(|| {
                format!("default_group: there is no group {name}; define it below groups")
            })?),
            None => None,
        };
        Ok(Sharing { groups, by_user, default_group, fair_shares })
    }

    /// The number of the user's group.
    pub(crate) fn number_of(&self, user: &str) -> Option<usize> {
        self.by_user.get(user).copied().or(self.default_group)
    }

    /// The group with this number.
    pub(crate) fn group(&self, number: usize) -> &Group {
        &self.groups[number]
    }

    /// The group of this user.
    pub(crate) fn group_of(&self, user: &str) -> Option<&Group> {
        self.number_of(user).map(|number| self.group(number))
    }

    /// Whether the user is of the group with this name.
    pub(crate) fn is_member(&self, user: &str, group: &str) -> bool {
        self.group_of(user).is_some_and(|it| it.name == group)
    }

    pub(crate) fn groups(&self) -> &[Group] {
        &self.groups
    }
}

#[cfg(test)]
impl Sharing {
    /// Reads the keys of an access file that are about sharing.
    pub(crate) fn example(yaml: &str) -> std::sync::Arc<Sharing> {
        crate::access::Access::parse(yaml).unwrap().sharing()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Access;

    #[test]
    fn users_belong_to_their_group_or_to_the_default_one() {
        let sharing = Sharing::example(
            "groups:\n  vision: {members: [ann], share: 3, limits: {cores: 8, priority_max: 0}}\n  \
             others: {}\ndefault_group: others\nfair_shares: {}\n",
        );
        let vision = sharing.group_of("ann").unwrap();
        assert_eq!((vision.name.as_str(), vision.share.get()), ("vision", 3));
        assert_eq!((vision.limits.cores, vision.limits.queued_jobs), (Some(8), None));
        assert_eq!(sharing.group_of("bob").unwrap().name, "others");
        let fair_shares = sharing.fair_shares.unwrap();
        assert_eq!(fair_shares.half_life(), Duration::from_secs(86_400));
        assert!(fair_shares.preempt);
        assert_eq!(fair_shares.loan(), Duration::from_secs(300));
        assert_eq!(Sharing::default().group_of("ann"), None);
    }

    fn check_refused(yaml: &str, words: &[&str]) {
        let error = Access::parse(yaml).unwrap_err();
        for word in words {
            assert!(error.contains(word), "{error} lacks {word}");
        }
    }

    #[test]
    fn mistakes_are_named() {
        check_refused(
            "groups: {a: {members: [ann]}, b: {members: [ann]}}",
            &["ann is a member of a and of b"],
        );
        check_refused("default_group: a", &["default_group", "no group a"]);
        check_refused("groups: {a: {share: 0}}", &["share"]);
        check_refused("groups: {a: {limits: {gpus: 1}}}", &["gpus"]);
        check_refused("fair_shares: {half_life_hours: 0}", &["half_life_hours"]);
    }
}
