//! Questions whose loss reads padding that sees no token, in batches as long as transformers' and longer ones.

use traind_models::{PADDED_LENGTH, Task};
use traind_xla::kernels::Kernels;
use traind_xla::runtime::HostArray;
use traind_xla::{DType, Tensor, Trace};

use crate::fixture::{Fixture, folder_of};
use crate::support::{Program, has_kernels};
use crate::tensor_parallel::check_shared;

/// The families whose attention says in its own way what a query without keys attends to, beside one all of whose
/// queries see keys.
const FAMILIES: &[&str] = &["bert", "deberta-v2", "modernbert", "gpt2"];

/// The positions of a program that is compiled for a longer batch.
const LONGER: usize = 12;

/// The fixture of a family with its inputs in as many `positions`, of which those behind its batch are none of it.
fn padded(family: &str, positions: Option<usize>) -> Fixture {
    let folder = folder_of(&format!("{family}-padded-question-answering"));
    let mut fixture = Fixture::load(&folder, Task::QuestionAnswering);
    let [rows, length] = fixture.inputs[0].1.shape().dims[..] else { panic!("{family}") };
    let longer = positions.unwrap_or(length);
    for (_, array) in &mut fixture.inputs {
        if array.shape().dims.len() == 2 {
            let values = array.to_s32().unwrap();
            let rows: Vec<i32> =
                values.chunks(length).flat_map(|row| of_length(row, longer)).collect();
            *array = HostArray::from_s32(&[values.len() / length, longer], &rows).unwrap();
        }
    }
    let lengths = HostArray::from_s32(&[rows], &vec![length as i32; rows]).unwrap();
    fixture.inputs.push((PADDED_LENGTH, lengths));
    fixture
}

/// The values of a row, and zeros behind them.
fn of_length(row: &[i32], length: usize) -> Vec<i32> {
    let mut row = row.to_vec();
    row.resize(length, 0);
    row
}

fn check(fixture: &Fixture, kernels: Kernels) {
    let trace = Trace::with_kernels(kernels);
    let traced = fixture.trace(&trace, false, DType::F32);
    let outputs: Vec<&Tensor> = std::iter::once(&traced.loss).chain(&traced.gradients).collect();
    let program = match kernels {
        Kernels::None => Program::compile_plain(&trace, &outputs),
        _ => Program::compile(&trace, &outputs),
    };
    let results = program.run(&fixture.arguments());
    fixture.check_loss_and_gradients(&results[0], &results[1..]);
}

#[test]
fn padding_sees_what_it_sees_in_transformers() {
    for family in FAMILIES {
        for positions in [None, Some(LONGER)] {
            println!("{family} in {positions:?}");
            let fixture = padded(family, positions);
            check(&fixture, Kernels::None);
            check(&fixture, Kernels::own_if(has_kernels()));
        }
    }
}

#[test]
fn padding_sees_the_same_where_cores_share_layers() {
    for family in FAMILIES.iter().filter(|family| **family != "bert") {
        println!("{family}");
        check_shared(&padded(family, Some(LONGER)), 2, *family != "modernbert");
    }
}
