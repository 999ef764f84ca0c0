//! Made-up programs that are refused with the right code, and good ones that are not.

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

#[test]
fn operations_and_types_are_refused() {
    let both = "(tensor<8x4xf32>) -> tensor<8x4xf32>";
    for (code, body) in [
        (
            "NCC_EUOC002",
            "%0 = \"stablehlo.while\"(%arg0) ({ ^bb0(%x: tensor<8x4xf32>): stablehlo.return %x : tensor<8x4xf32> }) : (tensor<8x4xf32>) -> tensor<8x4xf32>",
        ),
        (
            "NCC_EUOC002",
            "%0 = \"stablehlo.case\"(%arg2) ({ stablehlo.return %arg0 : tensor<8x4xf32> }) : (tensor<ui32>) -> tensor<8x4xf32>",
        ),
        (
            "NCC_EUOC002",
            "%0 = \"stablehlo.if\"(%arg2) ({ stablehlo.return %arg0 : tensor<8x4xf32> }) : (tensor<ui32>) -> tensor<8x4xf32>",
        ),
        ("NCC_EUOC002", "%0 = stablehlo.reduce_precision %arg0, format = e8m7 : tensor<8x4xf32>"),
        (
            "NCC_EUOC002",
            "%0 = \"stablehlo.triangular_solve\"(%arg0, %arg0) <{lower = true}> : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>",
        ),
        ("NCC_EUOC002", "%0 = stablehlo.cholesky %arg0, lower = true : tensor<8x4xf32>"),
        (
            "NCC_EUOC002",
            "%0 = \"stablehlo.outfeed\"(%arg0) <{outfeed_config = \"\"}> : (tensor<8x4xf32>) -> tensor<i1>",
        ),
        ("NCC_EVRF001", "%0 = chlo.erf %arg0 : tensor<8x4xf32> -> tensor<8x4xf32>"),
        (
            "NCC_EVRF014",
            "%0 = chlo.top_k(%arg0) {k = 20000 : i64} : tensor<8x4xf32> -> tensor<8x20000xf32>",
        ),
        (
            "NCC_EVRF013",
            "%0 = chlo.top_k(%arg3) {k = 2 : i64} : tensor<4x4xi32> -> tensor<4x2xi32>",
        ),
        (
            "NCC_EVRF006",
            "%0 = stablehlo.rng_bit_generator %arg4, algorithm = THREE_FRY : (tensor<2xi64>) -> tensor<8xui32>",
        ),
        (
            "NCC_EVRF017",
            "%0 = \"stablehlo.reduce_window\"(%arg0) <{window_dilations = array<i64: 2, 2>}> : (tensor<8x4xf32>) -> tensor<8x4xf32>",
        ),
        (
            "NCC_EVRF010",
            "%0 = stablehlo.convolution(%arg0, %arg0) dim_numbers = x, window = {lhs_dilate = [2, 1]} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>",
        ),
        (
            "NCC_EVRF011",
            "%0 = stablehlo.convolution(%arg0, %arg0) dim_numbers = x, window = {rhs_dilate = [1, 2]} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>",
        ),
        ("NCC_ESPP004", "%0 = stablehlo.convert %arg0 : (tensor<8x4xf32>) -> tensor<8x4xf64>"),
        ("NCC_ESPP004", "%0 = stablehlo.convert %arg0 : (tensor<8x4xf32>) -> tensor<8x4xf4E2M1FN>"),
        (
            "NCC_EVRF004",
            "%0 = stablehlo.convert %arg0 : (tensor<8x4xf32>) -> tensor<8x4xcomplex<f32>>",
        ),
        (
            "NCC_EVRF005",
            "%0 = stablehlo.convert %arg0 : (tensor<8x4xf32>) -> tensor<8x4xf8E4M3FNUZ>",
        ),
        ("NCC_EMOD025", "%0 = stablehlo.convert %arg0 : (tensor<8x4xf32>) -> tensor<?x4xf32>"),
        (
            "NCC_EMOD025",
            "%0 = stablehlo.dynamic_reshape %arg0, %arg1 : (tensor<8x4xf32>, tensor<2xi32>) -> tensor<4x8xf32>",
        ),
        (
            "NCC_EMOD025",
            "%0 = stablehlo.get_dimension_size %arg0, dim = 0 : (tensor<8x4xf32>) -> tensor<i32>",
        ),
        (
            "NCC_ESPP004",
            "%0 = stablehlo.uniform_quantize %arg0 : (tensor<8x4xf32>) -> tensor<8x4x!quant.uniform<i8:f32, 0.1:0>>",
        ),
        ("NCC_ESPP004", "%0 = stablehlo.convert %arg0 : (tensor<8x4xf32>) -> tensor<8x4xi4>"),
    ] {
        refused(code, body);
    }
    refused(
        "NCC_EHCA005",
        &format!(
            "%0 = stablehlo.custom_call @traind.norm(%arg0) {{api_version = 4 : i32}} : {both}"
        ),
    );
    clean(&format!(
        "%0 = stablehlo.custom_call @AwsNeuronSilu(%arg0) {{api_version = 2 : i32}} : {both}"
    ));
    refused(
        "NCC_EHCA005",
        &format!(
            "%0 = stablehlo.custom_call @AwsNeuronSort(%arg0) {{api_version = 2 : i32}} : {both}"
        ),
    );
    let sort = |order: &str| {
        let compare = region(&format!("compare {order},"), "f32");
        format!("%0 = \"stablehlo.sort\"(%arg0) <{{dimension = 1 : i64}}> {compare} : {both}")
    };
    refused("NCC_EVRF029", &sort("LT"));
    // The older targets sort by order alone.
    assert_eq!(codes(&sort("GE"), &limits("NC_v2")), Vec::<&str>::new());
    assert_eq!(codes(&sort("NE"), &limits("NC_v2")), ["NCC_EVRF029"]);
    clean(
        "%0 = \"stablehlo.reduce_window\"(%arg0) <{window_dilations = array<i64: 1, 1>}> : (tensor<8x4xf32>) -> tensor<8x4xf32>",
    );
    let variadic = "%0:2 = stablehlo.reduce(%arg0 init: %arg2), (%arg3 init: %arg2) across dimensions = [1] : \
        (tensor<8x4xf32>, tensor<4x4xi32>) -> (tensor<8xf32>, tensor<8xi32>)";
    refused("NCC_EVRF001", variadic);
    let old = "%0 = stablehlo.convert %arg0 : (tensor<8x4xf32>) -> tensor<8x4xf8E4M3FN>";
    assert_eq!(codes(old, &limits("NC_v2")), ["NCC_EVRF051"]);
    clean(old);
}

#[test]
fn integers_are_refused_where_only_floats_are_exact() {
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
    for (code, body) in [
        (
            "NCC_EVRF035",
            "%0 = stablehlo.dot_general %arg3, %arg3, contracting_dims = [1] x [0] : (tensor<4x4xi32>, tensor<4x4xi32>) -> tensor<4x4xi32>",
        ),
        ("NCC_EVRF060", &scatter("add", "i32")),
        ("NCC_EVRF016", &scatter("or", "i1")),
        ("NCC_EVRF061", &all_reduce("[[0, 1]]", "i32")),
        ("NCC_EVRF061", &all_reduce("[[0, 1]]", "ui32")),
        ("NCC_EVRF063", &reduce_scatter),
        ("NCC_EVRF062", "%0 = stablehlo.power %arg4, %arg4 : tensor<2xi64>"),
        ("NCC_EVRF022", "%0 = stablehlo.shift_right_arithmetic %arg4, %arg4 : tensor<2xi64>"),
        ("NCC_ESFH002", "%0 = stablehlo.constant dense<18446744073709551615> : tensor<ui64>"),
    ] {
        refused(code, body);
    }
    clean(&all_reduce("[[0, 1]]", "f32"));
    // Two tensors at once, of which the second has integers.
    let both = all_reduce("[[0, 1]]", "f32").replace("%arg1)", "%arg0, %arg1)");
    let both = both.replace(
        "(tensor<2xf32>) -> tensor<2xf32>",
        "(tensor<8x4xf32>, tensor<2xi32>) -> (tensor<8x4xf32>, tensor<2xi32>)",
    );
    refused("NCC_EVRF061", &both.replace("%0 =", "%0:2 ="));
    // No product of two numbers of 64 bits is too large for the check.
    clean(
        "%0 = stablehlo.convert %arg4 : (tensor<2xi64>) -> tensor<2xui64>\n    %1 = stablehlo.multiply %0, %0 : tensor<2xui64>",
    );
    clean("%0 = stablehlo.multiply %arg3, %arg3 : tensor<4x4xi32>");
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

#[test]
fn indices_from_data_must_be_clamped() {
    let gather = |indices: &str| {
        format!(
            "%g = \"stablehlo.gather\"(%arg0, {indices}) {GATHER} : (tensor<8x4xf32>, tensor<2xi32>) -> tensor<2x4xf32>"
        )
    };
    let scatter = |indices: &str| {
        let region = region("add", "f32");
        format!(
            "%s = \"stablehlo.scatter\"(%arg0, {indices}, %arg5) {SCATTER} {region} : \
             (tensor<8x4xf32>, tensor<2xi32>, tensor<2x4xf32>) -> tensor<8x4xf32>"
        )
    };
    let slice = |start: &str| {
        format!(
            "%z = stablehlo.constant dense<0> : tensor<ui32>\n    %d = stablehlo.dynamic_slice %arg0, {start}, %z, \
             sizes = [2, 4] : (tensor<8x4xf32>, tensor<ui32>, tensor<ui32>) -> tensor<2x4xf32>"
        )
    };
    let place = "%z = stablehlo.constant dense<0> : tensor<ui32>\n    %d = stablehlo.dynamic_update_slice %arg0, %arg5, \
        %arg2, %z : (tensor<8x4xf32>, tensor<2x4xf32>, tensor<ui32>, tensor<ui32>) -> tensor<8x4xf32>";
    refused("NRT_EXEC_OOB", &gather("%arg1"));
    refused("NRT_EXEC_OOB", &scatter("%arg1"));
    refused("NRT_EXEC_OOB", &slice("%arg2"));
    refused("NRT_EXEC_OOB", place);
    let constant =
        |text: &str| format!("%c = stablehlo.constant dense<{text}> : tensor<2xi32>\n    ");
    refused("NCC_EVRF056", &format!("{}{}", constant("[0, 8]"), gather("%c")));
    refused("NCC_EVRF031", &format!("{}{}", constant("[-1, 0]"), scatter("%c")));
    let seven = "%c = stablehlo.constant dense<7> : tensor<ui32>\n    ";
    refused("NCC_ESMP002", &format!("{seven}{}", slice("%c")));
    clean(&format!("{}{}", constant("[0, 7]"), gather("%c")));
    let clamped = "%l = stablehlo.constant dense<0> : tensor<2xi32>\n    %h = stablehlo.constant dense<7> : tensor<2xi32>\n    \
        %m = stablehlo.maximum %arg1, %l : tensor<2xi32>\n    %c = stablehlo.minimum %m, %h : tensor<2xi32>\n    ";
    clean(&format!("{clamped}{}\n    {}", gather("%c"), scatter("%c")));
    // Windows of two rows end a row earlier.
    let two_rows = gather("%c").replace("array<i64: 1, 4>", "array<i64: 2, 4>");
    let two_rows =
        two_rows.replace("[1], collapsed_slice_dims = [0]", "[1, 2], collapsed_slice_dims = []");
    let two_rows = two_rows.replace("-> tensor<2x4", "-> tensor<2x2x4");
    refused("NRT_EXEC_OOB", &format!("{clamped}{two_rows}"));
    clean(&format!("{}{two_rows}", clamped.replace("dense<7>", "dense<6>")));
    let two_rows = scatter("%c")
        .replace("[1], inserted_window_dims = [0]", "[1, 2], inserted_window_dims = []");
    let two_rows = two_rows.replace("tensor<2x4xf32>) ->", "tensor<2x2x4xf32>) ->");
    refused("NRT_EXEC_OOB", &format!("{clamped}{two_rows}"));
    clean(&format!("{}{two_rows}", clamped.replace("dense<7>", "dense<6>")));
    // The start of a maximum is one of its numbers.
    let start = |greatest: u32| {
        format!(
            "{clamped}%i = stablehlo.constant dense<{greatest}> : tensor<i32>\n    \
             %r = stablehlo.reduce(%c init: %i) applies stablehlo.maximum across dimensions = [0] : (tensor<2xi32>, tensor<i32>) -> tensor<i32>\n    \
             %b = stablehlo.broadcast_in_dim %r, dims = [] : (tensor<i32>) -> tensor<2xi32>\n    {}",
            gather("%b")
        )
    };
    clean(&start(7));
    refused("NRT_EXEC_OOB", &start(8));
    // Half a clamp is none.
    let half = "%h = stablehlo.constant dense<7> : tensor<2xi32>\n    %c = stablehlo.minimum %arg1, %h : tensor<2xi32>\n    ";
    refused("NRT_EXEC_OOB", &format!("{half}{}", gather("%c")));
}

#[test]
fn groups_rings_counts_and_sizes_are_checked() {
    let permute = |pairs: &str| {
        format!(
            "%0 = \"stablehlo.collective_permute\"(%arg0) <{{source_target_pairs = dense<{pairs}> : tensor<2x2xi64>}}> : \
             (tensor<8x4xf32>) -> tensor<8x4xf32>"
        )
    };
    refused("NRT_INVALID", &permute("[[0, 1]]"));
    clean(&permute("[[0, 1], [1, 0]]"));
    refused("NRT_INVALID", &permute("[[0, 0], [1, 1]]"));
    refused("NRT_INVALID", &all_reduce("[[0]]", "f32"));
    refused("NRT_INVALID", &all_reduce("[[0, 1], [1, 0]]", "f32"));
    refused(
        "NCC_EVRF024",
        "%0 = stablehlo.broadcast_in_dim %arg0, dims = [1, 2] : (tensor<8x4xf32>) -> tensor<40000000x8x4xf32>",
    );
    let large = "%0 = stablehlo.dot_general %arg0, %arg0, contracting_dims = [1] x [0] : \
        (tensor<300000x8192xbf16>, tensor<8192x6000xbf16>) -> tensor<300000x6000xbf16>";
    let mut instructions = limits("NC_v3d");
    clean(large);
    instructions.instructions_max = 100_000;
    assert_eq!(codes(large, &instructions), ["NCC_EXTP004"]);
    let mut counts = limits("NC_v3d");
    counts.core_counts = vec![1, 4, 16, 64];
    assert_eq!(codes("", &counts), ["NRT_LOAD_NOT_ENOUGH_NC"]);
    counts.core_counts = vec![2];
    assert_eq!(codes("", &counts), Vec::<&str>::new());
    let huge = module("").replace("tensor<8xi32>) ->", "tensor<4000000000x3xf16>) ->");
    let codes = |kind: &str| -> Vec<&str> {
        check(&huge, &limits(kind), &[]).findings.iter().map(|it| it.code).collect()
    };
    assert_eq!((codes("NC_v2"), codes("NC_v4d")), (vec!["NCC_EOOM002"], vec![]));
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
fn sets_of_groups_are_counted() {
    let groups = |distance: usize| {
        format!(
            "%{distance} = \"stablehlo.all_gather\"(%arg0) <{{all_gather_dim = 0 : i64, replica_groups = \
             dense<[[0, {distance}], [1]]> : tensor<2x2xi64>}}> : (tensor<8x4xf32>) -> tensor<16x4xf32>"
        )
    };
    let body = |sets: usize| (2..2 + sets).map(groups).collect::<Vec<_>>().join("\n    ");
    clean(&body(12));
    refused("NRT_INVALID", &body(13));
    let mut newer = limits("NC_v3d");
    newer.replica_groups_max = 16;
    assert_eq!(codes(&body(16), &newer), Vec::<&str>::new());
}

#[test]
fn a_finding_names_layer_and_operation() {
    let origin = |first_value, scope: &str| Origin {
        first_value,
        scope: scope.to_owned(),
        operation: "take",
    };
    let body = "%0 = stablehlo.add %arg0, %arg0 : tensor<8x4xf32>\n    %7 = chlo.erf %arg0 : tensor<8x4xf32> -> tensor<8x4xf32>";
    let report = check(
        &module(body),
        &limits("NC_v2"),
        &[origin(0, "a"), origin(5, "layer.0"), origin(8, "b")],
    );
    assert_eq!(
        report.findings[0].to_string(),
        "NCC_EVRF001: chlo.erf is not of the dialect stablehlo (chlo.erf of take in layer.0)"
    );
}

#[test]
fn an_error_of_the_compiler_is_located() {
    let origin = |first_value, scope: &str, operation| Origin {
        first_value,
        scope: scope.to_owned(),
        operation,
    };
    let origins = [
        origin(0, "embeddings", "add"),
        origin(4, "encoder.layer.3", "matmul"),
        origin(9, "head", "sum"),
    ];
    let text = module(
        "%0 = stablehlo.add %arg0, %arg0 : tensor<8x4xf32>\n    %5 = stablehlo.dot_general %arg3, %arg3, contracting_dims \
         = [1] x [0] : (tensor<4x4xi32>, tensor<4x4xi32>) -> tensor<4x4xi32>",
    );
    let core = traind_neuron::core_kind("NC_v3d").unwrap();
    let found = |error: &str| locate(error, &text, &origins, core);
    let dot = Some("dot_general of matmul in encoder.layer.3".to_owned());
    assert_eq!(found("[ERROR] [NCC_EVRF035] an integer dot"), dot);
    assert_eq!(found("error: [NCC_EUOC002] Operation dot_general is not supported on trn2."), dot);
    assert_eq!(found("[NCC_EVRF001] Operation sort is not supported"), None);
    assert_eq!(found("[NCC_EOOM002] Maximum peak HBM usage"), None);
}
