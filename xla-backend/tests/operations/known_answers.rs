//! The test of cores by known answers.

use traind_xla::runtime::test_cores;

use crate::evaluator::CLIENT;

#[test]
fn a_core_that_answers_wrong_is_found_among_others() {
    let healthy = test_cores(&CLIENT, 4, None, None).unwrap();
    assert_eq!(healthy.len(), 4);
    assert!(healthy.iter().all(|core| core.problem.is_none() && core.seconds > 0.0), "{healthy:?}");
    let answers = test_cores(&CLIENT, 4, None, Some(2)).unwrap();
    let sick: Vec<usize> = (0..4).filter(|core| answers[*core].problem.is_some()).collect();
    assert_eq!(sick, [2]);
    let problem = answers[2].problem.as_deref().unwrap();
    assert!(
        problem.starts_with("matrix product: ") && problem.contains(" of 32768 values"),
        "{problem}"
    );
    assert_eq!(test_cores(&CLIENT, 1, None, None).unwrap().len(), 1, "without a collective");
}
