//! Texts with named places, as `str.format` of Python fills them.

/// Fills `{name}` in a text; `{{` and `}}` are braces. The error is a name that has no value, or
/// what follows a brace that has no counterpart.
pub(super) fn filled(format: &str, values: &[(&str, &str)]) -> Result<String, String> {
    let mut text = String::with_capacity(format.len());
    let mut rest = format;
    while let Some(place) = rest.find(['{', '}']) {
        text.push_str(&rest[..place]);
        let brace = &rest[place..=place];
        rest = &rest[place + 1..];
        if let Some(behind) = rest.strip_prefix(brace) {
            text.push_str(brace);
            rest = behind;
            continue;
        }
        let (name, behind) = match brace {
            "{" => rest.split_once('}').ok_or_else(|| rest.to_owned())?,
            _ => return Err(rest.to_owned()),
        };
        let value = values.iter().find(|(known, _)| *known == name);
        text.push_str(value.ok_or_else(|| name.to_owned())?.1);
        rest = behind;
    }
    text.push_str(rest);
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::filled;

    #[test]
    fn places_are_filled_as_in_python() {
        let values = [("instruction", "Add {1}"), ("input", "")];
        let check = |format: &str, expect: Result<&str, &str>| {
            let expect = expect.map(str::to_owned).map_err(str::to_owned);
            assert_eq!(filled(format, &values), expect, "{format}");
        };
        check("{instruction}\n{input}!", Ok("Add {1}\n!"));
        check("{{{instruction}}}", Ok("{Add {1}}"));
        check("plain", Ok("plain"));
        check("{output}", Err("output"));
        check("{instruction", Err("instruction"));
        check("a } b", Err(" b"));
    }
}
