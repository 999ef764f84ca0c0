use image::{ColorType, ImageEncoder};

use super::pixels::{CHANNELS, Pixels, Region};
use super::{Augmentation, ImageProcessor, decode};
use crate::batch::{ArrayValues, BatchAxis, BatchSizes, Padding};
use crate::collate::Collator;
use crate::dataset::{DatasetOptions, Prepared, prepare};
use crate::error::{Error, Result};
use crate::labels::{LabelKind, LabelSpec, Labels};
use crate::sampler::{BatchPlan, ScheduledBatch};
use crate::tasks::{ImageClassification, TaskSpec};
use crate::testing::DataFolder;
use crate::token_row::TokenLimits;
use crate::tokenize::NoTokenizer;

/// An image whose pixels have their own values.
fn numbered(width: usize, height: usize) -> Pixels {
    let values = (0..width * height * CHANNELS).map(|value| value as u8).collect();
    Pixels { width, height, values }
}

fn png(image: &Pixels) -> Vec<u8> {
    let mut bytes = Vec::new();
    let (width, height) = (image.width as u32, image.height as u32);
    image::codecs::png::PngEncoder::new(&mut bytes)
        .write_image(&image.values, width, height, ColorType::Rgb8.into())
        .unwrap();
    bytes
}

/// The first pixel of each column of the first row.
fn reds(image: &Pixels) -> Vec<u8> {
    image.row(0).chunks(CHANNELS).map(|pixel| pixel[0]).collect()
}

#[test]
fn a_region_beyond_the_edges_is_black_there() {
    let image = numbered(3, 2);
    let crop = |left, top, width, height| image.crop(Region { left, top, width, height });
    assert_eq!(reds(&crop(1, 1, 2, 1)), [12, 15]);
    assert_eq!(reds(&crop(-1, 1, 5, 1)), [0, 9, 12, 15, 0]);
    assert_eq!(crop(-5, -5, 2, 2).values, [0; 12]);
    assert_eq!(reds(&image.mirrored()), [6, 3, 0]);
}

#[test]
fn views_stay_inside_and_differ_by_epoch_and_row() {
    let image = numbered(40, 30);
    let augmentation = Augmentation { seed: 7 };
    let mut mirrored = 0;
    for row in 0..400 {
        let view = augmentation.view(&image, 0, row);
        let Region { left, top, width, height } = view.region;
        assert!(left >= 0 && top >= 0, "{view:?}");
        assert!(left as usize + width <= 40 && top as usize + height <= 30, "{view:?}");
        let share = (width * height) as f64 / 1200.0;
        assert!((0.06..=1.0).contains(&share), "{view:?}");
        mirrored += usize::from(view.mirrored);
        assert_eq!(view, augmentation.view(&image, 0, row));
        assert_ne!(view, augmentation.view(&image, 1, row));
    }
    // 200 expected with a standard deviation of 10: five of them either side.
    assert!((150..=250).contains(&mirrored), "{mirrored}");
    // No crop of so long an image fits: the middle is taken.
    let long = augmentation.view(&numbered(400, 2), 0, 0).region;
    assert_eq!(long, Region { left: 198, top: 0, width: 3, height: 2 });
}

fn task(folder: &DataFolder, keys: &str) -> Result<ImageClassification> {
    folder.write("preprocessor_config.json", keys);
    let label = LabelSpec {
        column: "label".to_owned(),
        kind: LabelKind::Infer { num_labels: None },
        weight: None,
        ignored: Vec::new(),
    };
    let processor = ImageProcessor::open(&folder.path(""))?;
    Ok(ImageClassification { image: "image".to_owned(), label: Some(label), processor })
}

fn prepared(folder: &DataFolder, data: &str, cached: bool) -> Result<Prepared> {
    prepared_of(folder, &[data], cached)
}

fn prepared_of(folder: &DataFolder, data: &[&str], cached: bool) -> Result<Prepared> {
    let task = task(folder, r#"{"size": {"height": 2, "width": 3}}"#)?;
    let options = DatasetOptions {
        files: data.iter().map(|&data| data.to_owned()).collect(),
        task: TaskSpec::ImageClassification(task),
        token_limits: TokenLimits::default(),
        cache_dir: cached.then(|| folder.path("cache")),
    };
    prepare(&options, &NoTokenizer)
}

/// The pixels of the rows of one batch.
fn batch(prepared: &Prepared, rows: &[u32], augmentation: Option<Augmentation>) -> Vec<u8> {
    let sizes = BatchSizes::of_rows(rows.len()).with(BatchAxis::Positions, 1);
    let plan = BatchPlan { sizes, rows: rows.to_vec(), cores: 1 };
    let scheduled = ScheduledBatch { batch: 0, epoch: 3, batch_in_epoch: 0, plan };
    let mut collator = Collator::new(prepared.set.clone(), Padding::behind(0));
    if let Some(augmentation) = augmentation {
        collator = collator.with_augmentation(augmentation);
    }
    let batch = collator.collate(scheduled).unwrap();
    assert!(!batch.decoding.is_zero());
    let core = &batch.cores[0];
    assert_eq!(core.padded_length, 18);
    let pixels = core.array("pixel_values").unwrap();
    assert_eq!(pixels.dims, [rows.len(), 2, 3, CHANNELS]);
    let ArrayValues::U8(values) = &pixels.values else { panic!("{pixels:?}") };
    values.clone()
}

#[test]
fn a_folder_has_a_class_in_each_folder() {
    let folder = DataFolder::new();
    let image = numbered(3, 2);
    let turned = image.mirrored();
    folder.write("data/pears/b.png", png(&image));
    folder.write("data/apples/z.PNG", png(&turned));
    folder.write("data/apples/notes.txt", "no image");
    folder.write("data/empty/notes.txt", "no class");
    let data = folder.path("data").to_str().unwrap().to_owned();
    let read = prepared(&folder, &data, true).unwrap();
    assert_eq!(read.set.labels(), &Labels::Class(vec![0, 1]));
    assert_eq!(read.set.label_encoder().unwrap().id2label(), ["apples", "pears"]);
    assert_eq!(batch(&read, &[1, 0], None), [image.values.clone(), turned.values].concat());
    let augmented = batch(&read, &[1], Some(Augmentation { seed: 1 }));
    assert_ne!(augmented, image.values);
    // The cache holds the images, and notices others at the same paths.
    let again = prepared(&folder, &data, true).unwrap();
    assert!(again.cache_hit && !read.cache_hit);
    assert_eq!(batch(&again, &[1], None), image.values);
    folder.write("data/apples/z.PNG", png(&image));
    let changed = prepared(&folder, &data, true).unwrap();
    assert!(!changed.cache_hit);
    assert_eq!(batch(&changed, &[0], None), image.values);
    let (train, validation) = changed.set.split_validation(0.5, 1).unwrap();
    assert_eq!((train.len(), validation.len()), (1, 1));
}

/// A class that only the other folder has is no number of this one's, even where its number is.
#[test]
fn classes_that_are_not_trained_are_named() {
    let folder = DataFolder::new();
    for name in ["train/cat/1.png", "train/dog/2.png", "held/bird/3.png", "held/dog/4.png"] {
        folder.write(name, png(&numbered(3, 2)));
    }
    let trained = prepared(&folder, folder.path("train").to_str().unwrap(), false).unwrap();
    let encoder = trained.set.label_encoder().unwrap().clone();
    let mut task = task(&folder, r#"{"size": {"height": 2, "width": 3}}"#).unwrap();
    task.label.as_mut().unwrap().kind = LabelKind::Encoder(encoder);
    let options = DatasetOptions {
        files: std::iter::once(folder.path("held").to_str().unwrap().to_owned()).collect(),
        task: TaskSpec::ImageClassification(task),
        token_limits: TokenLimits::default(),
        cache_dir: None,
    };
    let error = folder.shown(&prepare(&options, &NoTokenizer).err().unwrap());
    let expect = "class \"bird\" is none of those that are trained: cat, dog; leave its rows out, or train it too";
    assert!(error.ends_with(expect), "{error}");
}

#[test]
fn images_elsewhere_than_in_the_folder_of_a_class_are_refused() {
    let check = |name: &str, is_refused: bool| {
        let folder = DataFolder::new();
        let image = png(&numbered(2, 2));
        for name in ["data/cat/1.png", "data/dog/2.png", name] {
            folder.write(name, &image);
        }
        let prepared = prepared(&folder, folder.path("data").to_str().unwrap(), false);
        let error = prepared.err().map(|error| folder.shown(&error));
        let expect = format!("{name}: an image that is not directly in the folder of a class");
        assert_eq!(
            error.as_ref().is_some_and(|it| it.starts_with(&expect)),
            is_refused,
            "{error:?}"
        );
    };
    for name in ["data/cat/sub/3.png", "data/dog/far/down/3.png", "data/3.png"] {
        check(name, true);
    }
    for name in ["data/cat/.sub/3.png", "data/cat/__sub/3.png", "data/.3.png"] {
        check(name, false);
    }
}

#[test]
fn folders_that_lack_a_class_have_the_ids_of_the_others() {
    let folder = DataFolder::new();
    for class in ["train/ant", "train/bee", "train/cat", "more/bee", "more/cat", "more/dog"] {
        folder.write(&format!("{class}/a.png"), png(&numbered(3, 2)));
    }
    let [train, more] = ["train", "more"].map(|name| folder.path(name).display().to_string());
    let both = prepared_of(&folder, &[&train, &more], false).unwrap().set;
    assert_eq!(both.labels(), &Labels::Class(vec![0, 1, 2, 1, 2, 3]));
    assert_eq!(both.label_encoder().unwrap().id2label(), ["ant", "bee", "cat", "dog"]);
}

#[test]
fn an_image_is_a_path_or_bytes() {
    let folder = DataFolder::new();
    let image = numbered(3, 2);
    folder.write("data/images/a.png", png(&image));
    let csv = folder.write("data/a.csv", "image,label\nimages/a.png,1\nimages/a.png,0\n");
    assert_eq!(batch(&prepared(&folder, &csv, false).unwrap(), &[0], None), image.values);
    let row = r#"{"image": {"bytes": null, "path": "images/a.png"}, "label": 0}"#;
    let json = folder.write("data/a.jsonl", format!("{row}\n{}", row.replace('0', "1")));
    assert_eq!(batch(&prepared(&folder, &json, false).unwrap(), &[1], None), image.values);
}

#[test]
fn errors_name_the_row_and_the_image() {
    let folder = DataFolder::new();
    folder.write("good.png", png(&numbered(3, 2)));
    folder.write("text.png", "no image");
    let whole = png(&numbered(30, 30));
    folder.write("cut.png", &whole[..whole.len() / 2]);
    folder.write("bomb.png", bomb());
    let check = |image: &str, expect: &str| {
        let csv = folder.write("a.csv", format!("image,label\ngood.png,0\n{image},1\n"));
        let error = prepared(&folder, &csv, false).unwrap_err();
        assert!(folder.shown(&error).starts_with(expect), "{}", folder.shown(&error));
    };
    let at = "a.csv, row 1 (line 3), column \"image\"";
    check("text.png", &format!("{at}, text.png: neither a PNG, nor a JPEG, nor a WebP image"));
    check("cut.png", &format!("{at}, cut.png: the image is damaged: "));
    check("none.png", &format!("{at}, none.png: cannot read the image: No such file"));
    check("", &format!("{at}: expected an image's path or its bytes, found nothing"));
    check("bomb.png", &format!("{at}, bomb.png: the image has 65535 x 65535 pixels; from 1 to "));
    let whole = include_bytes!("../../tests/fixtures/images/photo.jpg");
    folder.write("cut.jpg", &whole[..whole.len() - 40]);
    let frame = whole.windows(2).position(|marker| marker == [0xff, 0xc0]).unwrap();
    let mut bomb = whole.to_vec();
    bomb[frame + 5..frame + 9].fill(0xff);
    folder.write("bomb.jpg", bomb);
    folder.write("no.jpg", &whole[..frame]);
    let cut = "the image is damaged: the file ends before its image does";
    check("cut.jpg", &format!("{at}, cut.jpg: {cut}"));
    check("bomb.jpg", &format!("{at}, bomb.jpg: the image has 65535 x 65535 pixels; from 1 to "));
    check("no.jpg", &format!("{at}, no.jpg: the image is damaged: "));
}

#[test]
fn files_in_the_place_of_images_are_named() {
    let check = |bytes: &[u8], expect: &str| {
        let problem = decode(bytes).map(|_| ()).unwrap_err().to_string();
        let of_format = "neither a PNG, nor a JPEG, nor a WebP image";
        assert_eq!(problem, format!("{of_format}{expect}"));
    };
    check(b"", ": the file is empty");
    check(b"GIF89a", ": it is a GIF; save it as one of these");
    check(b"BM12", ": it is a BMP; save it as one of these");
    check(b"II*\0", ": it is a TIFF; save it as one of these");
    check(b"\0\0\0\x18ftypheic", ": it is a HEIC or an AVIF; save it as one of these");
    let page = ": it is a page of HTML, which a server sends in place of a file: download it again";
    check(b"<html><body>Not Found</body></html>", page);
    check(b"none of these", "");
}

/// Each of these would take a gigabyte or more. Formats that animate are not read.
#[test]
fn images_that_claim_to_be_huge_are_refused() {
    let riff = |kind: &[u8], content: &[u8]| {
        let mut chunk = [kind, &(content.len() as u32).to_le_bytes(), content].concat();
        chunk.resize(chunk.len().next_multiple_of(2), 0);
        let size = (chunk.len() as u32 + 4).to_le_bytes();
        [b"RIFF", &size[..], b"WEBP", &chunk].concat()
    };
    // The images have 16,383 pixels on each side.
    let lossless = riff(b"VP8L", &[&[0x2f, 0xfe, 0xbf, 0xff, 0x0f][..], &[0; 20]].concat());
    let head = [0x10, 0, 0, 0x9d, 0x01, 0x2a, 0xff, 0x3f, 0xff, 0x3f];
    let lossy = riff(b"VP8 ", &[&head[..], &[0; 20]].concat());
    let cases: [(&[u8], &str); 4] = [
        (&bomb(), "65535 x 65535 pixels"),
        (&lossless, "16383 x 16383 pixels"),
        (&lossy, "16383 x 16383 pixels"),
        (b"GIF89a\xff\xff\xff\xff\0\0\0;", "neither a PNG, nor a JPEG, nor a WebP image"),
    ];
    for (bytes, expect) in cases {
        let problem = decode(bytes).map(|_| ()).unwrap_err().to_string();
        assert!(problem.contains(expect), "{problem}");
    }
}

/// A PNG of some bytes that claims to be of 65535 by 65535 pixels.
fn bomb() -> Vec<u8> {
    let mut bytes = png(&numbered(3, 2));
    bytes[16..24].copy_from_slice(&[0, 0, 255, 255, 0, 0, 255, 255]);
    // The checksum of the changed header, as PNG computes it.
    let mut crc = flate2::Crc::new();
    crc.update(&bytes[12..29]);
    bytes[29..33].copy_from_slice(&crc.sum().to_be_bytes());
    bytes
}

#[test]
fn settings_that_cannot_be_followed_are_refused() {
    let folder = DataFolder::new();
    let check = |keys: &str, expect: &str| {
        let error: Error = task(&folder, keys).unwrap_err();
        let prefix = "preprocessor_config.json: not an image processor: ";
        assert_eq!(folder.shown(&error).replace(prefix, ""), expect);
    };
    check(
        r#"{"size": {"shortest_edge": 9}}"#,
        "do_center_crop is false, and size is not a height and width: images would differ in size",
    );
    check(r#"{"resample": 6}"#, "resample: expected a filter of Pillow from 0 to 5, found 6");
    check(r#"{"image_std": [1, 0, 1]}"#, "image_std: expected numbers other than 0");
    check(r#"{"image_mean": [1, 0]}"#, "image_mean: expected three numbers, found [1,0]");
    check(
        r#"{"size": {"height": 5000, "width": 3}}"#,
        "size: expected a height and a width or a shortest_edge from 1 to 4096, found \
         {\"height\":5000,\"width\":3}",
    );
    check(r#"{"do_resize": 1}"#, "do_resize: expected true or false, found 1");
    assert_eq!(task(&folder, "{}").unwrap().processor.size(), [224, 224]);
    let old = task(&folder, r#"{"size": 384, "feature_extractor_type": "ViTFeatureExtractor"}"#);
    assert_eq!(old.unwrap().processor.size(), [384, 384]);
}

#[test]
fn sixteen_bits_count_by_their_upper_eight() {
    let mut bytes = Vec::new();
    let values: Vec<u8> =
        [0x12ff_u16, 0x8000, 0xffff].iter().flat_map(|it| it.to_ne_bytes()).collect();
    image::codecs::png::PngEncoder::new(&mut bytes)
        .write_image(&values, 1, 1, ColorType::Rgb16.into())
        .unwrap();
    assert_eq!(decode(&bytes).unwrap().values, [0x12, 0x80, 0xff]);
}
