//! Exact match and F1 as SQuAD's evaluation scripts define them, in percent: version 1.1, and 2.0
//! where questions may have no answer.

use std::collections::HashMap;

/// Scores of a set of questions, in percent of their number.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SquadScores {
    /// The percentage of predictions that are an answer, once both are normalized.
    pub exact: f64,
    /// The mean F1 of the words of predictions, in percent.
    pub f1: f64,
    /// The number of questions.
    pub total: usize,
    /// `HasAns_exact`, `HasAns_f1` and their number: questions that have an answer.
    pub has_answer: Share,
    /// `NoAns_exact`, `NoAns_f1` and their number.
    pub no_answer: Share,
}

/// Scores of part of the questions.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Share {
    /// The percentage of exact matches.
    pub exact: f64,
    /// The mean F1, in percent.
    pub f1: f64,
    /// The number of questions.
    pub total: usize,
}

/// Scores predictions, each against the answers that are right; the best of them counts. With
/// `version_2` an empty prediction is right where no answer is.
pub fn score<'text>(
    pairs: impl IntoIterator<Item = (&'text str, Vec<&'text str>)>,
    version_2: bool,
) -> SquadScores {
    let (mut has_answer, mut no_answer) = (Share::default(), Share::default());
    for (prediction, answers) in pairs {
        // Also an answer of which no word is left is one.
        let share = if answers.is_empty() { &mut no_answer } else { &mut has_answer };
        let answers: Vec<Vec<String>> = answers.into_iter().map(words).collect();
        let answers = match version_2 {
            true => answers.into_iter().filter(|answer| !answer.is_empty()).collect(),
            false => answers,
        };
        share.add(&words(prediction), &answers, version_2);
    }
    let total = has_answer.total + no_answer.total;
    let overall =
        |of: fn(&Share) -> f64| 100.0 * (of(&has_answer) + of(&no_answer)) / total.max(1) as f64;
    SquadScores {
        exact: overall(|share| share.exact),
        f1: overall(|share| share.f1),
        total,
        has_answer: has_answer.in_percent(),
        no_answer: no_answer.in_percent(),
    }
}

impl Share {
    fn add(&mut self, prediction: &[String], answers: &[Vec<String>], version_2: bool) {
        let nothing = [Vec::new()];
        // Version 1.1 has no question without an answer, and nothing would be right for one.
        let answers = if answers.is_empty() && version_2 { &nothing } else { answers };
        let exact = answers.iter().any(|answer| answer == prediction);
        let f1 = answers.iter().map(|answer| f1(prediction, answer, version_2));
        self.exact += f64::from(u8::from(exact));
        self.f1 += f1.fold(0.0, f64::max);
        self.total += 1;
    }

    fn in_percent(self) -> Self {
        let share = |sum: f64| 100.0 * sum / self.total.max(1) as f64;
        Self { exact: share(self.exact), f1: share(self.f1), total: self.total }
    }
}

/// Overlap of words, each as often as it occurs.
fn f1(prediction: &[String], answer: &[String], version_2: bool) -> f64 {
    if version_2 && (prediction.is_empty() || answer.is_empty()) {
        return f64::from(u8::from(prediction == answer));
    }
    let mut left: HashMap<&str, usize> = HashMap::new();
    answer.iter().for_each(|word| *left.entry(word).or_default() += 1);
    let common = prediction.iter().filter(|word| match left.get_mut(word.as_str()) {
        Some(count) if *count > 0 => {
            *count -= 1;
            true
        }
        _ => false,
    });
    let common = common.count() as f64;
    match common > 0.0 {
        true => {
            let (precision, recall) =
                (common / prediction.len() as f64, common / answer.len() as f64);
            2.0 * precision * recall / (precision + recall)
        }
        false => 0.0,
    }
}

/// The words that are compared: in lower case, without ASCII punctuation and articles.
fn words(text: &str) -> Vec<String> {
    let lower = text.to_lowercase();
    let plain: String = lower.chars().filter(|letter| !letter.is_ascii_punctuation()).collect();
    let mut kept = String::new();
    let mut run = String::new();
    for letter in plain.chars().chain([' ']) {
        if letter.is_alphanumeric() {
            run.push(letter);
            continue;
        }
        // An article is a whole run of letters, whatever stands around it.
        kept.push_str(if matches!(run.as_str(), "a" | "an" | "the") { " " } else { &run });
        kept.push(letter);
        run.clear();
    }
    kept.split_whitespace().map(str::to_owned).collect()
}
