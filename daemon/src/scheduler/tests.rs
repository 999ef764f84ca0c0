//! What is promised to those who wait: by example, and over random histories.

use proptest::prelude::*;

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
    let waiting = plan.waiting.iter().map(|w| format!("{} {}", w.id, w.reason));
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
    let rules = Rules { cores: &cores, aligned: false, cores_per_user };
    assert_eq!(lines(&plan(rules, running, waiting, 0)), expect);
}

#[test]
fn a_gang_is_never_split_and_says_who_is_in_its_way() {
    check(
        2,
        &[active("a", &[0], None)],
        &[pending("b", 2), pending("c", 1)],
        "b needs 2 cores, 1 of 2 free: a uses 1\n\
         c waits behind job b, which comes first and needs 2 cores",
    );
}

#[test]
fn a_job_placed_now_is_named_to_those_who_wait_for_it() {
    check(
        2,
        &[],
        &[pending("a", 2), pending("b", 1)],
        "a on [0, 1]\nb needs 1 core, 0 of 2 free: a uses 2",
    );
}

#[test]
fn a_job_wider_than_a_shrunken_host_holds_nobody_back() {
    check(
        2,
        &[],
        &[pending("a", 4), pending("b", 1)],
        "b on [0]\na needs 4 cores, but this host has 2",
    );
}

#[test]
fn the_higher_priority_comes_first() {
    let urgent = Pending { priority: 1, ..pending("b", 2) };
    check(2, &[], &[pending("a", 1), urgent], "b on [0, 1]\na needs 1 core, 0 of 2 free: b uses 2");
}

#[test]
fn a_short_job_goes_ahead_where_the_head_loses_nothing() {
    let running = [active("a", &[0], Some(100))];
    let head = pending("b", 2);
    let short = Pending { max_run: Some(100), ..pending("c", 1) };
    let head_waits = "b needs 2 cores, 1 of 2 free: a uses 1";
    check(2, &running, &[head.clone(), short.clone()], &format!("c on [1]\n{head_waits}"));
    let behind = "c waits behind job b, which comes first and needs 2 cores";
    let long = Pending { max_run: Some(101), ..short.clone() };
    check(2, &running, &[head.clone(), long], &format!("{head_waits}\n{behind}"));
    // When `a` ends is not known: nothing can be promised, so nothing is risked.
    let running = [active("a", &[0], None)];
    check(2, &running, &[head, short], &format!("{head_waits}\n{behind}"));
}

#[test]
fn a_user_at_the_limit_waits_and_holds_nobody_back() {
    let other = Pending { owner: "bob".into(), ..pending("c", 2) };
    check_rules(
        (4, Some(2)),
        &[active("a", &[0, 1], None)],
        &[pending("b", 1), other],
        "c on [2, 3]\nb needs 1 core: the jobs of ann hold 2, and a user may hold 2",
    );
}

/// A job of a random history: cores, priority, `max_run` if it has one, how long it runs.
type Drawn = (u32, i64, Option<i64>, i64);

/// Submits a job a tick, ends them as drawn, and checks every plan on the way.
fn play(cores: u32, aligned: bool, drawn: &[Drawn]) {
    let all: Vec<u32> = (0..cores).collect();
    let rules = Rules { cores: &all, aligned, cores_per_user: None };
    let mut waiting: Vec<Pending> = Vec::new();
    let mut running: Vec<(Active, i64)> = Vec::new();
    let mut started = 0;
    let mut promised: Option<(String, i64)> = None;
    let mut now = 0;
    while started < drawn.len() || !running.is_empty() {
        if let Some((cores, priority, max_run, _)) = drawn.get(now as usize) {
            let (priority, max_run) = (*priority, *max_run);
            waiting.push(Pending { priority, max_run, ..pending(&now.to_string(), *cores) });
        }
        running.retain(|(_, end)| *end > now);
        let active: Vec<Active> = running.iter().map(|(active, _)| active.clone()).collect();
        let plan = plan(rules, &active, &waiting, now);
        assert_eq!(plan.placements.len() + plan.waiting.len(), waiting.len(), "each job once");
        let mut urgent = i64::MIN;
        let makes_room = !plan.preemptions.is_empty();
        for preemption in &plan.preemptions {
            let at = running.iter().position(|(job, _)| job.id == preemption.id).unwrap();
            let (victim, _) = running.remove(at);
            assert!(waiting.iter().any(|job| job.priority > victim.priority), "for its betters");
            let (cores, priority, max_run, _) = drawn[victim.id.parse::<usize>().unwrap()];
            let again = Pending { priority, max_run, ..pending(&victim.id, cores) };
            let number = |job: &Pending| job.id.parse::<usize>().unwrap();
            let place = waiting.partition_point(|job| number(job) < number(&again));
            waiting.insert(place, again);
            started -= 1;
        }
        for placement in plan.placements {
            let at = waiting.iter().position(|job| job.id == placement.id).unwrap();
            let job = waiting.remove(at);
            assert_eq!(placement.cores.len(), job.cores as usize, "a whole gang");
            assert!(!aligned || placement.cores[0].is_multiple_of(job.cores), "aligned");
            urgent = urgent.max(job.priority);
            let runs = drawn[job.id.parse::<usize>().unwrap()].3;
            let end = now + job.max_run.map_or(runs, |max_run| runs.min(max_run));
            let active = Active {
                end: job.max_run.map(|max_run| now + max_run),
                priority: job.priority,
                since: now,
                ..active_of(&job, placement.cores)
            };
            running.push((active, end));
            started += 1;
        }
        let mut held: Vec<u32> = running.iter().flat_map(|(job, _)| job.cores.clone()).collect();
        held.sort_unstable();
        assert!(held.windows(2).all(|pair| pair[0] != pair[1]), "a core belongs to one job");
        assert!(held.iter().all(|core| all.contains(core)));
        let idle = running.is_empty() && !makes_room;
        assert!(waiting.is_empty() || !idle, "the head fits an idle host");

        let active: Vec<Active> = running.iter().map(|(active, _)| active.clone()).collect();
        let head = waiting.iter().rev().max_by_key(|job| job.priority);
        let now_promised = head.and_then(|head| {
            promise(rules, &active, head, now).map(|promise| (head.id.clone(), promise))
        });
        // While room is made, the head is next and nothing has to be promised.
        let now_promised = now_promised.filter(|_| !makes_room);
        // A promise holds against all but those of a higher priority.
        let overtaken = head.is_some_and(|head| urgent > head.priority);
        if let (Some((id, before)), Some((same, after))) = (&promised, &now_promised) {
            assert!(
                overtaken || id != same || after <= before,
                "{id} was promised {before}, now {after}"
            );
        }
        promised = now_promised;
        now += 1;
    }
}

fn active_of(job: &Pending, cores: Vec<u32>) -> Active {
    active(&job.id, &cores, None)
}

fn histories() -> impl Strategy<Value = (u32, bool, Vec<Drawn>)> {
    let job = (0u32..5, -1i64..2, proptest::option::of(1i64..20), 1i64..20);
    (1u32..6, any::<bool>(), proptest::collection::vec(job, 1..60)).prop_map(
        |(log_cores, aligned, mut drawn)| {
            let cores = 1 << (log_cores - 1);
            for job in &mut drawn {
                job.0 = if aligned { 1 << job.0 } else { job.0 * 3 + 1 }.min(cores);
            }
            (cores, aligned, drawn)
        },
    )
}

proptest! {
    #[test]
    fn no_core_twice_no_partial_gang_no_starvation_no_broken_promise(
        (cores, aligned, drawn) in histories(),
    ) {
        play(cores, aligned, &drawn);
    }
}
