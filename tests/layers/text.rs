//! Rust text without what the compiler of a build leaves out: comments, literals and items for tests.

/// Returns `source` with comments removed and literals emptied.
pub(crate) fn without_literals(source: &str) -> String {
    let mut text = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(character) = rest.chars().next() {
        let length = skipped(rest, text.chars().next_back());
        if length == 0 {
            text.push(character);
            rest = &rest[character.len_utf8()..];
            continue;
        }
        if !rest.starts_with('/') {
            text.push_str("\"\"");
        }
        rest = &rest[length..];
    }
    text
}

/// The bytes of a comment or a literal at the beginning of `rest`, or 0.
fn skipped(rest: &str, before: Option<char>) -> usize {
    let is_in_word = before.is_some_and(|it| it.is_alphanumeric() || it == '_');
    if rest.starts_with("//") {
        return rest.find('\n').unwrap_or(rest.len());
    }
    if rest.starts_with("/*") {
        return rest.find("*/").map_or(rest.len(), |end| end + 2);
    }
    if rest.starts_with('"') {
        return escaped_end(rest, '"');
    }
    if let Some(raw) = rest.strip_prefix('r').filter(|_| !is_in_word || before == Some('b')) {
        let hashes = raw.len() - raw.trim_start_matches('#').len();
        if raw[hashes..].starts_with('"') {
            let end = format!("\"{}", "#".repeat(hashes));
            let from = 1 + hashes + 1;
            return rest[from..].find(&end).map_or(rest.len(), |at| from + at + end.len());
        }
    }
    if rest.starts_with('\'') { character_literal(rest) } else { 0 }
}

/// The bytes of a character literal, or 0 for a lifetime.
fn character_literal(rest: &str) -> usize {
    let mut characters = rest.chars().skip(1);
    match (characters.next(), characters.next()) {
        (Some('\\'), _) => escaped_end(rest, '\''),
        (Some(character), Some('\'')) => 2 + character.len_utf8(),
        _ => 0,
    }
}

/// The bytes up to the closing `quote`.
fn escaped_end(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, character) in rest.char_indices().skip(1) {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            character if character == quote => return at + quote.len_utf8(),
            _ => {}
        }
    }
    rest.len()
}

/// Returns `text`, which has no literals, without the items that only tests have.
pub(crate) fn without_tests(mut text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    while let Some(at) = text.find("#[cfg(test)]") {
        kept.push_str(&text[..at]);
        let item = &text[at + "#[cfg(test)]".len()..];
        text = &item[item_end(item)..];
    }
    kept.push_str(text);
    kept
}

/// The bytes of the first item: up to a semicolon, a comma or a closing brace outside of all brackets.
fn item_end(text: &str) -> usize {
    let mut depth = 0usize;
    for (at, character) in text.char_indices() {
        match character {
            '{' | '(' | '[' => depth += 1,
            '}' | ')' | ']' => {
                depth = depth.saturating_sub(1);
                if depth == 0 && character == '}' {
                    return at + 1;
                }
            }
            ';' | ',' if depth == 0 => return at + 1,
            _ => {}
        }
    }
    text.len()
}
