python run_summarization.py \
  --model_name_or_path facebook/bart-base \
  --do_train --do_eval \
  --train_file train.jsonl --validation_file dev.jsonl \
  --text_column text --summary_column summary \
  --max_source_length 512 --max_target_length 64 --val_max_target_length 64 --num_beams 4 \
  --output_dir /tmp/tst-summarization --overwrite_output_dir \
  --per_device_train_batch_size=4 --predict_with_generate
