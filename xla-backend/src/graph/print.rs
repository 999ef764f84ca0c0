//! A stable printer: the same graph prints the same text, for snapshots.

use std::fmt::Write;

use super::{Graph, Op};

/// One line a node: id, shape, operation with its attributes, operands.
pub fn print<O: Op + ?Sized>(graph: &Graph<O>) -> String {
    let mut text = String::new();
    for (id, node) in graph.nodes() {
        let operands: Vec<String> = node.inputs.iter().map(|i| i.to_string()).collect();
        let _ = write!(text, "{id} = {} {:?}({})", node.shape, node.op, operands.join(", "));
        let scope = graph.scope_path(node.scope);
        if !scope.is_empty() {
            let _ = write!(text, " // {scope}");
        }
        text.push('\n');
    }
    text
}
