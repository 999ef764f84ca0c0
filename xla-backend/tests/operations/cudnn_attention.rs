//! The calls of cuDNN that attention lowers to for GPUs, compared with JAX's.

use serde_json::Value;
use traind_xla::autodiff::gradients;
use traind_xla::kernels::Kernels;
use traind_xla::ops::{AttentionSpec, VisibleKeys};
use traind_xla::stablehlo::{Lowering, Output, lower};
use traind_xla::{DType, Shape, Tensor, Trace};

/// Made by `scripts/fixtures/cudnn_attention.py`.
const CASES: &str = include_str!("cudnn_attention.json");
const SCALE: f64 = 0.25;

/// A call as the text of a program has it.
struct Call<'a> {
    target: &'a str,
    attributes: &'a str,
    operands: Vec<&'a str>,
    results: Vec<&'a str>,
}

impl<'a> Call<'a> {
    /// Reads a line `%1:3 = stablehlo.custom_call @"target"(operands) {attributes} : (types) -> (types)`.
    fn read(line: &'a str) -> Option<Call<'a>> {
        let (_, call) = line.split_once("stablehlo.custom_call @\"")?;
        let (target, rest) = call.split_once('"')?;
        let (_, rest) = rest.split_once(") {")?;
        let (attributes, types) = rest.rsplit_once("} : (")?;
        let (operands, results) = types.split_once(") -> (")?;
        let list = |text: &'a str| text.trim_end_matches(')').split(", ").collect();
        Some(Call { target, attributes, operands: list(operands), results: list(results) })
    }

    fn config(&self) -> Value {
        let (_, config) = self.attributes.split_once("backend_config = \"").unwrap();
        let (config, _) = config.split_once('"').unwrap();
        serde_json::from_str(&config.replace("\\22", "\"")).unwrap()
    }

    /// The layouts of `kind`, `operand` or `result`.
    fn layouts(&self, kind: &str) -> Vec<&str> {
        let (_, layouts) =
            self.attributes.split_once(&format!("{kind}_layouts = [dense<")).unwrap();
        let layouts = layouts.split("_layouts").next().unwrap();
        layouts.split("dense<").map(|layout| layout.split('>').next().unwrap()).collect()
    }
}

/// Attention and its gradients in a case's shapes.
fn program(case: &Value, is_causal: bool, dtype: DType) -> String {
    let sizes: Vec<usize> = serde_json::from_value(case["sizes"].clone()).unwrap();
    let [rows, positions, num_heads, keys, size] = sizes[..] else { panic!("{sizes:?}") };
    let trace = Trace::with_kernels(Kernels::CudnnAttention);
    let parameter = |name, dtype, dims: &[usize]| {
        trace.parameter(name, Shape::new(dtype, dims.to_vec())).unwrap()
    };
    let states = |name, heads| parameter(name, dtype, &[rows * positions, heads * size]);
    let [query, key, value] = [("query", num_heads), ("key", keys), ("value", keys)]
        .map(|(name, heads)| states(name, heads));
    let mask = parameter("mask", DType::F32, &[rows, 1, 1, positions]);
    let starts = is_causal.then(|| parameter("starts", DType::S32, &[rows, positions]));
    let visible = VisibleKeys { mask: &mask, starts: starts.as_ref(), packed: None };
    let spec = AttentionSpec { num_heads, scale: SCALE, dropout: 0.0 };
    let output = query.attention(&key, &value, visible, spec, None).unwrap();
    let loss = output.convert(DType::F32).unwrap().sum(&[0, 1]).unwrap();
    let gradients = gradients(&loss, &[&query, &key, &value]).unwrap();
    let outputs = [&output].into_iter().chain(&gradients).map(Tensor::node).map(Output::new);
    let lowering = Lowering { kernels: Kernels::CudnnAttention, ..Lowering::default() };
    lower(&trace.graph(), "test", &outputs.collect::<Vec<_>>(), 1, lowering).text
}

/// Returns the texts of JAX's call, without the gradient of the bias, which nothing reads here.
fn texts(call: &Value, key: &str, has_bias_gradient: bool) -> Vec<String> {
    let mut texts: Vec<String> = serde_json::from_value(call[key].clone()).unwrap();
    if has_bias_gradient {
        texts.remove(3);
    }
    texts
}

#[test]
fn attention_lowers_to_the_calls_that_jax_makes() {
    let cases: Vec<Value> = serde_json::from_str(CASES).unwrap();
    assert_eq!(cases.len(), 3);
    for case in &cases {
        let expected = case["calls"].as_array().unwrap();
        let config = &expected[0]["config"]["cudnn_fmha_backend_config"];
        let is_causal = config["mask_type"] == "CAUSAL";
        let is_f16 = config["intermediate_tensor_shape"]["element_type"] == "F16";
        let text = program(case, is_causal, if is_f16 { DType::F16 } else { DType::BF16 });
        let calls: Vec<Call<'_>> = text.lines().filter_map(Call::read).collect();
        assert_eq!(calls.len(), 2, "{text}");
        for (index, (call, expected)) in calls.iter().zip(expected).enumerate() {
            let is_gradient = index == 1;
            assert_eq!(expected["target"], call.target);
            assert_eq!(expected["config"], call.config());
            assert!(call.attributes.starts_with("api_version = 2 :"), "{}", call.attributes);
            assert_eq!(expected["api_version"], 2);
            assert_eq!(texts(expected, "operands", false), call.operands);
            assert_eq!(texts(expected, "results", is_gradient), call.results);
            assert_eq!(texts(expected, "operand_layouts", false), call.layouts("operand"));
            let layouts = call.layouts("result");
            // The last layout is that of the workspace, of which JAX writes a splat.
            assert_eq!(layouts.last(), Some(&"[0]"));
            let expected = texts(expected, "result_layouts", is_gradient);
            assert_eq!(expected[..expected.len() - 1], layouts[..layouts.len() - 1]);
        }
    }
}

/// Types and sizes that cuDNN does not take have no call.
#[test]
fn other_attention_is_computed_step_by_step() {
    let case = |sizes: [usize; 5]| serde_json::json!({ "sizes": sizes });
    for (sizes, dtype) in [
        ([1, 8, 2, 2, 16], DType::F32),
        ([1, 8, 2, 2, 12], DType::BF16),
        ([1, 8, 2, 2, 136], DType::BF16),
        ([1, 7, 2, 2, 16], DType::BF16),
    ] {
        let text = program(&case(sizes), true, dtype);
        assert!(!text.contains("custom_call"), "{sizes:?} {dtype:?}");
    }
}
