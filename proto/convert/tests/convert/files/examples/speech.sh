python run_audio_classification.py \
  --model_name_or_path facebook/wav2vec2-base --dataset_name superb --dataset_config_name ks \
  --output_dir wav2vec2-base-ft-keyword-spotting --do_train --do_eval --fp16 --max_length_seconds 1
