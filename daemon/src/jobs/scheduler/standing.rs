//! The standing of groups and users: what they have used of late and hold now, compared with their
//! shares.

use std::collections::HashMap;

use traind_wording::counted;

use super::{Active, Pending, Rules};
use crate::percent::percent;

/// The seconds for which cores that a job holds count in advance. It keeps the jobs of one group from
/// taking all free cores at once.
const ADVANCE_SECONDS: f64 = 600.0;

/// The standing of all groups, and of all users who have jobs.
#[derive(Clone, Debug, Default)]
pub(super) struct Standing {
    users: Vec<User>,
    numbers: HashMap<String, usize>,
    /// The groups by their numbers; the last one is of users of no group. Empty without fair shares.
    groups: Vec<Group>,
    total_cores: usize,
    preempts: bool,
    /// The shortest loan, in microseconds.
    loan: i64,
}

#[derive(Clone, Debug)]
struct User {
    group: usize,
    core_seconds: f64,
}

#[derive(Clone, Debug, Default)]
struct Group {
    /// Relative to the other groups; 0 for users of no group while there is none.
    share: f64,
    core_seconds: f64,
    /// Cores that are not being given up.
    held: usize,
}

impl Standing {
    pub(super) fn new(rules: Rules<'_>, active: &[Active]) -> Standing {
        let fair_shares = rules.sharing.and_then(|sharing| sharing.fair_shares);
        let Some((sharing, fair_shares)) = rules.sharing.zip(fair_shares) else {
            return Standing::default();
        };
        let shares = sharing.groups().iter().map(|group| f64::from(group.share.get()));
        let groups = shares.chain([0.0]).map(|share| Group { share, ..Group::default() });
        let mut standing = Standing {
            groups: groups.collect(),
            total_cores: rules.cores.len(),
            preempts: fair_shares.preempt,
            loan: i64::try_from(fair_shares.loan().as_micros()).unwrap_or(i64::MAX),
            ..Standing::default()
        };
        for job in active {
            let user = standing.user(rules, &job.owner);
            let group = standing.users[user].group;
            if !job.stopping {
                standing.groups[group].held += job.cores.len();
            }
            standing.charge(user, job.cores.len());
        }
        // Users without a job count in their groups.
        for owner in rules.usage.into_iter().flat_map(|usage| usage.keys()) {
            standing.user(rules, owner);
        }
        standing
    }

    pub(super) fn is_fair(&self) -> bool {
        !self.groups.is_empty()
    }

    /// Returns the number of a user, who is noted on first sight.
    pub(super) fn user(&mut self, rules: Rules<'_>, owner: &str) -> usize {
        if let Some(number) = self.numbers.get(owner) {
            return *number;
        }
        let no_group = self.groups.len() - 1;
        let group = rules.group_of(owner).unwrap_or(no_group);
        let core_seconds = rules.usage.and_then(|usage| usage.get(owner)).copied();
        let core_seconds = core_seconds.unwrap_or_default();
        if group == no_group {
            self.groups[group].share = 1.0;
        }
        self.groups[group].core_seconds += core_seconds;
        self.users.push(User { group, core_seconds });
        self.numbers.insert(owner.to_owned(), self.users.len() - 1);
        self.users.len() - 1
    }

    pub(super) fn group_of(&self, user: usize) -> usize {
        self.users[user].group
    }

    /// Counts the cores of a job that comes next or runs.
    fn charge(&mut self, user: usize, cores: usize) {
        let core_seconds = cores as f64 * ADVANCE_SECONDS;
        let User { group, core_seconds: of_user } = &mut self.users[user];
        *of_user += core_seconds;
        self.groups[*group].core_seconds += core_seconds;
    }

    /// Counts a waiting job that was considered, and its cores as held if it starts.
    pub(super) fn consider(&mut self, job: &Pending, starts: bool) {
        let Some(user) = self.numbers.get(&job.owner).copied() else { return };
        self.charge(user, job.cores as usize);
        if starts {
            self.groups[self.users[user].group].held += job.cores as usize;
        }
    }

    /// The core time of a user in a group, whose users have equal shares.
    pub(super) fn level_of_user(&self, user: usize) -> f64 {
        self.users[user].core_seconds
    }

    /// The core time of a group for each part of its share.
    pub(super) fn level_of_group(&self, group: usize) -> f64 {
        let Group { share, core_seconds, .. } = &self.groups[group];
        core_seconds / share.max(f64::MIN_POSITIVE)
    }

    fn group_of_owner(&self, owner: &str) -> Option<usize> {
        self.numbers.get(owner).map(|user| self.users[*user].group)
    }

    /// The cores that a group has a right to while all others use theirs, at least one.
    fn due(&self, group: usize) -> usize {
        let all: f64 = self.groups.iter().map(|group| group.share).sum();
        due_cores(self.groups[group].share, all, self.total_cores)
    }

    /// The share, the use of late and the held cores of a job's group, in words.
    pub(super) fn describe(&self, rules: Rules<'_>, owner: &str) -> Option<String> {
        let number = self.group_of_owner(owner)?;
        let all: f64 = self.groups.iter().map(|group| group.share).sum();
        let used: f64 = self.groups.iter().map(|group| group.core_seconds).sum();
        let percent = |part: f64, whole: f64| percent(part, whole).round();
        let Group { share, core_seconds, .. } = &self.groups[number];
        Some(format!(
            "{} has had {} % of the core time of late, and its share is {} %",
            group_name(rules, number),
            percent(*core_seconds, used),
            percent(*share, all)
        ))
    }

    pub(super) fn lenders(&self, head: &Pending) -> Option<Loans> {
        let group = self.group_of_owner(&head.owner).filter(|_| self.preempts)?;
        let (held, due) = (self.groups[group].held, self.due(group));
        let surplus = |number: usize| self.groups[number].held.saturating_sub(self.due(number));
        let surplus = (0..self.groups.len()).map(surplus).collect();
        (held + head.cores as usize <= due).then_some(Loans { group, due, surplus })
    }

    /// Whether the cores of `job` are on loan to its group, whose surplus then shrinks. A loan lasts for some time:
    /// otherwise small jobs, one after the other, would end a large one whenever it has begun.
    pub(super) fn gives_back(&self, loans: &mut Loans, job: &Active, now: i64) -> bool {
        let Some(group) = self.group_of_owner(&job.owner) else { return false };
        let is_recent = now.saturating_sub(job.since) < self.loan;
        if group == loans.group || loans.surplus[group] == 0 || is_recent {
            return false;
        }
        loans.surplus[group] = loans.surplus[group].saturating_sub(job.cores.len());
        true
    }
}

/// Cores on loan that a group demands back.
pub(super) struct Loans {
    /// The group that demands them.
    group: usize,
    /// The cores that it has a right to.
    due: usize,
    /// Cores of each group beyond those that it has a right to.
    surplus: Vec<usize>,
}

impl Loans {
    /// The reason for which a job gives back its cores to `head`.
    pub(super) fn reason(&self, rules: Rules<'_>, head: &Pending) -> String {
        let Loans { group, due, .. } = self;
        let group = group_name(rules, *group);
        let due = counted(due, "core");
        format!("returns borrowed cores to job {}: the share of {group} is {due}", head.id)
    }
}

/// The cores that `share` of `all` comes to, rounded up, at least one.
pub(crate) fn due_cores(share: f64, all: f64, total_cores: usize) -> usize {
    let cores = share / all * total_cores as f64;
    // A rounding error must not add a core to a whole number.
    (cores - 1e-9).ceil().max(1.0) as usize
}

fn group_name(rules: Rules<'_>, number: usize) -> String {
    let group = rules.sharing.and_then(|sharing| sharing.groups().get(number));
    group.map_or_else(|| "users of no group".to_owned(), |group| format!("group {}", group.name))
}
