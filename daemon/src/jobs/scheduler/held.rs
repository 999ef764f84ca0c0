//! Cores and jobs that users and groups hold, compared with their limits.

use std::collections::HashMap;

use super::{Active, Pending, Reason, Rules, reason};

/// The cores and jobs of users and groups.
#[derive(Clone, Debug, Default)]
pub(super) struct Held {
    cores_of_user: HashMap<String, usize>,
    of_group: HashMap<usize, OfGroup>,
}

#[derive(Clone, Copy, Debug, Default)]
struct OfGroup {
    cores: usize,
    jobs: usize,
}

impl Held {
    pub(super) fn by<'a>(rules: Rules<'_>, active: impl IntoIterator<Item = &'a Active>) -> Held {
        let mut held = Held::default();
        active.into_iter().for_each(|job| held.add(rules, job));
        held
    }

    pub(super) fn add(&mut self, rules: Rules<'_>, job: &Active) {
        // Without limits there is nothing to compare.
        if rules.cores_per_user.is_some() {
            *self.cores_of_user.entry(job.owner.clone()).or_default() += job.cores.len();
        }
        if let Some(number) = rules.group_of(&job.owner) {
            let group = self.of_group.entry(number).or_default();
            group.cores += job.cores.len();
            group.jobs += 1;
        }
    }

    /// Explains why a job exceeds the host, or a limit of its user or group; `None` if it does not.
    pub(super) fn objection(&self, rules: Rules<'_>, job: &Pending) -> Option<Reason> {
        let total = rules.cores.len();
        if job.cores as usize > total {
            return Some(reason::too_wide(rules, job));
        }
        self.objection_of_user(rules, job).or_else(|| self.objection_of_group(rules, job))
    }

    fn objection_of_user(&self, rules: Rules<'_>, job: &Pending) -> Option<Reason> {
        let limit = rules.cores_per_user? as usize;
        let held = self.cores_of_user.get(&job.owner).copied().unwrap_or_default();
        (held + job.cores as usize > limit).then(|| reason::beyond_limit(job, held, limit))
    }

    fn objection_of_group(&self, rules: Rules<'_>, job: &Pending) -> Option<Reason> {
        let number = rules.group_of(&job.owner)?;
        let group = rules.sharing?.group(number);
        let held = self.of_group.get(&number).copied().unwrap_or_default();
        if let Some(limit) = group.limits.running_jobs
            && held.jobs >= limit as usize
        {
            return Some(reason::too_many_jobs(&group.name, held.jobs, limit));
        }
        let limit = group.limits.cores? as usize;
        let wanted = held.cores + job.cores as usize;
        (wanted > limit).then(|| reason::beyond_limit_of_group(job, &group.name, held.cores, limit))
    }
}
