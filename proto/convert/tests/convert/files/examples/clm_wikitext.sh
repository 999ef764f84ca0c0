python run_clm.py \
  --model_name_or_path openai-community/gpt2 \
  --dataset_name Salesforce/wikitext \
  --dataset_config_name wikitext-2-raw-v1 \
  --per_device_train_batch_size 8 \
  --per_device_eval_batch_size 8 \
  --do_train --do_eval \
  --auto_find_batch_size \
  --output_dir /tmp/test-clm
