//! Guesses the task and the columns of a job from the first line of a data file and the model's
//! configuration, for `traind init`.

use serde_json::{Map, Value};

/// The task of models that write a text from another.
pub const SEQ2SEQ: &str = "seq2seq-lm";

/// Columns of a data file by the job file's names, and the task that they are for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Guess {
    /// Task, by the job file's name.
    pub task: Option<&'static str>,
    /// Fields of `data` with columns.
    pub columns: Vec<(&'static str, String)>,
}

const TEXTS: [&str; 8] =
    ["text", "sentence", "content", "review", "tweet", "review_body", "question1", "premise"];
const PAIRS: [(&str, &str); 4] = [
    ("sentence1", "sentence2"),
    ("premise", "hypothesis"),
    ("question1", "question2"),
    ("question", "sentence"),
];
const LABELS: [&str; 7] = ["label", "labels", "stars", "sentiment", "category", "class", "target"];
const TAGS: [&str; 4] = ["ner_tags", "tags", "labels", "pos_tags"];

/// Columns of texts and the texts to write from them.
const SOURCES: [(&str, &str); 8] = [
    ("source", "target"),
    ("article", "highlights"),
    ("article", "abstract"),
    ("document", "summary"),
    ("dialogue", "summary"),
    ("article", "summary"),
    ("text", "summary"),
    ("description", "abstract"),
];

/// The columns that the names of columns suggest for a model that writes a text from another.
pub fn columns_of_seq2seq(names: &[String]) -> Guess {
    let both = |(source, target)| Some((find(names, &[source])?, find(names, &[target])?));
    let columns = match SOURCES.into_iter().find_map(both) {
        Some((source, target)) => vec![("source", source), ("target", target)],
        None => Vec::new(),
    };
    Guess { task: Some(SEQ2SEQ), columns }
}

/// The first wanted name that a column has, as the column spells it.
fn find(names: &[String], wanted: &[&str]) -> Option<String> {
    let known = |want: &&str| names.iter().find(|name| name.eq_ignore_ascii_case(want));
    wanted.iter().find_map(known).cloned()
}

/// The task and the columns that the names of columns suggest.
pub fn columns(names: &[String]) -> Guess {
    let find = |wanted: &[&str]| find(names, wanted);
    if let (Some(question), Some(context), Some(answers)) =
        (find(&["question"]), find(&["context"]), find(&["answers"]))
    {
        let columns = vec![("question", question), ("context", context), ("answers", answers)];
        return Guess { task: Some("question-answering"), columns };
    }
    if let Some(messages) = find(&["messages"]) {
        return Guess { task: Some("sft"), columns: vec![("messages", messages)] };
    }
    if let (Some(chosen), Some(rejected)) = (find(&["chosen"]), find(&["rejected"])) {
        let mut columns = vec![("chosen", chosen), ("rejected", rejected)];
        columns.extend(find(&["prompt"]).map(|prompt| ("prompt", prompt)));
        return Guess { task: Some("dpo"), columns };
    }
    if let (Some(prompt), Some(completion)) = (find(&["prompt"]), find(&["completion"])) {
        let columns = vec![("prompt", prompt), ("completion", completion)];
        return Guess { task: Some("sft"), columns };
    }
    if let (Some(tokens), Some(labels)) = (find(&["tokens", "words"]), find(&TAGS)) {
        let columns = vec![("tokens", tokens), ("labels", labels)];
        return Guess { task: Some("token-classification"), columns };
    }
    let pair = PAIRS.iter().find_map(|(one, other)| Some((find(&[*one])?, find(&[*other])?)));
    let mut columns = match pair {
        Some((text, text_pair)) => vec![("text", text), ("text_pair", text_pair)],
        None => find(&TEXTS).map(|text| ("text", text)).into_iter().collect(),
    };
    let label = find(&LABELS);
    let task = label.is_some().then_some("sequence-classification");
    columns.extend(label.map(|label| ("label", label)));
    Guess { task, columns }
}

/// Names of columns in the first line of a file, by the end of its name; `None` for formats that
/// have no such line.
pub fn header(name: &str, line: &str) -> Option<Vec<String>> {
    let name = name.to_lowercase();
    let line = line.trim_start_matches('\u{feff}').trim_end_matches(['\r', '\n']);
    if name.ends_with(".csv") {
        Some(fields(line, ','))
    } else if name.ends_with(".tsv") {
        Some(fields(line, '\t'))
    } else if name.ends_with(".jsonl") || name.ends_with(".json") {
        let row: Map<String, Value> = serde_json::from_str(line).ok()?;
        Some(row.keys().cloned().collect())
    } else {
        name.ends_with(".txt").then(|| vec!["text".to_owned()])
    }
}

/// The fields of a line of CSV.
fn fields(line: &str, delimiter: char) -> Vec<String> {
    let mut found = vec![String::new()];
    let mut quoted = false;
    for c in line.chars() {
        match c {
            '"' => quoted = !quoted,
            c if c == delimiter && !quoted => found.push(String::new()),
            c => found.last_mut().map_or((), |field| field.push(c)),
        }
    }
    found
}

/// The task that a model's configuration names, by its architecture.
pub fn task_of_model(config: &Value) -> Option<&'static str> {
    const HEADS: [(&str, &str); 8] = [
        ("ForSequenceClassification", "sequence-classification"),
        ("ForTokenClassification", "token-classification"),
        ("ForQuestionAnswering", "question-answering"),
        ("ForMaskedLM", "masked-lm"),
        ("LMHeadModel", "causal-lm"),
        ("ForCausalLM", "causal-lm"),
        ("ForConditionalGeneration", SEQ2SEQ),
        ("ForImageClassification", "image-classification"),
    ];
    let architecture = config["architectures"][0].as_str()?;
    HEADS.iter().find(|(head, _)| architecture.ends_with(head)).map(|(_, task)| *task)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(header_line: &str, task: Option<&str>, expect: &[(&str, &str)]) {
        let guess = columns(&header("x.csv", header_line).unwrap_or_default());
        let found: Vec<(&str, &str)> =
            guess.columns.iter().map(|(to, of)| (*to, of.as_str())).collect();
        assert_eq!((guess.task, found.as_slice()), (task, expect), "{header_line}");
    }

    #[test]
    fn names_of_columns_suggest_a_task() {
        check(
            "Text,Label",
            Some("sequence-classification"),
            &[("text", "Text"), ("label", "Label")],
        );
        check(
            "id,\"sentence1\",sentence2,label",
            Some("sequence-classification"),
            &[("text", "sentence1"), ("text_pair", "sentence2"), ("label", "label")],
        );
        check(
            "tokens,ner_tags",
            Some("token-classification"),
            &[("tokens", "tokens"), ("labels", "ner_tags")],
        );
        check(
            "id,context,question,answers",
            Some("question-answering"),
            &[("question", "question"), ("context", "context"), ("answers", "answers")],
        );
        check("messages", Some("sft"), &[("messages", "messages")]);
        check(
            "Prompt,completion",
            Some("sft"),
            &[("prompt", "Prompt"), ("completion", "completion")],
        );
        check(
            "prompt,chosen,rejected",
            Some("dpo"),
            &[("chosen", "chosen"), ("rejected", "rejected"), ("prompt", "prompt")],
        );
        check("text", None, &[("text", "text")]);
        check("a,b", None, &[]);
    }

    #[test]
    fn a_header_is_read_by_the_end_of_the_files_name() {
        let names = |name, line| header(name, line).map(|names: Vec<String>| names.join("|"));
        assert_eq!(names("a.csv", "\u{feff}a,\"b,c\"\r\n"), Some("a|b,c".to_owned()));
        assert_eq!(names("a.TSV", "a\tb"), Some("a|b".to_owned()));
        assert_eq!(names("a.jsonl", "{\"text\": 1, \"label\": 2}"), Some("text|label".to_owned()));
        assert_eq!(names("a.txt", "It was"), Some("text".to_owned()));
        assert_eq!(names("a.parquet", "PAR1"), None);
        assert_eq!(names("a.json", "["), None);
    }
}
