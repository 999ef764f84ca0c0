//! Gradient accumulation and mixed precision.

use traind_proto::v1::event::Kind;
use traind_tests::{Draft, Host, TrainerState, model};

fn check_equal(found: &TrainerState, expect: &TrainerState) {
    for key in ["step", "epoch", "learning_rate", "loss", "grad_norm"] {
        let (found, expect) = (found.series(key), expect.series(key));
        assert_eq!(found.len(), expect.len(), "{key}: {found:?}, {expect:?}");
        for (found, expect) in found.iter().zip(&expect) {
            assert!((found - expect).abs() <= 1e-5 * expect.abs(), "{key}: {found}, {expect}");
        }
    }
}

#[tokio::test]
async fn accumulated_batches_equal_one_large_batch() {
    let host = Host::started(2).await;
    let state = async |name: &str, batch: u32, accumulated: u32, cores: u32| {
        // Two epochs of 60 rows, the last step of which is partial.
        let draft = Draft::new(&host, name)
            .set("train.learning_rate", 1e-3)
            .set("train.per_device_train_batch_size", batch)
            .set("train.gradient_accumulation_steps", accumulated)
            .set("resources.cores", cores);
        let history = host.complete(&draft).await;
        let programs = history.compiled().into_iter().map(|it| (&it.program, it.bucket_length));
        let mut programs: Vec<_> = programs.collect();
        let count = programs.len();
        programs.sort_unstable();
        programs.dedup();
        assert_eq!(programs.len(), count, "each is compiled once");
        draft.output("out").trainer_state()
    };
    let whole = state("whole", 32, 1, 1).await;
    assert_eq!(whole.series("step").len(), 6, "2 steps an epoch, their evaluation, the end");
    check_equal(&state("four", 8, 4, 1).await, &whole);
    check_equal(&state("two", 8, 2, 2).await, &whole);
}

#[tokio::test]
async fn half_precision_stays_close_to_single_precision() {
    let host = Host::started(1).await;
    let losses = async |name: &str, [bf16, fp16]: [bool; 2]| {
        let draft = Draft::new(&host, name)
            .set("train.max_steps", 50)
            .set("train.learning_rate", 1e-3)
            .set("train.bf16", bf16)
            .set("train.fp16", fp16);
        host.complete(&draft).await;
        draft.output("out").trainer_state().series("loss")
    };
    let single = losses("single", [false, false]).await;
    for (name, types) in [("bf16", [true, false]), ("fp16", [false, true])] {
        let found = losses(name, types).await;
        assert_eq!(found.len(), 50);
        assert_ne!(found, single, "{name} had no effect");
        let far = found.iter().zip(&single).map(|(f, s)| (f - s).abs() / s).fold(0.0, f64::max);
        assert!(far <= 0.02, "{name} is {far} away: {found:?}, {single:?}");
    }
}

#[tokio::test]
async fn a_step_whose_gradients_overflow_is_skipped_and_reported() {
    let host = Host::started(1).await;
    let draft = Draft::new(&host, "job").set("train.max_steps", 30).set("train.fp16", true);
    let mut weights = model::Weights::read(draft.path("model/model.safetensors"));
    // The last layer norm normalizes zeros and divides by its epsilon, so that gradients before it
    // overflow float16 at the initial loss scale.
    let layer = "bert.encoder.layer.1";
    for module in ["attention.output.LayerNorm", "output.dense"] {
        weights.fill(&format!("{layer}.{module}.weight"), 0.0);
        weights.fill(&format!("{layer}.{module}.bias"), 0.0);
    }
    weights.write();
    let history = host.complete(&draft).await;
    let scaled: Vec<_> = history
        .events
        .iter()
        .filter_map(|event| match &event.kind {
            Some(Kind::LossScaled(scaled)) => {
                Some((scaled.step, scaled.scale, scaled.skipped_steps))
            }
            _ => None,
        })
        .collect();
    assert_eq!(scaled[0], (1, 32768.0, 1), "{scaled:?}");
    assert!(scaled.windows(2).all(|pair| pair[1].1 == pair[0].1 / 2.0), "{scaled:?}");
    assert!(scaled.len() < 25, "{scaled:?}");
    // The schedule counts applied updates only.
    let rates = draft.output("out").trainer_state().series("learning_rate");
    let skipped = scaled.len();
    assert_eq!(rates[0], rates[skipped], "{rates:?}");
    assert!(rates[29] < rates[skipped]);
    assert!(history.steps().iter().all(|step| step.loss.is_finite()));
}
