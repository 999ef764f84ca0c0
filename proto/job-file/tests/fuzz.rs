//! Job files that nobody means: parsing ends with a job or with what is wrong with it.
//! `TRAIND_FUZZ_FILES` says how many there are.

#![allow(clippy::unwrap_used)] // helpers of tests fail by panicking

use std::path::Path;

use traind_job_file::{JobFile, fields};

const SHORT: usize = 3_000;
const SOUND: &str = "\
name: demo
model: {name_or_path: ./bert, task: sequence-classification, num_labels: 2}
data: {train: ['*.csv', b.csv], validation: dev.csv, label_map: {1: bad, 2: good}}
train: {learning_rate: 1.45e-4, warmup_steps: 0.06, eval_steps: 0.25, seed: 7}
resources: {platform: cpu, cores: 2, after: 01J}
output_dir: out
";
/// Difficult input for parsers: anchors, tags, deep nesting, odd numbers and odd characters.
const PIECES: &[&str] = &[
    "&a ",
    "*a",
    "<<: *a",
    "!!binary ",
    "!t ",
    "{",
    "}",
    "[",
    "]",
    "- ",
    ": ",
    "? ",
    "|\n",
    ">-\n",
    "'",
    "\"",
    "#",
    "\t",
    "\n",
    "\r",
    "\0",
    "\u{feff}",
    "\u{2028}",
    "é",
    "---\n",
    "...\n",
    "%YAML 1.1\n",
    "1e999",
    "-0x8000000000000000",
    ".nan",
    ".inf",
    "~",
    "null",
    "18446744073709551616",
    "0o7",
    "yes",
    "../..",
    "{{{{{{{{{{{{{{{{",
    "[[[[[[[[[[[[[[[[[[",
    "a: &b [*b, *b, *b]\n",
];

struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        // xorshift64
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit.max(1) as u64) as usize
    }
}

/// A sound file, changed in a few places. Cuts fall between characters: files are text.
fn draw(random: &mut Random, keys: &[String]) -> String {
    let mut text: Vec<char> = SOUND.chars().collect();
    for _ in 0..=random.below(5) {
        let at = random.below(text.len() + 1);
        let end = (at + random.below(20)).min(text.len());
        let new: Vec<char> = match random.below(5) {
            0 => Vec::new(),
            1 => PIECES[random.below(PIECES.len())].chars().collect(),
            2 => format!("{}: ", keys[random.below(keys.len())]).chars().collect(),
            3 => text[at..end].iter().chain(&text[at..end]).copied().collect(),
            _ => char::from_u32(random.below(0x11_0000) as u32).into_iter().collect(),
        };
        text.splice(at..end, new);
    }
    text.into_iter().collect()
}

#[test]
fn no_job_file_is_too_odd_to_be_refused() {
    let count = std::env::var("TRAIND_FUZZ_FILES").ok();
    let count = count.map_or(SHORT, |text| text.parse().unwrap());
    let keys: Vec<String> = fields().into_iter().map(|field| field.path.to_string()).collect();
    let (mut random, mut taken) = (Random(13), 0);
    let sound = JobFile::parse(SOUND, Path::new("/base"));
    assert!(sound.is_ok(), "{:?}", sound.err());
    for _ in 0..count {
        let text = draw(&mut random, &keys);
        match JobFile::parse(&text, Path::new("/base")) {
            Ok(_) => taken += 1,
            Err(violations) => assert!(!violations.is_empty(), "refused for nothing: {text}"),
        }
    }
    println!("{count} job files: {taken} taken, the others refused");
    assert!(taken > 0 && taken < count, "{taken}");
}
