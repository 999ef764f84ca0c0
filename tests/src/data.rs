//! Labelled text that a tiny model can learn: each row mixes words of its class with words of no
//! class. A seed gives the same rows on every machine.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StringArray};
use parquet::arrow::ArrowWriter;

pub const CLASSES: [&str; 3] = ["animal", "fruit", "tool"];

const CLASS_WORDS: [[&str; 10]; 3] = [
    ["cat", "dog", "horse", "cow", "sheep", "goat", "fox", "wolf", "bear", "deer"],
    ["apple", "pear", "plum", "fig", "grape", "lemon", "lime", "melon", "peach", "mango"],
    ["hammer", "saw", "drill", "chisel", "plane", "file", "wrench", "clamp", "anvil", "level"],
];
const OTHER_WORDS: [&str; 15] = [
    "the", "a", "one", "some", "red", "old", "big", "new", "near", "under", "and", "with", "is",
    "was", "there",
];

/// All words that rows consist of, each once.
pub fn words() -> impl Iterator<Item = &'static str> {
    CLASS_WORDS.into_iter().flatten().chain(OTHER_WORDS)
}

/// Words that belong to no class.
pub fn other_words() -> &'static [&'static str] {
    &OTHER_WORDS
}

/// A text and its class name.
pub type Row = (String, &'static str);

/// `count` rows of 3 to `max_words` words.
pub fn rows(seed: u64, count: usize, max_words: usize) -> Vec<Row> {
    let mut random = Random(seed);
    (0..count).map(|_| row(&mut random, max_words)).collect()
}

fn row(random: &mut Random, max_words: usize) -> Row {
    let class = random.below(CLASSES.len());
    let length = 3 + random.below(max_words - 2);
    let word = |position: usize, random: &mut Random| match (position, random.below(2)) {
        (0, _) | (_, 0) => CLASS_WORDS[class][random.below(10)],
        _ => OTHER_WORDS[random.below(15)],
    };
    let words: Vec<&str> = (0..length).map(|position| word(position, random)).collect();
    (words.join(" "), CLASSES[class])
}

pub fn csv(rows: &[Row]) -> String {
    let lines = rows.iter().map(|(text, label)| format!("\"{text}\",{label}\n"));
    "text,label\n".to_owned() + &lines.collect::<String>()
}

pub fn parquet(rows: &[Row]) -> Vec<u8> {
    parquet_of(["text", "label"], rows)
}

/// A Parquet file with a column of texts and one of labels.
pub fn parquet_of(names: [&str; 2], rows: &[(String, impl AsRef<str>)]) -> Vec<u8> {
    let texts: StringArray = rows.iter().map(|(text, _)| Some(text.as_str())).collect();
    let labels: StringArray = rows.iter().map(|(_, label)| Some(label.as_ref())).collect();
    let columns = [(names[0], Arc::new(texts) as ArrayRef), (names[1], Arc::new(labels))];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    bytes
}

/// SplitMix64 (Steele, Lea and Flood, 2014).
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((bits ^ (bits >> 31)) % end as u64) as usize
    }
}
