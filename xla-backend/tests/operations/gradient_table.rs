//! A row for each operation: inputs, and a result made of them in which the
//! operation stands. Operations without a gradient stand as a factor, which is
//! constant around the inputs.

use traind_xla::autodiff::gradients;
use traind_xla::mesh::{Axis, Mesh};
use traind_xla::ops::{
    AdamWScalars, AdamWUpdate, AttentionSpec, DotDims, Gate, PackedRows, Random, ReduceKind,
    ShardGroups, ShardHolders, VisibleKeys,
};
use traind_xla::{DType, Result, Shape, Tensor, Trace};

/// A differentiated f64 input, with numbers between `low` and `high`.
pub(crate) struct Input {
    pub(crate) dims: &'static [usize],
    pub(crate) low: f64,
    pub(crate) high: f64,
}

pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) inputs: &'static [Input],
    pub(crate) replicas: usize,
    /// Bound of the relative error, or of the absolute one for gradients under 1.
    pub(crate) tolerance: f64,
    pub(crate) build: fn(&Trace, &[Tensor]) -> Result<Tensor>,
}

const TOLERANCE: f64 = 1e-7;

const fn any(dims: &'static [usize]) -> Input {
    Input { dims, low: -1.6, high: 1.7 }
}

const fn positive(dims: &'static [usize]) -> Input {
    Input { dims, low: 0.3, high: 2.9 }
}

const fn row(
    name: &'static str,
    inputs: &'static [Input],
    build: fn(&Trace, &[Tensor]) -> Result<Tensor>,
) -> Row {
    Row { name, inputs, replicas: 1, tolerance: TOLERANCE, build }
}

const fn on_two(
    name: &'static str,
    inputs: &'static [Input],
    build: fn(&Trace, &[Tensor]) -> Result<Tensor>,
) -> Row {
    Row { name, inputs, replicas: 2, tolerance: TOLERANCE, build }
}

const ATTENTION: &[Input] = &[any(&[6, 4]), any(&[6, 4]), any(&[6, 4])];
const GROUPED_ATTENTION: &[Input] = &[any(&[6, 4]), any(&[6, 2]), any(&[6, 2])];
/// Two rows of two and of three tokens, and a slot behind them.
const PACKED_ATTENTION: &[Input] = &[any(&[6, 4]), any(&[6, 2]), any(&[6, 2])];
const ONE: &[Input] = &[any(&[2, 3])];
const TWO: &[Input] = &[any(&[2, 3]), any(&[2, 3])];

/// An update by `gradient` of what has run for a while.
pub(crate) fn adamw_update<T>(
    [exp_avg, exp_avg_sq, gradient]: [&Tensor; 3],
    decays: bool,
    apply: impl FnOnce(&AdamWUpdate<'_>) -> Result<T>,
) -> Result<T> {
    let values = [0.7, 0.99, 0.1, 0.999, 0.001, 0.02, 0.3, 1e-6];
    let scalars = values.map(|value| exp_avg.trace().scalar(value, exp_avg.dtype()));
    let [a, b, c, d, e, f, g, h] = scalars;
    let scalars = AdamWScalars {
        factor: &a?,
        decay_factor: &b?,
        one_minus_beta1: &c?,
        beta2: &d?,
        one_minus_beta2: &e?,
        step_size: &f?,
        bias_correction2_sqrt: &g?,
        epsilon: &h?,
    };
    apply(&AdamWUpdate { exp_avg, exp_avg_sq, gradient, scalars, decays })
}

pub(crate) const TABLE: &[Row] = &[
    // Values known while tracing.
    row("parameter", ONE, |_, x| Ok(x[0].clone())),
    row("splat", ONE, |t, x| t.full(2.5, Shape::new(DType::F64, [2, 3]))?.mul(&x[0])),
    row("constant", ONE, |t, x| t.constant(DType::F64, &[3], &[1.0, -2.0, 3.0])?.mul(&x[0])),
    row("iota", ONE, |t, x| t.iota(DType::F64, &[2, 3], 1)?.mul(&x[0])),
    // Several results.
    row("attention", ATTENTION, |t, x| {
        let scalar = |n: f64| t.scalar(n, DType::U32);
        let random = Random::new(&scalar(1.0)?, &scalar(2.0)?, &scalar(0.0)?)?;
        let spec = AttentionSpec { num_heads: 2, scale: 0.7, dropout: 0.3 };
        let mask = t.constant(DType::F32, &[2, 1, 1, 3], &[0.0, -1.0, 0.0, 0.5, 0.0, -9.0])?;
        x[0].attention(
            &x[1],
            &x[2],
            VisibleKeys { mask: &mask, starts: None, packed: None },
            spec,
            Some(&random),
        )
    }),
    row("attention", GROUPED_ATTENTION, |t, x| {
        let spec = AttentionSpec { num_heads: 2, scale: 0.7, dropout: 0.0 };
        let mask = t.full(0.0, Shape::new(DType::F32, [2, 1, 1, 3]))?;
        let starts = t.constant(DType::S32, &[2, 3], &[0.0, -4.0, 1.0, 0.0, 1.0, 2.0])?;
        let visible = VisibleKeys { mask: &mask, starts: Some(&starts), packed: None };
        x[0].attention(&x[1], &x[2], visible, spec, None)
    }),
    row("attention", PACKED_ATTENTION, |t, x| {
        let spec = AttentionSpec { num_heads: 2, scale: 0.7, dropout: 0.0 };
        let numbers = |numbers: &[f64]| t.constant(DType::S32, &[numbers.len()], numbers);
        let mask = t.constant(DType::F32, &[2, 1, 1, 3], &[0.0, 0.5, -9e9, 0.0, -0.5, 0.0])?;
        let tokens = numbers(&[0.0, 1.0, 6.0, 2.0, 3.0, 4.0])?;
        let places = numbers(&[0.0, 1.0, 3.0, 4.0, 5.0, 6.0])?;
        let packed = Some(PackedRows { tokens: &tokens, places: &places });
        x[0].attention(&x[1], &x[2], VisibleKeys { mask: &mask, starts: None, packed }, spec, None)
    }),
    row("attention_gradient", ATTENTION, |t, x| {
        let spec = AttentionSpec { num_heads: 2, scale: 0.7, dropout: 0.0 };
        let mask = t.full(0.0, Shape::new(DType::F32, [2, 1, 3, 3]))?;
        let fixed = t.iota(DType::F64, &[6, 4], 0)?;
        let attended = fixed.attention(
            &fixed,
            &fixed,
            VisibleKeys { mask: &mask, starts: None, packed: None },
            spec,
            None,
        )?;
        gradients(&attended.sum(&[0, 1])?, &[&fixed])?[0].mul(&x[0])
    }),
    row("adamw", ONE, |t, x| {
        let fixed = t.iota(DType::F64, &[2, 3], 1)?;
        let [parameter, ..] = adamw_update([&fixed; 3], true, |update| fixed.adamw(update))?;
        parameter.mul(&x[0])
    }),
    row("sharded_adamw", ONE, |t, x| {
        let (fixed, number) = (t.iota(DType::F64, &[2, 3], 1)?, t.scalar(0.0, DType::U32)?);
        let shard = fixed.reshape(&[6])?;
        let holders =
            ShardHolders { groups: &[vec![0]], core: &number, group: &number, meeting: 0 };
        let updated = adamw_update([&shard; 3], true, |update| {
            t.sharded_adamw(&[&fixed], &[*update], &holders)
        })?;
        updated[0][0].mul(&x[0])
    }),
    row("square_sum", ONE, |_, x| x[0].sum_of_squares()),
    row("table_of_rows", ONE, |t, x| {
        let (fixed, first) = (t.iota(DType::F64, &[4, 3], 0)?, t.scalar(7.0, DType::S32)?);
        let numbers = t.constant(DType::S32, &[4], &[8.0, 6.0, 9.0, 8.0])?;
        fixed.table_of_rows(&numbers, &first, 2)?.mul(&x[0])
    }),
    row("sum_together", ONE, |t, x| {
        let fixed = t.iota(DType::F32, &[2, 3], 1)?;
        let (mesh, kind) = (Mesh::data_parallel(1)?, ReduceKind::Sum);
        let sums =
            t.all_reduce_together(&[&fixed, &fixed.sum(&[0])?], kind, &mesh, &[Axis::Data])?;
        sums[0].add(&sums[1])?.convert(DType::F64)?.mul(&x[0])
    }),
    row("gelu_gradient", ONE, |t, x| {
        let fixed = t.iota(DType::F64, &[2, 3], 1)?;
        gradients(&fixed.gelu()?.sum(&[0, 1])?, &[&fixed])?[0].mul(&x[0])
    }),
    // One element at a time.
    row("neg", ONE, |_, x| x[0].neg()),
    row("abs", ONE, |_, x| x[0].abs()),
    row("exp", ONE, |_, x| x[0].exp()),
    row("log", &[positive(&[2, 3])], |_, x| x[0].log()),
    row("log1p", &[positive(&[2, 3])], |_, x| x[0].log1p()),
    row("sqrt", &[positive(&[2, 3])], |_, x| x[0].sqrt()),
    row("rsqrt", &[positive(&[2, 3])], |_, x| x[0].rsqrt()),
    row("tanh", ONE, |_, x| x[0].tanh()),
    row("logistic", ONE, |_, x| x[0].logistic()),
    row("erf", ONE, |_, x| x[0].erf()),
    row("sin", ONE, |_, x| x[0].sin()),
    row("cos", ONE, |_, x| x[0].cos()),
    row("sign", ONE, |_, x| x[0].sign()?.mul(&x[0])),
    row("floor", ONE, |_, x| x[0].floor()?.mul(&x[0])),
    row("not", ONE, |_, x| x[0].lt_scalar(0.1)?.not()?.convert(DType::F64)?.mul(&x[0])),
    row("is_finite", ONE, |_, x| x[0].is_finite()?.convert(DType::F64)?.mul(&x[0])),
    // Two operands.
    row("add", TWO, |_, x| x[0].add(&x[1])),
    row("sub", TWO, |_, x| x[0].sub(&x[1])),
    row("mul", TWO, |_, x| x[0].mul(&x[1])),
    row("div", &[any(&[2, 3]), positive(&[2, 3])], |_, x| x[0].div(&x[1])),
    row("maximum", TWO, |_, x| x[0].maximum(&x[1])),
    row("minimum", TWO, |_, x| x[0].minimum(&x[1])),
    row("pow", &[positive(&[2, 3]), any(&[2, 3])], |_, x| x[0].pow(&x[1])),
    row("pow_scalar", &[positive(&[2, 3])], |_, x| x[0].pow_scalar(-1.5)),
    row("remainder", &[any(&[2, 3]), Input { dims: &[2, 3], low: 0.4, high: 0.9 }], |_, x| {
        x[0].remainder(&x[1])
    }),
    row("scalar forms", ONE, |_, x| {
        x[0].add_scalar(2.0)?.sub_scalar(0.5)?.mul_scalar(3.0)?.div_scalar(0.7)?.maximum_scalar(0.1)
    }),
    row("broadcasting", &[any(&[2, 1, 3]), any(&[4, 1])], |_, x| x[0].mul(&x[1])),
    row("and, or, xor", TWO, |_, x| {
        let (a, b) = (x[0].lt_scalar(0.2)?, x[1].gt_scalar(-0.3)?);
        let mixed = a.and(&b)?.or(&a.xor(&b)?.not()?)?;
        mixed.convert(DType::F64)?.mul(&x[0])?.mul(&x[1])
    }),
    row("shifts", ONE, |t, x| {
        let numbers = t.iota(DType::U32, &[2, 3], 1)?.add_scalar(5.0)?;
        let shifted = numbers.shift_left_scalar(3.0)?.shift_right_logical_scalar(1.0)?;
        shifted.convert(DType::F64)?.mul(&x[0])
    }),
    row("compare", TWO, |_, x| x[0].ge(&x[1])?.convert(DType::F64)?.mul(&x[0])),
    row("select", TWO, |_, x| x[0].lt(&x[1])?.select(&x[0].mul(&x[0])?, &x[1])),
    // Types and borders.
    row("bitcast_convert", ONE, |t, x| {
        let numbers = t.iota(DType::U32, &[2, 3], 1)?.bitcast_convert(DType::S32)?;
        numbers.convert(DType::F64)?.mul(&x[0])
    }),
    row("stop_gradient", TWO, |_, x| x[0].stop_gradient()?.floor()?.mul(&x[1])),
    row("withhold", TWO, |t, x| x[0].mul(&x[1])?.withheld(&t.never(x)?)),
    row("optimization_barrier", TWO, |_, x| {
        x[0].mul(&x[1])?.optimization_barrier()?.after(&[&x[1]])
    }),
    // Shapes.
    row("broadcast_to", &[any(&[3, 1])], |_, x| x[0].broadcast_to(&[2, 3, 4])),
    row("broadcast_in_dim", &[any(&[2, 1])], |_, x| x[0].broadcast_in_dim(&[0, 2], &[2, 3, 2])),
    row("reshape", ONE, |_, x| x[0].reshape(&[3, 2])?.unsqueeze(1)?.squeeze(1)),
    row("transpose", &[any(&[2, 3, 4])], |_, x| x[0].transpose(&[2, 0, 1])),
    row("swap_axes", &[any(&[2, 3, 4])], |_, x| x[0].swap_axes(0, 2)),
    row("slice", &[any(&[4, 3])], |_, x| x[0].slice(0, 1, 3)),
    row("slice_strided", &[any(&[7, 4])], |_, x| x[0].slice_strided(&[1, 0], &[7, 4], &[3, 2])),
    row("dynamic_slice", &[any(&[4, 3])], |t, x| {
        x[0].dynamic_slice(0, &t.scalar(1.0, DType::U32)?, 2)
    }),
    row("dynamic_place", ONE, |t, x| x[0].dynamic_place(1, &t.scalar(1.0, DType::U32)?, 5)),
    row("pad", ONE, |_, x| x[0].pad(1, 2, 1, -4.0)),
    row("pad_all", ONE, |_, x| x[0].pad_all(&[1, 0], &[0, 2], &[2, 1], 3.0)),
    row("concatenate", &[any(&[2, 3]), any(&[2, 1])], |t, x| t.concatenate(&[&x[0], &x[1]], 1)),
    row("reverse", ONE, |_, x| x[0].reverse(&[1])),
    // Reductions.
    row("sum", &[any(&[2, 3, 2])], |_, x| x[0].sum(&[2, 0])),
    row("mean", &[any(&[2, 3, 2])], |_, x| x[0].mean(&[1])),
    row("max", &[any(&[3, 4])], |_, x| x[0].max(&[1])),
    row("min", &[any(&[3, 4])], |_, x| x[0].min(&[0, 1])),
    row("sum_keep, max_keep, mean_keep", ONE, |_, x| {
        x[0].sum_keep(&[0])?.mul(&x[0].max_keep(&[1])?)?.add(&x[0].mean_keep(&[0, 1])?)
    }),
    row("argmax", ONE, |_, x| x[0].argmax(1)?.convert(DType::F64)?.mul(&x[0].sum(&[1])?)),
    // Products.
    row("dot_general", &[any(&[3, 2, 4, 2]), any(&[2, 5, 2, 4])], |_, x| {
        let dims = DotDims {
            lhs_batch: vec![1],
            rhs_batch: vec![2],
            lhs_contracting: vec![2, 3],
            rhs_contracting: vec![3, 0],
        };
        x[0].dot_general(&x[1], dims)
    }),
    row("dot_general, outer", &[any(&[3]), any(&[2])], |_, x| {
        x[0].dot_general(&x[1], DotDims::default())
    }),
    row("matmul", &[any(&[2, 3, 4]), any(&[2, 4, 2])], |_, x| x[0].matmul(&x[1])),
    row("add_product", &[any(&[3, 2]), any(&[4, 3]), any(&[4, 2])], |_, x| {
        x[0].add_product(&x[1], &x[2])
    }),
    row("linear", &[any(&[2, 3, 4]), any(&[5, 4]), any(&[5])], |_, x| {
        x[0].linear(&x[1], Some(&x[2]))
    }),
    row(
        "biased_product",
        &[any(&[2, 3]), any(&[4, 3]), any(&[4]), any(&[4, 2]), any(&[2])],
        |_, x| x[0].linear(&x[1], Some(&x[2]))?.linear_transposed(&x[3], Some(&x[4])),
    ),
    row("add_square_sums", ONE, |t, x| {
        let (fixed, sum) = (t.iota(DType::F32, &[3, 2], 0)?, t.scalar(0.5, DType::F32)?);
        let sum = sum.add_sums_of_squares(&[&fixed, &fixed])?;
        sum.convert(DType::F64)?.mul(&x[0])
    }),
    row("square_sum_of_rows", ONE, |t, x| {
        let fixed = t.iota(DType::F64, &[3, 2], 0)?;
        let numbers = t.constant(DType::S32, &[3], &[1.0, 4.0, 1.0])?;
        let first = t.scalar(0.0, DType::S32)?;
        fixed.table_of_rows(&numbers, &first, 4)?.sum_of_squares()?.mul(&x[0])
    }),
    row("sum_of_squares", &[any(&[2, 3])], |_, x| x[0].sum_of_squares()),
    // Indexing.
    row("place_rows", &[any(&[4, 3])], |t, x| {
        let row_of_place = t.constant(DType::S32, &[5], &[2.0, 4.0, 0.0, 9.0, 3.0])?;
        let place_of_row = t.constant(DType::S32, &[4], &[2.0, 5.0, 0.0, 4.0])?;
        x[0].place_rows(&row_of_place, &place_of_row)
    }),
    row("take", &[any(&[4, 3])], |t, x| {
        x[0].take(&t.constant(DType::S32, &[2, 3], &[0.0, 2.0, 2.0, 9.0, -5.0, 1.0])?)
    }),
    row("scatter_add", &[any(&[4, 3]), any(&[5, 3])], |t, x| {
        let indices = t.constant(DType::S32, &[5], &[1.0, 1.0, 3.0, -1.0, 8.0])?;
        x[0].scatter_add(&indices, &x[1])
    }),
    row("take_along_axis", &[any(&[4, 3])], |t, x| {
        let indices = t.constant(DType::S32, &[2, 3], &[0.0, 3.0, 1.0, 2.0, 3.0, -1.0])?;
        x[0].take_along_axis(&indices, 0)
    }),
    row("one_hot", &[any(&[3, 4])], |t, x| {
        t.constant(DType::S32, &[3], &[2.0, 0.0, 7.0])?.one_hot(4, DType::F64)?.mul(&x[0])
    }),
    // Networks.
    row("softmax", &[any(&[2, 4])], |_, x| x[0].softmax(1)),
    row("softmax, axis 0", &[any(&[3, 2])], |_, x| x[0].softmax(0)),
    row("log_softmax", &[any(&[2, 4])], |_, x| x[0].log_softmax(1)),
    row("logsumexp", &[any(&[3, 2])], |_, x| x[0].logsumexp(0)),
    row("layer_norm", &[any(&[2, 2, 4]), any(&[4]), any(&[4])], |_, x| {
        x[0].layer_norm(&x[1], &x[2], 1e-5)
    }),
    row("add_norm", &[any(&[4, 6]), any(&[4, 6]), any(&[6]), any(&[6])], |t, x| {
        let number = |value| t.scalar(value, DType::U32);
        let random = Random::new(&number(4.0)?, &number(3.0)?, &number(8.0)?)?.with_rows(2);
        let dropped = x[0].add_norm(&x[1], [&x[2], &x[3]], 1e-1, Some((0.4, &random)))?;
        dropped.add(&x[0].add_norm(&x[1], [&x[2], &x[3]], 1e-1, None)?)
    }),
    row("rms_norm", &[any(&[3, 4]), any(&[4])], |_, x| x[0].rms_norm(&x[1], 1e-6)),
    row("relu", ONE, |_, x| x[0].relu()),
    row("gelu", &[any(&[4, 3])], |_, x| x[0].gelu()),
    row("gelu_tanh", &[any(&[4, 3])], |_, x| x[0].gelu_tanh()),
    row("silu", ONE, |_, x| x[0].silu()),
    row("cross_entropy", &[any(&[4, 3])], |t, x| {
        x[0].cross_entropy(&t.constant(DType::S32, &[4], &[2.0, 0.0, -100.0, 1.0])?)
    }),
    row("dropout", &[any(&[4, 5])], |t, x| {
        let number = |value| t.scalar(value, DType::U32);
        let random = Random::new(&number(42.0)?, &number(3.0)?, &number(8.0)?)?;
        x[0].dropout(0.4, &random)
    }),
    row("gated", &[any(&[3, 4]), any(&[3, 4])], |_, x| {
        let silu = x[0].gated(&x[1], Gate::Silu)?;
        silu.add(&x[0].gated(&x[1], Gate::Gelu)?)?.add(&x[0].gated(&x[1], Gate::GeluTanh)?)
    }),
    row("rotary", &[any(&[4, 2, 6])], |t, x| {
        let angles = t.constant(DType::F64, &[2, 2], &[0.3, 1.7, -2.0, 0.9])?;
        x[0].rotary(&angles.cos()?, &angles.sin()?)
    }),
    row("bf16_product", &[any(&[2, 3]), any(&[4, 3]), any(&[4]), any(&[4, 2])], |_, x| {
        x[0].bf16_linear(&x[1], Some(&x[2]))?.bf16_matmul(&x[3], None)
    }),
    row("add_bf16_product", &[any(&[3, 2]), any(&[4, 3]), any(&[2, 4])], |_, x| {
        x[0].add_bf16_product(&x[1], &x[2], [true, true])
    }),
    row("bf16_product, transposed operands", &[any(&[3, 2])], |_, x| {
        // The gradient is of a gradient's layout: the cotangent of the first product is not constant.
        let square = x[0].bf16_linear(&x[0], None)?;
        square.mul(&square)?.bf16_matmul(&x[0], None)
    }),
    // Between replicas.
    on_two("shard_sums", ONE, |t, x| {
        let fixed = t.iota(DType::F32, &[2, 3], 1)?;
        let groups = ShardGroups { cores: vec![vec![0, 1]], hosts: 1 };
        let number = t.scalar(0.0, DType::U32)?;
        let sums = t.reduce_to_shards_together(&[&fixed, &fixed.sum(&[0])?], &number, &groups)?;
        sums[0].convert(DType::F64)?.mul(&x[0])
    }),
    on_two("all_reduce, sum", ONE, |_, x| x[0].all_reduce(ReduceKind::Sum, &[vec![0, 1]])?.sin()),
    on_two("all_reduce, max", ONE, |_, x| x[0].all_reduce(ReduceKind::Max, &[vec![0, 1]])?.sin()),
    on_two("all_reduce, min", ONE, |_, x| x[0].all_reduce(ReduceKind::Min, &[vec![0, 1]])?.sin()),
    on_two("all_reduce, groups of one", ONE, |_, x| {
        x[0].all_reduce(ReduceKind::Sum, &[vec![0], vec![1]])?.sin()
    }),
    on_two("all_reduce_hosts, one host", ONE, |_, x| {
        x[0].all_reduce_hosts(ReduceKind::Sum, 1)?.sin()
    }),
    on_two("reduce_scatter", &[any(&[3, 4])], |_, x| {
        x[0].reduce_scatter(ReduceKind::Sum, 1, &[vec![1, 0]])?.sin()
    }),
    on_two("all_gather", ONE, |_, x| x[0].all_gather(1, &[vec![0, 1]])?.sin()),
    on_two("all_to_all", &[any(&[4, 3])], |_, x| x[0].all_to_all(0, 1, &[vec![0, 1]])?.sin()),
    on_two("fan_in, fan_out", ONE, |_, x| {
        x[0].fan_in(&[vec![0, 1]])?.sin()?.fan_out(&[vec![0, 1]])?.sin()
    }),
    on_two("join, fan_out", ONE, |_, x| {
        // The first replica has the larger first element.
        let first = x[0].slice(0, 0, 1)?.slice(1, 0, 1)?.reshape(&[])?;
        let largest = first.all_reduce(ReduceKind::Max, &[vec![0, 1]])?;
        let start = first.lt(&largest)?.convert(DType::U32)?.mul_scalar(2.0)?;
        x[0].join(0, &start, &[vec![0, 1]])?.sin()?.fan_out(&[vec![0, 1]])?.sin()
    }),
    on_two("collective_permute", ONE, |_, x| x[0].collective_permute(&[(0, 1)])?.sin()),
    // A layer that is computed again backwards.
    row("checkpoint", &[any(&[2, 3]), any(&[3, 3])], |t, x| {
        let hidden = t.checkpoint("inner", || x[0].tanh()?.linear(&x[1], None)?.gelu())?;
        t.checkpoint("outer", || t.scope("nested", || hidden.linear(&x[1], None)?.softmax(1)))
    }),
];
