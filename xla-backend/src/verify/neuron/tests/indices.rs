//! Indices from data and from constants, clamped and not.

use super::super::index_bounds;
use super::{GATHER, SCATTER, clean, module, refused, region};

const OUTSIDE: &str = "NRT_EXEC_OOB";
/// Indices between 0 and 7, by the name of `%c`.
const CLAMPED: &str = "%l = stablehlo.constant dense<0> : tensor<2xi32>\n    \
    %h = stablehlo.constant dense<7> : tensor<2xi32>\n    \
    %m = stablehlo.maximum %arg1, %l : tensor<2xi32>\n    %c = stablehlo.minimum %m, %h : tensor<2xi32>\n    ";
/// An update at a place that comes from data.
pub(super) const UPDATE: &str = "%z = stablehlo.constant dense<0> : tensor<ui32>\n    \
    %d = stablehlo.dynamic_update_slice %arg0, %arg5, %arg2, %z : (tensor<8x4xf32>, tensor<2x4xf32>, tensor<ui32>, \
    tensor<ui32>) -> tensor<8x4xf32>";

pub(super) fn gather(indices: &str) -> String {
    format!(
        "%g = \"stablehlo.gather\"(%arg0, {indices}) {GATHER} : (tensor<8x4xf32>, tensor<2xi32>) -> tensor<2x4xf32>"
    )
}

pub(super) fn scatter(indices: &str) -> String {
    let region = region("add", "f32");
    format!(
        "%s = \"stablehlo.scatter\"(%arg0, {indices}, %arg5) {SCATTER} {region} : \
         (tensor<8x4xf32>, tensor<2xi32>, tensor<2x4xf32>) -> tensor<8x4xf32>"
    )
}

pub(super) fn slice(start: &str) -> String {
    format!(
        "%z = stablehlo.constant dense<0> : tensor<ui32>\n    %d = stablehlo.dynamic_slice %arg0, {start}, %z, \
         sizes = [2, 4] : (tensor<8x4xf32>, tensor<ui32>, tensor<ui32>) -> tensor<2x4xf32>"
    )
}

#[test]
fn indices_within_a_tensor_are_clean() {
    let constant = "%c = stablehlo.constant dense<[0, 7]> : tensor<2xi32>\n    ";
    clean(&format!("{constant}{}", gather("%c")));
    clean(&format!("{CLAMPED}{}\n    {}", gather("%c"), scatter("%c")));
    // Half a clamp is none.
    let half = "%h = stablehlo.constant dense<7> : tensor<2xi32>\n    %c = stablehlo.minimum %arg1, %h : tensor<2xi32>\n    ";
    refused(OUTSIDE, &format!("{half}{}", gather("%c")));
}

/// Windows of two rows end a row earlier.
#[test]
fn windows_have_fewer_places_than_rows() {
    let gathered = gather("%c")
        .replace("array<i64: 1, 4>", "array<i64: 2, 4>")
        .replace("[1], collapsed_slice_dims = [0]", "[1, 2], collapsed_slice_dims = []")
        .replace("-> tensor<2x4", "-> tensor<2x2x4");
    let scattered = scatter("%c")
        .replace("[1], inserted_window_dims = [0]", "[1, 2], inserted_window_dims = []")
        .replace("tensor<2x4xf32>) ->", "tensor<2x2x4xf32>) ->");
    for two_rows in [gathered, scattered] {
        refused(OUTSIDE, &format!("{CLAMPED}{two_rows}"));
        clean(&format!("{}{two_rows}", CLAMPED.replace("dense<7>", "dense<6>")));
    }
}

/// The start of a maximum is one of its numbers.
#[test]
fn a_maximum_has_its_start() {
    let start = |greatest: u32| {
        format!(
            "{CLAMPED}%i = stablehlo.constant dense<{greatest}> : tensor<i32>\n    \
             %r = stablehlo.reduce(%c init: %i) applies stablehlo.maximum across dimensions = [0] : \
             (tensor<2xi32>, tensor<i32>) -> tensor<i32>\n    \
             %b = stablehlo.broadcast_in_dim %r, dims = [] : (tensor<i32>) -> tensor<2xi32>\n    {}",
            gather("%b")
        )
    };
    clean(&start(7));
    refused(OUTSIDE, &start(8));
}

#[test]
fn the_indices_of_a_program_have_their_bounds() {
    let text =
        module(&format!("{}\n    {}\n    {}", gather("%arg1"), scatter("%arg1"), slice("%arg2")));
    let found = index_bounds(&text);
    let found: Vec<_> =
        found.iter().map(|it| (&*it.user, &*it.index, &*it.kind, it.greatest)).collect();
    let expected = [
        ("%g", "%arg1", "tensor<2xi32>", 7),
        ("%s", "%arg1", "tensor<2xi32>", 7),
        ("%d", "%arg2", "tensor<ui32>", 6),
        ("%d", "%z", "tensor<ui32>", 0),
    ];
    assert_eq!(found, expected);
}
