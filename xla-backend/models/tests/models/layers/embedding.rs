//! The gradient of a lookup: rows add up, and a padding row gets none, be the
//! table large (gather and scatter) or small (product with one-hot rows).

use traind_models::layers::Embedding;
use traind_models::parameters::ParameterPath;
use traind_models::{Forward, ParameterTensors};
use traind_xla::runtime::HostArray;
use traind_xla::{DType, Shape, Trace, autodiff};

use crate::support::Program;

const PADDING_ID: usize = 2;
/// One id three times, the padding id twice, in two rows of three.
const IDS: [i32; 6] = [5, 2, 5, 0, 2, 5];

/// The rows looked up, and the gradient of their sum.
fn look_up(rows: usize, padding_id: Option<usize>) -> [Vec<f32>; 2] {
    let mut specs = Vec::new();
    let path = ParameterPath::root(&mut specs);
    let embedding = Embedding::with_padding(path, rows, 1, 0.02, padding_id);
    let trace = Trace::new();
    let ids = trace.parameter("ids", Shape::new(DType::S32, [2, 3])).unwrap();
    let table = trace.parameter("table", specs[0].shape.clone()).unwrap();
    let cx = Forward {
        trace: &trace,
        parameters: &ParameterTensors::new([(&specs[0].name, table.clone())]),
        random: None,
        gradient_checkpointing: false,
        adapters: None,
        cache: None,
        embedding_noise: None,
    };
    let found = embedding.forward(&cx, &ids).unwrap();
    assert_eq!(found.dims(), [2, 3, 1]);
    let total = found.sum(&[0, 1, 2]).unwrap();
    let gradient = autodiff::gradients(&total, &[&table]).unwrap().remove(0);
    let values: Vec<f32> = (0..rows).map(|row| row as f32 + 0.5).collect();
    let results = Program::compile(&trace, &[&found, &gradient]).run(&[
        HostArray::from_s32(&[2, 3], &IDS).unwrap(),
        HostArray::from_f32(&[rows, 1], &values).unwrap(),
    ]);
    [results[0].to_f32().unwrap(), results[1].to_f32().unwrap()]
}

#[test]
fn large_and_small_tables_look_up_alike() {
    for rows in [6, 40] {
        let [found, gradient] = look_up(rows, None);
        assert_eq!(found, [5.5, 2.5, 5.5, 0.5, 2.5, 5.5], "{rows} rows");
        assert_eq!(gradient[..6], [1.0, 0.0, 2.0, 0.0, 0.0, 3.0], "{rows} rows");
    }
}

#[test]
fn a_padding_row_is_read_and_not_trained() {
    for rows in [6, 40] {
        let [found, gradient] = look_up(rows, Some(PADDING_ID));
        assert_eq!(found, [5.5, 2.5, 5.5, 0.5, 2.5, 5.5], "{rows} rows");
        assert_eq!(gradient[..6], [1.0, 0.0, 0.0, 0.0, 0.0, 3.0], "{rows} rows");
    }
}
