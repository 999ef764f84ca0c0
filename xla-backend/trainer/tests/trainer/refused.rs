//! Arrays, numbers and states that the trainer refuses, without a change to what it has.

use std::path::Path;
use std::sync::Arc;

use traind_loader::{ArrayValues, BatchArray};
use traind_trainer::state::{MeshConfig, StateConfig};
use traind_trainer::step::StepConfig;
use traind_trainer::{Error, Trainer};

use crate::{ROWS, batch, model, on_cpu, trainer, trainer_of, values};

#[test]
fn batches_that_cores_cannot_share_are_refused() {
    let mesh = MeshConfig { data: 2, ..MeshConfig::default() };
    let mut trainer = trainer_of(model(), StepConfig { mesh, ..StepConfig::default() });
    let error = |trainer: &mut Trainer, rows: &[(i32, i32)]| {
        trainer.add_batch(&batch(rows)).unwrap_err().to_string()
    };
    assert_eq!(error(&mut trainer, &ROWS[..3]), "the batch has 3 rows, which 2 cores cannot share");
    assert_eq!(
        error(&mut trainer, &ROWS),
        "the batch has 2 rows on each core, and the config's state.rows_per_core is 1"
    );
    trainer.add_batch(&batch(&ROWS[..2])).unwrap();
}

/// Arrays in the place of those of the batch, and the error that names each.
fn wrong_arrays() -> Vec<(BatchArray, &'static str)> {
    let of = |name, dims: &[usize], values| BatchArray { name, dims: dims.to_vec(), values };
    let weights = |values: [f32; 4]| of("sample_weights", &[4], ArrayValues::F32(values.into()));
    let labels = |values: [i32; 4]| of("labels", &[4], ArrayValues::S32(values.into()));
    let ids = |values: Vec<i32>| of("input_ids", &[4, 3], ArrayValues::S32(values));
    let mask = |dims: &[usize], count| of("attention_mask", dims, ArrayValues::S32(vec![1; count]));
    vec![
        (labels([0, 1, 3, 0]), "the array labels has 3 in row 2, expected from 0 to 2"),
        (labels([0, -1, 2, 0]), "the array labels has -1 in row 1, expected from 0 to 2"),
        (
            ids([[2; 11].as_slice(), &[50]].concat()),
            "the array input_ids has 50 in row 3, expected from 0 to 49",
        ),
        (
            of("attention_mask", &[4, 3], ArrayValues::S32(vec![2; 12])),
            "the array attention_mask has 2 in row 0, expected 0 or 1",
        ),
        (
            weights([1.0, f32::NAN, 1.0, 1.0]),
            "the array sample_weights has NaN in row 1, expected a finite number of at least 0",
        ),
        (
            weights([1.0, 1.0, -0.5, 1.0]),
            "the array sample_weights has -0.5 in row 2, expected a finite number of at least 0",
        ),
        (
            of("labels", &[2], ArrayValues::S32(vec![0, 1])),
            "the array labels has the shape [2], expected [4]",
        ),
        (mask(&[4, 2], 8), "the array attention_mask has the shape [4, 2], expected [4, 3]"),
        (mask(&[12], 12), "the array attention_mask has the shape [12], expected [4, 3]"),
        (
            of("input_ids", &[12], ArrayValues::S32(vec![2; 12])),
            "the array input_ids has the shape [12], expected [rows, positions]",
        ),
        (
            of("input_ids", &[0, 3], ArrayValues::S32(Vec::new())),
            "the array input_ids has the shape [0, 3], expected [rows, positions]",
        ),
        (mask(&[4, 3], 11), "the array attention_mask has 11 elements, and its shape is [4, 3]"),
        (
            of("labels", &[4], ArrayValues::F32(vec![0.0; 4])),
            "the array labels is of f32, and the model reads s32",
        ),
        (
            of("token_type_ids", &[4, 3], ArrayValues::S32(vec![0; 12])),
            "the array token_type_ids is not an input of the model, which reads input_ids, \
             attention_mask, labels, sample_weights",
        ),
    ]
}

/// Each array is compared with the model's inputs before anything is uploaded.
#[test]
fn arrays_that_the_model_does_not_read_are_named() {
    let mut trainer = trainer(1, "sgd");
    for (array, expect) in wrong_arrays() {
        let mut arrays = batch(&ROWS);
        arrays.retain(|other| other.name != array.name);
        arrays.push(array);
        let error = trainer.add_batch(&arrays).unwrap_err().to_string();
        assert_eq!(error, expect);
        assert_eq!(trainer.forward(&arrays).unwrap_err().to_string(), expect);
    }
    let twice = [batch(&ROWS), batch(&ROWS)].concat();
    let error = trainer.add_batch(&twice).unwrap_err().to_string();
    assert_eq!(error, "the array input_ids was given twice");
    let error = trainer.add_batch(&batch(&ROWS)[..2]).unwrap_err();
    assert!(matches!(&error, Error::NoSuchInput { name, .. } if name == "labels"), "{error}");
    let names: Vec<&str> = trainer.arrays().iter().map(|spec| spec.name).collect();
    assert_eq!(names, ["input_ids", "attention_mask", "labels", "sample_weights"]);
    let error = trainer.update(0.1).unwrap_err();
    assert!(matches!(error, Error::NoBatch), "nothing was added: {error}");
}

#[test]
fn numbers_that_no_step_can_have_are_refused() {
    let mut trainer = trainer(1, "sgd");
    assert!(matches!(trainer.update(0.1), Err(Error::NoBatch)));
    assert_eq!(trainer.steps(), 0);
    assert!(matches!(trainer.train([Vec::new()], |_| 0.1), Err(Error::NoBatch)));
    let start = values(&trainer);
    trainer.add_batch(&batch(&ROWS)).unwrap();
    for rate in [f64::NAN, -0.1, f64::INFINITY] {
        let error = trainer.update(rate).unwrap_err().to_string();
        let expect = "the learning rate: expected a finite number of at least 0, found";
        assert!(error.starts_with(expect), "{error}");
        let error = trainer.train([vec![batch(&ROWS)]], |_| rate).unwrap_err().to_string();
        assert!(error.starts_with(expect), "{error}");
    }
    assert_eq!((trainer.steps(), values(&trainer)), (0, start));
    // The batches that were added count.
    let mut other = crate::trainer(1, "sgd");
    (0..4).for_each(|_| other.add_batch(&batch(&ROWS)).unwrap());
    assert_eq!(trainer.update(0.1).unwrap(), other.update(0.1).unwrap());
    assert_eq!((trainer.steps(), values(&trainer)), (1, values(&other)));
    let (model, parameters) = model();
    for (state, expect) in [
        (StateConfig { max_grad_norm: f64::NAN, ..StateConfig::default() }, "max_grad_norm"),
        (StateConfig { rows_per_core: 0, ..StateConfig::default() }, "rows_per_core"),
    ] {
        let config = StepConfig { state, ..StepConfig::default() };
        let made = on_cpu::try_trainer(Arc::clone(&model), parameters.clone(), &config);
        let error = made.err().unwrap().to_string();
        assert!(error.starts_with(&format!("{expect}: expected a number above 0")), "{error}");
    }
}

/// Each file of a state is damaged in turn: what the trainer has stays, in the middle of a step too.
#[test]
fn a_state_that_cannot_be_loaded_changes_nothing() {
    let saved = |trainer: &Trainer| {
        let folder = tempfile::tempdir().unwrap();
        trainer.save(folder.path()).unwrap();
        folder
    };
    let run = |trainer: &mut Trainer, rows: &[(i32, i32)]| {
        trainer.add_batch(&batch(rows)).unwrap();
        trainer.update(0.01).unwrap()
    };
    let adam = || trainer(2, "adamw_torch");
    let (mut first, mut expected, mut trainer) = (adam(), adam(), adam());
    run(&mut first, &ROWS);
    first.add_batch(&batch(&ROWS[2..])).unwrap();
    for other in [&mut expected, &mut trainer] {
        other.add_batch(&batch(&ROWS[..2])).unwrap();
    }
    let other = |mut other: Trainer| {
        other.add_batch(&batch(&ROWS)).unwrap();
        saved(&other)
    };
    let of_sgd = other(crate::trainer(2, "sgd"));
    let of_one_core = other(crate::trainer(1, "adamw_torch"));
    type Damage = fn(&Path);
    let damage: [(&str, Damage); 5] = [
        ("cannot be loaded", |folder| std::fs::remove_file(folder.join("state.json")).unwrap()),
        ("open", |folder| std::fs::remove_file(folder.join("sums.safetensors")).unwrap()),
        ("is not a whole safetensors file", |folder| truncate(&folder.join("sums.safetensors"))),
        ("is not a whole safetensors file", |folder| {
            truncate(&folder.join("optimizer.safetensors"));
        }),
        ("is not a whole safetensors file", |folder| truncate(&folder.join("trained.safetensors"))),
    ];
    let check = |trainer: &mut Trainer, folder: &Path, expect: &str| {
        let error = trainer.load(folder).unwrap_err().to_string();
        assert!(error.contains(expect), "{error}");
    };
    for (expect, damage) in damage {
        let folder = saved(&first);
        damage(folder.path());
        check(&mut trainer, folder.path(), expect);
    }
    // What fits in part: slots of another optimizer, and sums of other cores.
    check(&mut trainer, of_sgd.path(), "do not fit the optimizer: it has no ");
    let mut sgd = crate::trainer(2, "sgd");
    check(&mut sgd, saved(&first).path(), "do not fit the optimizer: the optimizer has no ");
    check(&mut trainer, of_one_core.path(), "a step has begun on data 1, tensor 1, pipeline 1");
    let results = [&mut trainer, &mut expected].map(|trainer| {
        let results = [run(trainer, &ROWS[2..]), run(trainer, &ROWS)];
        (results, values(trainer), trainer.steps())
    });
    assert!(results[0] == results[1]);
}

fn truncate(path: &Path) {
    let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    file.set_len(file.metadata().unwrap().len() - 1).unwrap();
}

#[test]
fn a_state_is_saved_in_a_folder_alone() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("state");
    std::fs::write(&file, "").unwrap();
    let error = trainer(1, "sgd").save(&file).unwrap_err().to_string();
    assert!(error.contains("cannot be saved in ") && error.contains("/state: "), "{error}");
}
