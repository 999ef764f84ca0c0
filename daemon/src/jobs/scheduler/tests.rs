//! The scheduler's guarantees: by example, and over random histories.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::*;

fn pending(id: &str, cores: u32) -> Pending {
    let (name, owner) = (String::new(), "ann".into());
    Pending { id: id.into(), name, owner, cores, priority: 0, max_run: None }
}

fn active(id: &str, cores: &[u32], end: Option<i64>) -> Active {
    let owner = "ann".into();
    Active { id: id.into(), owner, cores: cores.to_vec(), end, ..Active::default() }
}

fn lines(plan: &Plan) -> String {
    let placed = plan.placements.iter().map(|p| format!("{} on {:?}", p.id, p.cores));
    let waiting = plan.waiting.iter().map(|w| format!("{} {}", w.id, w.reason.current));
    placed.chain(waiting).collect::<Vec<_>>().join("\n")
}

fn check(cores: u32, running: &[Active], waiting: &[Pending], expect: &str) {
    check_rules((cores, None), running, waiting, expect);
}

fn check_rules(
    (cores, cores_per_user): (u32, Option<u32>),
    running: &[Active],
    waiting: &[Pending],
    expect: &str,
) {
    let cores: Vec<u32> = (0..cores).collect();
    let rules = Rules { cores: &cores, cores_per_user, ..Rules::default() };
    assert_eq!(lines(&plan(rules, running, waiting, 0)), expect);
}

#[test]
fn a_gang_is_never_split_and_its_reason_names_who_holds_cores() {
    check(
        2,
        &[active("a", &[0], None)],
        &[pending("b", 2), pending("c", 1)],
        "b needs 2 cores, 1 of 2 free: a uses 1\n\
         c is behind job b, which needs 2 cores",
    );
}

#[test]
fn a_job_placed_now_is_named_in_the_reasons_of_others() {
    check(
        2,
        &[],
        &[pending("a", 2), pending("b", 1)],
        "a on [0, 1]\nb needs 1 core, 0 of 2 free: a uses 2",
    );
}

#[test]
fn a_job_wider_than_a_shrunken_host_blocks_no_other() {
    check(
        2,
        &[],
        &[pending("a", 4), pending("b", 1)],
        "b on [0]\na needs 4 cores, but this host has 2",
    );
}

#[test]
fn a_job_waits_for_fenced_cores_and_says_so() {
    let rules = Rules { cores: &[0, 1, 3], withheld: 1, ..Rules::default() };
    let plan = plan(rules, &[], &[pending("a", 4), pending("b", 3)], 0);
    let wide =
        "a needs 4 cores, but this host has 4, of which one is fenced or tested (`traind cores`)";
    assert_eq!(lines(&plan), format!("b on [0, 1, 3]\n{wide}"));
}

#[test]
fn the_highest_priority_comes_first() {
    let urgent = Pending { priority: 1, ..pending("b", 2) };
    check(2, &[], &[pending("a", 1), urgent], "b on [0, 1]\na needs 1 core, 0 of 2 free: b uses 2");
}

#[test]
fn a_short_job_is_backfilled_if_the_head_is_not_delayed() {
    let running = [active("a", &[0], Some(100))];
    let head = pending("b", 2);
    let short = Pending { max_run: Some(100), ..pending("c", 1) };
    let head_waits = "b needs 2 cores, 1 of 2 free: a uses 1";
    check(2, &running, &[head.clone(), short.clone()], &format!("c on [1]\n{head_waits}"));
    let behind = "c is behind job b, which needs 2 cores";
    let long = Pending { max_run: Some(101), ..short.clone() };
    check(2, &running, &[head.clone(), long], &format!("{head_waits}\n{behind}"));
    // The end of `a` is unknown, so there is no reservation to check against.
    let running = [active("a", &[0], None)];
    check(2, &running, &[head, short], &format!("{head_waits}\n{behind}"));
}

#[test]
fn a_job_at_its_users_limit_blocks_no_other() {
    let other = Pending { owner: "bob".into(), ..pending("c", 2) };
    check_rules(
        (4, Some(2)),
        &[active("a", &[0, 1], None)],
        &[pending("b", 1), other],
        "c on [2, 3]\nb needs 1 core: the jobs of ann hold 2 of the 2 that a user may hold",
    );
}

/// A job of a random history.
#[derive(Clone, Copy, Debug)]
struct Drawn {
    cores: u32,
    priority: i64,
    owner: &'static str,
    max_run: Option<i64>,
    /// How long it runs.
    runs: i64,
    /// How long it takes to stop.
    stops: i64,
}

impl Drawn {
    fn pending(&self, id: &str) -> Pending {
        let (priority, max_run, owner) = (self.priority, self.max_run, self.owner.into());
        Pending { priority, max_run, owner, ..pending(id, self.cores) }
    }
}

/// A job on its cores, and the time at which it ends.
struct Running {
    job: Active,
    end: i64,
}

/// Simulates a host, a tick at a time.
struct Simulation<'a> {
    rules: Rules<'a>,
    drawn: &'a [Drawn],
    /// Jobs that wait, in the order of submission.
    waiting: Vec<Pending>,
    running: Vec<Running>,
    now: i64,
    /// How many jobs of each priority have been placed.
    placed: BTreeMap<i64, usize>,
    /// The number of jobs of a higher priority that had been placed when each job was last preempted.
    preempted_at: BTreeMap<usize, usize>,
    /// The head of the queue after the last tick, and its reservation.
    reserved: Option<(String, i64)>,
}

fn number(id: &str) -> usize {
    id.parse().unwrap()
}

/// Scheduling order, the greatest first: by priority, then by submission.
type Rank = (i64, Reverse<usize>);

fn rank(job: &Pending) -> Rank {
    (job.priority, Reverse(number(&job.id)))
}

impl Simulation<'_> {
    /// Runs until all jobs have ended. Returns the number of ticks.
    fn run(mut self) -> usize {
        loop {
            let submitted = self.drawn.get(self.now as usize);
            self.waiting.extend(submitted.map(|job| job.pending(&self.now.to_string())));
            self.end();
            if self.now as usize >= self.drawn.len()
                && self.waiting.is_empty()
                && self.running.is_empty()
            {
                return self.now as usize;
            }
            let plan = plan(self.rules, &self.active(), &self.waiting, self.now);
            assert_eq!(plan.placements.len() + plan.waiting.len(), self.waiting.len(), "each once");
            plan.preemptions.iter().for_each(|preemption| self.preempt(preemption));
            let first = plan.placements.iter().map(|placement| self.place(placement)).max();
            self.check_cores();
            self.check_reservation(first);
            self.now += 1;
            assert!(self.now < 1_000_000, "a job starves: {:?}", self.waiting);
        }
    }

    fn active(&self) -> Vec<Active> {
        self.running.iter().map(|running| running.job.clone()).collect()
    }

    /// Ends the jobs whose time has come; preempted ones wait again.
    fn end(&mut self) {
        let (now, drawn) = (self.now, self.drawn);
        for gone in self.running.extract_if(.., |running| running.end <= now) {
            if gone.job.stopping {
                let again = drawn[number(&gone.job.id)].pending(&gone.job.id);
                let before = |job: &Pending| number(&job.id) < number(&again.id);
                let place = self.waiting.partition_point(before);
                self.waiting.insert(place, again);
            }
        }
    }

    fn placed_above(&self, priority: i64) -> usize {
        self.placed.range(priority + 1..).map(|(_, count)| count).sum()
    }

    fn preempt(&mut self, preemption: &Preemption) {
        let at = self.running.iter().position(|it| it.job.id == preemption.id).unwrap();
        let (id, priority) = (number(&preemption.id), self.running[at].job.priority);
        assert!(!self.running[at].job.stopping, "preempted once");
        assert!(self.waiting.iter().any(|job| job.priority > priority), "for a higher priority");
        let above = self.placed_above(priority);
        let before = self.preempted_at.insert(id, above);
        assert!(before.is_none_or(|before| before < above), "{id} was preempted for no job");
        let victim = &mut self.running[at];
        victim.job.stopping = true;
        victim.end = self.now + self.drawn[id].stops;
    }

    /// Returns the job's rank.
    fn place(&mut self, placement: &Placement) -> Rank {
        let at = self.waiting.iter().position(|job| job.id == placement.id).unwrap();
        let job = self.waiting.remove(at);
        assert_eq!(placement.cores.len(), job.cores as usize, "a whole gang");
        assert!(!self.rules.aligned || placement.cores[0].is_multiple_of(job.cores), "aligned");
        let runs = self.drawn[number(&job.id)].runs;
        let end = self.now + job.max_run.map_or(runs, |max_run| runs.min(max_run));
        let active = Active {
            owner: job.owner.clone(),
            priority: job.priority,
            since: self.now,
            ..active(&job.id, &placement.cores, job.max_run.map(|max_run| self.now + max_run))
        };
        self.running.push(Running { job: active, end });
        *self.placed.entry(job.priority).or_default() += 1;
        rank(&job)
    }

    fn check_cores(&self) {
        let jobs = || self.running.iter().map(|running| &running.job);
        let mut held: Vec<u32> = jobs().flat_map(|job| job.cores.clone()).collect();
        held.sort_unstable();
        assert!(held.windows(2).all(|pair| pair[0] != pair[1]), "a core belongs to one job");
        assert!(held.iter().all(|core| self.rules.cores.contains(core)));
        assert!(self.waiting.is_empty() || !held.is_empty(), "the head fits an idle host");
        for owner in OWNERS {
            let own: usize = jobs().filter(|it| it.owner == owner).map(|it| it.cores.len()).sum();
            assert!(self.rules.cores_per_user.is_none_or(|limit| own <= limit as usize));
        }
    }

    /// A reservation may be broken only by jobs before the head, whose user may have been at the
    /// limit. `first` is the first in scheduling order of the jobs that were placed now.
    fn check_reservation(&mut self, first: Option<Rank>) {
        let active = self.active();
        let held = Held::by(self.rules, &active);
        let may_start = |job: &&Pending| held.objection(self.rules, job).is_none();
        let head = self.waiting.iter().filter(may_start).max_by_key(|job| rank(job));
        // While jobs stop, the head is next and needs no reservation.
        let preempting = active.iter().any(|job| job.stopping);
        let reserved = head.filter(|_| !preempting).and_then(|head| {
            reservation(self.rules, &active, head, self.now).map(|time| (head.id.clone(), time))
        });
        if let Some((id, before)) = &self.reserved
            && let Some(job) = self.waiting.iter().find(|job| job.id == *id)
            && !preempting
            && first.is_none_or(|first| first < rank(job))
        {
            let comes_first = head.is_some_and(|head| rank(head) > rank(job));
            let kept = reserved.as_ref().is_some_and(|(same, after)| same == id && after <= before);
            assert!(comes_first || kept, "{id} had {before}, and now {reserved:?}");
        }
        self.reserved = reserved;
    }
}

const OWNERS: [&str; 2] = ["ann", "bob"];

/// A host's cores, whether gangs are aligned, how many cores a user may hold, and jobs.
type History = (u32, bool, Option<u32>, Vec<Drawn>);

fn histories() -> impl Strategy<Value = History> {
    let max_run = proptest::option::of(1i64..20);
    let job = (0u32..5, -1i64..2, 0usize..2, max_run, 1i64..20, 1i64..4);
    let jobs = proptest::collection::vec(job, 1..60);
    (0u32..5, any::<bool>(), any::<bool>(), jobs).prop_map(|(log_cores, aligned, limited, jobs)| {
        let cores = 1u32 << log_cores;
        let limit = limited.then_some(cores.div_ceil(2));
        let drawn = jobs.into_iter().map(|(size, priority, owner, max_run, runs, stops)| {
            let size = if aligned { 1 << size } else { size * 3 + 1 };
            let cores = size.min(limit.unwrap_or(cores));
            Drawn { cores, priority, owner: OWNERS[owner], max_run, runs, stops }
        });
        (cores, aligned, limit, drawn.collect())
    })
}

fn simulate((cores, aligned, cores_per_user, drawn): &History) -> usize {
    let cores: Vec<u32> = (0..*cores).collect();
    let simulation = Simulation {
        rules: Rules {
            cores: &cores,
            aligned: *aligned,
            cores_per_user: *cores_per_user,
            ..Rules::default()
        },
        drawn,
        waiting: Vec::new(),
        running: Vec::new(),
        now: 0,
        placed: BTreeMap::new(),
        preempted_at: BTreeMap::new(),
        reserved: None,
    };
    simulation.run()
}

/// The long form takes a million steps: see `scripts/soak/run`.
#[test]
fn no_core_is_shared_no_gang_partial_no_job_starves_and_reservations_hold() {
    let wanted = std::env::var("TRAIND_SOAK_STEPS").map_or(20_000, |text| text.parse().unwrap());
    let (steps, history_count) = (Cell::new(0), Cell::new(0));
    while steps.get() < wanted {
        let mut runner =
            TestRunner::new(Config { cases: 100, failure_persistence: None, ..Config::default() });
        let result = runner.run(&histories(), |history| {
            steps.set(steps.get() + simulate(&history));
            history_count.set(history_count.get() + 1);
            Ok(())
        });
        if let Err(error) = result {
            panic!("{error}");
        }
    }
    println!("{} steps of {} histories", steps.get(), history_count.get());
}

#[test]
fn a_short_job_of_the_heads_own_user_does_not_push_the_head_over_the_limit() {
    // The head fits once `a` has ended, and only if ann holds no other cores then.
    let running = [Active { owner: "bob".into(), ..active("a", &[0, 1], Some(100)) }];
    let head = pending("b", 3);
    let long = Pending { max_run: Some(200), ..pending("c", 1) };
    let head_waits = "b needs 3 cores, 2 of 4 free: a uses 2";
    let behind = "c is behind job b, which needs 3 cores";
    check_rules(
        (4, Some(3)),
        &running,
        &[head.clone(), long.clone()],
        &format!("{head_waits}\n{behind}"),
    );
    let other = Pending { owner: "bob".into(), ..long };
    check_rules((4, Some(3)), &running, &[head, other], &format!("c on [2]\n{head_waits}"));
}
