//! Image classification: one class, several classes or numbers for each image, scored as texts are.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use traind_job_file::{Data, JobFile};
use traind_loader::{Augmentation, ImageProcessor, LabelEncoder, TaskSpec};
use traind_models::{ModelConfig, PixelNormalization};

use super::sequence_classification::SequenceClassification;
use super::{JobTask, KnownRows, Reading, Scored};
use crate::error::{RunError, RunResult};
use crate::metrics::Metrics;
use crate::output::Predictions;
use crate::step::Readout;

pub(super) struct ImageClassification {
    data: Data,
    seed: u64,
    /// The model folder, which has the settings of the image processor.
    folder: PathBuf,
    /// Height and width of the images that the model reads.
    size: [usize; 2],
    /// The image processor, opened with the first split.
    processor: OnceLock<ImageProcessor>,
    classification: SequenceClassification,
}

impl ImageClassification {
    pub(super) fn new(job: &JobFile, config: &ModelConfig) -> RunResult<ImageClassification> {
        let folder = config.path().parent().unwrap_or(Path::new("."));
        Ok(ImageClassification {
            data: job.data.clone(),
            seed: job.data_seed(),
            folder: folder.to_owned(),
            processor: OnceLock::new(),
            size: config.size_pair_or("image_size", 224)?,
            classification: SequenceClassification::new(job, config)?,
        })
    }

    /// Returns the image processor, which is opened once. Refuses one whose images have another size than the model's.
    fn processor(&self) -> RunResult<ImageProcessor> {
        if let Some(processor) = self.processor.get() {
            return Ok(processor.clone());
        }
        let processor = ImageProcessor::open(&self.folder)?;
        if processor.size() == self.size {
            return Ok(self.processor.get_or_init(|| processor).clone());
        }
        let ([height, width], [own_height, own_width]) = (processor.size(), self.size);
        let path = self.folder.join("preprocessor_config.json");
        Err(RunError::Field {
            name: "model.name_or_path",
            value: path.display().to_string(),
            problem: format!(
                "it makes images of {height} x {width} pixels, and image_size of config.json is \
                 {own_height} x {own_width}"
            ),
        })
    }
}

impl JobTask for ImageClassification {
    fn task_spec(&self, reading: &Reading<'_>) -> RunResult<TaskSpec> {
        Ok(TaskSpec::ImageClassification(traind_loader::ImageClassification {
            image: self.data.image.clone(),
            label: self.classification.label(reading),
            processor: self.processor()?,
        }))
    }

    fn configure(&self, config: &mut ModelConfig, encoder: Option<&LabelEncoder>) {
        self.classification.configure(config, encoder);
        if let Some(processor) = self.processor.get() {
            config.set_pixel_normalization(PixelNormalization {
                rescale_factor: processor.rescale_factor,
                image_mean: processor.image_mean.clone(),
                image_std: processor.image_std.clone(),
            });
        }
    }

    fn labels(&self, config: &ModelConfig) -> RunResult<Vec<String>> {
        self.classification.labels(config)
    }

    fn augmentation(&self) -> Option<Augmentation> {
        self.data.augmentation.then_some(Augmentation { seed: self.seed })
    }

    fn loss_depends_on_batches(&self) -> bool {
        self.classification.loss_depends_on_batches()
    }

    fn readout(&self) -> Readout {
        self.classification.readout()
    }

    fn metrics(&self, scored: &Scored<'_>) -> RunResult<Metrics> {
        self.classification.metrics(scored)
    }

    fn metric_names(&self, rows: &KnownRows<'_>) -> Metrics {
        self.classification.metric_names(rows)
    }

    fn write_report(&self, folder: &Path, scored: &Scored<'_>) -> RunResult<()> {
        self.classification.write_report(folder, scored)
    }

    fn predictions(&self, scored: &Scored<'_>) -> RunResult<Predictions> {
        self.classification.predictions(scored)
    }

    fn pipeline_tag(&self) -> &'static str {
        "image-classification"
    }
}
