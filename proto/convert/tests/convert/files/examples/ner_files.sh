python3 token-classification/run_ner.py \
  --model_name_or_path FacebookAI/xlm-roberta-base \
  --train_file train.json --validation_file dev.json \
  --text_column_name words --label_column_name tags --label_all_tokens True \
  --per_device_train_batch_size 16 --num_train_epochs 5 --warmup_ratio 0.1 \
  --neftune_noise_alpha 5 \
  --output_dir /tmp/ner --do_train --do_eval
