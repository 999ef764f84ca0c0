//! The programs of a job whose rows are pairs.

use std::path::Path;
use std::sync::Arc;

use traind_job_file::JobFile;
use traind_loader::{BatchAxis, BatchSizes, ModelInputs};
use traind_models::tuning::{Lora, PeftBias, TargetModules, add_lora};
use traind_models::{Model, ModelConfig, Task, registry};
use traind_xla::kernels::GpuOptions;
use traind_xla::runtime::Recorder;

use crate::recipe;
use crate::step::{JobPrograms, Program, ProgramShape, Readout};

fn model(adapted: bool) -> Arc<Model> {
    let config = serde_json::json!({
        "model_type": "gpt2", "vocab_size": 64, "n_embd": 8, "n_layer": 1, "n_head": 2,
        "n_positions": 16, "attn_pdrop": 0.1, "embd_pdrop": 0.1, "resid_pdrop": 0.1,
    });
    let config = ModelConfig::new("config.json", config.as_object().unwrap().clone());
    let mut model = registry::build(config, Task::CausalLm).unwrap();
    let lora = Lora {
        r: 2,
        lora_alpha: 2.0,
        lora_dropout: 0.0,
        target_modules: TargetModules::AllLinear,
        modules_to_save: vec!["ln_f".to_owned()],
        use_rslora: false,
        use_dora: false,
        bias: PeftBias::None,
        layers_to_transform: None,
        trainable_token_indices: None,
        ensure_weight_tying: false,
    };
    if adapted {
        add_lora(&mut model, &lora).unwrap();
    }
    model.into()
}

/// The programs of a job of pairs, and the recorder that declared its variables.
fn recorded(sections: &str, adapted: bool) -> (JobPrograms, Recorder) {
    let yaml = format!(
        "name: a\nmodel: {{name_or_path: ./a, task: dpo}}\ndata: {{train: a.jsonl}}\n\
         output_dir: out\n{sections}"
    );
    let job = JobFile::parse(&yaml, Path::new("/")).unwrap().job;
    let mut recorder =
        Recorder::expected(recipe::mesh(&job).unwrap(), "cpu", GpuOptions::default());
    let inputs = ModelInputs { token_type_ids: false, attention_mask: true, position_ids: false };
    let config = recipe::step_config(&job).unwrap();
    let (model, readout) = (model(adapted), Readout::Preferences);
    let programs = JobPrograms::declare(&config, &model, inputs, readout, [&mut recorder]);
    (programs.unwrap(), recorder)
}

fn shape(program: Program) -> ProgramShape {
    let sizes = BatchSizes::of_rows(3).with(BatchAxis::Positions, 8);
    ProgramShape::of_batch(program, sizes)
}

#[test]
fn a_pair_is_two_rows_of_the_model() {
    let (programs, recorder) = recorded("", false);
    let step = programs.record(&recorder, shape(Program::Train)).unwrap();
    assert_eq!(step.fetched(), ["loss", "metrics", "grad_norm"]);
    let inputs = programs.train.inputs(&shape(Program::Train).sizes);
    assert_eq!(inputs[0].shape.dims.to_vec(), [6, 8]);
    let step = programs.record(&recorder, shape(Program::Evaluate)).unwrap();
    assert_eq!(step.fetched()[0], "row_metrics");
}

#[test]
fn sums_of_batches_have_those_of_the_metrics() {
    let (programs, recorder) = recorded("train: {gradient_accumulation_steps: 2}", false);
    let update = programs.record(&recorder, ProgramShape::update()).unwrap();
    assert_eq!(update.fetched(), ["loss", "metrics", "grad_norm"]);
    let batch = programs.record(&recorder, shape(Program::Accumulate)).unwrap();
    assert!(batch.assigned().len() == 3 + programs.train.forward.model.parameters().len());
}

/// Adapters that are new are left out, and modules that are trained beside them are copied. Another model has
/// parameters of its own, and no adapters.
#[test]
fn a_reference_copies_what_it_does_not_share() {
    let reference = |sections: &str, adapted: bool| {
        let (programs, recorder) = recorded(sections, adapted);
        programs.states[0].bytes(&recorder).reference
    };
    let trained = |adapted: bool| -> u64 {
        let specs = model(adapted).parameters().to_vec();
        let trained = specs.iter().filter(|spec| spec.trainable);
        trained.map(|spec| spec.shape.size_bytes() as u64).sum()
    };
    assert_eq!(reference("", false), trained(false));
    let norm = 2 * 8 * 4;
    assert_eq!(reference("peft: {method: lora}", true), norm);
    let started = "peft: {method: lora, adapter_name_or_path: ./adapters}";
    assert_eq!(reference(started, true), trained(true));
    let named = "dpo: {ref_model_name_or_path: ./b}";
    assert_eq!(reference(named, false), trained(false));
    assert_eq!(reference(&format!("{named}\npeft: {{method: lora}}"), true), trained(false));
}

/// Programs differ by their dropout alone.
#[test]
fn dropout_is_off_unless_the_job_says_otherwise() {
    let program_size = |sections: &str| {
        let (programs, recorder) = recorded(sections, false);
        let step = programs.record(&recorder, shape(Program::Train)).unwrap();
        recorder.lower(&step).text.len()
    };
    assert_eq!(program_size(""), program_size("dpo: {disable_dropout: true}"));
    assert!(program_size("dpo: {disable_dropout: false}") > program_size(""));
}
