//! One class for each image.

use std::fs;

use traind_tests::images::png;
use traind_tests::model::Weights;
use traind_tests::{Draft, Host};

use super::{architecture, assert_pipeline_tag, predictions, train};

const DATA: &str = "{train: train, validation: validation}";
const CLASSES: [(&str, [u8; 3]); 3] =
    [("blue", [10, 20, 190]), ("green", [20, 180, 30]), ("red", [170, 30, 20])];

/// A job with folders of images whose colors are their classes.
pub(super) fn draft(host: &Host, name: &str) -> Draft {
    let mut draft =
        Draft::new(host, name).of_task("image-classification", "vit-image-classification", DATA);
    for (split, count) in [("train", 16), ("validation", 5)] {
        for (class, color) in CLASSES {
            fs::create_dir_all(draft.path(split).join(class)).unwrap();
            for image in 0..count {
                // Images have several sizes.
                let image_size = 9 + image;
                let path = format!("{split}/{class}/{image}.png");
                draft = draft.write(&path, png(image_size.into(), color, image * 11));
            }
        }
    }
    draft
}

#[tokio::test]
async fn a_model_learns_the_classes_of_images() {
    let host = Host::started(2).await;
    let learns = |name: &str| {
        draft(&host, name).set("train.num_train_epochs", 6).set("train.learning_rate", 5e-3)
    };
    let one = learns("one")
        .set("data.test", "validation")
        .set("train.do_predict", true)
        .set("train.per_device_train_batch_size", 8);
    let (metrics, output) = train(&host, &one, 0.7).await;
    assert!(metrics["eval_accuracy"] > 0.8, "{metrics:?}");
    assert_eq!(architecture(&output), "ViTForImageClassification");
    assert_pipeline_tag(&output, "image-classification");
    assert_eq!(output.json("config.json")["id2label"]["2"], "red");
    assert_eq!(output.json("preprocessor_config.json")["size"]["width"], 14);
    let found = predictions::texts(&predictions::read(&output), "prediction");
    let rows = CLASSES.iter().flat_map(|(class, _)| std::iter::repeat_n(*class, 5));
    let right = found.iter().zip(rows).filter(|(found, class)| found == class).count();
    assert_eq!(right as f64 / 15.0, metrics["test_accuracy"], "{found:?}");
    // Crops and flips are those of the row, whatever its core.
    let two = learns("two").set("resources.cores", 2).set("train.per_device_train_batch_size", 4);
    host.complete(&two).await;
    let losses = |output: traind_tests::Output| output.trainer_state().series("loss");
    for (one, two) in losses(output).into_iter().zip(losses(two.output("out"))) {
        assert!((one - two).abs() <= 1e-4 * one, "{one}, {two}");
    }
}

/// Adapters and a new head on frozen random weights, and a job that evaluates them.
#[tokio::test]
async fn adapters_learn_the_classes_of_images() {
    let host = Host::started(1).await;
    let adapted = draft(&host, "adapted")
        .set("peft.method", "lora")
        .set("peft.target_modules", "all-linear")
        .set("train.num_train_epochs", 6)
        .set("train.learning_rate", 2e-2);
    let (metrics, output) = train(&host, &adapted, 0.7).await;
    assert!(metrics["eval_accuracy"] > 0.8, "{metrics:?}");
    assert_eq!(output.json("preprocessor_config.json")["size"]["width"], 14);
    let names = Weights::read(output.folder().join("adapter_model.safetensors")).names();
    let query = "base_model.model.vit.layers.0.attention.q_proj.lora_A.weight";
    assert!(names.iter().any(|name| name == query), "{names:?}");
    let evaluated = draft(&host, "evaluated")
        .set("train.do_train", false)
        .set("peft.method", "lora")
        .set("peft.adapter_name_or_path", output.folder().display());
    let history = host.complete(&evaluated).await;
    let (found, expect) = (history.finished().metrics["eval_loss"], metrics["eval_loss"]);
    assert!((found - expect).abs() <= 1e-5 * expect, "{found} for {expect}");
}
