//! Kernels against the plain lowering of the same operations.

use traind_xla::autodiff::gradients;
use traind_xla::kernels::Kernels;
use traind_xla::mesh::{Axis, Mesh};
use traind_xla::ops::{
    AdamWUpdate, AttentionSpec, DotDims, Gate, PackedRows, Random, ReduceKind, ShardGroups,
    ShardHolders, VisibleKeys,
};
use traind_xla::{DType, Result, Shape, Tensor, Trace};

use crate::evaluator::{Compiled, Numbers, spread_numbers};
use crate::gradient_table::adamw_update;

fn f32(dims: &[usize]) -> Shape {
    Shape::new(DType::F32, dims)
}

/// Results and gradients with kernels are those without, but for float32 rounding; and the
/// program calls `targets`.
fn check(
    targets: &[&str],
    inputs: &[&[usize]],
    build: impl Fn(&Trace, &[Tensor]) -> Result<Tensor>,
) {
    let trace = Trace::with_kernels(Kernels::Own);
    let inputs: Vec<Tensor> =
        inputs.iter().map(|dims| trace.parameter("x", f32(dims)).unwrap()).collect();
    let result = build(&trace, &inputs).unwrap();
    let weights = spread_numbers(result.shape().element_count(), 7, -0.8, 1.8);
    let weights = trace.constant(DType::F32, result.dims(), &weights).unwrap();
    let axes: Vec<usize> = (0..result.rank()).collect();
    let loss = result.mul(&weights).unwrap().sum(&axes).unwrap();
    let wrt: Vec<&Tensor> = inputs.iter().collect();
    let gradients = gradients(&loss, &wrt).unwrap();
    let outputs: Vec<&Tensor> = std::iter::once(&result).chain(&gradients).collect();
    let numbers =
        |(n, input): (usize, &Tensor)| spread_numbers(input.shape().element_count(), n, -1.9, 2.1);
    let arguments: Vec<Numbers> = inputs.iter().enumerate().map(numbers).collect();
    let plain = Compiled::new(&outputs, 1);
    let called = Compiled::with_kernels(&outputs);
    for target in targets {
        assert!(called.program.text.contains(&format!("@{target}(")), "{}", called.program.text);
        assert!(!plain.program.text.contains("custom_call"));
    }
    let expected = plain.run(std::slice::from_ref(&arguments)).remove(0);
    for (place, (got, expected)) in called.run(&[arguments])[0].iter().zip(&expected).enumerate() {
        let largest = expected.iter().fold(1.0, |most: f64, x| most.max(x.abs()));
        for (got, expected) in got.iter().zip(expected) {
            let off = (got - expected).abs();
            assert!(off <= 5e-6 * largest, "output {place}: {got}, without kernels {expected}");
        }
    }
}

const ATTENTION: [&str; 2] = ["traind.attention", "traind.attention_backward"];

fn attention(dims: [usize; 3], heads: usize, dropout: f64, causal: bool) {
    let [rows, positions, hidden] = dims;
    let operand: &[usize] = &[rows * positions, hidden];
    check(&ATTENTION, &[operand; 3], |trace, x| {
        let scalar = |n: f64| trace.scalar(n, DType::U32);
        let random = Random::new(&scalar(5.0)?, &scalar(9.0)?, &scalar(3.0)?)?.with_rows(rows);
        // The site is not the first one.
        random.bits(&[rows, 2])?;
        let queries = if causal { positions } else { 1 };
        let hidden = |index: usize| {
            let (query, key) = (index / positions % queries, index % positions);
            let padding = key > 0 && key + index / positions / queries >= positions;
            if padding || (causal && key > query) { f64::from(f32::MIN) } else { 0.0 }
        };
        let mask: Numbers = (0..rows * queries * positions).map(hidden).collect();
        let mask = trace.constant(DType::F32, &[rows, 1, queries, positions], &mask)?;
        let spec = AttentionSpec { num_heads: heads, scale: 0.4, dropout };
        let visible = VisibleKeys { mask: &mask, starts: None, packed: None };
        x[0].attention(&x[1], &x[2], visible, spec, Some(&random))
    });
}

#[test]
fn attention_with_padding() {
    attention([3, 7, 12], 3, 0.0, false);
}

#[test]
fn attention_drops_the_same_shares() {
    attention([2, 33, 24], 2, 0.1, false);
}

#[test]
fn attention_drops_hardly_anything() {
    attention([2, 12, 8], 2, 1e-5, false);
}

#[test]
fn causal_attention_with_one_head() {
    attention([2, 18, 8], 1, 0.5, true);
}

#[test]
fn causal_attention_to_keys_that_heads_share() {
    const POSITIONS: usize = 70;
    let (query, key): (&[usize], &[usize]) = (&[2 * POSITIONS, 16], &[2 * POSITIONS, 8]);
    check(&ATTENTION, &[query, key, key], |trace, x| {
        let scalar = |n: f64| trace.scalar(n, DType::U32);
        let random = Random::new(&scalar(5.0)?, &scalar(9.0)?, &scalar(3.0)?)?.with_rows(2);
        let mask = trace.full(0.0, Shape::new(DType::F32, [2, 1, 1, POSITIONS]))?;
        // A window of twenty keys, and texts that begin at each thirtieth.
        let start = |index: usize| {
            let query = index % POSITIONS;
            query.saturating_sub(19).max(query / 30 * 30) as f64
        };
        let starts: Numbers = (0..2 * POSITIONS).map(start).collect();
        let starts = trace.constant(DType::S32, &[2, POSITIONS], &starts)?;
        let visible = VisibleKeys { mask: &mask, starts: Some(&starts), packed: None };
        let spec = AttentionSpec { num_heads: 4, scale: 0.4, dropout: 0.2 };
        x[0].attention(&x[1], &x[2], visible, spec, Some(&random))
    });
}

/// Rows of four and no tokens and one of three, two slots more than there are tokens, and keys that heads share.
#[test]
fn attention_of_packed_rows() {
    const PLACES: usize = 3 * 5;
    let none = PLACES as f64;
    let places = [0.0, 1.0, 2.0, 3.0, 10.0, 11.0, 12.0, none, none];
    for is_causal in [false, true] {
        check(&ATTENTION, &[&[9, 16], &[9, 8], &[9, 8]], |trace, x| {
            let scalar = |n: f64| trace.scalar(n, DType::U32);
            let random = Random::new(&scalar(5.0)?, &scalar(9.0)?, &scalar(3.0)?)?.with_rows(3);
            let mut tokens = vec![9.0; PLACES];
            for (token, place) in places.iter().enumerate().filter(|(_, place)| **place < none) {
                tokens[*place as usize] = token as f64;
            }
            let hidden = |place: usize| if tokens[place] < 9.0 { 0.0 } else { f64::from(f32::MIN) };
            let mask: Numbers = (0..PLACES).map(hidden).collect();
            let mask = trace.constant(DType::F32, &[3, 1, 1, 5], &mask)?;
            let tokens = trace.constant(DType::S32, &[PLACES], &tokens)?;
            let places = trace.constant(DType::S32, &[9], &places)?;
            let starts = trace.iota(DType::S32, &[3, 5], 1)?.sub_scalar(1.0)?;
            let visible = VisibleKeys {
                mask: &mask,
                starts: is_causal.then_some(&starts),
                packed: Some(PackedRows { tokens: &tokens, places: &places }),
            };
            let spec = AttentionSpec { num_heads: 4, scale: 0.4, dropout: 0.2 };
            x[0].attention(&x[1], &x[2], visible, spec, Some(&random))
        });
    }
}

#[test]
fn gelu() {
    check(&["traind.gelu", "traind.gelu_backward"], &[&[5, 37]], |_, x| x[0].gelu());
}

#[test]
fn gradients_of_weights() {
    check(&["traind.product"], &[&[9, 21], &[9, 34]], |_, x| {
        let axes =
            DotDims { lhs_contracting: vec![0], rhs_contracting: vec![0], ..DotDims::default() };
        x[0].dot_general(&x[1], axes)
    });
    check(&["traind.product"], &[&[9, 21], &[34, 21], &[34]], |_, x| {
        x[0].linear(&x[1], Some(&x[2]))
    });
}

/// Compares the products of a layer and its gradients, one for each layout of the operands.
#[test]
fn large_products_are_kernels_in_all_layouts() {
    check(&["traind.product"], &[&[64, 80], &[72, 80]], |_, x| x[0].linear(&x[1], None));
    let trace = Trace::with_kernels(Kernels::Own);
    let [x, weight] = [[64, 80], [72, 80]].map(|dims| trace.parameter("x", f32(&dims)).unwrap());
    let product = x.linear(&weight, None).unwrap();
    let loss = product.mul(&product).unwrap().sum(&[0, 1]).unwrap();
    let gradients = gradients(&loss, &[&x, &weight]).unwrap();
    let text = Compiled::with_kernels(&[&gradients[0], &gradients[1]]).program.text;
    assert_eq!(text.matches("@traind.product(").count(), 3, "{text}");
    assert!(!text.contains("dot_general"), "{text}");
}

/// A layer is one kernel with its bias, whose gradient is another.
#[test]
fn biases_are_added_by_kernels() {
    let targets = ["traind.biased_product", "traind.product", "traind.column_sums"];
    check(&targets, &[&[70, 9], &[500, 9], &[500]], |_, x| x[0].linear(&x[1], Some(&x[2])));
    check(&targets, &[&[500, 9], &[9, 70], &[70]], |_, x| {
        x[0].linear_transposed(&x[1], Some(&x[2]))
    });
    // XLA adds biases to few rows, and multiplies small matrices.
    check(&targets[1..], &[&[64, 80], &[72, 80], &[72]], |_, x| x[0].linear(&x[1], Some(&x[2])));
    check(&targets[1..], &[&[6, 8], &[7, 8], &[7]], |_, x| x[0].linear(&x[1], Some(&x[2])));
}

#[test]
fn gated_activations() {
    for gate in [Gate::Silu, Gate::Gelu, Gate::GeluTanh] {
        let targets = ["traind.gated", "traind.gated_backward"];
        check(&targets, &[&[7, 37], &[7, 37]], |_, x| x[0].gated(&x[1], gate));
        // Gate and factor are read after their gradients are computed.
        check(&targets, &[&[3, 5], &[3, 5]], |_, x| {
            let (gate_value, up) = (x[0].mul(&x[1])?, x[0].add(&x[1])?);
            gate_value.gated(&up, gate)?.mul(&gate_value)?.mul(&up)
        });
    }
}

#[test]
fn rotary_positions() {
    for (dims, table) in [([6, 2, 8], [3, 4]), ([6, 3, 7], [6, 2]), ([5, 1, 40], [1, 20])] {
        check(&["traind.rotary"], &[&dims], |trace, x| {
            let angles = spread_numbers(table[0] * table[1], 3, -4.0, 4.0);
            let angles = trace.constant(DType::F32, &table, &angles)?;
            x[0].rotary(&angles.cos()?, &angles.sin()?)
        });
    }
}

/// The plain lowering rounds operands to the same numbers, so only the order of sums differs.
#[test]
fn bf16_products() {
    let targets = ["traind.bf16_product"];
    check(&targets, &[&[9, 21], &[34, 21], &[34]], |_, x| x[0].bf16_linear(&x[1], Some(&x[2])));
    check(&targets, &[&[2, 5, 21], &[34, 21]], |_, x| x[0].bf16_linear(&x[1], None));
    check(&targets, &[&[9, 21], &[21, 34], &[34]], |_, x| x[0].bf16_matmul(&x[1], Some(&x[2])));
    check(&targets, &[&[60, 70], &[70, 530]], |_, x| x[0].bf16_matmul(&x[1], None));
    check(&targets, &[&[34, 21], &[9, 34], &[9, 21]], |_, x| {
        x[0].add_bf16_product(&x[1], &x[2], [true, false])
    });
}

const NORM: [&str; 2] = ["traind.norm", "traind.norm_backward"];

#[test]
fn norms() {
    check(&NORM, &[&[2, 5, 37], &[37], &[37]], |_, x| x[0].layer_norm(&x[1], &x[2], 1e-5));
    check(&NORM, &[&[3, 4, 2, 16], &[16]], |_, x| x[0].rms_norm(&x[1], 1e-6));
}

#[test]
fn a_norm_of_a_sum_drops_the_same_elements() {
    for (rate, batch_rows) in [(0.0, None), (0.1, Some(3)), (0.5, None)] {
        check(&NORM, &[&[12, 21], &[12, 21], &[21], &[21]], |trace, x| {
            let scalar = |n: f64| trace.scalar(n, DType::U32);
            let random = Random::new(&scalar(5.0)?, &scalar(9.0)?, &scalar(3.0)?)?;
            let random = batch_rows.map_or(random.clone(), |rows| random.with_rows(rows));
            // The site is not the first one.
            random.bits(&[12, 2])?;
            x[0].add_norm(&x[1], [&x[2], &x[3]], 1e-5, Some((rate, &random)))
        });
    }
}

const KEYS: &str = "traind.dropout_keys";

#[test]
fn some_heads_of_a_row_drop_the_same_shares() {
    let operand: &[usize] = &[2 * 9, 8];
    check(&[KEYS, ATTENTION[0]], &[operand; 3], |trace, x| {
        let scalar = |n: f64| trace.scalar(n, DType::U32);
        let random = Random::new(&scalar(5.0)?, &scalar(9.0)?, &scalar(3.0)?)?;
        let random = random.with_rows(2).in_blocks(&scalar(3.0)?, 5);
        let mask = trace.full(0.0, f32(&[2, 1, 1, 9]))?;
        let spec = AttentionSpec { num_heads: 2, scale: 0.4, dropout: 0.3 };
        let visible = VisibleKeys { mask: &mask, starts: None, packed: None };
        x[0].attention(&x[1], &x[2], visible, spec, Some(&random))
    });
}

#[test]
fn a_norm_of_packed_tokens_drops_the_same_elements() {
    check(&[KEYS, NORM[0]], &[&[5, 21], &[5, 21], &[21], &[21]], |trace, x| {
        let scalar = |n: f64| trace.scalar(n, DType::U32);
        let tokens = |numbers: &[f64]| trace.constant(DType::U32, &[5], numbers);
        let random = Random::new(&scalar(5.0)?, &scalar(9.0)?, &scalar(3.0)?)?;
        let (rows, positions) =
            (tokens(&[0.0, 0.0, 0.0, 1.0, 4.0])?, tokens(&[0.0, 1.0, 2.0, 0.0, 65_537.0])?);
        let random = random.of_tokens(&rows, &positions);
        x[0].add_norm(&x[1], [&x[2], &x[3]], 1e-5, Some((0.4, &random)))
    });
}

/// The kernels' graph and the plain one, which other devices get, draw the same bits.
#[test]
fn a_norm_of_a_sum_equals_its_parts() {
    let sum = |kernels: bool| {
        let trace = Trace::with_kernels(Kernels::own_if(kernels));
        let numbers = |series| {
            let numbers = spread_numbers(6 * 8, series, -1.0, 2.0);
            trace.constant(DType::F32, &[6, 8], &numbers).unwrap()
        };
        let (x, residual) = (numbers(1), numbers(2));
        let parameter = numbers(3).slice(0, 0, 1).unwrap().reshape(&[8]).unwrap();
        let scalar = |n: f64| trace.scalar(n, DType::U32).unwrap();
        let random = Random::new(&scalar(1.0), &scalar(2.0), &scalar(3.0)).unwrap().with_rows(2);
        let result = if kernels {
            x.add_norm(&residual, [&parameter, &parameter], 1e-5, Some((0.4, &random)))
        } else {
            let sum = x.dropout(0.4, &random).unwrap().add(&residual).unwrap();
            sum.layer_norm(&parameter, &parameter, 1e-5)
        };
        let compiled = match kernels {
            true => Compiled::with_kernels(&[&result.unwrap()]),
            false => Compiled::new(&[&result.unwrap()], 1),
        };
        compiled.run(&[vec![]])[0].remove(0)
    };
    for (got, expected) in sum(true).iter().zip(sum(false)) {
        assert!((got - expected).abs() < 2e-6, "{got}, from parts {expected}");
    }
}

#[test]
fn cross_entropy() {
    check(&["traind.cross_entropy", "traind.cross_entropy_backward"], &[&[5, 37]], |trace, x| {
        let labels = [3.0, 0.0, -100.0, 36.0, 37.0];
        x[0].cross_entropy(&trace.constant(DType::S32, &[5], &labels)?)
    });
}

/// The gradient is computed in the memory of the logits, of which the result has its own.
#[test]
fn logits_outlive_their_gradient() {
    check(&["traind.cross_entropy_backward"], &[&[3, 4], &[3, 4]], |trace, x| {
        let logits = x[0].mul(&x[1])?;
        let labels = trace.constant(DType::S32, &[3], &[1.0, 2.0, 0.0])?;
        logits.mul(&logits.cross_entropy(&labels)?.unsqueeze(1)?)
    });
}

#[test]
fn sums_of_squares() {
    check(&["traind.square_sum"], &[&[70, 33]], |_, x| x[0].sum_of_squares());
    check(&["traind.square_sum"], &[&[5000]], |_, x| x[0].sum_of_squares());
}

#[test]
fn sums_of_squares_in_one_call() {
    let trace = Trace::with_kernels(Kernels::Own);
    let dims: [&[usize]; 4] = [&[], &[70, 33], &[5], &[1, 2049]];
    let [sum, tensors @ ..] = dims.map(|dims| trace.parameter("x", f32(dims)).unwrap());
    let total = sum.add_sums_of_squares(&tensors.each_ref()).unwrap();
    let called = Compiled::with_kernels(&[&total]);
    assert_eq!(called.program.text.matches("custom_call").count(), 1, "{}", called.program.text);
    let numbers =
        |(place, dims): (usize, &&[usize])| spread_numbers(dims.iter().product(), place, -1.9, 2.1);
    let arguments: Vec<Numbers> = dims.iter().enumerate().map(numbers).collect();
    let got = called.run(std::slice::from_ref(&arguments))[0][0][0];
    let expected = Compiled::new(&[&total], 1).run(&[arguments])[0][0][0];
    assert!((got - expected).abs() <= 1e-6 * expected, "{got}, without kernels {expected}");
}

/// Results of an update with kernels are those without; old values may be read after it.
#[test]
fn updates_in_place() {
    for (dims, decays) in [([1, 1], true), ([3, 7], false), ([130, 127], true)] {
        let trace = Trace::with_kernels(Kernels::Own);
        let x: Vec<Tensor> = (0..4).map(|_| trace.parameter("x", f32(&dims)).unwrap()).collect();
        let slots = [&x[1], &x[2], &x[3]];
        let updated = adamw_update(slots, decays, |update| x[0].adamw(update)).unwrap();
        let change = updated[0].sub(&x[0]).unwrap();
        let outputs: Vec<&Tensor> = updated.iter().chain([&change]).collect();
        let count = dims[0] * dims[1];
        let arguments: Vec<Numbers> = (0..4)
            .map(|index| spread_numbers(count, index, if index == 2 { 1e-3 } else { -0.9 }, 1.0))
            .collect();
        let called = Compiled::with_kernels(&outputs);
        assert_eq!(called.program.text.matches("@traind.adamw(").count(), 1);
        let got = called.run(std::slice::from_ref(&arguments)).remove(0);
        let expected = Compiled::new(&outputs, 1).run(&[arguments]).remove(0);
        for (got, expected) in got.iter().flatten().zip(expected.iter().flatten()) {
            assert!((got - expected).abs() <= 1e-6, "{got}, without kernels {expected}");
        }
    }
}

/// Two groups of two cores, each with its own parameters, one of which does not divide into equal shards. Several
/// executions follow each other.
#[test]
fn cores_update_all_copies() {
    const CORES: usize = 4;
    let trace = Trace::with_kernels(Kernels::Own);
    let dims: [&[usize]; 3] = [&[6, 5], &[3, 7], &[70, 130]];
    let number = || trace.parameter("n", Shape::new(DType::U32, [])).unwrap();
    let (core, group) = (number(), number());
    let groups = [vec![0, 2], vec![1, 3]];
    let of_group = ShardGroups { cores: groups.to_vec(), hosts: 1 };
    let mut outputs = Vec::new();
    for (meeting, decays) in [true, false].into_iter().enumerate() {
        let holders = ShardHolders { groups: &groups, core: &core, group: &group, meeting };
        let parameter = |dims: &&[usize]| trace.parameter("x", f32(dims)).unwrap();
        let parameters: Vec<Tensor> = dims.iter().map(parameter).collect();
        let shards: Vec<[Tensor; 3]> = parameters
            .iter()
            .map(|it| {
                let shard = it.shard(&core, &of_group).unwrap();
                [shard.clone(), shard.mul(&shard).unwrap(), shard.mul_scalar(0.7).unwrap()]
            })
            .collect();
        let updated = adamw_update(shards[0].each_ref(), decays, |first| {
            let updates = shards.iter().map(|[exp_avg, exp_avg_sq, gradient]| AdamWUpdate {
                exp_avg,
                exp_avg_sq,
                gradient,
                ..*first
            });
            let updates: Vec<AdamWUpdate<'_>> = updates.collect();
            trace.sharded_adamw(&parameters.iter().collect::<Vec<_>>(), &updates, &holders)
        });
        outputs.extend(updated.unwrap().into_iter().flatten());
    }
    let outputs: Vec<&Tensor> = outputs.iter().collect();
    let called = Compiled::with_kernels_on(&outputs, CORES);
    assert_eq!(called.program.text.matches("@traind.sharded_adamw(").count(), 2);
    let plain = Compiled::new(&outputs, CORES);
    assert!(!plain.program.text.contains("custom_call"));
    for series in 0..20 {
        let of_core = |core: usize| -> Vec<Numbers> {
            let (place, group) = (core / 2, core % 2);
            let numbers = [place, group].map(|number| vec![number as f64]);
            let values = [0, 1].into_iter().flat_map(|_| &dims).enumerate().map(|(at, dims)| {
                spread_numbers(dims.iter().product(), 7 * series + 3 * at + group, -0.9, 1.0)
            });
            numbers.into_iter().chain(values).collect()
        };
        let arguments: Vec<Vec<Numbers>> = (0..CORES).map(of_core).collect();
        let (got, expected) = (called.run(&arguments), plain.run(&arguments));
        for (got, expected) in got.iter().flatten().zip(expected.iter().flatten()) {
            for (got, expected) in got.iter().zip(expected) {
                assert!((got - expected).abs() <= 1e-6, "{got}, without kernels {expected}");
            }
        }
        // The copies of a group are equal to the bit.
        for output in (0..outputs.len()).step_by(3) {
            assert_eq!(got[0][output], got[2][output]);
            assert_eq!(got[1][output], got[3][output]);
        }
    }
}

/// The gradient of an embedding is never a table: kernels read its rows, some of which are of the same word.
#[test]
fn cores_update_embeddings_by_rows() {
    const CORES: usize = 2;
    let trace = Trace::with_kernels(Kernels::Own);
    let number = || trace.parameter("n", Shape::new(DType::U32, [])).unwrap();
    let (core, group) = (number(), number());
    let parameter = |dims: &[usize]| trace.parameter("x", f32(dims)).unwrap();
    let (table, weight, rows) = (parameter(&[12, 5]), parameter(&[7, 3]), parameter(&[4, 5]));
    let groups = [vec![0, 1]];
    let of_group = ShardGroups { cores: groups.to_vec(), hosts: 1 };
    let holders = ShardHolders { groups: &groups, core: &core, group: &group, meeting: 0 };
    let numbers = trace.constant(DType::S32, &[4], &[7.0, 2.0, 7.0, 11.0]).unwrap();
    let first = core.convert(DType::S32).unwrap().mul_scalar(6.0).unwrap();
    let of_table = rows.table_of_rows(&numbers, &first, 6).unwrap().reshape(&[30]).unwrap();
    let shards = [&table, &weight].map(|it| it.shard(&core, &of_group).unwrap());
    let squares = shards.each_ref().map(|it| it.mul(it).unwrap());
    let of_weight = shards[1].mul_scalar(0.7).unwrap();
    let updated = adamw_update([&shards[0], &squares[0], &of_table], true, |first| {
        let [exp_avg, exp_avg_sq] = [&shards[1], &squares[1]];
        let second = AdamWUpdate { exp_avg, exp_avg_sq, gradient: &of_weight, ..*first };
        trace.sharded_adamw(&[&table, &weight], &[*first, second], &holders)
    });
    let norm = of_table.sum_of_squares().unwrap();
    let updated: Vec<Tensor> = updated.unwrap().into_iter().flatten().chain([norm]).collect();
    let outputs: Vec<&Tensor> = updated.iter().collect();
    let called = Compiled::with_kernels_on(&outputs, CORES);
    for kernel in ["@traind.sharded_adamw(", "@traind.square_sum_of_rows("] {
        assert_eq!(called.program.text.matches(kernel).count(), 1, "{}", called.program.text);
    }
    assert!(!called.program.text.contains("@traind.table_of_rows("));
    let numbers = |place: usize, count: usize| spread_numbers(count, place, -0.9, 1.1);
    let values = [numbers(1, 60), numbers(2, 21), numbers(3, 20)];
    let of_core = |core: usize| [vec![core as f64], vec![0.0]].into_iter().chain(values.clone());
    let arguments: Vec<Vec<Numbers>> = (0..CORES).map(|core| of_core(core).collect()).collect();
    let expected = Compiled::new(&outputs, CORES).run(&arguments);
    for (got, expected) in called.run(&arguments).iter().flatten().zip(expected.iter().flatten()) {
        for (got, expected) in got.iter().zip(expected) {
            assert!((got - expected).abs() <= 2e-6, "{got}, without kernels {expected}");
        }
    }
}

/// Cores add arrays of several sizes in place, of which one is a parameter that they read afterwards. Several
/// executions follow each other.
#[test]
fn cores_add_arrays_where_they_are() {
    const CORES: usize = 3;
    let trace = Trace::with_kernels(Kernels::Own);
    let dims: [&[usize]; 3] = [&[], &[70, 3], &[385]];
    let inputs = dims.map(|dims| trace.parameter("x", f32(dims)).unwrap());
    let tensors = inputs.each_ref().map(|x| x.mul_scalar(0.5).unwrap());
    let tensors = [&tensors[0], &tensors[1], &inputs[2]];
    let mesh = Mesh::data_parallel(CORES).unwrap();
    let sums = trace.all_reduce_together(&tensors, ReduceKind::Sum, &mesh, &[Axis::Data]).unwrap();
    let after = inputs[2].add(&sums[2]).unwrap();
    let outputs: Vec<&Tensor> = sums.iter().chain([&after]).collect();
    let called = Compiled::with_kernels_on(&outputs, CORES);
    assert_eq!(called.program.text.matches("@traind.sums(").count(), 1);
    assert!(!called.program.text.contains("concatenate"));
    let plain = Compiled::new(&outputs, CORES);
    assert!(!plain.program.text.contains("custom_call"));
    for series in 0..20 {
        let of_core = |core: usize| -> Vec<Numbers> {
            let numbers = |(place, dims): (usize, &&[usize])| {
                spread_numbers(dims.iter().product(), 9 * series + 3 * core + place, -1.9, 2.1)
            };
            dims.iter().enumerate().map(numbers).collect()
        };
        let arguments: Vec<Vec<Numbers>> = (0..CORES).map(of_core).collect();
        let (got, expected) = (called.run(&arguments), plain.run(&arguments));
        for (got, expected) in
            got.iter().flatten().flatten().zip(expected.iter().flatten().flatten())
        {
            assert!((got - expected).abs() <= 1e-6, "{got}, without kernels {expected}");
        }
        for core in 1..CORES {
            assert_eq!(got[0][..3], got[core][..3], "sums are equal to the bit");
        }
    }
}

/// Each core gets its shards of several sums, of which some end with zeros. Several executions follow each other.
#[test]
fn cores_add_shards_together() {
    const CORES: usize = 3;
    let trace = Trace::with_kernels(Kernels::Own);
    let dims: [&[usize]; 3] = [&[70, 90], &[5], &[1]];
    let number = trace.parameter("n", Shape::new(DType::U32, [])).unwrap();
    let inputs = dims.map(|dims| trace.parameter("x", f32(dims)).unwrap());
    let groups = ShardGroups { cores: vec![(0..CORES).collect()], hosts: 1 };
    let sums = trace.reduce_to_shards_together(&inputs.each_ref(), &number, &groups).unwrap();
    let outputs: Vec<&Tensor> = sums.iter().collect();
    let called = Compiled::with_kernels_on(&outputs, CORES);
    assert_eq!(called.program.text.matches("@traind.shard_sums(").count(), 1);
    let plain = Compiled::new(&outputs, CORES);
    assert_eq!(plain.program.text.matches("stablehlo.reduce_scatter").count(), 3);
    for series in 0..20 {
        let of_core = |core: usize| -> Vec<Numbers> {
            let numbers = dims.iter().enumerate().map(|(place, dims)| {
                spread_numbers(dims.iter().product(), 9 * series + 3 * core + place, -1.9, 2.1)
            });
            std::iter::once(vec![core as f64]).chain(numbers).collect()
        };
        let arguments: Vec<Vec<Numbers>> = (0..CORES).map(of_core).collect();
        let (got, expected) = (called.run(&arguments), plain.run(&arguments));
        for (got, expected) in
            got.iter().flatten().flatten().zip(expected.iter().flatten().flatten())
        {
            assert!((got - expected).abs() <= 1e-6, "{got}, without kernels {expected}");
        }
    }
}

#[test]
fn half_precision_has_no_kernels() {
    let trace = Trace::new();
    let x = trace.parameter("x", Shape::new(DType::BF16, [4, 4])).unwrap();
    let gelu = x.gelu().unwrap();
    assert!(!Compiled::with_kernels(&[&gelu]).program.text.contains("custom_call"));
}
