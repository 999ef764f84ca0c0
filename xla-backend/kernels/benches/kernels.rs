//! Times of the kernels at the shapes of MiniLM, 1,024 tokens a step, and of a vocabulary of 50,257.
//!
//! ```text
//! cargo bench --package traind-kernels
//! ```

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use traind_kernels::adamw::{self, Scalars};
use traind_kernels::attention::{self, Dims};
use traind_kernels::gated::{self, Activation};
use traind_kernels::hash::Dropout;
use traind_kernels::matrix::{Matrix, MatrixMut, multiply};
use traind_kernels::norm::{self, DropoutOfRows, Norm};
use traind_kernels::rotary::{Angles, rotate};
use traind_kernels::{bf16, cross_entropy, gelu, sum};

const ROWS: usize = 32;
const TOKENS: usize = 1024;
const HIDDEN: usize = 384;
const INNER: usize = 4 * HIDDEN;

/// Numbers between -1 and 1.
fn numbers(count: usize) -> Vec<f32> {
    let number = |index: u32| (index.wrapping_mul(0x9e37_79b9) >> 8) as f32 / 8_388_608.0 - 1.0;
    (0..count as u32).map(number).collect()
}

fn elements(bencher: &mut Criterion, name: &str, count: usize, mut run: impl FnMut()) {
    let mut group = bencher.benchmark_group("kernels");
    group.throughput(Throughput::Elements(count as u64));
    group.bench_function(name, |bencher| bencher.iter(&mut run));
    group.finish();
}

/// Times updates of more elements than a cache holds, as in a step.
fn updates(bencher: &mut Criterion) {
    let count = 30_522 * HIDDEN;
    let [mut parameter, mut copy, mut exp_avg, gradient] = [0; 4].map(|_| numbers(count));
    let mut exp_avg_sq = vec![0.1; count];
    let scalars = Scalars {
        factor: 0.5,
        decay_factor: 0.9999,
        one_minus_beta1: 0.1,
        beta2: 0.999,
        one_minus_beta2: 0.001,
        step_size: 1e-4,
        bias_correction2_sqrt: 0.5,
        epsilon: 1e-8,
    };
    elements(bencher, "sum of squares", count, || {
        black_box(sum::square_sum(black_box(&gradient)));
    });
    elements(bencher, "AdamW", count, || {
        adamw::update(&mut parameter, &mut exp_avg, &mut exp_avg_sq, &gradient, scalars);
    });
    elements(bencher, "AdamW of two copies", count, || {
        let copies = &mut [&mut parameter[..], &mut copy[..]];
        adamw::update_copies(copies, &mut exp_avg, &mut exp_avg_sq, &gradient, scalars);
    });
}

fn norms(bencher: &mut Criterion) {
    let count = TOKENS * HIDDEN;
    let [x, residual, cotangent] = [0; 3].map(|_| numbers(count));
    let (weight, bias, keys) = (numbers(HIDDEN), numbers(HIDDEN), [7; 2 * ROWS]);
    let dropout = Some(DropoutOfRows { dropout: Dropout::new(0.1), keys: &keys });
    let norm = Norm { weight: &weight, epsilon: 1e-12, is_centered: true, dropout };
    let [mut output, mut sum, mut statistics] =
        [vec![0.0; count], vec![0.0; count], vec![0.0; 2 * TOKENS]];
    let operands = norm::Operands { x: &x, residual: Some(&residual), bias: Some(&bias) };
    elements(bencher, "norm of a sum with dropout", count, || {
        let results =
            norm::Results { output: &mut output, statistics: &mut statistics, sum: Some(&mut sum) };
        norm::forward(black_box(&norm), &operands, results);
    });
    let [mut to_sum, mut to_x] = [vec![0.0; count], vec![0.0; count]];
    let [mut to_weight, mut to_bias] = [vec![0.0; HIDDEN], vec![0.0; HIDDEN]];
    let at = norm::Cotangent { normalized: &sum, statistics: &statistics, cotangent: &cotangent };
    elements(bencher, "norm of a sum with dropout, backward", count, || {
        let gradients = norm::Gradients {
            normalized: &mut to_sum,
            weight: &mut to_weight,
            bias: Some(&mut to_bias),
            dropped: Some(&mut to_x),
        };
        norm::backward(black_box(&norm), &at, gradients);
    });
}

fn activations(bencher: &mut Criterion) {
    let count = TOKENS * INNER;
    let (x, cotangent, mut result) = (numbers(count), numbers(count), vec![0.0; count]);
    elements(bencher, "gelu", count, || gelu::forward(black_box(&x), &mut result));
    elements(bencher, "gelu, backward", count, || {
        gelu::backward(black_box(&x), &cotangent, &mut result);
    });
}

fn losses(bencher: &mut Criterion) {
    const CLASSES: usize = 50_257;
    const LABELS: usize = 64;
    let mut logits = numbers(LABELS * CLASSES);
    let labels: Vec<i32> = (0..LABELS as i32).collect();
    let mut statistics = vec![0.0; cross_entropy::statistics_len(LABELS)];
    let mut losses = [0.0; LABELS];
    elements(bencher, "cross entropy", logits.len(), || {
        cross_entropy::forward(black_box(&logits), &labels, &mut losses, &mut statistics);
    });
    elements(bencher, "cross entropy, backward", logits.len(), || {
        cross_entropy::backward(black_box(&mut logits), &labels, &statistics, &losses);
    });
}

/// The three products of a linear layer, of float32 operands and of operands rounded to bfloat16.
fn products(bencher: &mut Criterion) {
    let (x, weight) = (numbers(TOKENS * HIDDEN), numbers(INNER * HIDDEN));
    let (cotangent, bias) = (numbers(TOKENS * INNER), numbers(INNER));
    let mut result = vec![0.0; TOKENS * INNER];
    let x = || Matrix::new(black_box(&x), [TOKENS, HIDDEN], HIDDEN);
    let weight = || Matrix::new(black_box(&weight), [INNER, HIDDEN], HIDDEN);
    let cotangent = || Matrix::new(black_box(&cotangent), [TOKENS, INNER], INNER);
    let products: [(_, [usize; 2], Matrix<'_>, Matrix<'_>, &[f32]); 3] = [
        ("forward", [TOKENS, INNER], x(), weight().transposed(), &bias),
        ("gradient of the input", [TOKENS, HIDDEN], cotangent(), weight(), &[]),
        ("gradient of the weight", [INNER, HIDDEN], cotangent().transposed(), x(), &[]),
    ];
    for (name, [rows, columns], lhs, rhs, bias) in products {
        let result = &mut result[..rows * columns];
        let count = TOKENS * HIDDEN * INNER;
        elements(bencher, &format!("float32, {name}"), count, || {
            multiply(MatrixMut::new(result, [rows, columns], columns), lhs, rhs, false);
        });
        elements(bencher, &format!("bfloat16, {name}"), count, || {
            let to = MatrixMut::new(result, [rows, columns], columns);
            bf16::multiply(to, lhs, rhs, bf16::Addend::Bias(bias));
        });
    }
}

fn gates(bencher: &mut Criterion) {
    let count = TOKENS * INNER;
    let (mut gate, mut up) = (numbers(count), numbers(count));
    let (cotangent, mut result) = (numbers(count), vec![0.0; count]);
    elements(bencher, "gate", count, || {
        gated::forward(Activation::Silu, black_box(&gate), &up, &mut result);
    });
    elements(bencher, "gate, backward", count, || {
        gated::backward(Activation::Silu, black_box(&mut gate), &mut up, &cotangent);
    });
}

fn positions(bencher: &mut Criterion) {
    let (heads, head_size) = (12, HIDDEN / 12);
    let angles = numbers(TOKENS / ROWS * head_size / 2);
    let angles = Angles { cos: &angles, sin: &angles, pairs: head_size / 2 };
    let mut x = numbers(TOKENS * HIDDEN);
    elements(bencher, "rotary positions", x.len(), || {
        rotate(black_box(&mut x), &angles, [heads, head_size], false);
    });
}

fn attentions(bencher: &mut Criterion) {
    let dims = Dims {
        rows: ROWS,
        positions: TOKENS / ROWS,
        heads: 12,
        key_heads: 12,
        head_size: HIDDEN / 12,
        mask_queries: 1,
    };
    let count = TOKENS * HIDDEN;
    let [query, key, value, cotangent] = [0; 4].map(|_| numbers(count));
    let (mask, keys) = (vec![0.0; TOKENS], [9; 2 * 12 * ROWS]);
    let operands = attention::Operands {
        dims,
        query: &query,
        key: &key,
        value: &value,
        mask: &mask,
        starts: None,
        tokens: None,
        scale: 0.2,
        dropout: Some((Dropout::new(0.1), &keys)),
    };
    let mut statistics = vec![0.0; attention::statistics_len(&dims)];
    let [mut output, mut to_query, mut to_key, mut to_value] = [0; 4].map(|_| vec![0.0; count]);
    elements(bencher, "attention", count, || {
        attention::forward(black_box(&operands), &mut output, &mut statistics);
    });
    let at =
        attention::Cotangent { output: &output, statistics: &statistics, cotangent: &cotangent };
    elements(bencher, "attention, backward", count, || {
        let gradients = [&mut to_query[..], &mut to_key[..], &mut to_value[..]];
        attention::backward(black_box(&operands), &at, gradients);
    });
}

criterion_group!(
    benches,
    updates,
    norms,
    activations,
    gates,
    positions,
    losses,
    products,
    attentions
);
criterion_main!(benches);
