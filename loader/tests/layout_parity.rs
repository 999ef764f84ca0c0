//! Rows in the layouts of axolotl and LLaMA-Factory have the tokens and labels that these tools make of
//! them. The fixture is written by `scripts/fixtures/layouts.py`.

// A fixture of another shape is a failed test.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value as Json, json};
use traind_loader::{
    ArrayValues, BatchAxis, BatchPlan, BatchSizes, ChatOptions, ChatTemplate, Collator, CoreBatch,
    Cpo, DatasetOptions, Dpo, HuggingFaceTokenizer, Kto, LayoutEncoding, Layouts, Padding,
    PieceRule, PromptFormat, PromptStyle, Reward, RowFields, RowFormat, RowLayout, ScheduledBatch,
    Sft, TaskSpec, TokenLimits, TokenizedSet, TokenizerOptions, TrainOn, TurnRule, bos_token,
    eos_token, prepare, value_of_json,
};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

fn expected() -> Json {
    let text = std::fs::read_to_string(fixtures().join("layouts/layouts.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn tokenizer() -> PathBuf {
    fixtures().join("layouts/tokenizer")
}

fn pairs_of(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(one, other)| ((*one).to_owned(), (*other).to_owned())).collect()
}

fn layout(format: RowFormat, messages: &str) -> RowLayout {
    let name = |name: &str| name.to_owned();
    let is_sharegpt = messages == "conversations";
    RowLayout {
        format,
        fields: RowFields {
            instruction: name("instruction"),
            input: name("input"),
            output: name("output"),
            history: name("history"),
            system: name("system"),
            messages: name("messages"),
            other_messages: Some(name(messages)),
            text: name("text"),
            chosen: name("chosen"),
            rejected: name("rejected"),
        },
        roles: pairs_of(&[("human", "user"), ("gpt", "assistant"), ("system", "system")]),
        message_fields: match is_sharegpt {
            true => pairs_of(&[("role", "from"), ("content", "value")]),
            false => pairs_of(&[("role", "role"), ("content", "content")]),
        },
        training: vec![name("learn")],
        drops_system: false,
    }
}

fn layouts(layout: RowLayout, encoding: LayoutEncoding) -> Layouts {
    let bos_token = bos_token(&tokenizer()).unwrap();
    Layouts { layouts: vec![layout], encoding, bos_token, drops_long_rows: false }
}

fn sft(template: Option<&str>, layouts: Layouts, max_length: u32) -> TaskSpec {
    let choose = |name| ChatTemplate::choose(&tokenizer(), name, None).unwrap();
    TaskSpec::Sft(Sft {
        messages: "messages".to_owned(),
        prompt: "prompt".to_owned(),
        completion: "completion".to_owned(),
        text: "text".to_owned(),
        template: template.and_then(choose),
        eos_token: eos_token(&tokenizer()).unwrap(),
        max_length,
        assistant_only_loss: false,
        completion_only_loss: None,
        packing: None,
        layouts: Some(layouts),
        position_ids: false,
    })
}

fn dpo(template: Option<ChatTemplate>, layouts: Layouts, max_length: u32) -> Dpo {
    Dpo {
        prompt: "prompt".to_owned(),
        chosen: "chosen".to_owned(),
        rejected: "rejected".to_owned(),
        template,
        eos_token: eos_token(&tokenizer()).unwrap(),
        layouts: Some(layouts),
        max_length,
    }
}

fn kto(pairs: Dpo, rotation: Option<u32>) -> TaskSpec {
    TaskSpec::Kto(Kto {
        pairs,
        completion: "completion".to_owned(),
        label: "label".to_owned(),
        rotation,
        is_paired: false,
    })
}

fn set(rows: &[Json], task: TaskSpec) -> Result<Arc<TokenizedSet>, traind_loader::Error> {
    set_by(&tokenizer(), rows, task)
}

fn set_by(
    tokenizer: &Path,
    rows: &[Json],
    task: TaskSpec,
) -> Result<Arc<TokenizedSet>, traind_loader::Error> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rows.jsonl");
    // A column that the first row lacks counts as absent in all.
    let mut columns = serde_json::Map::new();
    for (name, _) in rows.iter().flat_map(|row| row.as_object().unwrap()) {
        columns.insert(name.clone(), Json::Null);
    }
    let whole = |row: &Json| {
        let mut columns = columns.clone();
        columns.extend(row.as_object().unwrap().clone());
        Json::Object(columns).to_string()
    };
    std::fs::write(&file, rows.iter().map(whole).collect::<Vec<_>>().join("\n")).unwrap();
    let tokenizer = HuggingFaceTokenizer::open(tokenizer, &TokenizerOptions::default());
    let options = DatasetOptions {
        files: [file.to_str().unwrap().to_owned()].into_iter().collect(),
        task,
        token_limits: TokenLimits::default(),
        cache_dir: None,
    };
    Ok(prepare(&options, &tokenizer.unwrap())?.set)
}

/// Compares the rows that have targets with those of the fixture.
fn check(about: &str, rows: &[Json], task: TaskSpec, expected: &Json) {
    let has_target = |row: &&Json| {
        row["labels"].as_array().unwrap().iter().any(|label| label.as_i64() != Some(-100))
    };
    let expected: Vec<&Json> = expected.as_array().unwrap().iter().filter(has_target).collect();
    let set = set(rows, task).unwrap_or_else(|error| panic!("{about}: {error}"));
    assert_eq!(set.len(), expected.len(), "{about}");
    for (row, expect) in expected.into_iter().enumerate() {
        let ids = json!(set.input_ids(row).unwrap());
        assert_eq!(ids, expect["input_ids"], "{about}, tokens of row {row}");
        let labels = json!(set.token_labels(row).unwrap().unwrap());
        assert_eq!(labels, expect["labels"], "{about}, labels of row {row}");
    }
}

/// All rows of a set on one core.
fn batch_of(set: Arc<TokenizedSet>) -> CoreBatch {
    let longest = (0..set.len()).map(|row| set.positions(row)).max().unwrap();
    let sizes = BatchSizes::of_rows(set.len()).with(BatchAxis::Positions, longest);
    let plan = BatchPlan { sizes, rows: (0..set.len() as u32).collect(), cores: 1 };
    let scheduled = ScheduledBatch { batch: 0, epoch: 0, batch_in_epoch: 0, plan };
    let batch = Collator::new(set, Padding::behind(2)).collate(scheduled).unwrap();
    batch.cores.into_iter().next().unwrap()
}

/// Compares tokens or labels with the sequences of the fixture, which are padded to the longest.
fn check_array<'a>(
    about: &str,
    batch: &CoreBatch,
    column: &str,
    expected: impl IntoIterator<Item = &'a Json>,
) {
    let array = batch.array(column).unwrap();
    let ArrayValues::S32(values) = &array.values else { panic!("{about}: {array:?}") };
    let fill = if column == "labels" { -100 } else { 2 };
    let sequences: Vec<Vec<i64>> =
        expected.into_iter().map(|ids| serde_json::from_value(ids.clone()).unwrap()).collect();
    let longest = sequences.iter().map(Vec::len).max().unwrap();
    let padded = sequences.into_iter().flat_map(|mut ids| {
        ids.resize(longest, fill);
        ids
    });
    assert_eq!(json!(values), json!(padded.collect::<Vec<_>>()), "{about}, {column}");
}

fn rows(all: &Json, name: &str) -> Vec<Json> {
    all["rows"][name].as_array().unwrap().clone()
}

fn train_on(settings: &Json, name: &str) -> Option<TrainOn> {
    Some(match settings[name].as_str()? {
        "all" => TrainOn::All,
        "turn" => TrainOn::Turn,
        "last" => TrainOn::Last,
        _ => TrainOn::None,
    })
}

#[test]
fn turns_are_those_of_axolotl() {
    let all = expected();
    for (name, case) in all["turns"].as_object().unwrap() {
        let settings = &case["settings"];
        let texts = |name: &str| -> Option<Vec<String>> {
            settings.get(name).map(|list| serde_json::from_value(list.clone()).unwrap())
        };
        let train_on_eos = train_on(settings, "train_on_eos").unwrap();
        let rule = TurnRule {
            roles_to_train: texts("roles_to_train").unwrap(),
            train_on_inputs: settings["train_on_inputs"] == true,
            train_on_eos,
            train_on_eot: train_on(settings, "train_on_eot").unwrap_or(train_on_eos),
            eot_tokens: texts("eot_tokens"),
        };
        let kind = if name == "fields" { "messages" } else { "sharegpt" };
        let column = if name == "fields" { "messages" } else { "conversations" };
        let layout = layout(RowFormat::Conversation, column);
        let task =
            sft(case["template"].as_str(), layouts(layout, LayoutEncoding::Turns(rule)), 2048);
        check(name, &rows(&all, kind), task, &case["expected"]);
    }
}

#[test]
fn instructions_are_those_of_axolotl() {
    let all = expected();
    for (name, case) in all["instructions"].as_object().unwrap() {
        let settings = &case["settings"];
        let max_length = settings["max_length"].as_u64().unwrap() as u32;
        let text = |name: &str| settings[name].as_str().unwrap().to_owned();
        let prompts = match settings["style"].as_str() {
            Some("instruct") => PromptFormat::of_style(PromptStyle::Instruct),
            Some("chat") => PromptFormat::of_style(PromptStyle::Chat),
            Some("chatml") => PromptFormat::of_style(PromptStyle::Chatml),
            Some(_) => PromptFormat::of_style(PromptStyle::Phi),
            None if name == "completion" => PromptFormat::of_style(PromptStyle::Instruct),
            None => PromptFormat {
                system_prompt: text("system_prompt"),
                system_no_input_prompt: text("system_prompt"),
                system_format: text("system_format"),
                format: text("format"),
                no_input_format: text("no_input_format"),
                reads_system: true,
            },
        };
        let train_on_inputs = settings["train_on_inputs"] == true;
        let encoding = LayoutEncoding::Instructions { prompts, train_on_inputs };
        let format = match name.as_str() {
            "completion" => RowFormat::Completion,
            _ => RowFormat::Alpaca,
        };
        let mut given = rows(&all, "alpaca");
        if format == RowFormat::Completion {
            given.retain(|row| row.get("text").is_some());
        }
        // Rows are longer than `max_length`, which axolotl drops later.
        let task = sft(None, layouts(layout(format, "messages"), encoding), max_length);
        let expected: Vec<Json> = case["expected"].as_array().unwrap().clone();
        let cut = expected.into_iter().map(|row| {
            let cut = |name: &str| {
                row[name].as_array().unwrap().iter().take(max_length as usize).cloned().collect()
            };
            let [ids, labels]: [Vec<Json>; 2] = [cut("input_ids"), cut("labels")];
            json!({"input_ids": ids, "labels": labels})
        });
        check(name, &given, task, &cut.collect());
    }
}

fn piece_rule(case: &Json) -> PieceRule {
    let settings = &case["settings"];
    PieceRule {
        template: case["template"].as_str().unwrap().to_owned(),
        train_on_inputs: settings["train_on_prompt"] == true,
        mask_history: settings["mask_history"] == true,
        enable_thinking: settings["enable_thinking"] != false,
        default_system: settings["default_system"].as_str().map(str::to_owned),
    }
}

#[test]
fn pieces_are_those_of_llama_factory() {
    let all = expected();
    for (name, case) in all["pieces"].as_object().unwrap() {
        let max_length = case["settings"]["cutoff_len"].as_u64().unwrap_or(512) as u32;
        for kind in ["sharegpt", "alpaca"] {
            let format = match kind {
                "alpaca" => RowFormat::Alpaca,
                _ => RowFormat::Conversation,
            };
            let layout = layout(format, "conversations");
            let encoding = LayoutEncoding::Pieces(piece_rule(case));
            let count = case[kind]["count"].as_u64().unwrap() as usize;
            let given = &rows(&all, kind)[..count];
            let task = sft(None, layouts(layout, encoding), max_length);
            check(&format!("{name}, {kind}"), given, task, &case[kind]["expected"]);
        }
    }
}

#[test]
fn pairs_are_those_of_llama_factory() {
    let all = expected();
    for (name, case) in all["pieces"].as_object().unwrap() {
        let layout = layout(RowFormat::Alpaca, "conversations");
        let encoding = LayoutEncoding::Pieces(piece_rule(case));
        let task = TaskSpec::Dpo(dpo(None, layouts(layout, encoding), 48));
        let expect = &case["pairs"];
        let count = expect["chosen_input_ids"].as_array().unwrap().len();
        let set = set(&rows(&all, "pairs")[..count], task).unwrap();
        let batch = batch_of(set);
        for column in ["input_ids", "labels"] {
            let rows = (0..count).flat_map(|row| {
                ["chosen", "rejected"].map(|side| &expect[format!("{side}_{column}")][row])
            });
            check_array(name, &batch, column, rows);
        }
    }
}

/// Single answers, with the prompt of each and the answer before it.
#[test]
fn answers_are_those_of_llama_factory() {
    let all = expected();
    let cases = all["pieces"].as_object().unwrap();
    for (name, case) in cases.iter().filter(|(_, case)| case["answers"].is_object()) {
        let layout = layout(RowFormat::Alpaca, "conversations");
        let encoding = LayoutEncoding::Pieces(piece_rule(case));
        let task = kto(dpo(None, layouts(layout, encoding), 512), Some(3));
        let set = set(&rows(&all, "answers"), task).unwrap();
        assert_eq!(set.len(), 3, "{name}");
        let batch = batch_of(set);
        let expect = &case["answers"];
        for column in ["input_ids", "labels"] {
            check_array(name, &batch, column, expect[column].as_array().unwrap());
        }
        let desirable = &batch.array("desirable").unwrap().values;
        let ArrayValues::F32(values) = desirable else { panic!("{name}") };
        let of_rows: Vec<_> = values.iter().step_by(2).collect();
        assert_eq!(json!(of_rows), expect["desirable"], "{name}");
    }
}

/// A question that nobody answers is no completion.
#[test]
fn conversations_of_kto_end_with_an_answer() {
    let template = ChatTemplate::choose(&tokenizer(), "chatml", None).unwrap();
    let task = || {
        let layout = layout(RowFormat::Conversation, "conversations");
        kto(dpo(template.clone(), layouts(layout, LayoutEncoding::Template), 512), None)
    };
    let said = |from: &str| json!({"from": from, "value": "Hi."});
    let row = |turns: &[&str]| {
        let turns: Vec<Json> = turns.iter().map(|from| said(from)).collect();
        json!({"conversations": turns, "label": true})
    };
    assert_eq!(set(&[row(&["human", "gpt"])], task()).unwrap().len(), 1);
    let error =
        set(&[row(&["human", "gpt"]), row(&["human", "gpt", "human"])], task()).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("ends with a message of \"user\"") && text.contains("line 2"), "{text}");
}

/// Preferences need it as fine-tuning does, whatever the rows.
#[test]
fn a_template_needs_the_token_that_ends_its_texts() {
    let rule = || {
        LayoutEncoding::Pieces(PieceRule {
            template: "chatml".to_owned(),
            train_on_inputs: false,
            mask_history: false,
            enable_thinking: true,
            default_system: None,
        })
    };
    let laid_out = || layouts(layout(RowFormat::Alpaca, "conversations"), rule());
    let pairs = || dpo(None, laid_out(), 512);
    let tasks = [
        sft(None, laid_out(), 512),
        TaskSpec::Dpo(pairs()),
        TaskSpec::Reward(Reward::new(pairs(), "margin".to_owned())),
        TaskSpec::Cpo(Cpo { pairs: pairs(), bos_token: None }),
        kto(pairs(), None),
    ];
    for task in tasks {
        let without = fixtures().join("token_parity/wordpiece");
        let error = set_by(&without, &[json!({"text": "a"})], task).unwrap_err().to_string();
        assert!(error.contains("data.template: ends turns with <|im_end|>"), "{error}");
    }
}

/// Rows without an example are as many as their causes say, and only those that are too long count as too long.
#[test]
fn rows_that_make_no_example_are_counted_by_cause() {
    let laid_out = |encoding| layouts(layout(RowFormat::Conversation, "conversations"), encoding);
    let of_pieces = |max_length| {
        let rule = PieceRule {
            template: "alpaca".to_owned(),
            train_on_inputs: false,
            mask_history: false,
            enable_thinking: true,
            default_system: None,
        };
        sft(None, laid_out(LayoutEncoding::Pieces(rule)), max_length)
    };
    let row = |turns: &[(&str, &str)]| {
        let turn = |(from, value): &(&str, &str)| json!({"from": from, "value": value});
        json!({"conversations": turns.iter().map(turn).collect::<Vec<_>>()})
    };
    let good = row(&[("human", "a"), ("gpt", "b")]);
    let apart = row(&[("gpt", "a"), ("gpt", "b")]);
    let long = row(&[("human", "one two three four five six seven eight nine ten"), ("gpt", "b")]);
    let warnings = |rows: &[Json], task| {
        let set = set(rows, task).unwrap();
        let warnings: Vec<String> = set.row_warnings();
        let behind = |it: String| it.split_once("rows.jsonl: ").unwrap().1.to_owned();
        (set.len(), warnings.into_iter().map(behind).collect::<Vec<_>>())
    };
    let (examples, said) = warnings(&[good.clone(), apart.clone(), apart.clone()], of_pieces(512));
    assert_eq!(examples, 1);
    let expect = "left out 2 rows that have no questions and answers in turns";
    assert!(
        matches!(said.as_slice(), [one] if one.starts_with(expect) && one.ends_with("; the first is row 1")),
        "{said:?}"
    );

    let rule = TurnRule { roles_to_train: vec!["tool".to_owned()], ..TurnRule::of_assistant() };
    let of_turns = sft(Some("chatml"), laid_out(LayoutEncoding::Turns(rule)), 512);
    let error = set(&[good.clone(), long], of_turns).unwrap_err().to_string();
    let expect = "all 2 rows were left out: they have no token that the loss counts: check the roles of turns";
    assert!(error.contains(expect), "{error}");
    let error = set(&[apart, good], of_pieces(1)).unwrap_err().to_string();
    let expect = "all 2 rows were left out: 1 has nothing to train on within data.max_length, which must be larger; \
        1 has no questions and answers in turns";
    assert!(error.contains(expect), "{error}");
}

#[test]
fn named_templates_render_as_those_of_axolotl() {
    let all = expected();
    let text = std::fs::read_to_string(fixtures().join("chat/chat.json")).unwrap();
    let given: Json = serde_json::from_str(&text).unwrap();
    let tools = value_of_json(given["tools"].clone());
    for case in all["templates"].as_array().unwrap() {
        let (name, conversation) =
            (case["template"].as_str().unwrap(), case["conversation"].as_str().unwrap());
        let template = ChatTemplate::choose(&tokenizer(), name, None).unwrap().unwrap();
        let messages = given["conversations"][conversation].as_array().unwrap();
        let messages: Vec<_> = messages.iter().cloned().map(value_of_json).collect();
        let options = ChatOptions {
            prompts: case["prompts"].as_bool().unwrap(),
            tools: (conversation == "tools").then_some(&tools),
            ..ChatOptions::default()
        };
        let rendered = template.render(&messages.iter().collect::<Vec<_>>(), &options);
        let about = format!("{name}, {conversation}, {}", options.prompts);
        match case["text"].as_str() {
            Some(text) => assert_eq!(rendered.unwrap().text, text, "{about}"),
            None => assert!(rendered.is_err(), "{about}: {rendered:?}"),
        }
    }
}
