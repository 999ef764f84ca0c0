//! Made-up programs that are refused with the right code, and good ones that are not.

mod bad_programs;
mod indices;

use super::{Limits, Origin, check, locate};

fn limits(kind: &str) -> Limits {
    Limits::of_core(traind_neuron::core_kind(kind).unwrap())
}

/// A program of two replicas with arguments for every need.
fn module(body: &str) -> String {
    format!(
        "module @m attributes {{mhlo.num_replicas = 2 : i32}} {{\n  func.func public @main(%arg0: tensor<8x4xf32>, \
         %arg1: tensor<2xi32>, %arg2: tensor<ui32>, %arg3: tensor<4x4xi32>, %arg4: tensor<2xi64>, \
         %arg5: tensor<2x4xf32>, %arg6: tensor<1x1xi32>, %arg7: tensor<8xi32>) -> (tensor<8x4xf32>) {{\n    {body}\n    \
         return %arg0 : tensor<8x4xf32>\n  }}\n}}\n"
    )
}

fn codes(body: &str, limits: &Limits) -> Vec<&'static str> {
    check(&module(body), limits, &[]).findings.iter().map(|finding| finding.code).collect()
}

#[track_caller]
fn refused(code: &str, body: &str) {
    assert_eq!(codes(body, &limits("NC_v3d")), [code], "{body}");
}

#[track_caller]
fn clean(body: &str) {
    assert_eq!(codes(body, &limits("NC_v3d")), Vec::<&str>::new(), "{body}");
}

const GATHER: &str = "<{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], \
    start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 4>}>";
const SCATTER: &str = "<{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], \
    inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}>";

/// The region of a reduction.
fn region(op: &str, element: &str) -> String {
    format!(
        "({{\n    ^bb0(%a: tensor<{element}>, %b: tensor<{element}>):\n      %c = stablehlo.{op} %a, %b : \
         tensor<{element}>\n      stablehlo.return %c : tensor<{element}>\n    }})"
    )
}

fn all_reduce(groups: &str, element: &str) -> String {
    format!(
        "%0 = \"stablehlo.all_reduce\"(%arg1) <{{replica_groups = dense<{groups}> : tensor<1x2xi64>}}> {} : \
         (tensor<2x{element}>) -> tensor<2x{element}>",
        region("add", element)
    )
}

/// Collectives over so many different sets of groups.
fn sets_of_groups(sets: usize) -> String {
    let groups = |distance: usize| {
        format!(
            "%{distance} = \"stablehlo.all_gather\"(%arg0) <{{all_gather_dim = 0 : i64, replica_groups = \
             dense<[[0, {distance}], [1]]> : tensor<2x2xi64>}}> : (tensor<8x4xf32>) -> tensor<16x4xf32>"
        )
    };
    (2..2 + sets).map(groups).collect::<Vec<_>>().join("\n    ")
}

/// Integers from the data are refused, and those that the program bounds are not.
#[test]
fn integers_that_float32_holds_are_warned_of() {
    let bounded = |least: i64, greatest: i64, element: &str, shape: &str| {
        let constant = |name: &str, value: i64| {
            format!("%{name} = stablehlo.constant dense<{value}> : tensor<{shape}x{element}>\n    ")
        };
        let (low, high) = (constant("low", least), constant("high", greatest));
        let types = format!("tensor<{shape}x{element}>");
        let source = if shape == "4x4" { "%arg3" } else { "%arg1" };
        format!("{low}{high}%x = stablehlo.clamp %low, {source}, %high : {types}\n    ")
    };
    let dot = "%0 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0] : \
               (tensor<4x4xi32>, tensor<4x4xi32>) -> tensor<4x4xi32>";
    let sum = all_reduce("[[0, 1]]", "i32").replace("(%arg1)", "(%x)");
    // 4 products of 2^11 times 2^11 are 2^24, and 2 times 2^23 are.
    for (body, code, least) in [
        (bounded(-2048, 2048, "i32", "4x4") + dot, "NCC_EVRF035", true),
        (bounded(-2049, 2048, "i32", "4x4") + dot, "NCC_EVRF035", false),
        (bounded(0, 1 << 23, "i32", "2") + &sum, "NCC_EVRF061", true),
        (bounded(0, (1 << 23) + 1, "i32", "2") + &sum, "NCC_EVRF061", false),
    ] {
        let report = check(&module(&body), &limits("NC_v3d"), &[]);
        let codes = |found: &[super::Finding]| found.iter().map(|it| it.code).collect::<Vec<_>>();
        let (warned, refused) = (codes(&report.warnings), codes(&report.findings));
        match least {
            true => assert_eq!((warned, refused), (vec![code], vec![]), "{body}"),
            false => assert_eq!((warned, refused), (vec![], vec![code]), "{body}"),
        }
    }
}

/// Strings with brackets, operations without results and further functions hide nothing.
#[test]
fn operations_are_found_wherever_they_stand() {
    let erf = "%9 = chlo.erf %arg0 : tensor<8x4xf32> -> tensor<8x4xf32>";
    let silu = "stablehlo.custom_call @AwsNeuronSilu(%arg0) {backend_config = \"a \\\" (: {\"} : (tensor<8x4xf32>) -> tensor<8x4xf32>";
    refused("NCC_EVRF001", &format!("%0 = {silu}\n    {erf}"));
    refused("NCC_EUOC002", "\"stablehlo.send\"(%arg0) : (tensor<8x4xf32>) -> ()");
    refused(
        "NCC_EHCA005",
        "stablehlo.custom_call @xla_python_cpu_callback(%arg0) {has_side_effect = true} : (tensor<8x4xf32>) -> ()",
    );
    // The names of values begin anew in each function.
    let clamped = "%0 = stablehlo.constant dense<0> : tensor<2xi32>\n    ";
    let gather = |indices: &str| {
        format!(
            "%g = \"stablehlo.gather\"(%arg0, {indices}) {GATHER} : (tensor<8x4xf32>, tensor<2xi32>) -> tensor<2x4xf32>"
        )
    };
    let of_two = |body: &str| {
        let main = module(&format!("{clamped}{}", gather("%0")));
        let end = main.rfind('}').unwrap();
        let more = format!(
            "  func.func private @rows(%arg0: tensor<8x4xf32>, %arg1: tensor<2xi32>) -> (tensor<2x4xf32>) {{\n    \
             {body}\n    return %g : tensor<2x4xf32>\n  }}\n}}\n"
        );
        let report = check(&format!("{}{more}", &main[..end]), &limits("NC_v3d"), &[]);
        report.findings.iter().map(|it| it.code).collect::<Vec<_>>()
    };
    assert_eq!(of_two(&gather("%arg1")), ["NRT_EXEC_OOB"]);
    let moved = "%0 = stablehlo.add %arg1, %arg1 : tensor<2xi32>\n    ";
    assert_eq!(of_two(&format!("{moved}{}", gather("%0"))), ["NRT_EXEC_OOB"]);
    assert_eq!(of_two(&format!("{clamped}{}", gather("%0"))), Vec::<&str>::new());
}

#[test]
fn a_finding_names_layer_and_operation() {
    let origin = |first_value, scope: &str| Origin {
        first_value,
        scope: scope.to_owned(),
        is_backward: false,
        operation: "take",
    };
    let body = "%0 = stablehlo.add %arg0, %arg0 : tensor<8x4xf32>\n    %7 = chlo.erf %arg0 : tensor<8x4xf32> -> tensor<8x4xf32>";
    let report = check(
        &module(body),
        &limits("NC_v2"),
        &[origin(0, "a"), origin(5, "layer0"), origin(8, "b")],
    );
    assert_eq!(
        report.findings[0].to_string(),
        "NCC_EVRF001: chlo.erf is not of the dialect stablehlo (the lookup of rows in layer 0, chlo.erf)"
    );
}

#[test]
fn an_error_of_the_compiler_is_located() {
    let origin = |first_value, scope: &str, operation| Origin {
        first_value,
        scope: scope.to_owned(),
        is_backward: scope == "head",
        operation,
    };
    let origins = [
        origin(0, "embeddings", "add"),
        origin(4, "layer3", "dot_general"),
        origin(9, "head", "sum"),
    ];
    let text = module(
        "%0 = stablehlo.add %arg0, %arg0 : tensor<8x4xf32>\n    %5 = stablehlo.dot_general %arg3, %arg3, contracting_dims \
         = [1] x [0] : (tensor<4x4xi32>, tensor<4x4xi32>) -> tensor<4x4xi32>",
    );
    let core = traind_neuron::core_kind("NC_v3d").unwrap();
    let found = |error: &str| locate(error, &text, &origins, core);
    let dot = Some("the matrix product in layer 3, dot_general".to_owned());
    assert_eq!(found("[ERROR] [NCC_EVRF035] an integer dot"), dot);
    assert_eq!(found("error: [NCC_EUOC002] Operation dot_general is not supported on trn2."), dot);
    assert_eq!(found("[NCC_EVRF001] Operation sort is not supported"), None);
    assert_eq!(found("[NCC_EOOM002] Maximum peak HBM usage"), None);
}
