//! Tests of idle cores by programs whose results are known to the bit.
//!
//! A test claims its cores as a job does, so that it never runs beside one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use traind_job_file::commands::CoreAnswer;
use traind_proto::v1::{self, TestOutcome};

use crate::clock;
use crate::control::daemon::Daemon;
use crate::control::error::Error;
use crate::jobs::store::{Store, StoreError};
use crate::jobs::supervisor::before_jobs::core_test::{self, CoreTestError};
use crate::jobs::supervisor::before_jobs::suspects::Suspects;

/// The end of the problem of a core that is not fenced, since none has answered right.
const PLUGIN: &str =
    "no core of this host has answered right, so the plugin or its compiler may be the cause";

/// The cores that are tested, and how they answered.
#[derive(Debug, Default)]
pub(crate) struct CoreTests {
    /// Held while cores are given to a job or to a test.
    pub(in crate::control) giving: tokio::sync::Mutex<()>,
    /// Notified when a job could start on cores that are tested.
    pub(super) wanted: Notify,
    /// Cores that get no jobs until they were tested.
    pub(in crate::control) suspects: Arc<Suspects>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    testing: BTreeSet<u32>,
    /// The newest test of each core, and when it ended by a clock that nobody sets.
    latest: BTreeMap<u32, (Instant, v1::CoreTest)>,
    /// Whether a core has answered right since the daemon started.
    has_passed: bool,
}

impl CoreTests {
    /// The cores that are tested at the moment, or are to be before they get a job.
    pub(in crate::control) fn cores(&self) -> BTreeSet<u32> {
        self.state().testing.iter().copied().chain(self.suspects.cores()).collect()
    }

    /// The newest test of a core.
    pub(crate) fn of(&self, core: u32) -> Option<v1::CoreTest> {
        self.state().latest.get(&core).map(|(_, test)| test.clone())
    }

    /// Whether a core was not tested for this time.
    pub(super) fn is_due(&self, core: u32, every: Duration) -> bool {
        self.state().latest.get(&core).is_none_or(|(ended, _)| ended.elapsed() >= every)
    }

    /// Ends the tests that nobody asked for.
    pub(in crate::control) fn make_way(&self) {
        self.wanted.notify_waiters();
    }

    /// Keeps the answers of cores that were tested together. Returns the cores that are sick, with the reason.
    fn record(
        &self,
        cores: &[u32],
        answers: &Result<Vec<CoreAnswer>, CoreTestError>,
    ) -> Vec<(u32, String)> {
        let mut state = self.state();
        let right = |answers: &Vec<CoreAnswer>| answers.iter().any(|it| it.problem.is_none());
        state.has_passed |= answers.as_ref().is_ok_and(right);
        let mut sick = Vec::new();
        for (place, core) in cores.iter().enumerate() {
            if let Some(job) = self.suspects.clear(*core) {
                tracing::info!(core, job, "tested a core on which a job's device failed");
            }
            let test = match answers {
                Ok(answers) => of_answer(&answers[place], state.has_passed),
                Err(error) => v1::CoreTest {
                    outcome: TestOutcome::NotRun.into(),
                    problem: error.to_string(),
                    ..v1::CoreTest::default()
                },
            };
            if test.outcome() == TestOutcome::Failed {
                sick.push((*core, format!("wrong answer to a test: {}", test.problem)));
            }
            let time = Some(clock::timestamp(clock::now()));
            state.latest.insert(*core, (Instant::now(), v1::CoreTest { time, ..test }));
        }
        sick
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The cores of `all` that neither a job holds nor a test.
    fn idle(&self, all: &[u32], held: &BTreeMap<u32, String>) -> BTreeSet<u32> {
        let is_idle = |core: &u32| !held.contains_key(core) && !self.testing.contains(core);
        all.iter().copied().filter(is_idle).collect()
    }
}

fn of_answer(answer: &CoreAnswer, has_passed: bool) -> v1::CoreTest {
    let (outcome, problem) = match &answer.problem {
        None => (TestOutcome::Passed, String::new()),
        Some(problem) if has_passed => (TestOutcome::Failed, problem.clone()),
        Some(problem) => (TestOutcome::Uncertain, format!("{problem}; {PLUGIN}")),
    };
    let product_seconds = answer.seconds;
    v1::CoreTest { outcome: outcome.into(), problem, product_seconds, time: None }
}

/// Cores that are tested, until it is dropped.
pub(crate) struct Claimed {
    daemon: Arc<Daemon>,
    cores: Vec<u32>,
}

impl Drop for Claimed {
    fn drop(&mut self) {
        let mut state = self.daemon.fences.tests.state();
        state.testing.retain(|core| !self.cores.contains(core));
        drop(state);
        self.daemon.wake.notify_one();
    }
}

impl Daemon {
    /// Claims cores for a test: those that are wanted, or all that no job holds. Refuses cores that are in use.
    pub(crate) async fn claim_for_test(
        self: &Arc<Daemon>,
        wanted: &[u32],
    ) -> Result<Claimed, Error> {
        let refuse = |description| Err(Error::Request { field: "cores", description });
        let all = &self.settings.host.cores;
        if let Some(core) = wanted.iter().find(|core| !all.contains(core)) {
            return refuse(format!("this host has no core {core}; it has {}", all.len()));
        }
        let _giving = self.fences.tests.giving.lock().await;
        let held = self.held_cores().await?;
        let mut state = self.fences.tests.state();
        for core in wanted {
            if let Some(job) = held.get(core) {
                return refuse(format!("core {core} is held by job {job}; tests need idle cores"));
            }
            if state.testing.contains(core) {
                return refuse(format!("core {core} is being tested"));
            }
        }
        let is_wanted = |core: &u32| wanted.is_empty() || wanted.contains(core);
        let cores: Vec<u32> = state.idle(all, &held).into_iter().filter(is_wanted).collect();
        state.testing.extend(cores.iter().copied());
        drop(state);
        Ok(Claimed { daemon: self.clone(), cores })
    }

    /// The cores that neither a job holds nor a test.
    pub(super) async fn idle_cores(&self) -> Result<BTreeSet<u32>, StoreError> {
        let held = self.held_cores().await?;
        Ok(self.fences.tests.state().idle(&self.settings.host.cores, &held))
    }

    /// The cores of this host that jobs hold, with the jobs.
    async fn held_cores(&self) -> Result<BTreeMap<u32, String>, StoreError> {
        let active = self.store.run(Store::active).await?;
        let here = active.iter().filter(|job| !job.is_elsewhere());
        Ok(here.flat_map(|job| job.cores.iter().map(|core| (*core, job.id.clone()))).collect())
    }
}

impl Claimed {
    /// The cores by groups that can run one program.
    pub(crate) fn groups(&self) -> Vec<Vec<u32>> {
        groups(&self.cores, self.daemon.settings.host.core_counts())
    }

    /// Tests one group, and fences sick cores. Cores that fail together for another reason than a wrong answer are
    /// tried one by one. Returns the tests of the cores.
    pub(crate) async fn test(&self, group: &[u32]) -> Result<Vec<(u32, v1::CoreTest)>, Error> {
        let settings = &self.daemon.settings;
        match core_test::test_cores(settings, group).await {
            Err(CoreTestError::Died { .. } | CoreTestError::Timeout(_)) if group.len() > 1 => {
                let mut tests = Vec::new();
                for core in group {
                    tests.extend(
                        self.keep(&[*core], core_test::test_cores(settings, &[*core]).await)
                            .await?,
                    );
                }
                Ok(tests)
            }
            Ok(answers) => {
                let answers = self.with_slow(group, answers).await;
                self.keep(group, Ok(answers)).await
            }
            answers => self.keep(group, answers).await,
        }
    }

    /// Adds to the answers which cores were slower than the others, also in a second test.
    async fn with_slow(&self, group: &[u32], mut answers: Vec<CoreAnswer>) -> Vec<CoreAnswer> {
        let settings = &self.daemon.settings;
        // CPU cores share their processors with other programs.
        let Some(factor) = settings.slow_core_factor.filter(|_| settings.host.platform != "cpu")
        else {
            return answers;
        };
        let slow = slow(&answers, factor);
        if slow.is_empty() {
            return answers;
        }
        let Ok(again) = core_test::test_cores(settings, group).await else { return answers };
        for (place, problem) in self::slow(&again, factor) {
            if slow.contains_key(&place) && answers[place].problem.is_none() {
                answers[place].problem = Some(problem);
            }
        }
        answers
    }

    async fn keep(
        &self,
        cores: &[u32],
        answers: Result<Vec<CoreAnswer>, CoreTestError>,
    ) -> Result<Vec<(u32, v1::CoreTest)>, Error> {
        let tests = &self.daemon.fences.tests;
        for (core, reason) in tests.record(cores, &answers) {
            self.daemon.fence(core, &reason).await?;
        }
        Ok(cores.iter().filter_map(|core| Some((*core, tests.of(*core)?))).collect())
    }
}

/// The cores whose product took `factor` times as long as the median of the others, by place, in words.
fn slow(answers: &[CoreAnswer], factor: f64) -> BTreeMap<usize, String> {
    let of_core = |place: usize| {
        let seconds = answers[place].seconds;
        let others = answers.iter().enumerate().filter(|(other, _)| *other != place);
        let mut others: Vec<f64> = others.map(|(_, answer)| answer.seconds).collect();
        others.sort_by(f64::total_cmp);
        let median = others.get(others.len() / 2).copied().filter(|median| *median > 0.0)?;
        let text = || {
            let [own, median] = [seconds, median].map(|seconds| seconds * 1e3);
            format!("slow: a matrix product takes {own:.3} ms, and {median:.3} ms on the others")
        };
        (seconds > factor * median).then(|| (place, text()))
    };
    (0..answers.len()).filter_map(of_core).collect()
}

/// Divides cores into groups of numbers that a program may have, aligned as those of jobs; all at once if any number
/// is allowed.
fn groups(cores: &[u32], counts: Option<Vec<u32>>) -> Vec<Vec<u32>> {
    let Some(counts) = counts else {
        return if cores.is_empty() { Vec::new() } else { vec![cores.to_vec()] };
    };
    let mut left: BTreeSet<u32> = cores.iter().copied().collect();
    let mut groups = Vec::new();
    while let Some(first) = left.first().copied() {
        let fits = |count: &&u32| {
            let is_range = first.is_multiple_of(**count);
            is_range && (first..first.saturating_add(**count)).all(|core| left.contains(&core))
        };
        let count = counts.iter().filter(fits).max().copied().unwrap_or(1).max(1);
        let group: Vec<u32> = (first..first.saturating_add(count)).collect();
        left.retain(|core| !group.contains(core));
        groups.push(group);
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(cores: &[u32], counts: Option<&[u32]>, expect: &[&[u32]]) {
        assert_eq!(groups(cores, counts.map(<[u32]>::to_vec)), expect);
    }

    #[test]
    fn neuron_cores_are_tested_in_aligned_ranges_of_allowed_sizes() {
        check(&[0, 2, 3], None, &[&[0, 2, 3]]);
        check(&[], None, &[]);
        check(&[0, 1, 2, 3], Some(&[1, 2, 4]), &[&[0, 1, 2, 3]]);
        check(&[1, 2, 3, 4, 5], Some(&[1, 2, 4]), &[&[1], &[2, 3], &[4, 5]]);
        check(&[4, 5, 6, 7], Some(&[1, 4]), &[&[4, 5, 6, 7]]);
    }

    fn answer(problem: Option<&str>) -> CoreAnswer {
        CoreAnswer { problem: problem.map(str::to_owned), seconds: 0.5 }
    }

    #[test]
    fn a_wrong_answer_is_a_cores_fault_once_another_answer_was_right() {
        let tests = CoreTests::default();
        let wrong = || Ok(vec![answer(Some("integers"))]);
        assert_eq!(tests.record(&[0], &wrong()), []);
        let uncertain = tests.of(0).unwrap();
        assert_eq!(uncertain.outcome(), TestOutcome::Uncertain);
        assert!(uncertain.problem.contains("integers; no core of this host"), "{uncertain:?}");
        let both = Ok(vec![answer(Some("integers")), answer(None)]);
        let sick = vec![(2, "wrong answer to a test: integers".to_owned())];
        assert_eq!(tests.record(&[2, 3], &both), sick);
        assert_eq!(tests.of(3).unwrap().outcome(), TestOutcome::Passed);
        assert_eq!(tests.record(&[0], &wrong()).len(), 1, "it is certain now");
    }

    #[test]
    fn a_core_is_slow_compared_with_the_others() {
        let answers = |seconds: &[f64]| -> Vec<CoreAnswer> {
            seconds.iter().map(|seconds| CoreAnswer { problem: None, seconds: *seconds }).collect()
        };
        let slow = |seconds: &[f64]| slow(&answers(seconds), 2.0).into_keys().collect::<Vec<_>>();
        assert_eq!(slow(&[0.010, 0.012, 0.025, 0.011]), [2]);
        assert_eq!(slow(&[0.010, 0.019]), [0; 0]);
        assert_eq!(slow(&[0.010, 0.021]), [1]);
        assert_eq!(slow(&[0.010]), [0; 0], "there is no other");
        assert_eq!(slow(&[0.0, 0.010]), [0; 0], "no time was measured");
        let text = super::slow(&answers(&[0.010, 0.012, 0.025]), 2.0).remove(&2).unwrap();
        assert_eq!(text, "slow: a matrix product takes 25.000 ms, and 12.000 ms on the others");
    }

    #[test]
    fn a_test_that_did_not_run_accuses_no_core() {
        let tests = CoreTests::default();
        tests.record(&[1], &Ok(vec![answer(None)]));
        let failed = Err(CoreTestError::Timeout(Duration::from_secs(7)));
        assert_eq!(tests.record(&[0], &failed), []);
        let test = tests.of(0).unwrap();
        assert_eq!(
            (test.outcome(), test.problem.as_str()),
            (TestOutcome::NotRun, "the test took longer than 7 s")
        );
    }
}
