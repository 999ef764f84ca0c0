//! Rows of supervised fine-tuning are those of TRL's SFTTrainer, and pairs those of its DPOTrainer. The
//! fixture is written by `scripts/fixtures/chat.py`.

// A fixture of another shape is a failed test.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value as Json, json};
use traind_loader::{
    ArrayValues, BatchAxis, BatchPlan, BatchSizes, ChatTemplate, Collator, DatasetOptions, Dpo,
    HuggingFaceTokenizer, PackingStrategy, Padding, ScheduledBatch, Sft, TaskSpec, TokenizedSet,
    TokenizerOptions, eos_token, prepare,
};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/chat")
}

/// A folder with the tokenizer and a template.
fn model_folder(template: Option<&str>) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let copy = |from: PathBuf, name: &str| std::fs::copy(from, folder.path().join(name)).unwrap();
    for name in ["tokenizer.json", "tokenizer_config.json"] {
        copy(fixtures().join("tokenizer").join(name), name);
    }
    if let Some(template) = template {
        let file = fixtures().join("templates").join(template).with_extension("jinja");
        copy(file, "chat_template.jinja");
    }
    folder
}

/// The task with TRL's settings.
fn task(folder: &Path, settings: &Json) -> Sft {
    let given = settings["eos_token"].as_str();
    Sft {
        messages: "messages".to_owned(),
        prompt: "prompt".to_owned(),
        completion: "completion".to_owned(),
        text: "text".to_owned(),
        template: ChatTemplate::open(folder, given).unwrap(),
        eos_token: given.map(str::to_owned).or(eos_token(folder).unwrap()),
        max_length: settings["max_length"].as_u64().unwrap() as u32,
        assistant_only_loss: settings["assistant_only_loss"].as_bool().unwrap_or(false),
        completion_only_loss: settings["completion_only_loss"].as_bool(),
        packing: settings["packing_strategy"].as_str().map(|name| match name {
            "bfd" => PackingStrategy::Bfd,
            _ => PackingStrategy::Wrapped,
        }),
        layouts: None,
        position_ids: settings["packing_strategy"] == "bfd",
    }
}

fn pairs(folder: &Path, settings: &Json) -> Dpo {
    Dpo {
        prompt: "prompt".to_owned(),
        chosen: "chosen".to_owned(),
        rejected: "rejected".to_owned(),
        template: ChatTemplate::open(folder, None).unwrap(),
        eos_token: eos_token(folder).unwrap(),
        layouts: None,
        max_length: settings["max_length"].as_u64().unwrap() as u32,
    }
}

fn set(
    rows: &Json,
    task: TaskSpec,
    folder: &Path,
) -> Result<Arc<TokenizedSet>, traind_loader::Error> {
    let file = folder.join("rows.jsonl");
    let lines: Vec<String> = rows.as_array().unwrap().iter().map(Json::to_string).collect();
    std::fs::write(&file, lines.join("\n")).unwrap();
    let tokenizer = HuggingFaceTokenizer::open(folder, &TokenizerOptions::default()).unwrap();
    let options = DatasetOptions {
        files: [file.to_str().unwrap().to_owned()].into_iter().collect(),
        task,
        cache_dir: Some(folder.join("cache")),
    };
    let made = prepare(&options, &tokenizer)?;
    let cached = prepare(&options, &tokenizer)?;
    assert!(cached.cache_hit && cached.set.lengths() == made.set.lengths());
    Ok(cached.set)
}

/// Row `row` alone in a batch: the values of an array.
fn array(collator: &Collator, row: u32, length: u32, name: &str) -> Json {
    let sizes = BatchSizes::of_rows(1).with(BatchAxis::Positions, length);
    let plan = BatchPlan { sizes, rows: vec![row], cores: 1 };
    let scheduled = ScheduledBatch { batch: 0, epoch: 0, batch_in_epoch: 0, plan };
    let batch = collator.collate(scheduled).unwrap();
    let array = batch.cores[0].array(name).unwrap_or_else(|| panic!("no {name}"));
    let ArrayValues::S32(values) = &array.values else { panic!("{array:?}") };
    json!(values)
}

#[test]
fn rows_are_those_of_trl() {
    let text = std::fs::read_to_string(fixtures().join("chat.json")).unwrap();
    let expected: Json = serde_json::from_str(&text).unwrap();
    for (name, case) in expected["sets"].as_object().unwrap() {
        let folder = model_folder(case["template"].as_str());
        let task = task(folder.path(), &case["settings"]);
        let set = set(&case["rows"], TaskSpec::Sft(task), folder.path());
        let set = set.unwrap_or_else(|error| panic!("{name}: {error}"));
        let collator = Collator::new(Arc::clone(&set), Padding::behind(2));
        let columns = case["expected"].as_object().unwrap();
        assert_eq!(set.len(), columns["input_ids"].as_array().unwrap().len(), "{name}");
        for (column, rows) in columns {
            for (row, expect) in rows.as_array().unwrap().iter().enumerate() {
                let found = array(&collator, row as u32, set.lengths()[row], column);
                // Nothing predicts the first token of a row, so its label counts nowhere.
                let behind = usize::from(column == "labels");
                let [found, expect] =
                    [&found, expect].map(|ids| &ids.as_array().unwrap()[behind..]);
                assert_eq!(found, expect, "{name}, {column} of row {row}");
            }
        }
    }
}

/// The two sequences of each pair are rows of the arrays, one behind the other.
#[test]
fn pairs_are_those_of_trl() {
    let text = std::fs::read_to_string(fixtures().join("chat.json")).unwrap();
    let expected: Json = serde_json::from_str(&text).unwrap();
    for (name, case) in expected["pair_sets"].as_object().unwrap() {
        let folder = model_folder(case["template"].as_str());
        let task = TaskSpec::Dpo(pairs(folder.path(), &case["settings"]));
        let set = set(&case["rows"], task, folder.path()).unwrap();
        let longest = (0..set.len()).map(|row| set.positions(row)).max().unwrap();
        let sizes = BatchSizes::of_rows(set.len()).with(BatchAxis::Positions, longest);
        let plan = BatchPlan { sizes, rows: (0..set.len() as u32).collect(), cores: 1 };
        let scheduled = ScheduledBatch { batch: 0, epoch: 0, batch_in_epoch: 0, plan };
        let collator = Collator::new(Arc::clone(&set), Padding::behind(2));
        let batch = collator.collate(scheduled).unwrap();
        for (column, expect) in case["expected"].as_object().unwrap() {
            let array = batch.cores[0].array(column).unwrap();
            assert_eq!(array.dims, [2 * set.len(), longest as usize], "{name}");
            let ArrayValues::S32(values) = &array.values else { panic!("{array:?}") };
            assert_eq!(&json!(values), expect, "{name}, {column}");
        }
        assert_eq!(batch.cores[0].spans.len(), set.len());
        assert_eq!(batch.tokens, set.tokens(), "{name}");
    }
}

/// Completions of axolotl's and LLaMA-Factory's pairs are single messages.
#[test]
fn a_completion_may_be_one_message() {
    let message = |text: &str| json!({"role": "assistant", "content": text});
    let row = |wrap: fn(Json) -> Json| {
        json!({"prompt": [{"role": "user", "content": "a"}], "chosen": wrap(message("b c")),
            "rejected": wrap(message("d"))})
    };
    let tokens = |row: Json| {
        let folder = model_folder(Some("phi"));
        let task = TaskSpec::Dpo(pairs(folder.path(), &json!({"max_length": 64})));
        let set = set(&json!([row]), task, folder.path()).unwrap();
        let sizes = BatchSizes::of_rows(1).with(BatchAxis::Positions, set.positions(0));
        let plan = BatchPlan { sizes, rows: vec![0], cores: 1 };
        let scheduled = ScheduledBatch { batch: 0, epoch: 0, batch_in_epoch: 0, plan };
        let batch = Collator::new(set, Padding::behind(2)).collate(scheduled).unwrap();
        ["input_ids", "labels"].map(|name| batch.cores[0].array(name).unwrap().values.clone())
    };
    assert_eq!(tokens(row(|message| message)), tokens(row(|message| json!([message]))));
}

/// An empty slot has two rows without weight.
#[test]
fn pairs_on_several_cores_are_whole() {
    let folder = model_folder(None);
    let rows = json!([{"chosen": "a b", "rejected": "a c"}]);
    let task = TaskSpec::Dpo(pairs(folder.path(), &json!({"max_length": 8})));
    let set = set(&rows, task, folder.path()).unwrap();
    let sizes = BatchSizes::of_rows(1).with(BatchAxis::Positions, 8);
    let plan = BatchPlan { sizes, rows: vec![0], cores: 2 };
    let scheduled = ScheduledBatch { batch: 0, epoch: 0, batch_in_epoch: 0, plan };
    let batch = Collator::new(set, Padding::behind(2)).collate(scheduled).unwrap();
    let weights = batch.cores.iter().map(|core| &core.array("sample_weights").unwrap().values);
    let expect = [[1.0, 1.0], [0.0, 0.0]].map(|weights| ArrayValues::F32(weights.to_vec()));
    assert!(weights.eq(&expect));
}

#[test]
fn rows_that_are_no_conversations_are_named() {
    let check = |template: Option<&str>, settings: Json, row: Json, expect: &str| {
        let folder = model_folder(template);
        let task = match row.get("chosen") {
            Some(_) => TaskSpec::Dpo(pairs(folder.path(), &settings)),
            None => TaskSpec::Sft(task(folder.path(), &settings)),
        };
        let error = set(&json!([row]), task, folder.path());
        let error = error.unwrap_err().to_string();
        assert!(error.contains(expect), "{error}");
    };
    let plain = json!({"max_length": 16});
    let assistant = json!({"max_length": 16, "assistant_only_loss": true});
    let chat = json!({"messages": [{"role": "user", "content": "a"}]});
    check(
        None,
        plain.clone(),
        chat.clone(),
        "rows.jsonl, row 0 (line 1), column \"messages\": the tokenizer has no chat template",
    );
    check(Some("phi"), assistant.clone(), chat.clone(), "{% generation %}");
    check(Some("phi_generation"), assistant.clone(), chat, "no text of the assistant");
    check(Some("phi"), plain.clone(), json!({"messages": "a"}), "found text");
    check(
        Some("phi"),
        plain.clone(),
        json!({"prompt": "a", "completion": []}),
        "\"prompt\": is text",
    );
    check(Some("phi_generation"), assistant, json!({"text": "a"}), "needs messages");
    let pair = |chosen: Json, rejected: Json| json!({"chosen": chosen, "rejected": rejected});
    check(Some("phi"), plain.clone(), pair(json!("a"), json!([])), "\"chosen\": is text");
    check(Some("phi"), plain.clone(), pair(json!([]), json!("a")), "\"rejected\": is text");
    let mut answers = pair(json!({"role": "assistant"}), json!({"role": "assistant"}));
    answers["prompt"] = json!("a");
    check(Some("phi"), plain.clone(), answers, "\"prompt\": is text");
    check(None, plain.clone(), pair(json!([]), json!([])), "no chat template");
    check(None, plain.clone(), json!({"chosen": "a"}), "no column \"rejected\"");
    check(None, plain, json!({"other": "a"}), "no column \"text\"");
}
