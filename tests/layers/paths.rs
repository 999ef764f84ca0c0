//! The paths that a source names.

/// A path of a `use` declaration, or one within an expression or a type.
#[derive(Debug)]
pub(crate) struct Named {
    /// The segments, without an alias.
    pub segments: Vec<String>,
    /// The name that the declaration gives it.
    pub name: String,
    /// Whether a declaration makes the name one of the module.
    pub is_declared: bool,
}

/// The paths that `text` names: those of its `use` declarations, and those that begin with `crate`, `self` or `super`.
pub(crate) fn named(text: &str) -> Vec<Named> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some((before, declaration)) = split_use(rest) {
        found.extend(relative(before));
        let (tree, behind) = declaration.split_once(';').unwrap_or((declaration, ""));
        found.extend(expanded(tree).into_iter().map(|path| with_alias(&path, true)));
        rest = behind;
    }
    found.extend(relative(rest));
    found
}

/// The text before the first `use` declaration, and the declaration with all that follows.
fn split_use(text: &str) -> Option<(&str, &str)> {
    let mut from = 0;
    loop {
        let at = from + text[from..].find("use ")?;
        let before = text[..at].chars().next_back();
        if before.is_none_or(|it| it.is_whitespace()) {
            return Some((&text[..at], &text[at + "use ".len()..]));
        }
        from = at + 1;
    }
}

fn with_alias(path: &str, is_declared: bool) -> Named {
    let (path, alias) =
        path.split_once(" as ").map_or((path, None), |(path, name)| (path, Some(name)));
    let segments: Vec<String> = path.split("::").map(|it| it.trim().to_owned()).collect();
    let last = segments.iter().rfind(|it| *it != "self").cloned().unwrap_or_default();
    Named { segments, name: alias.map_or(last, |name| name.trim().to_owned()), is_declared }
}

/// The paths of the tree of a `use` declaration.
fn expanded(tree: &str) -> Vec<String> {
    let tree = tree.trim();
    let Some((prefix, inner)) = tree.split_once('{') else { return vec![tree.to_owned()] };
    let inner = inner.trim_end().strip_suffix('}').unwrap_or(inner);
    let (mut paths, mut depth, mut from) = (Vec::new(), 0, 0);
    for (at, character) in inner.char_indices().chain([(inner.len(), ',')]) {
        match character {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                paths.extend(expanded(&inner[from..at]));
                from = at + 1;
            }
            _ => {}
        }
    }
    paths.retain(|path| !path.is_empty());
    paths.into_iter().map(|path| format!("{prefix}{path}")).collect()
}

/// Paths from `crate`, `self` or `super` outside of declarations.
fn relative(text: &str) -> Vec<Named> {
    let is_part =
        |character: char| character.is_alphanumeric() || character == '_' || character == ':';
    let words = text.split(|character| !is_part(character));
    let paths = words.filter(|word| {
        ["crate::", "self::", "super::"].iter().any(|start| word.starts_with(start))
    });
    paths.map(|path| with_alias(path.trim_end_matches(':'), false)).collect()
}
