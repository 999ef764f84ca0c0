//! Fair shares, over days of a simulated host.

use std::collections::HashMap;
use std::time::Duration;

use super::*;

const MINUTE: i64 = 60_000_000;
const HOUR: i64 = 60 * MINUTE;
/// Time between two runs of the scheduler. All jobs take a multiple of it.
const TICK: i64 = 5 * MINUTE;

fn pending(id: &str, owner: &str, cores: u32) -> Pending {
    let name = String::new();
    Pending { id: id.into(), name, owner: owner.into(), cores, priority: 0, max_run: None }
}

fn active(id: &str, owner: &str, cores: &[u32]) -> Active {
    Active { id: id.into(), owner: owner.into(), cores: cores.to_vec(), ..Active::default() }
}

fn lines(plan: &Plan) -> Vec<String> {
    let placed = plan.placements.iter().map(|p| format!("{} on {:?}", p.id, p.cores));
    let preempted = plan.preemptions.iter().map(|p| format!("{} {}", p.id, p.reason));
    let waiting = plan.waiting.iter().map(|w| format!("{} {}", w.id, w.reason.current));
    placed.chain(preempted).chain(waiting).collect()
}

const TWO_GROUPS: &str = "groups: {vision: {members: [ann, bob]}, speech: {members: [cleo]}}\n";

fn check(
    yaml: &str,
    used: &[(&str, f64)],
    running: &[Active],
    waiting: &[Pending],
    expect: &[&str],
) {
    let sharing = Sharing::example(yaml);
    let usage = used.iter().map(|(user, hours)| ((*user).to_owned(), hours * 3600.0)).collect();
    let rules = Rules {
        cores: &[0, 1, 2, 3],
        sharing: Some(&sharing),
        usage: Some(&usage),
        ..Rules::default()
    };
    assert_eq!(lines(&plan(rules, running, waiting, 0)), expect);
}

fn check_fair(used: &[(&str, f64)], running: &[Active], waiting: &[Pending], expect: &[&str]) {
    check(&format!("{TWO_GROUPS}fair_shares: {{}}"), used, running, waiting, expect);
}

#[test]
fn groups_alternate_and_so_do_their_users() {
    let waiting = [
        pending("a", "ann", 1),
        pending("b", "ann", 1),
        pending("c", "ann", 1),
        pending("d", "bob", 1),
        pending("e", "cleo", 1),
        pending("f", "cleo", 1),
    ];
    check_fair(
        &[],
        &[],
        &waiting,
        &[
            "a on [0]",
            "e on [1]",
            "d on [2]",
            "f on [3]",
            "b needs 1 core, 0 of 4 free: a uses 1, e uses 1, d uses 1, f uses 1",
            "c is behind job b, which needs 1 core; group vision has had 50 % of the core time of \
             late, and its share is 50 %",
        ],
    );
}

#[test]
fn the_group_that_used_less_of_its_share_comes_first_within_a_priority() {
    let urgent = Pending { priority: 1, ..pending("c", "ann", 1) };
    let waiting = [pending("a", "ann", 2), pending("b", "cleo", 2), urgent];
    check_fair(
        &[("bob", 5.0), ("cleo", 4.0)],
        &[],
        &waiting,
        &["c on [0]", "b on [1, 2]", "a needs 2 cores, 1 of 4 free: c uses 1, b uses 2"],
    );
}

#[test]
fn borrowed_cores_are_given_back_to_the_group_that_lent_them() {
    let running = [
        Active { since: 1 - HOUR, ..active("a", "ann", &[0, 1]) },
        Active { since: 2 - HOUR, ..active("b", "bob", &[2, 3]) },
    ];
    let returned = "b returns borrowed cores to job c: the share of group speech is 2 cores";
    let needs = "c needs 2 cores, 0 of 4 free: a uses 2, b uses 2";
    let waiting = [pending("c", "cleo", 2)];
    check_fair(&[("ann", 9.0)], &running, &waiting, &[returned, needs]);
    // A loan lasts for some minutes, and the one that began before is given back.
    let mut recent = running.clone();
    recent[1].since = 1 - 5 * MINUTE;
    let other = returned.replacen('b', "a", 1);
    check_fair(&[("ann", 9.0)], &recent, &waiting, &[&other, needs]);
    recent[0].since = 1 - 5 * MINUTE;
    check_fair(&[("ann", 9.0)], &recent, &waiting, &[needs]);
    // A group gives nothing of its own share.
    let own = [active("a", "ann", &[0, 1]), active("b", "cleo", &[2, 3])];
    let needs = "c needs 1 core, 0 of 4 free: a uses 2, b uses 2";
    check_fair(&[("ann", 9.0)], &own, &[pending("c", "cleo", 1)], &[needs]);
    let wide = "c needs 3 cores, 0 of 4 free: a uses 2, b uses 2";
    check_fair(&[("ann", 9.0)], &running, &[pending("c", "cleo", 3)], &[wide]);
    let kept = format!("{TWO_GROUPS}fair_shares: {{preempt: false}}");
    check(&kept, &[], &running, &waiting, &["c needs 2 cores, 0 of 4 free: a uses 2, b uses 2"]);
}

#[test]
fn a_job_at_a_limit_of_its_group_says_so_and_blocks_no_other() {
    let limits = "groups: {vision: {members: [ann, bob], limits: {cores: 2, running_jobs: 2}}}";
    let waiting = [pending("b", "bob", 2), pending("c", "ann", 1), pending("d", "cleo", 2)];
    let needs = "b needs 2 cores: the jobs of group vision hold 1 of the 2 that it may hold";
    let mut held = vec![active("a", "ann", &[0])];
    check(limits, &[], &held, &waiting, &["c on [1]", "d on [2, 3]", needs]);
    held.push(active("e", "bob", &[1]));
    let many = "group vision runs 2 jobs, and may run 2 at a time";
    let expect = ["d on [2, 3]", &format!("b {many}"), &format!("c {many}")];
    check(limits, &[], &held, &waiting, &expect);
}

/// A running job of the simulation, and when it ends.
struct Running {
    job: Active,
    end: i64,
}

/// A user who keeps jobs waiting.
struct Client {
    user: &'static str,
    /// When the user submits, in hours.
    present: fn(i64) -> bool,
    /// How much longer than the shortest jobs theirs are.
    length: i64,
    /// Whether their jobs end at once; their cores are idle until the scheduler runs again.
    fails: bool,
}

/// Simulates a host, with a fixed sequence of jobs in place of chance.
struct Simulation {
    sharing: Arc<Sharing>,
    cores: Vec<u32>,
    clients: Vec<Client>,
    /// Time between two runs of the scheduler.
    tick: i64,
    now: i64,
    jobs: usize,
    waiting: Vec<Pending>,
    running: Vec<Running>,
    /// Time that is left of jobs that were preempted.
    left: HashMap<String, i64>,
    submitted: HashMap<String, i64>,
    usage: HashMap<String, Usage>,
    /// Core microseconds by user.
    used: HashMap<String, i64>,
    longest_wait: i64,
    preemptions: usize,
}

/// Jobs that a user who is present keeps in the queue.
const BACKLOG: usize = 30;

impl Simulation {
    fn new(yaml: &str, cores: u32, clients: Vec<Client>) -> Simulation {
        Simulation {
            sharing: Sharing::example(yaml),
            cores: (0..cores).collect(),
            clients,
            tick: TICK,
            now: 0,
            jobs: 0,
            waiting: Vec::new(),
            running: Vec::new(),
            left: HashMap::new(),
            submitted: HashMap::new(),
            usage: HashMap::new(),
            used: HashMap::new(),
            longest_wait: 0,
            preemptions: 0,
        }
    }

    fn half_life(&self) -> Duration {
        self.sharing.fair_shares.unwrap().half_life()
    }

    fn run(&mut self, end: i64) {
        while self.now < end {
            self.submit();
            self.finish();
            self.schedule();
            self.now += self.tick;
        }
    }

    fn submit(&mut self) {
        for client in &self.clients {
            let waits = self.waiting.iter().filter(|job| job.owner == client.user).count();
            let wanted = if (client.present)(self.now / HOUR) { BACKLOG } else { 0 };
            for _ in waits..wanted {
                // Widths of users differ: fair shares are of core time, not of jobs.
                let widths = if client.user.len() > 3 { [2, 1, 1, 4] } else { [1, 2, 1, 1] };
                let job = pending(&format!("{:05}", self.jobs), client.user, widths[self.jobs % 4]);
                self.submitted.insert(job.id.clone(), self.now);
                let length = client.length * (1 + self.jobs as i64 * 7 % 5) * self.tick;
                self.left.insert(job.id.clone(), length);
                self.waiting.push(job);
                self.jobs += 1;
            }
        }
    }

    fn finish(&mut self) {
        let now = self.now;
        let ended: Vec<Running> = self.running.extract_if(.., |it| it.end <= now).collect();
        for Running { job, .. } in ended {
            let usage = self.usage.entry(job.owner.clone()).or_default();
            let half_life = self.sharing.fair_shares.unwrap().half_life();
            let fails = |it: &Client| it.fails && it.user == job.owner;
            let until = if self.clients.iter().any(fails) { job.since } else { now };
            *usage = usage.with_ended_run(job.cores.len(), job.since, until, half_life);
            let held = (now - job.since) * job.cores.len() as i64;
            *self.used.entry(job.owner.clone()).or_default() += held;
            let left = self.left.get_mut(&job.id).unwrap();
            *left -= now - job.since;
            if *left > 0 {
                let again = pending(&job.id, &job.owner, job.cores.len() as u32);
                let place = self.waiting.partition_point(|other| other.id < again.id);
                self.waiting.insert(place, again);
            }
        }
    }

    fn schedule(&mut self) {
        let half_life = self.half_life();
        let mut usage = self.usage.clone();
        for Running { job, .. } in &self.running {
            let of_owner = usage.entry(job.owner.clone()).or_default();
            *of_owner = of_owner.with_run(job.cores.len(), job.since, self.now, half_life);
        }
        let at = |usage: Usage| usage.at(self.now, half_life).core_seconds;
        let usage = usage.into_iter().map(|(user, usage)| (user, at(usage))).collect();
        let rules = Rules {
            cores: &self.cores,
            sharing: Some(&self.sharing),
            usage: Some(&usage),
            ..Rules::default()
        };
        let active: Vec<Active> = self.running.iter().map(|it| it.job.clone()).collect();
        let plan = plan(rules, &active, &self.waiting, self.now);
        for preemption in plan.preemptions {
            let victim = self.running.iter_mut().find(|it| it.job.id == preemption.id).unwrap();
            victim.job.stopping = true;
            victim.end = victim.end.min(self.now + self.tick);
            self.preemptions += 1;
        }
        for placement in plan.placements {
            let at = self.waiting.iter().position(|job| job.id == placement.id).unwrap();
            let job = self.waiting.remove(at);
            let wait = self.now - self.submitted[&job.id];
            self.longest_wait = self.longest_wait.max(wait);
            let end = self.now + self.left[&job.id];
            self.running.push(Running { job: started(&job, placement.cores, self.now), end });
        }
    }

    /// Core hours of some users, of the runs that have not ended as well.
    fn hours(&self, users: &[&str]) -> f64 {
        let ended: i64 = users.iter().filter_map(|user| self.used.get(*user)).sum();
        let running = self.running.iter().filter(|it| users.contains(&&*it.job.owner));
        let running: i64 =
            running.map(|it| (self.now - it.job.since) * it.job.cores.len() as i64).sum();
        (ended + running) as f64 / HOUR as f64
    }
}

const THREE_GROUPS: &str = "groups:
  vision: {members: [ann, anton], share: 50}
  speech: {members: [bob], share: 30}
  text: {members: [cleo, cem, carl], share: 20}
fair_shares: {half_life_hours: 6}
";
const MEMBERS: [&[&str]; 3] = [&["ann", "anton"], &["bob"], &["cleo", "cem", "carl"]];

fn client(user: &'static str) -> Client {
    Client { user, present: |_| true, length: 1, fails: false }
}

#[test]
fn groups_get_their_shares_over_a_day_of_ten_thousand_jobs() {
    let clients = MEMBERS.concat().into_iter().map(client).collect();
    let mut host = Simulation::new(THREE_GROUPS, 160, clients);
    host.run(24 * HOUR);
    let started = host.jobs - host.waiting.len();
    assert!(started >= 10_000, "{started} jobs started");
    let whole = host.hours(&MEMBERS.concat());
    assert!(whole > 0.97 * 24.0 * 160.0, "cores are idle: {whole} core hours");
    for (users, share) in MEMBERS.into_iter().zip([0.5, 0.3, 0.2]) {
        let part = host.hours(users) / whole;
        assert!((part - share).abs() <= 0.05 * share, "{users:?} got {part} of {share}");
        for user in users {
            let of_user = host.hours(&[user]) / host.hours(users) * users.len() as f64;
            assert!((of_user - 1.0).abs() < 0.05, "{user} got {of_user} of an equal part");
        }
    }
    // Every job ends.
    host.clients.clear();
    host.run(26 * HOUR);
    assert!(host.waiting.is_empty() && host.running.is_empty(), "jobs starve");
    assert!(host.longest_wait < 2 * HOUR, "a job waited {} s", host.longest_wait / 1_000_000);
}

#[test]
fn idle_shares_are_lent_and_return_within_minutes() {
    let long = |user| Client { length: 24, ..client(user) };
    let mut clients: Vec<Client> = ["ann", "anton", "bob"].into_iter().map(long).collect();
    clients.push(Client { present: |hour| hour >= 9, ..client("cleo") });
    let mut host = Simulation::new(THREE_GROUPS, 32, clients);
    host.run(9 * HOUR);
    let lent = host.hours(&["ann", "anton", "bob"]);
    assert!(lent > 0.95 * 9.0 * 32.0, "cores are idle: {lent} core hours");
    host.run(9 * HOUR + 3 * TICK);
    let back = host.running.iter().filter(|it| it.job.owner == "cleo" && !it.job.stopping);
    let back: usize = back.map(|it| it.job.cores.len()).sum();
    assert!(back >= 5, "of its 6.4 cores, the group has {back}");
    assert!(host.preemptions > 0);
    let before = host.hours(&["bob"]);
    host.run(16 * HOUR);
    assert!(host.hours(&["bob"]) > before + 16.0, "jobs on borrowed cores continue");
}

/// Jobs of some seconds, by the thousand, beside those of an hour; and jobs that fail when they have just started,
/// whose user has used nothing to speak of.
#[test]
fn thousands_of_small_or_failing_jobs_starve_nobody() {
    for fails in [false, true] {
        let large = Client { length: 240, ..client("cleo") };
        let mut host = Simulation::new(
            &format!("{TWO_GROUPS}fair_shares: {{}}"),
            8,
            vec![Client { fails, length: i64::from(!fails), ..client("ann") }, large],
        );
        host.tick = 5_000_000;
        host.run(6 * HOUR);
        let of_small = host.submitted.len();
        assert!(of_small > 4_000, "{of_small} jobs");
        let part = host.hours(&["cleo"]) / host.hours(&["ann", "cleo"]);
        assert!((part - 0.5).abs() < 0.03, "those with large jobs get {part} (fails: {fails})");
    }
}
