//! Gradients that are added to sums of earlier ones.

use traind_xla::autodiff::{accumulated_gradients, gradients};
use traind_xla::kernels::{GpuOptions, Kernels};
use traind_xla::mesh::Mesh;
use traind_xla::runtime::{RecordedStep, Recorder, with_platform_options};
use traind_xla::{DType, Result, Shape, Tensor, Trace};

use traind_pjrt::CompileOptions;

use crate::evaluator::{CLIENT, Compiled, Numbers, spread_numbers};

const WORDS: usize = 11;
const HIDDEN: usize = 4;

/// A loss that reads a table as tied embeddings are read: it looks up rows twice, one of them several times, and
/// multiplies by the table.
fn tied_loss(table: &Tensor, weight: &Tensor) -> Result<Tensor> {
    let ids = |ids: [f64; 6]| table.trace().constant(DType::S32, &[6], &ids);
    let first = table.take(&ids([3.0, 1.0, 3.0, 0.0, 3.0, 10.0])?)?;
    let states = first.add(&table.take(&ids([2.0, 2.0, 9.0, 5.0, 3.0, 1.0])?)?)?;
    let logits = states.linear(weight, None)?.tanh()?.linear(table, None)?;
    logits.mul(&logits)?.sum(&[0, 1])?.convert(DType::F32)
}

/// A table, a weight and a sum of gradients of each.
fn parameters(trace: &Trace) -> [Tensor; 4] {
    let [table, weight] = [[WORDS, HIDDEN], [HIDDEN, HIDDEN]];
    [table, weight, table, weight]
        .map(|dims| trace.parameter("x", Shape::new(DType::F32, dims)).unwrap())
}

/// The sums with the gradients of the tied loss, which is computed in `dtype`: added in place, or afterwards.
fn totals(trace: &Trace, dtype: DType, in_place: bool) -> Vec<Tensor> {
    let [table, weight, sums @ ..] = parameters(trace);
    let [cast_table, cast_weight] = [&table, &weight].map(|it| it.convert(dtype).unwrap());
    let loss = tied_loss(&cast_table, &cast_weight).unwrap();
    if in_place {
        return accumulated_gradients(&loss, &[&table, &weight], &sums.map(Some)).unwrap();
    }
    let gradients = gradients(&loss, &[&table, &weight]).unwrap();
    sums.iter().zip(&gradients).map(|(sum, gradient)| sum.add(gradient).unwrap()).collect()
}

fn compiled(kernels: bool, dtype: DType, in_place: bool) -> Compiled {
    let totals = totals(&Trace::with_kernels(Kernels::own_if(kernels)), dtype, in_place);
    let totals: Vec<&Tensor> = totals.iter().collect();
    if kernels { Compiled::with_kernels(&totals) } else { Compiled::new(&totals, 1) }
}

fn arguments() -> Vec<Numbers> {
    let counts = [WORDS * HIDDEN, HIDDEN * HIDDEN, WORDS * HIDDEN, HIDDEN * HIDDEN];
    let numbers = |(index, count)| spread_numbers(count, index, -0.9, 1.1);
    counts.into_iter().enumerate().map(numbers).collect()
}

#[test]
fn sums_grow_by_the_gradients() {
    // In half precision, gradients of single lookups are added, which rounds less than adding their sum.
    for (kernels, dtype, tolerance) in
        [(false, DType::F32, 2e-6), (true, DType::F32, 2e-6), (false, DType::BF16, 1e-2)]
    {
        let run = |in_place| compiled(kernels, dtype, in_place).run(&[arguments()]).remove(0);
        for (found, expected) in run(true).iter().zip(&run(false)) {
            let largest = expected.iter().fold(1.0, |most: f64, x| most.max(x.abs()));
            for (found, expected) in found.iter().zip(expected) {
                let off = (found - expected).abs();
                assert!(off <= tolerance * largest, "{dtype}: {found}, not {expected}");
            }
        }
    }
}

/// With kernels, nothing of the table's size is written besides the sum.
#[test]
fn gradients_are_added_in_place() {
    let text = compiled(true, DType::F32, true).program.text;
    assert_eq!(text.matches("\"stablehlo.scatter\"").count(), 2, "{text}");
    assert_eq!(text.matches("output_operand_aliases").count(), 2, "{text}");
    let of_table = |line: &&str| line.ends_with("tensor<11x4xf32>");
    let values: Vec<&str> = text.lines().filter(of_table).collect();
    // A scatter ends with the brace of its region.
    let is_sum = |line: &&str| line.trim().starts_with("})") || line.contains("@traind.product");
    assert!(values.iter().all(is_sum), "{values:?}");
}

/// The sum of a weight's gradients and the gradient of a product that is rounded to bfloat16: added in place, or
/// afterwards.
fn rounded_totals(in_place: bool) -> Compiled {
    const ROWS: usize = 9;
    let trace = Trace::with_kernels(Kernels::Own);
    let [states, weight, sum] = [[ROWS, HIDDEN], [WORDS, HIDDEN], [WORDS, HIDDEN]]
        .map(|dims| trace.parameter("x", Shape::new(DType::F32, dims)).unwrap());
    let product = states.bf16_linear(&weight, None).unwrap().tanh().unwrap();
    let loss = product.sum(&[0, 1]).unwrap();
    let total = match in_place {
        true => accumulated_gradients(&loss, &[&weight], &[Some(sum)]).unwrap().remove(0),
        false => sum.add(&gradients(&loss, &[&weight]).unwrap()[0]).unwrap(),
    };
    Compiled::with_kernels(&[&total])
}

#[test]
fn gradients_of_rounded_products_are_added_in_place() {
    let arguments: Vec<Numbers> = [9 * HIDDEN, WORDS * HIDDEN, WORDS * HIDDEN]
        .into_iter()
        .enumerate()
        .map(|(index, count)| spread_numbers(count, index, -0.9, 1.1))
        .collect();
    let [sums, afterwards] = [true, false].map(rounded_totals);
    let text = &sums.program.text;
    assert_eq!(text.matches("output_operand_aliases").count(), 1, "{text}");
    assert!(!text.lines().any(|line| line.contains("add") && line.ends_with("tensor<11x4xf32>")));
    let run =
        |compiled: &Compiled| compiled.run(std::slice::from_ref(&arguments)).remove(0).remove(0);
    for (found, expected) in run(&sums).iter().zip(run(&afterwards)) {
        assert!((found - expected).abs() <= 1e-5, "{found}, not {expected}");
    }
}

#[test]
fn a_loss_that_does_not_depend_on_a_tensor_leaves_its_sum() {
    let trace = Trace::new();
    let [table, weight, sum, other] = parameters(&trace);
    let loss = table.sum(&[0, 1]).unwrap();
    let sums = [Some(other.clone()), None];
    let totals = accumulated_gradients(&loss, &[&weight, &sum], &sums).unwrap();
    assert_eq!(totals[0].node(), other.node());
    assert_eq!(Compiled::new(&[&totals[1]], 1).run(&[arguments()])[0][0], [0.0; WORDS * HIDDEN]);
}

/// The sum of a table's gradients is updated in its own memory: by the plan's account, and by the compiler's.
#[test]
fn a_gradient_of_a_table_takes_no_memory_besides_the_sum() {
    let shape = Shape::new(DType::F32, [20_000, HIDDEN]);
    let table_bytes = shape.size_bytes() as u64;
    for kernels in [false, true] {
        let mut recorder = Recorder::new(
            Mesh::data_parallel(1).unwrap(),
            "cpu",
            GpuOptions::default(),
            Kernels::own_if(kernels),
        );
        let [table, sum] = ["table", "sum"].map(|name| recorder.declare(name, shape.clone()));
        let step: Result<RecordedStep> = recorder.record(&[], |at| {
            let (value, total) = (at.read(table)?, at.read(sum)?);
            let ids = at.trace().constant(DType::S32, &[3], &[7.0, 5.0, 7.0])?;
            let states = value.take(&ids)?;
            let loss = states.mul(&states)?.sum(&[0, 1])?;
            let totals = accumulated_gradients(&loss, &[&value], &[Some(total)])?;
            at.assign(sum, &totals[0])
        });
        let step = step.unwrap();
        assert!(recorder.memory(&step).temporaries < table_bytes);
        let options = with_platform_options(CompileOptions::replicas(1), CLIENT.platform_name());
        let compiled = CLIENT.compile(&recorder.lower(&step).text, &options).unwrap();
        let memory = compiled.program().compiled_memory_stats().unwrap().unwrap();
        assert!((memory.temp_bytes as u64) < table_bytes, "{memory:?}");
    }
}
