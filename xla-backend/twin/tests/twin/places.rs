//! The list of wrong assumptions about AWS Neuron, and of the tests that keep them right.

use std::fs;
use std::path::Path;

const LIST: &str = include_str!("places.txt");
/// The number of assumptions that were found wrong.
const PLACES: usize = 27;

#[test]
fn each_place_has_a_test() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut numbers = Vec::new();
    for line in LIST.lines().filter(|line| !line.starts_with('#')) {
        let fields: Vec<&str> = line.split(" | ").collect();
        let [number, _, file, test] = fields[..] else { panic!("{line}") };
        numbers.push(number.parse::<usize>().unwrap());
        let source = fs::read_to_string(root.join(file)).unwrap();
        let (before, _) = source.split_once(&format!("fn {test}(")).expect(line);
        let attributes = before.rsplit("\n\n").next().unwrap_or_default();
        let is_test = ["#[test]", "#[tokio::test]"].iter().any(|it| attributes.contains(it));
        assert!(is_test && !attributes.contains("#[ignore"), "{line}");
    }
    numbers.dedup();
    assert_eq!(numbers, (1..=PLACES).collect::<Vec<_>>());
}
