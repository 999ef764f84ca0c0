//! A list of bad programs with the codes that they are refused with. It has each code that a check gives, which the
//! sources of the checks say.

use std::collections::BTreeSet;

use super::{Limits, SCATTER, all_reduce, check, clean, codes, limits, module, refused, region};

/// The sources of the checks.
const CHECKS: [&str; 6] = [
    include_str!("../collectives.rs"),
    include_str!("../indices.rs"),
    include_str!("../instructions.rs"),
    include_str!("../integers.rs"),
    include_str!("../operations.rs"),
    include_str!("../size.rs"),
];
const BOTH: &str = "(tensor<8x4xf32>) -> tensor<8x4xf32>";

type Bad = (&'static str, String);

fn sort(order: &str) -> String {
    let compare = region(&format!("compare {order},"), "f32");
    format!("%0 = \"stablehlo.sort\"(%arg0) <{{dimension = 1 : i64}}> {compare} : {BOTH}")
}

fn convolution(window: &str) -> String {
    format!(
        "%0 = stablehlo.convolution(%arg0, %arg0) dim_numbers = x, window = {{{window}}} : (tensor<8x4xf32>, \
         tensor<8x4xf32>) -> tensor<8x4xf32>"
    )
}

fn reduce_window(attributes: &str) -> String {
    format!("%0 = \"stablehlo.reduce_window\"(%arg0) <{{{attributes}}}> : {BOTH}")
}

fn convert(to: &str) -> String {
    format!("%0 = stablehlo.convert %arg0 : (tensor<8x4xf32>) -> tensor<{to}>")
}

fn permute(pairs: &str) -> String {
    format!(
        "%0 = \"stablehlo.collective_permute\"(%arg0) <{{source_target_pairs = dense<{pairs}> : tensor<2x2xi64>}}> : \
         (tensor<8x4xf32>) -> tensor<8x4xf32>"
    )
}

fn custom_call(target: &str) -> String {
    format!("%0 = stablehlo.custom_call @{target}(%arg0) {{api_version = 2 : i32}} : {BOTH}")
}

fn operations() -> Vec<Bad> {
    let of_region = |op: &str, operand: &str| {
        format!(
            "%0 = \"stablehlo.{op}\"({operand}) ({{ stablehlo.return %arg0 : tensor<8x4xf32> }}) : (tensor<ui32>) -> \
             tensor<8x4xf32>"
        )
    };
    let plain = |op: &str| format!("%0 = stablehlo.{op} : tensor<8x4xf32>");
    let variadic = "%0:2 = stablehlo.reduce(%arg0 init: %arg2), (%arg3 init: %arg2) across dimensions = [1] : \
        (tensor<8x4xf32>, tensor<4x4xi32>) -> (tensor<8xf32>, tensor<8xi32>)";
    vec![
        ("NCC_EUOC002", of_region("while", "%arg0")),
        ("NCC_EUOC002", of_region("case", "%arg2")),
        ("NCC_EUOC002", of_region("if", "%arg2")),
        ("NCC_EUOC002", plain("reduce_precision %arg0, format = e8m7")),
        ("NCC_EUOC002", plain("triangular_solve %arg0, %arg0, lower = true")),
        ("NCC_EUOC002", plain("cholesky %arg0, lower = true")),
        ("NCC_EUOC002", plain("fft %arg0, type = FFT")),
        ("NCC_EUOC002", "\"stablehlo.infeed\"(%arg2) : (tensor<ui32>) -> ()".to_owned()),
        ("NCC_EUOC002", "\"stablehlo.outfeed\"(%arg0) : (tensor<8x4xf32>) -> ()".to_owned()),
        ("NCC_EUOC002", "\"stablehlo.send\"(%arg0) : (tensor<8x4xf32>) -> ()".to_owned()),
        ("NCC_EUOC002", "\"stablehlo.recv\"(%arg2) : (tensor<ui32>) -> ()".to_owned()),
        ("NCC_EVRF001", format!("%0 = chlo.erf %arg0 : {BOTH}")),
        ("NCC_EVRF001", variadic.to_owned()),
        ("NCC_EVRF029", sort("LT")),
        ("NCC_EVRF017", reduce_window("base_dilations = array<i64: 2, 1>")),
        ("NCC_EVRF018", reduce_window("window_dilations = array<i64: 2, 2>")),
        (
            "NCC_EVRF019",
            "%0:2 = \"stablehlo.reduce_window\"(%arg0, %arg0) <{window_dimensions = array<i64: 1, 2>}> : \
             (tensor<8x4xf32>, tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<8x4xf32>)"
                .to_owned(),
        ),
        ("NCC_EVRF010", convolution("lhs_dilate = [2, 1], rhs_dilate = [1, 2]")),
        ("NCC_EVRF011", convolution("stride = [2, 2], lhs_dilate = [2, 1]")),
        ("NCC_EHCA005", custom_call("traind.norm")),
        ("NCC_EHCA005", custom_call("AwsNeuronSort")),
        ("NCC_EHCA005", custom_call("xla_python_cpu_callback")),
        (
            "NCC_EVRF014",
            "%0 = chlo.top_k(%arg0) {k = 20000 : i64} : tensor<8x4xf32> -> tensor<8x20000xf32>".to_owned(),
        ),
        (
            "NCC_EVRF013",
            "%0 = chlo.top_k(%arg3) {k = 2 : i64} : tensor<4x4xi32> -> tensor<4x2xi32>".to_owned(),
        ),
        (
            "NCC_EVRF006",
            "%0 = stablehlo.rng_bit_generator %arg4, algorithm = THREE_FRY : (tensor<2xi64>) -> tensor<8xui32>"
                .to_owned(),
        ),
    ]
}

fn types() -> Vec<Bad> {
    vec![
        ("NCC_ESPP004", convert("8x4xf64")),
        ("NCC_ESPP004", convert("8x4xf4E2M1FN")),
        ("NCC_ESPP004", convert("8x4xi4")),
        ("NCC_ESPP004", convert("8x4x!quant.uniform<i8:f32, 0.1:0>")),
        ("NCC_EVRF004", convert("8x4xcomplex<f32>")),
        ("NCC_EVRF005", convert("8x4xf8E4M3FNUZ")),
        ("NCC_EVRF051", convert("8x4xf8E4M3FN")),
        ("NCC_EMOD025", convert("?x4xf32")),
        (
            "NCC_EMOD025",
            "%0 = stablehlo.dynamic_reshape %arg0, %arg1 : (tensor<8x4xf32>, tensor<2xi32>) -> tensor<4x8xf32>"
                .to_owned(),
        ),
        (
            "NCC_EMOD025",
            "%0 = stablehlo.get_dimension_size %arg0, dim = 0 : (tensor<8x4xf32>) -> tensor<i32>".to_owned(),
        ),
    ]
}

fn integers() -> Vec<Bad> {
    let scatter = |op: &str, element: &str| {
        format!(
            "%l = stablehlo.constant dense<0> : tensor<2xi32>\n    %0 = \"stablehlo.scatter\"(%arg7, %l, %arg1) {} {} : \
             (tensor<8x{element}>, tensor<2xi32>, tensor<2x{element}>) -> tensor<8x{element}>",
            SCATTER.replace("[1], ins", "[], ins"),
            region(op, element)
        )
    };
    let reduce_scatter = format!(
        "%0 = \"stablehlo.reduce_scatter\"(%arg1) <{{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, \
         scatter_dimension = 0 : i64}}> {} : (tensor<2xi32>) -> tensor<1xi32>",
        region("add", "i32")
    );
    let dot = "%0 = stablehlo.dot_general %arg3, %arg3, contracting_dims = [1] x [0] : (tensor<4x4xi32>, \
        tensor<4x4xi32>) -> tensor<4x4xi32>";
    // Two tensors at once, of which the second has integers.
    let both = all_reduce("[[0, 1]]", "f32").replace("%arg1)", "%arg0, %arg1)");
    let both = both.replace("%0 =", "%0:2 =").replace(
        "(tensor<2xf32>) -> tensor<2xf32>",
        "(tensor<8x4xf32>, tensor<2xi32>) -> (tensor<8x4xf32>, tensor<2xi32>)",
    );
    let of_two = |op: &str| format!("%0 = stablehlo.{op} %arg4, %arg4 : tensor<2xi64>");
    vec![
        ("NCC_EVRF035", dot.to_owned()),
        ("NCC_EVRF060", scatter("add", "i32")),
        ("NCC_EVRF016", scatter("or", "i1")),
        ("NCC_EVRF061", all_reduce("[[0, 1]]", "i32")),
        ("NCC_EVRF061", all_reduce("[[0, 1]]", "ui32")),
        ("NCC_EVRF061", both),
        ("NCC_EVRF063", reduce_scatter),
        ("NCC_EVRF062", of_two("power")),
        ("NCC_EVRF022", of_two("shift_right_arithmetic")),
        (
            "NCC_ESFH002",
            "%0 = stablehlo.constant dense<18446744073709551615> : tensor<ui64>".to_owned(),
        ),
    ]
}

fn indices() -> Vec<Bad> {
    let gather = |indices: &str| super::indices::gather(indices);
    let constant =
        |text: &str| format!("%c = stablehlo.constant dense<{text}> : tensor<2xi32>\n    ");
    let seven = "%c = stablehlo.constant dense<7> : tensor<ui32>\n    ";
    vec![
        ("NRT_EXEC_OOB", gather("%arg1")),
        ("NRT_EXEC_OOB", super::indices::scatter("%arg1")),
        ("NRT_EXEC_OOB", super::indices::slice("%arg2")),
        ("NRT_EXEC_OOB", super::indices::UPDATE.to_owned()),
        ("NCC_EVRF056", constant("[0, 8]") + &gather("%c")),
        ("NCC_EVRF031", constant("[-1, 0]") + &super::indices::scatter("%c")),
        ("NCC_ESMP002", seven.to_owned() + &super::indices::slice("%c")),
    ]
}

fn meshes() -> Vec<Bad> {
    let broadcast = "%0 = \"stablehlo.collective_broadcast\"(%arg0) <{replica_groups = dense<[[0, 1]]> : \
        tensor<1x2xi64>}> : (tensor<8x4xf32>) -> tensor<8x4xf32>";
    vec![
        ("NRT_INVALID", permute("[[0, 1]]")),
        ("NRT_INVALID", permute("[[0, 0], [1, 1]]")),
        ("NRT_INVALID", all_reduce("[[0]]", "f32")),
        ("NRT_INVALID", all_reduce("[[0, 1], [1, 0]]", "f32")),
        ("NRT_INVALID", broadcast.to_owned()),
        ("NRT_INVALID", super::sets_of_groups(13)),
        (
            "NCC_EVRF024",
            "%0 = stablehlo.broadcast_in_dim %arg0, dims = [1, 2] : (tensor<8x4xf32>) -> tensor<40000000x8x4xf32>"
                .to_owned(),
        ),
    ]
}

/// A product of matrices of 10^13 operations.
const LARGE: &str = "%0 = stablehlo.dot_general %arg0, %arg0, contracting_dims = [1] x [0] : \
    (tensor<300000x8192xbf16>, tensor<8192x6000xbf16>) -> tensor<300000x6000xbf16>";

/// Programs that are bad by other limits than those of a core, or for another kind of cores.
fn of_limits() -> Vec<(&'static str, String, Limits)> {
    let of_core = limits("NC_v3d");
    let huge = module("").replace("tensor<8xi32>) ->", "tensor<4000000000x3xf16>) ->");
    vec![
        ("NCC_EXTP004", module(LARGE), Limits { instructions_max: 100_000, ..of_core.clone() }),
        (
            "NRT_LOAD_NOT_ENOUGH_NC",
            module(""),
            Limits { core_counts: vec![1, 4, 16, 64], ..of_core },
        ),
        ("NCC_EOOM002", huge, limits("NC_v2")),
        ("NCC_EVRF029", module(&sort("NE")), limits("NC_v2")),
        ("NCC_EVRF051", module(&convert("8x4xf8E4M3FN")), limits("NC_v2")),
        ("NCC_ESPP047", module(&convert("8x4xf8E5M2")), limits("NC_v2")),
    ]
}

fn all() -> Vec<(&'static str, String, Limits)> {
    let tables = [operations(), types(), integers(), indices(), meshes()].into_iter().flatten();
    let of_core = tables.map(|(code, body)| (code, module(&body), limits("NC_v3d")));
    of_core.chain(of_limits()).collect()
}

#[test]
fn each_bad_program_is_refused_with_its_code() {
    let all = all();
    assert!(all.len() >= 30, "{}", all.len());
    for (code, text, limits) in &all {
        let found = check(text, limits, &[]).findings;
        let found: Vec<&str> = found.iter().map(|finding| finding.code).collect();
        assert_eq!(found, [*code], "{text}");
    }
}

/// A check that gives a further code needs a bad program.
#[test]
fn there_is_a_bad_program_for_each_code_of_the_checks() {
    let of_check = |source: &'static str| {
        let program = source.split("#[cfg(test)]").next().unwrap_or_default();
        let words = program.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        words.filter(|word| word.starts_with("NCC_") || word.starts_with("NRT_"))
    };
    let of_checks: BTreeSet<&str> = CHECKS.into_iter().flat_map(of_check).collect();
    let of_programs: BTreeSet<&str> = all().into_iter().map(|(code, ..)| code).collect();
    assert_eq!(of_programs, of_checks);
    // All of them are explained as those of the compiler and the runtime are.
    for code in of_checks {
        let found = traind_neuron::explain(&format!("[{code}]")).unwrap();
        assert!(!found.meaning.is_empty() && found.code.contains(&code[4..]), "{code}: {found}");
    }
}

/// The good neighbours of bad programs.
#[test]
fn what_is_allowed_is_clean() {
    clean(&custom_call("AwsNeuronSilu"));
    clean(&reduce_window("window_dilations = array<i64: 1, 1>"));
    clean(&convolution("stride = [2, 2], rhs_dilate = [1, 2]"));
    clean(&convolution("lhs_dilate = [2, 1]"));
    clean(&convert("8x4xf8E5M2"));
    clean(&permute("[[0, 1], [1, 0]]"));
    clean(&all_reduce("[[0, 1]]", "f32"));
    clean(&super::sets_of_groups(12));
    clean("%0 = stablehlo.multiply %arg3, %arg3 : tensor<4x4xi32>");
    // No product of two numbers of 64 bits is too large for the check.
    clean(
        "%0 = stablehlo.convert %arg4 : (tensor<2xi64>) -> tensor<2xui64>\n    %1 = stablehlo.multiply %0, %0 : tensor<2xui64>",
    );
    clean(LARGE);
    // The older targets sort by order alone, and the newest has one more type of 8 bits.
    assert_eq!(codes(&sort("GE"), &limits("NC_v2")), Vec::<&str>::new());
    assert_eq!(codes(&convert("8x4xf8E4M3FN"), &limits("NC_v4d")), Vec::<&str>::new());
    let of_two = Limits { core_counts: vec![2], ..limits("NC_v3d") };
    assert_eq!(codes("", &of_two), Vec::<&str>::new());
    let newer = Limits { replica_groups_max: 16, ..limits("NC_v3d") };
    assert_eq!(codes(&super::sets_of_groups(16), &newer), Vec::<&str>::new());
    refused("NRT_INVALID", &super::sets_of_groups(13));
}
