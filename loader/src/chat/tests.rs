//! Templates render as in transformers, and none renders without bounds. The fixture is written by
//! `scripts/fixtures/chat.py`.

use std::path::Path;

use serde_json::{Value as Json, json};

use super::*;
use crate::source::value_of_json;
use crate::tokenize::{HuggingFaceTokenizer, TextTokenizer, TokenizerOptions};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/chat")
}

fn expected() -> Json {
    serde_json::from_str(&std::fs::read_to_string(fixtures().join("chat.json")).unwrap()).unwrap()
}

fn template(source: &str) -> Result<ChatTemplate> {
    let tokens = files::special_tokens(&fixtures().join("tokenizer")).unwrap();
    ChatTemplate::new(Path::new("a.jinja"), source.to_owned(), tokens)
}

fn messages(conversation: &Json) -> Vec<Value> {
    conversation.as_array().unwrap().iter().cloned().map(value_of_json).collect()
}

fn ids(list: &Json) -> Vec<u64> {
    list.as_array().unwrap().iter().map(|id| id.as_u64().unwrap()).collect()
}

#[test]
fn templates_render_as_in_transformers() {
    let folder = fixtures().join("tokenizer");
    let tokenizer = HuggingFaceTokenizer::open(&folder, &TokenizerOptions::default()).unwrap();
    let expected = expected();
    let tools = value_of_json(expected["tools"].clone());
    let date = value_of_json(json!({"date_string": "22 Nov 2026"}));
    for case in expected["cases"].as_array().unwrap() {
        let name = case["template"].as_str().unwrap();
        let source = fixtures().join("templates").join(name).with_extension("jinja");
        let template = template(&std::fs::read_to_string(source).unwrap()).unwrap();
        let conversation = case["conversation"].as_str().unwrap();
        let messages = messages(&expected["conversations"][conversation]);
        let options = ChatOptions {
            prompts: case["add_generation_prompt"].as_bool().unwrap(),
            marks: template.marks_generation(),
            tools: (conversation == "tools").then_some(&tools),
            variables: Some(&date),
            real_last_index: None,
        };
        let rendered = template.render(&messages.iter().collect::<Vec<_>>(), &options);
        let about = format!("{name}, {conversation}, {}", options.prompts);
        let expect = &case["expected"];
        let Some(text) = expect["text"].as_str() else {
            assert!(matches!(rendered, Err(ChatProblem::Template { .. })), "{about}: {rendered:?}");
            continue;
        };
        let rendered = rendered.unwrap_or_else(|problem| panic!("{about}: {problem}"));
        assert_eq!(rendered.text, text, "{about}");
        let encoding = tokenizer.encode_as_it_is(&rendered.text).unwrap();
        let found: Vec<u64> = encoding.encoded.input_ids.iter().map(|&id| id.into()).collect();
        assert_eq!(found, ids(&expect["input_ids"]), "{about}");
        if options.marks {
            let found = rendered.generated_tokens(&encoding.spans);
            let found: Vec<u64> = found.into_iter().map(u64::from).collect();
            assert_eq!(found, ids(&expect["assistant_masks"]), "{about}");
        }
    }
}

fn render(source: &str, conversation: &Json, marks: bool) -> Result<RenderedChat, ChatProblem> {
    let messages = messages(conversation);
    let options = ChatOptions { marks, ..ChatOptions::default() };
    template(source).unwrap().render(&messages.iter().collect::<Vec<_>>(), &options)
}

#[track_caller]
fn fails(source: &str, conversation: &Json, expect: &str) {
    let problem = render(source, conversation, true).unwrap_err().to_string();
    assert!(problem.contains(expect), "{problem}");
}

/// Each of these would take minutes, or more memory than there is.
#[test]
fn a_template_is_bounded_in_time_and_memory() {
    let conversation = json!([{"role": "user", "content": "x"}]);
    let sources = [
        "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}",
        "{% set ns = namespace(s='x') %}{% for a in range(60) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
        "{% set ns = namespace(s='x') %}{% for a in range(60) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
        "{% set s = 'x' * 10000000 %}{{ s.replace('x', s) }}",
        "{% set s = 'x' * 10000000 %}{{ s | replace('x', s) }}",
        "{% set s = 'x' * 10000000 %}{{ s.join(range(100000) | list) }}",
        "{% set s = 'x' * 10000000 %}{{ s.split('x') | length }}",
        "{{ range(100000) | list | tojson | length }}{% for a in range(100) %}{{ range(100000) | list | tojson }}{% endfor %}",
        "{{ ('x' * 1000000) * 1000000 }}",
        "{% for a in range(100000) %}{{ 'x' * 1000000 }}{% endfor %}",
    ];
    for source in sources {
        let problem = render(source, &conversation, false).unwrap_err().to_string();
        assert!(problem.contains("too"), "{source}: {problem}");
    }
    // The list holds 2^60 numbers, of which there is one.
    let nested = "{% set ns = namespace(l=[1], m=[1]) %}{% for a in range(60) %}{% set ns.l = [ns.l, ns.l] %}{% set ns.m = [ns.m, ns.m] %}{% endfor %}";
    for uses in ["{{ ns.l }}", "{{ ns.l | string }}", "{{ ns.l | tojson }}", "{{ ns.l == ns.m }}"] {
        fails(&format!("{nested}{uses}"), &conversation, "takes too");
    }
    let wide = "{{ range(100000) | list | tojson(indent='x' * 1000000) }}";
    fails(wide, &conversation, "takes too many steps or too much memory");
    fails("{{ '{:>999999999}'.format('x') }}", &conversation, "too wide a field");
    fails("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", &conversation, "recursion");
    let nested = "[".repeat(100_000) + &"]".repeat(100_000);
    let error = template(&format!("{{{{ {nested} }}}}")).unwrap_err();
    assert!(error.to_string().contains("recursion"), "{error}");
}

#[test]
fn values_are_written_and_tested_as_in_python() {
    let conversation =
        json!([{"role": "a", "list": [1e20, 1e-7, -2.5, null, true, "it's"], "map": {"a": 1e16}}]);
    for (expression, expect) in [
        ("m.list", "[1e+20, 1e-07, -2.5, None, True, \"it's\"]"),
        ("m.map", "{'a': 1e+16}"),
        ("(m.list[0],)", "(1e+20,)"),
        ("m.list[1]", "1e-07"),
        ("m.list | string | length", "40"),
        ("none is iterable", "False"),
        ("'' is iterable", "True"),
        ("['', {}, 1] | select('sequence') | list", "['', {}]"),
        ("m is callable", "False"),
        ("'x' | int ~ '3' | int", "03"),
        ("'x' | int(7) ~ 'x' | float(default=0.5)", "70.5"),
        ("'a-b-c'.rsplit('-', 1)", "['a-b', 'c']"),
        ("'a-b-c'.rsplit('-')", "['a', 'b', 'c']"),
        ("'a-b-c'.partition('-')", "('a', '-', 'b-c')"),
        ("'a-b-c'.rpartition('x')", "('', '', 'a-b-c')"),
        ("m.map.copy()", "{'a': 1e+16}"),
    ] {
        let source = format!("{{% set m = messages[0] %}}{{{{ {expression} }}}}");
        let rendered = render(&source, &conversation, false);
        let rendered = rendered.unwrap_or_else(|problem| panic!("{expression}: {problem}"));
        assert_eq!(rendered.text, expect, "{expression}");
    }
}

#[test]
fn what_is_no_conversation_is_an_error() {
    let plain = "{{ messages[0].content }}";
    fails(plain, &json!([]), "no messages");
    fails(plain, &json!(["text"]), "found text");
    fails(plain, &json!([{"content": "x"}]), "no role");
    fails(plain, &json!([{"role": "user", "content": "a\u{fdd0}"}]), "U+FDD0");
    fails("{{ raise_exception('not so') }}", &json!([{"role": "a"}]), "not so (line 1");
    let message = template("{% if %}").unwrap_err().to_string();
    assert!(message.starts_with("a.jinja: not a chat template: "), "{message}");
    let of_share_gpt = json!([{"from": "human", "value": "x"}]);
    let rendered = render("{{ messages[0].role ~ messages[0]['content'] }}", &of_share_gpt, true);
    assert_eq!(rendered.unwrap().text, "humanx");
}

/// As in transformers, an empty list of tools is one.
#[test]
fn rows_with_tools_take_a_template_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    let named = |name: &str, text: &str| json!({"name": name, "template": text});
    let message = value_of_json(json!({"role": "user"}));
    let rendered = |tools: Option<&Value>| {
        let template = ChatTemplate::open(folder.path(), None).unwrap().unwrap();
        let options = ChatOptions { tools, ..ChatOptions::default() };
        template.render(&[&message], &options).unwrap().text
    };
    let check = || {
        let [none, tools] = [json!(null), json!([])].map(value_of_json);
        assert_eq!(rendered(None), "plain");
        assert_eq!(rendered(Some(&none)), "plain");
        assert_eq!(rendered(Some(&tools)), "tools");
    };
    let templates = json!([named("default", "plain"), named("tool_use", "tools")]);
    write("tokenizer_config.json", &json!({"chat_template": templates}).to_string());
    check();
    write("tokenizer_config.json", "{}");
    write("chat_template.jinja", "plain");
    std::fs::create_dir(folder.path().join("additional_chat_templates")).unwrap();
    write("additional_chat_templates/tool_use.jinja", "tools");
    check();
}

#[test]
fn a_template_is_read_from_its_own_file_or_from_the_settings() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    let open = || ChatTemplate::open(folder.path(), Some("<end>"));
    assert!(open().unwrap().is_none());
    write("tokenizer_config.json", r#"{"chat_template": [{"name": "tools", "template": "a"}]}"#);
    assert!(open().unwrap_err().to_string().contains("default"));
    write("tokenizer_config.json", r#"{"chat_template": "{{ eos_token }}", "eos_token": "no"}"#);
    let message = value_of_json(json!({"role": "user"}));
    let text = || {
        let rendered = open().unwrap().unwrap().render(&[&message], &ChatOptions::default());
        rendered.unwrap().text
    };
    assert_eq!(text(), "<end>");
    write("chat_template.jinja", "{# of its own #}{{ bos_token is defined }}");
    assert_eq!(text(), "False");
    write("chat_template.jinja", &" ".repeat(2 << 20));
    assert!(open().unwrap_err().to_string().contains("more than 1048576 bytes"));
}
