//! Commands of `traind` that documents show: the real program knows their subcommands, options and
//! values. None is run here: `--help` ends parsing, after everything in front of it was checked.

use std::process::Command;

use super::{Document, check, quoted};

#[test]
fn every_command_is_one_of_the_program() {
    check(|document: &Document| {
        let prose = document.prose();
        let shown = ["sh", "console"].into_iter().flat_map(|language| document.blocks(language));
        let problems = shown.flat_map(of_block).filter_map(|arguments| problem(&arguments));
        let quoted = quoted(&prose).filter_map(of_quotation).flatten();
        // A quotation may name an option alone, such as `serve --listen`.
        let of_quoted = quoted.filter_map(|arguments| problem(&arguments));
        let of_quoted = of_quoted.filter(|problem| !problem.contains("a value is required for"));
        problems.chain(of_quoted).collect::<Vec<_>>()
    });
}

#[test]
fn commands_are_found_and_mistakes_in_them_reported() {
    let block = "$ A=1 traind submit job.yaml \\\n  --watch > id   # the first\nls\n\
                 sudo -u traind target/release/traind serve --cores 2 &\n";
    let commands: Vec<_> = of_block(block).map(|words| words.join(" ")).collect();
    assert_eq!(commands, ["submit job.yaml --watch", "serve --cores 2"]);
    let quoted: Vec<_> = of_quotation("traind token create|ls [--days N]").unwrap();
    let quoted: Vec<_> = quoted.into_iter().map(|words| words.join(" ")).collect();
    assert_eq!(quoted, ["token create --days 1", "token ls --days 1"]);
    for wrong in ["submti job.yaml", "submit --wach job.yaml", "ls --state runing"] {
        let words: Vec<String> = wrong.split(' ').map(str::to_owned).collect();
        assert!(problem(&words).is_some(), "{wrong}");
    }
}

/// The arguments of each call of `traind` in a block of shell commands.
fn of_block(block: &str) -> impl Iterator<Item = Vec<String>> {
    let joined = block.replace("\\\n", " ");
    let lines: Vec<String> = joined.lines().map(str::to_owned).collect();
    lines.into_iter().flat_map(|line| {
        let line = line.trim_start_matches("$ ").split(" #").next().unwrap_or_default();
        let commands = line.split(['|', ';', '&']).map(words).collect::<Vec<_>>();
        commands.into_iter().filter_map(arguments)
    })
}

/// Splits a command at spaces that are not in quotes, up to a redirection.
fn words(command: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quote = None;
    for c in command.chars() {
        match (c, quote) {
            (c, Some(open)) if c == open => quote = None,
            ('"' | '\'', None) => quote = Some(c),
            ('>' | '<', None) => break,
            (' ', None) => words.push(String::new()),
            (c, _) => words.last_mut().unwrap().push(c),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// The arguments of a command that calls `traind`, behind variables and `sudo -u USER`.
fn arguments(words: Vec<String>) -> Option<Vec<String>> {
    let is_variable = |word: &str| word.split_once('=').is_some_and(|(name, _)| is_upper(name));
    let mut words = words.into_iter().peekable();
    if words.next_if(|word| word == "sudo").is_some() && words.next_if_eq("-u").is_some() {
        words.next();
    }
    while words.next_if(|word| is_variable(word)).is_some() {}
    words.next().filter(|word| word.rsplit('/').next() == Some("traind"))?;
    Some(words.collect())
}

fn is_upper(word: &str) -> bool {
    !word.is_empty() && word.chars().all(|c| c.is_ascii_uppercase() || c == '_')
}

/// The calls that a text in backticks stands for: `[--option]` is given, a placeholder such as `N`
/// gets a value, and each of `create|ls` makes a call.
pub(super) fn of_quotation(text: &str) -> Option<Vec<Vec<String>>> {
    let text = match text.strip_prefix("traind ") {
        Some(arguments) => arguments,
        None => text.strip_prefix("serve --").map(|_| text)?,
    };
    let text = text.replace(" | ", "|").replace("\\|", "|");
    let words = text.split_whitespace().map(|word| word.trim_matches(['[', ']', '…']));
    let mut calls = vec![Vec::new()];
    for word in words.filter(|word| !word.is_empty()) {
        let choices: Vec<&str> = word.split('|').collect();
        let value = |choice: &str| if is_upper(choice) { "1" } else { choice }.to_owned();
        let extended = calls.iter().flat_map(|call: &Vec<String>| {
            choices.iter().map(|choice| call.iter().cloned().chain([value(choice)]).collect())
        });
        calls = extended.collect();
    }
    Some(calls)
}

/// The complaint of the program about its arguments.
fn problem(arguments: &[String]) -> Option<String> {
    let options = arguments.iter().take_while(|argument| *argument != "--");
    // `help` itself takes no options.
    let help = (arguments.first().is_none_or(|first| first != "help")).then(|| "--help".to_owned());
    let output = Command::new(traind_tests::traind()).args(options.cloned().chain(help)).output();
    let output = output.unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    let error = errors.lines().next().unwrap_or_default().to_owned();
    (!output.status.success()).then(|| format!("traind {}: {error}", arguments.join(" ")))
}
