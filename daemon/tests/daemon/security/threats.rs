//! The tests that `SECURITY.md` names exist.

use std::fs;
use std::path::Path;

/// Returns the file and the test that a line of a table names, in its last cell.
fn named(line: &str) -> Option<(&str, &str)> {
    let cell = line.trim().strip_suffix('|')?.rsplit('|').next()?;
    let mut parts = cell.split('`').skip(1).step_by(2);
    Some((parts.next()?, parts.next()?))
}

#[test]
fn every_line_of_the_threat_model_names_a_test_that_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let text = fs::read_to_string(root.join("SECURITY.md")).unwrap();
    let is_row = |line: &&str| line.starts_with('|') && !line.starts_with("| ---");
    let rows: Vec<&str> =
        text.lines().filter(is_row).filter(|line| !line.contains("| test |")).collect();
    assert!(rows.len() > 30, "{}", rows.len());
    for row in rows {
        let (file, test) = named(row).unwrap_or_else(|| panic!("no test: {row}"));
        let source = fs::read_to_string(root.join(file)).unwrap_or_else(|_| panic!("{file}"));
        let begin = format!("fn {test}()");
        let found = source.find(&begin).unwrap_or_else(|| panic!("{file} has no test {test}"));
        let is_test = source[..found].lines().rev().take(4).any(|line| line.contains("test"));
        assert!(is_test, "{test} in {file} is no test");
    }
}
