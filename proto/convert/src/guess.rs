//! Guesses the task and the columns of a job from the columns of a data file and the model's configuration, for
//! `traind init`.

use serde_json::Value;

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

const TEXTS: [&str; 14] = [
    "text",
    "sentence",
    "content",
    "review",
    "tweet",
    "review_body",
    "question1",
    "premise",
    "comment_text",
    "comment",
    "message",
    "body",
    "headline",
    "title",
];
const PAIRS: [(&str, &str); 4] = [
    ("sentence1", "sentence2"),
    ("premise", "hypothesis"),
    ("question1", "question2"),
    ("question", "sentence"),
];
const LABELS: [&str; 12] = [
    "label",
    "labels",
    "stars",
    "sentiment",
    "category",
    "class",
    "target",
    "rating",
    "score",
    "polarity",
    "emotion",
    "intent",
];
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
    if find(&["instruction"]).is_some() && find(&["output"]).is_some() {
        return Guess { task: Some("sft"), columns: Vec::new() };
    }
    if let Some(messages) = find(&["messages", "conversations", "conversation"]) {
        return Guess { task: Some("sft"), columns: vec![("messages", messages)] };
    }
    if let (Some(chosen), Some(rejected)) = (find(&["chosen"]), find(&["rejected"])) {
        let mut columns = vec![("chosen", chosen), ("rejected", rejected)];
        columns.extend(find(&["prompt"]).map(|prompt| ("prompt", prompt)));
        return Guess { task: Some("dpo"), columns };
    }
    if find(&["anchor"]).is_some() && find(&["positive"]).is_some() {
        return Guess { task: Some("embedding"), columns: Vec::new() };
    }
    if let (Some(prompt), Some(completion)) = (find(&["prompt"]), find(&["completion"])) {
        let columns = vec![("prompt", prompt), ("completion", completion)];
        return Guess { task: Some("sft"), columns };
    }
    if let (Some(tokens), Some(labels)) = (find(&["tokens", "words"]), find(&TAGS)) {
        let columns = vec![("tokens", tokens), ("labels", labels)];
        return Guess { task: Some("token-classification"), columns };
    }
    let label = find(&LABELS);
    if let (Some(image), Some(label), None) = (find(&["image", "img"]), &label, find(&TEXTS)) {
        let columns = vec![("image", image), ("label", label.clone())];
        return Guess { task: Some("image-classification"), columns };
    }
    let pair = PAIRS.iter().find_map(|(one, other)| Some((find(&[*one])?, find(&[*other])?)));
    let mut columns = match pair {
        Some((text, text_pair)) => vec![("text", text), ("text_pair", text_pair)],
        None => find(&TEXTS).map(|text| ("text", text)).into_iter().collect(),
    };
    // If there are two columns, the other one holds the text.
    if let (Some(label), [one, other], true) = (&label, names, columns.is_empty()) {
        let text = if one == label { other } else { one };
        columns.push(("text", text.clone()));
    }
    let task = label.is_some().then_some("sequence-classification");
    columns.extend(label.map(|label| ("label", label)));
    Guess { task, columns }
}

/// The columns that a task reads by default of a file with columns called `names`, by the job file's names.
pub fn wanted(task: &str, names: &[String]) -> &'static [&'static str] {
    // Rows that are tokenized already, and texts by language.
    if find(names, &["input_ids", "translation"]).is_some() {
        return &[];
    }
    match task {
        "sequence-classification" => &["text", "label"],
        "token-classification" => &["tokens", "labels"],
        "question-answering" => &["question", "context", "answers"],
        "masked-lm" | "causal-lm" => &["text"],
        SEQ2SEQ => &["source", "target"],
        "dpo" => &["chosen", "rejected"],
        _ => &[],
    }
}

/// The task that a model's configuration names, by its architecture, or where that has no head by its type.
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
    // Types whose models without a head have one task, or one before others.
    const TYPES: [(&str, &[&str]); 3] = [
        (SEQ2SEQ, &["t5", "mt5", "bart", "mbart"]),
        ("image-classification", &["vit", "deit"]),
        (
            "causal-lm",
            &[
                "gpt2",
                "llama",
                "mistral",
                "qwen2",
                "qwen3",
                "gemma",
                "gemma2",
                "gemma3_text",
                "phi3",
                "smollm3",
                "olmo2",
                "olmo3",
                "granite",
            ],
        ),
    ];
    let architecture = config["architectures"][0].as_str().unwrap_or_default();
    let of_head = HEADS.iter().find(|(head, _)| architecture.ends_with(head));
    let of_type = || {
        let is_whole = !architecture.ends_with("EncoderModel");
        let model_type = config["model_type"].as_str().filter(|_| is_whole)?;
        TYPES.iter().find(|(_, types)| types.contains(&model_type)).map(|(task, _)| *task)
    };
    of_head.map(|(_, task)| *task).or_else(of_type)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(header_line: &str, task: Option<&str>, expect: &[(&str, &str)]) {
        let names: Vec<String> = header_line.split(',').map(str::to_owned).collect();
        let guess = columns(&names);
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
            "id,sentence1,sentence2,label",
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
        check(
            "utterance,Intent",
            Some("sequence-classification"),
            &[("text", "utterance"), ("label", "Intent")],
        );
        check("img,label", Some("image-classification"), &[("image", "img"), ("label", "label")]);
        check(
            "image,text,label",
            Some("sequence-classification"),
            &[("text", "text"), ("label", "label")],
        );
        check("instruction,input,output", Some("sft"), &[]);
        check("anchor,positive,negative", Some("embedding"), &[]);
        check("id,conversations", Some("sft"), &[("messages", "conversations")]);
        check("text", None, &[("text", "text")]);
        check("a,b", None, &[]);
    }

    #[test]
    fn models_without_a_head_have_the_task_of_their_type() {
        let task = |config: &str| task_of_model(&serde_json::from_str(config).unwrap());
        for model_type in ["t5", "mt5", "bart", "mbart"] {
            assert_eq!(task(&format!(r#"{{"model_type": "{model_type}"}}"#)), Some(SEQ2SEQ));
        }
        assert_eq!(task(r#"{"model_type": "t5", "architectures": ["T5Model"]}"#), Some(SEQ2SEQ));
        assert_eq!(task(r#"{"model_type": "t5", "architectures": ["T5EncoderModel"]}"#), None);
        let classifier =
            r#"{"model_type": "llama", "architectures": ["LlamaForSequenceClassification"]}"#;
        assert_eq!(task(classifier), Some("sequence-classification"));
        assert_eq!(task(r#"{"model_type": "llama"}"#), Some("causal-lm"));
        assert_eq!(task(r#"{"model_type": "vit"}"#), Some("image-classification"));
        // Encoders have many tasks, which the data decide.
        assert_eq!(task(r#"{"model_type": "bert", "architectures": null}"#), None);
        assert_eq!(task("null"), None);
    }
}
