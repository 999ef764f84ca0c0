//! Operations and layers in the words of those who know a model, and not its program.

/// The operation of a program, as the program and as the model's code names it, with its layer: "the matrix product in
/// layer 3, dot_general". The last part is left out where it says no more.
pub(super) fn place(operation: &str, recorded: &str, scope: &str, is_backward: bool) -> String {
    let name = if recorded.is_empty() { operation } else { recorded };
    let words = operation_words(name);
    let mut place = format!("the {words}");
    if is_backward {
        place.push_str(" of the backward pass");
    }
    if !scope.is_empty() {
        place.push_str(" in ");
        place.push_str(&scope_words(scope));
    }
    if operation.replace('_', " ") != words {
        place.push_str(", ");
        place.push_str(operation);
    }
    place
}

fn operation_words(name: &str) -> String {
    let words = match name {
        "dot_general" | "dot" => "matrix product",
        "take" | "gather" => "lookup of rows",
        "scatter_add" => "sum into rows of a table",
        "all_reduce" => "sum across cores",
        "broadcast_in_dim" => "broadcast",
        "erf" => "error function",
        other => return other.replace('_', " "),
    };
    words.to_owned()
}

/// "layer 3" for `layer3`, "all layers" for `layer*`, "layer 0 of the encoder" for `encoder0` and `encoder.layer.0`,
/// and "the head" for `head`.
fn scope_words(scope: &str) -> String {
    let mut words: Vec<String> = Vec::new();
    let mut parts = scope.split('.').peekable();
    while let Some(part) = parts.next() {
        let name = part.trim_end_matches(|it: char| it.is_ascii_digit() || it == '*');
        let mut number = &part[name.len()..];
        let is_number = |it: &&str| it.bytes().all(|it| it.is_ascii_digit() || it == b'*');
        if number.is_empty() {
            number = parts.next_if(is_number).unwrap_or_default();
        }
        match (name.trim_end_matches('s'), number) {
            (_, "") => words.push(format!("the {}", name.replace('_', " "))),
            ("layer" | "", number) => words.push(layers(number)),
            (stack, number) => words.extend([format!("the {stack}"), layers(number)]),
        }
    }
    words.reverse();
    words.join(" of ")
}

fn layers(number: &str) -> String {
    if number == "*" { "all layers".to_owned() } else { format!("layer {number}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_are_named_as_models_count_them() {
        for (scope, expect) in [
            ("layer3", "layer 3"),
            ("layer*", "all layers"),
            ("encoder12", "layer 12 of the encoder"),
            ("decoder*", "all layers of the decoder"),
            ("generator.layer0", "layer 0 of the generator"),
            ("encoder.layer.0", "layer 0 of the encoder"),
            ("layers.*.mlp", "the mlp of all layers"),
            ("generator_head", "the generator head"),
            ("embeddings", "the embeddings"),
        ] {
            assert_eq!(scope_words(scope), expect, "{scope}");
        }
    }

    #[test]
    fn operations_have_words_and_the_name_that_the_compiler_has() {
        for (operation, recorded, scope, is_backward, expect) in [
            (
                "dot_general",
                "dot_general",
                "layer3",
                false,
                "the matrix product in layer 3, dot_general",
            ),
            ("multiply", "softmax", "head", false, "the softmax in the head, multiply"),
            ("add", "add", "", false, "the add"),
            ("reduce_window", "", "", false, "the reduce window"),
            (
                "dot_general",
                "dot_general",
                "layer*",
                true,
                "the matrix product of the backward pass in all layers, dot_general",
            ),
        ] {
            assert_eq!(place(operation, recorded, scope, is_backward), expect);
        }
    }
}
